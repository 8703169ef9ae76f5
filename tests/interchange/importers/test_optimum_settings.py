"""The settings that Hydra writes, and what is refused."""

import pytest

from interchange.errors import BadFile
from interchange.importers.optimum_settings import yaml_settings


def test_scalars_are_read_as_they_are_written_with_their_place() -> None:
    text = (
        "a:\n  b: 'it''s'\n  empty: {}\n  none: null\n  list:\n  - one\n  - 'two words'\n"
        'c: "quoted"\n# a comment\nd:\n    deep:\n    -   x\ne: plain, with (brackets)\n'
        "f: 1.0\ng: 'null'\nh: [1, 2]\ni: >\n  folded\n  text\nj:\n- k: 0x10\nl: True # said\n"
    )
    found = yaml_settings(text, "s.yaml")

    assert {path: at.value for path, at in found.items()} == {
        "a.b": "it's",
        "a.list[0]": "one",
        "a.list[1]": "two words",
        "c": "quoted",
        "d.deep[0]": "x",
        "e": "plain, with (brackets)",
        "f": "1.0",
        "g": "null",
        "h[0]": "1",
        "h[1]": "2",
        "i": "folded text\n",
        "j[0].k": "0x10",
        "l": "True",
    }
    assert str(found["a.list[1]"].place) == "s.yaml, line 7, a.list[1]"


def test_an_empty_file_has_no_settings() -> None:
    assert yaml_settings("", "s.yaml") == yaml_settings("# nothing\n", "s.yaml") == {}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: &x 1", "s.yaml, line 1, a: has an alias or a tag"),
        ("a: 1\nb: *x", "s.yaml, line 2, b: has an alias or a tag"),
        ("a: !!python/object/apply:os.system [x]", "s.yaml, line 1, a: has an alias or a tag"),
        ("a: 'open", "s.yaml, line 1: is not YAML: found unexpected end of stream"),
        ("a: 1\na: 2", "s.yaml, line 2, a: is there twice"),
        ("a: {}\nb: 1\na: null", "s.yaml, line 3, a: is there twice"),
        ("a: 1\n  b: 2", "s.yaml, line 2: is not YAML: mapping values are not allowed here"),
        ("a:\n    b: 1\n  c: 2", "s.yaml, line 3: is not YAML"),
        ("? [a]\n: 1", "s.yaml, line 1: has a key that is no text"),
        ("- a", "s.yaml, line 1: is no mapping"),
        ("just words", "s.yaml, line 1: is no mapping"),
        ("\ta: 1", "s.yaml, line 1: is not YAML"),
        ("a: 1\n---\nb: 1", "s.yaml, line 2: is a second document"),
        ("a: \x01", "s.yaml: is not YAML: unacceptable character"),
        ("\n".join(" " * n + "a:" for n in range(99)), "is nested too deep"),
        ("a: " + "[" * 100_000, "is nested too deep"),
    ],
)
def test_other_yaml_is_refused_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(BadFile) as refused:
        yaml_settings(text, "s.yaml")
    assert sentence in str(refused.value)
