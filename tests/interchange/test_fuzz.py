"""An importer reads any file or refuses it with BadFile; fuzz_formats.py runs for longer."""

import copy
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interchange import formats
from support.builders.foreign_files import SAMPLES, fuzzed, good, tried, written

NAMES = [*SAMPLES, "submitted"]
SEEDS = Path(__file__).with_name("seeds")
#: What ends careless readers: numbers beyond floats, odd texts, the wrong kind of everything.
ODD = (
    *(None, True, 0, -1, 1e308, -0.0, 2**63, 10**400, float("nan"), float("inf")),
    *("", "\0", "\ud800", "err", "nan", "1e999", "a/b=c,d", "2026-02-30", "%", "\u202e"),
    *([], {}, [[]], [{}], {"": ""}, [None], {"a": [1]}),
)

anything = st.recursive(
    st.sampled_from(ODD) | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


#: What became of the files so far.
ATTEMPTS = Counter[str]()


@pytest.fixture(autouse=True)
def counted(record_property: Callable[[str, object], None]) -> Iterator[None]:
    """Record how many files a test tried: Hypothesis calls it again and again."""
    ATTEMPTS.clear()
    yield
    for name, number in ATTEMPTS.items():
        record_property(name, number)


def attempt(name: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), SAMPLES[name]) if name in SAMPLES else Path(folder)
        fuzzed(Path(folder), name).write_bytes(content)
        for each in formats.FORMATS:
            each.knows(path)
        ATTEMPTS["files refused" if tried(name, path) is None else "files read"] += 1


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30)
@given(content=st.binary(max_size=300))
def test_bytes(name: str, content: bytes) -> None:
    attempt(name, content)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30)
@given(document=anything)
def test_json(name: str, document: Any) -> None:
    attempt(name, json.dumps(document).encode())


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60)
@given(data=st.data())
def test_a_good_file_with_something_else_in_it(name: str, data: st.DataObject) -> None:
    text = good(name).decode()
    prefix, document = _document(text)
    if document is None:
        content = data.draw(spliced(text))
    else:
        content = prefix + json.dumps(data.draw(changed(document)))
    attempt(name, content.encode(errors="surrogatepass"))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=20)
@given(data=st.data())
def test_a_good_file_with_bytes_lost_or_doubled(name: str, data: st.DataObject) -> None:
    attempt(name, data.draw(spliced(good(name).decode())).encode(errors="surrogatepass"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"a":' * 990 + "1" + "}" * 990, "[" + "9" * 5000 + "]", '"' * 9]
)
def test_what_is_nested_deep_or_endless_is_refused_as_well(name: str, content: str) -> None:
    attempt(name, content.encode())


@pytest.mark.parametrize("name", NAMES)
def test_the_good_file_is_read(name: str, tmp_path: Path) -> None:
    # Else all of the above would be refused at their first byte.
    path = written(tmp_path, SAMPLES[name]) if name in SAMPLES else tmp_path
    fuzzed(tmp_path, name).write_text(good(name).decode())
    imported = tried(name, path)
    assert imported is not None and imported.runs[0].measurements


@pytest.mark.parametrize(
    "seed", sorted(SEEDS.glob("*/*")), ids=lambda seed: f"{seed.parent.name}-{seed.name}"
)
def test_what_was_found_before(seed: Path) -> None:
    attempt(seed.parent.name, seed.read_bytes())


def _document(text: str) -> tuple[str, Any]:
    """What stands before a JSON document, and the document; None for a text that is none."""
    for start in ("{", "["):
        place = text.find(start)
        try:
            return text[:place], json.loads(text[place:])
        except ValueError:
            continue
    return text, None


@st.composite
def spliced(draw: st.DrawFn, text: str) -> str:
    """The text with a piece of it gone, doubled, or replaced."""
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 40)))
    other = draw(
        st.sampled_from(["", text[start:end] * 2, "1e999", "nan", ",", "\n", '"', "\0", "#", "\u202e"])
    )
    return text[:start] + other + text[end:]


@st.composite
def changed(draw: st.DrawFn, document: Any) -> Any:
    """The document with one to three of its values replaced, removed, or called something else."""
    found = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        if places := list(_places(found)):
            holder, key = draw(st.sampled_from(places))
            draw(st.sampled_from([_replace, _remove, _rename]))(holder, key, draw(anything))
    return found


def _places(value: Any) -> Any:
    if isinstance(value, dict | list):
        for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from _places(inner)


def _replace(holder: Any, key: Any, value: Any) -> None:
    holder[key] = value


def _remove(holder: Any, key: Any, _: Any) -> None:
    del holder[key]


def _rename(holder: Any, key: Any, value: Any) -> None:
    if isinstance(holder, dict):
        holder[str(value)] = holder.pop(key)
