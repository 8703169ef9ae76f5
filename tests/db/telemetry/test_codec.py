"""A recording's rows come back to the bit, or not at all."""

import json
import struct
from collections.abc import Sequence

import pytest
import zstandard
from builders import a_recording
from hypothesis import given
from hypothesis import strategies as st

from db.errors import DamagedTelemetry, SchemaTooNew
from db.telemetry.codec import DELTA_COLUMNS, Rows, decode, encode
from records.telemetry import Recording

INT64 = st.integers(-(2**63), 2**63 - 1)
#: What a driver tells in whole numbers of some small unit, and what it tells as a double.
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


def same(rows: Rows, recording: Recording) -> bool:
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


def test_form_1_is_read_for_ever() -> None:
    blob = bytes.fromhex(
        "28b52ffd640e00ad0600228c2c2c806b3a60754df08c0ec100effdd5be4c326f29e78b5063106f2331976c31c5"
        "48db1b919d58239154097a1ea65a6150a00c199aa0aa1020708101d028c671b1508da6c9609acb8652b48580ee"
        "6001414da2a24057f90895bfd7af644738f9a0baf2db1f615bd1613fb460741fb97beea744f28717e471200fc6"
        "6b2d877bcae7956d89d3326ecd610862ec70fb8b26bc123e1b2473a22c94e68b0ecb8d711be045c058647d92a2"
        "f7e54764dd12e54ea86a260c00ae1f0c58908109dc0981c0a5448fa9610522903aa10e1ed52765e963300635f8"
        "2938"
    )
    rows = decode(1, blob)
    assert rows == Rows(
        started_ns=(7_000_000_000_000, 7_000_200_000_000, 7_000_400_150_000),
        ended_ns=(7_000_200_000_000, 7_000_400_000_000, 7_000_600_000_000),
        values={
            "gpu_busy": (88.0, 91.0, 0.0),
            "power": (351.25, None, 352.417),
            "sm_utilisation": (1 / 3, 97.25, -0.0),
            "tensor": (None, None, None),
        },
        notes=("the driver tells nothing of NVLink",),
    )
    assert str(rows.values["sm_utilisation"][2]) == "-0.0"


def test_steady_columns_take_no_bytes_and_whole_numbers_few() -> None:
    def size(values: dict[str, list[float]]) -> int:
        return len(encode(a_recording(values=values, lengths_ms=[200] * 600))[1])

    nothing = size({})
    assert size({"memory_clock": [2619.0] * 600}) < nothing + 40
    milliwatts = [(450_000 + 37 * (i * i % 101)) / 1000 for i in range(600)]
    assert size({"power": milliwatts}) < nothing + 2 * 600, "a value of eight bytes is not stored as such"


def test_columns_of_different_lengths_and_stamps_beyond_64_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="GPU-1 has columns of different lengths"):
        encode(a_recording("GPU-1", values={"power": (1.0, 2.0)}))
    with pytest.raises(OverflowError):
        encode(a_recording(started_ns=2**63))


def test_an_unknown_form_is_refused_in_a_sentence() -> None:
    with pytest.raises(SchemaTooNew, match="form 2"):
        decode(DELTA_COLUMNS + 1, b"")


@given(recordings(), st.data())
def test_a_blob_that_is_cut_off_is_answered_by_a_sentence(recording: Recording, data: st.DataObject) -> None:
    codec, blob = encode(recording)
    with pytest.raises(DamagedTelemetry, match="cannot be read back"):
        decode(codec, blob[: data.draw(st.integers(0, len(blob) - 1))])


def test_no_bit_can_turn_into_another_number() -> None:
    values = {"power": (351.25, None, 352.417), "sm_utilisation": (1 / 3, 97.25, 96.5)}
    recording = a_recording("GPU-1", rung="gpm", values=values)
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


@given(
    st.one_of(st.binary(), st.recursive(st.integers() | st.text(), st.lists).map(json.dumps).map(str.encode))
)
def test_a_whole_frame_of_nonsense_is_answered_by_a_sentence(content: bytes) -> None:
    framed = struct.pack("<I", len(content)) + content
    for body in (content, framed, framed + b"\0" * 64):
        with pytest.raises(DamagedTelemetry):
            decode(DELTA_COLUMNS, zstandard.compress(body))


@pytest.mark.parametrize(
    "change",
    [
        {"rows": -1},
        {"rows": "3"},
        {"stamps": [[0, 9], [0, 0]]},
        {"stamps": [[2**63, 1], [0, 0]]},
        {"columns": [["power", False, 0, [0, 8]]]},
        {"columns": [["power", False, "1", [0, 0]]]},
        {"columns": [["power"]]},
        {"columns": 5},
        {"notes": 5},
    ],
    ids=str,
)
def test_a_header_that_does_not_fit_is_answered_by_a_sentence(change: dict[str, object]) -> None:
    header = {"rows": 3, "stamps": [[0, 0], [0, 0]], "columns": [["power", False, 1, [5, 0]]], "notes": []}

    def blob(header: dict[str, object]) -> bytes:
        text = json.dumps(header).encode()
        return zstandard.compress(struct.pack("<I", len(text)) + text)

    assert decode(DELTA_COLUMNS, blob(header)).values == {"power": (5.0, 5.0, 5.0)}
    with pytest.raises(DamagedTelemetry):
        decode(DELTA_COLUMNS, blob(header | change))
