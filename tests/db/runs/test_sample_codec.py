"""Samples come back to the nanosecond."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from db.errors import DamagedSamples, SchemaTooNew
from db.runs.sample_codec import BYTE_PLANES, decode, encode

INT64 = st.integers(-(2**63), 2**63 - 1)
BLOCKS = st.lists(st.lists(st.one_of(INT64, st.integers(0, 10**10)), max_size=40), max_size=8)


@settings(derandomize=True, deadline=None)
@given(BLOCKS)
def test_blocks_come_back_as_they_were(blocks: list[list[int]]) -> None:
    assert decode(*encode(blocks)) == tuple(map(tuple, blocks))


def test_form_1_is_read_for_ever() -> None:
    # Written by the first release: blocks (2_000_000, 2_001_500), (), (1_999_300,).
    blob = bytes.fromhex("28b52ffd2028e50000a003000000020001000000805cc4848a811e1e1e000200402a0c1401")
    assert decode(1, blob) == ((2_000_000, 2_001_500), (), (1_999_300,))


def test_steady_samples_take_few_bytes() -> None:
    block = tuple(2_000_000 + 37 * (i * i % 101) for i in range(1000))
    _, blob = encode([block])
    assert len(blob) < 2 * len(block), "a nanosecond count of eight bytes is not stored as such"


def test_a_sample_beyond_64_bits_is_refused() -> None:
    with pytest.raises(OverflowError):
        encode([[2**63]])


def test_an_unknown_form_is_refused_in_a_sentence() -> None:
    with pytest.raises(SchemaTooNew, match="form 2"):
        decode(BYTE_PLANES + 1, b"")


@settings(derandomize=True, deadline=None)
@given(BLOCKS, st.data())
def test_bytes_that_are_cut_off_are_answered_by_a_sentence(
    blocks: list[list[int]], data: st.DataObject
) -> None:
    codec, blob = encode(blocks)
    cut = data.draw(st.integers(0, len(blob) - 1))
    with pytest.raises(DamagedSamples):
        decode(codec, blob[:cut])
