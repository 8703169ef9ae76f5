"""The checksum of a line is that of its whole text, however large the line is."""

import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import journal_lines
from common.journal_lines import JournalLine, decode_line, encode_line

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(), inner, max_size=6),
    max_leaves=30,
)


def checksum(kind: str, body: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps([kind, body], sort_keys=True, separators=(",", ":")).encode())


def test_a_large_line_comes_back_with_the_checksum_of_its_text() -> None:
    body = {
        "blocks": [[1, 2], [*range(300_000)]],
        "many": [[number] for number in range(2500)],
        "facts": {
            "empty": [],
            "none": {},
            "é": "ü" * 2000,
            "wide": {str(number): 1 for number in range(1500)},
        },
    }
    raw, crc = encode_line("outcome", body)
    assert len(raw) > 1 << 20
    assert crc == checksum("outcome", body)
    assert decode_line(raw) == JournalLine("outcome", body, crc)


@given(st.dictionaries(st.text(), VALUES, max_size=6))
def test_parts_are_those_of_the_whole_text(body: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_lines, "_LARGE", 0)
        patch.setattr(journal_lines, "_PART", 2)
        raw, crc = encode_line("outcome", body)
        assert (crc, decode_line(raw).body) == (checksum("outcome", body), body)


@pytest.mark.parametrize(("depth", "refused"), [(62, False), (64, True), (400, True)])
def test_a_body_is_nested_so_deep_at_most(depth: int, refused: bool) -> None:
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    line, _ = encode_line("outcome", {"deep": nested})
    if refused:
        with pytest.raises(ValueError, match="too deep"):
            decode_line(line)
    else:
        assert decode_line(line).body == {"deep": nested}
