"""The line of a value is found in every way TOML can spell it."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configuration.lines import line_of, lines_of

TEXT = '''# a comment with [brackets] and = signs
profile = "quiet" # and one behind
"a key with = and ]" = 1

[suites.smoke]
cases = [
    "first", # comma, in a comment
    'second',
]
nested = { one = 1, "two" = [
  2, 3] }
text = """
[not.a.header]
x = 1
"""
literal = \'\'\'
  still = "inside\'\'\'

[[suites.mine.matrix]]
workloads = ["a", "b"]
  [[suites.mine.matrix]]
  compile = ["none",
    "default"]
[suites.mine]
replicates = 3
dotted.key."with quotes" = 4
[suites.mine.matrix.below]
deep = true
'''

WHERE = {
    ("profile",): 2,
    ("a key with = and ]",): 3,
    ("suites", "smoke"): 5,
    ("suites", "smoke", "cases"): 6,
    ("suites", "smoke", "cases", 0): 7,
    ("suites", "smoke", "cases", 1): 8,
    ("suites", "smoke", "nested", "one"): 10,
    ("suites", "smoke", "nested", "two", 0): 11,
    ("suites", "smoke", "nested", "two", 1): 11,
    ("suites", "smoke", "text"): 12,
    ("suites", "smoke", "literal"): 16,
    ("suites", "mine", "matrix", 0, "workloads", 1): 20,
    ("suites", "mine", "matrix", 1): 21,
    ("suites", "mine", "matrix", 1, "compile", 0): 22,
    ("suites", "mine", "matrix", 1, "compile", 1): 23,
    ("suites", "mine", "replicates"): 25,
    ("suites", "mine", "dotted", "key", "with quotes"): 26,
    ("suites", "mine", "matrix", 1, "below", "deep"): 28,
}


@pytest.mark.parametrize(("path", "line"), WHERE.items(), ids=lambda value: str(value))
def test_every_spelling_is_found(path: tuple[str | int, ...], line: int) -> None:
    assert line_of(TEXT, path) == line


def test_what_is_missing_is_looked_for_in_the_nearest_table_around_it() -> None:
    assert line_of(TEXT, ("suites", "smoke", "replicates")) == 5
    assert line_of(TEXT, ("suites", "mine", "matrix", 1, "workloads")) == 21
    assert line_of(TEXT, ("profiles", "x")) is None


def test_no_text_inside_a_value_is_taken_for_a_key() -> None:
    assert not {("not", "a", "header"), ("x",), ("still",)} & lines_of(TEXT).keys()


def paths(value: Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """The paths of everything in a parsed file."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found: set[tuple[str, ...]] = {path} if path else set()
    return found.union(*(paths(one, (*path, str(key))) for key, one in below))


keys = st.text("ab-.\"'\\ #[]=é", max_size=4)
scalars = st.one_of(st.integers(), st.booleans(), st.text("ab,]}#'\"\\\n =", max_size=6))
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3)
)


def spelled(value: Any) -> str:
    """A value as TOML on one line, or several where TOML allows."""
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key, ensure_ascii=False)} = {spelled(one)}" for key, one in value.items())
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list):
        return "[ # begins\n" + ",\n".join(map(spelled, value)) + "\n]"
    return json.dumps(value, ensure_ascii=False)


@settings(derandomize=True, database=None, deadline=None, max_examples=200)
@given(st.dictionaries(keys, values, max_size=4))
def test_whatever_tomllib_reads_is_found_and_nothing_else(content: dict[str, Any]) -> None:
    text = "".join(f"{json.dumps(k, ensure_ascii=False)} = {spelled(v)}\n" for k, v in content.items())
    assert lines_of(text).keys() == paths(tomllib.loads(text))
    for key, line in ((k, n) for k, n in lines_of(text).items() if len(k) == 1):
        assert text.splitlines()[line - 1].startswith(json.dumps(key[0], ensure_ascii=False))
