"""A recording's rows come back to the bit, or not at all."""

import struct
from collections.abc import Sequence

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from db.errors import DamagedTelemetry, SchemaTooNew
from db.telemetry.codec import ARROW, decode, encode
from records.telemetry import Recording
from support.builders.run_records import a_recording

INT64 = st.integers(-(2**63), 2**63 - 1)
#: Columns that a driver reports in whole numbers of a small unit, and those it reports as a double.
VALUES = st.one_of(
    st.none(),
    st.integers(-(2**60), 2**60).map(float),
    st.integers(0, 10**7).map(lambda milliwatts: milliwatts / 1000),
    st.integers(0, 2**38).map(lambda size: size / 2**20),
    st.floats(),
)


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    """Of any stamps and values, rows that adjoin and rows that do not."""
    rows = draw(st.integers(0, 20))
    starts = draw(st.lists(INT64, min_size=rows, max_size=rows))
    ends = [*starts[1:], 0][:rows] if draw(st.booleans()) else draw(st.permutations(starts))
    columns = st.dictionaries(st.text(), st.lists(VALUES, min_size=rows, max_size=rows), max_size=5)
    values = {column: tuple(each) for column, each in draw(columns).items()}
    notes = tuple(draw(st.lists(st.text(), max_size=2)))
    return Recording("GPU-1", "H200", "gpm", tuple(starts), tuple(ends), values, notes)


def bits(values: Sequence[float | None]) -> list[bytes | None]:
    """The values so that NaN equals itself and zero differs from minus zero."""
    return [None if value is None else struct.pack("<d", value) for value in values]


def same(rows: Recording, recording: Recording) -> bool:
    """Whether rows are those of a recording, bit by bit."""
    return (
        (rows.started_ns, rows.ended_ns, rows.notes)
        == (recording.started_ns, recording.ended_ns, recording.notes)
        and list(rows.values) == list(recording.values)
        and all(bits(rows.values[column]) == bits(recording.values[column]) for column in rows.values)
    )


@given(recordings())
def test_rows_come_back_as_they_were(recording: Recording) -> None:
    assert same(decode(*encode(recording)), recording)


def test_what_comes_back_is_plain_python() -> None:
    rows = decode(*encode(a_recording(values={"power": (1, None, 2.5)})))
    assert [type(each) for each in (*rows.started_ns, *rows.ended_ns)] == [int] * 6
    assert [type(each) for each in rows.values["power"]] == [float, type(None), float]


def test_columns_of_different_lengths_and_stamps_beyond_64_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="GPU-1 has columns of different lengths"):
        encode(a_recording("GPU-1", values={"power": (1.0, 2.0)}))
    with pytest.raises(OverflowError):
        encode(a_recording(started_ns=2**63))


def test_an_unknown_form_is_refused_in_a_sentence() -> None:
    with pytest.raises(SchemaTooNew, match="form 3"):
        decode(ARROW + 1, b"")


@given(recordings(), st.data())
def test_a_blob_that_is_cut_off_is_answered_by_a_sentence(recording: Recording, data: st.DataObject) -> None:
    codec, blob = encode(recording)
    with pytest.raises(DamagedTelemetry, match="cannot be read: "):
        decode(codec, blob[: data.draw(st.integers(0, len(blob) - 1))])


def test_no_bit_can_turn_into_another_number() -> None:
    values = {"power": (351.25, None, 352.417), "sm_utilisation": (1 / 3, 97.25, 96.5)}
    recording = a_recording("GPU-1", utilisation_source="gpm", values=values)
    codec, blob = encode(recording)
    damaged = 0
    for place in range(8 * len(blob)):
        flipped = bytearray(blob)
        flipped[place // 8] ^= 1 << place % 8
        try:
            assert same(decode(codec, bytes(flipped)), recording), f"bit {place} went unnoticed"
        except DamagedTelemetry:
            damaged += 1
    assert damaged > 7 * len(blob)


def test_a_whole_frame_of_something_else_is_answered_by_a_sentence() -> None:
    table = pa.table({"power": [1.0]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    with pa.ipc.new_stream(empty := pa.BufferOutputStream(), table.schema):
        pass
    for body in (b"", b"sand", bytes(64), sink.getvalue().to_pybytes(), empty.getvalue().to_pybytes()):
        with pytest.raises(DamagedTelemetry):
            decode(ARROW, zstandard.compress(body))
