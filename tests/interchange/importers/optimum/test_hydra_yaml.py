"""The YAML that Hydra writes, and no other."""

import pytest

from interchange.errors import BadFile
from interchange.importers.optimum import hydra_yaml


def test_settings_are_read_as_hydra_writes_them() -> None:
    text = (
        "a:\n  b: 'it''s'\n  empty: {}\n  none: null\n  list:\n  - one\n  - 'two words'\n"
        'c: "quoted"\n# a comment\nd:\n    deep:\n    -   x\ne: plain, with (brackets)\n'
    )
    found = hydra_yaml.settings(text, "s.yaml")

    assert {path: at.value for path, at in found.items()} == {
        "a.b": "it's",
        "a.list[0]": "one",
        "a.list[1]": "two words",
        "c": "quoted",
        "d.deep[0]": "x",
        "e": "plain, with (brackets)",
    }
    assert str(found["a.list[1]"].place) == "s.yaml, line 7, a.list[1]"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: &x 1", "s.yaml, line 1, a: is YAML that Hydra does not write"),
        ("a: !!python/object/apply:os.system [x]", "s.yaml, line 1, a: is YAML that Hydra does not write"),
        ("a: [1, 2]", "s.yaml, line 1, a: is YAML that Hydra does not write"),
        ("a: >\n  folded", "s.yaml, line 1, a: is YAML that Hydra does not write"),
        ("a: 'open", "s.yaml, line 1, a: is YAML that Hydra does not write"),
        ("a: b # c", "s.yaml, line 1, a: is YAML that Hydra does not write"),
        ("a: 1\na: 2", "s.yaml, line 2, a: is there twice"),
        ("a: 1\n  b: 2", "s.yaml, line 2: is indented unlike the lines beside it"),
        ("a:\n    b: 1\n  c: 2", "s.yaml, line 3: is indented unlike the lines beside it"),
        ("a:\n- b: 1", "s.yaml, line 2, a[0]: is YAML that Hydra does not write"),
        ("- a", "s.yaml, line 1: is an element of no list"),
        ("just words", "s.yaml, line 1: is no `name: value` as Hydra writes it"),
        ("\ta: 1", "s.yaml, line 1: is no `name: value` as Hydra writes it"),
        ("\n".join(" " * n + "a:" for n in range(99)), "is nested too deep"),
    ],
)
def test_other_yaml_is_refused_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(BadFile) as refused:
        hydra_yaml.settings(text, "s.yaml")
    assert sentence in str(refused.value)
