"""A recording's rows as bytes and back, to the bit."""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

from records.telemetry import Recording

from ..errors import DamagedTelemetry, SchemaTooNew

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
#: The first of some integers, and how many bytes each difference to the one before takes.
Shape = tuple[int, int]

#: The form that `encode` writes today; a new form gets a new number and old ones stay readable for ever.
DELTA_COLUMNS = 1

#: A column whose values are all whole numbers divided by one of these is kept as those whole numbers: percent
#: and °C, the driver's milliwatts and millijoules as W and J, KiB and bytes as MiB.
_SCALES = (1, 10, 100, 1000, 1 << 10, 1 << 20)
#: In a scale's place: the column is kept as float64.
_FLOATS = 0
#: Above this not every whole number is a float64.
_EXACT = 2.0**53

_DAMAGE = (
    zstandard.ZstdError,
    struct.error,
    LookupError,
    MemoryError,
    OverflowError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class Rows:
    """What a blob holds of a recording: all but its device, name and rung."""

    started_ns: tuple[int, ...]
    ended_ns: tuple[int, ...]
    values: Mapping[str, tuple[float | None, ...]]
    notes: tuple[str, ...]


def encode(recording: Recording) -> tuple[int, bytes]:
    """The codec's number and the bytes of a recording's rows and notes; every value comes back as it was.

    Form 1 is one zstd frame with a checksum of: the length of a JSON header (uint32, little-endian), the
    header, the starts of the rows, the gaps between them, the columns. Integers are kept as the first one (in
    the header) and the zigzagged differences in byte planes, as many as the largest difference needs: what
    does not change takes no bytes at all. A column with missing values begins with a bit per row. What is no
    whole number of any unit stays float64: float32 would save half its bytes, but a stored value would then
    differ from the journal's. Raises ValueError for columns of different lengths, OverflowError for a stamp
    beyond an int64.
    """
    rows = len(recording.started_ns)
    if {rows} != {rows, len(recording.ended_ns), *map(len, recording.values.values())}:
        raise ValueError(f"the recording of {recording.device} has columns of different lengths")
    started = np.array(recording.started_ns, dtype="<i8")
    # Rows mostly adjoin: the end of one is the start of the next, and the differences are nothing.
    ended = np.array(recording.ended_ns, dtype="<i8") - np.append(started[1:], started[-1:])
    (starts, body), (ends, more) = _packed(started), _packed(ended)
    body += more
    columns: list[tuple[Any, ...]] = []
    for name, values in recording.values.items():
        described, more = _packed_column(values)
        columns.append((name, *described))
        body += more
    header = json.dumps(
        {"rows": rows, "stamps": (starts, ends), "columns": columns, "notes": recording.notes},
        separators=(",", ":"),
    ).encode()
    frame = zstandard.ZstdCompressor(level=3, write_checksum=True)
    return DELTA_COLUMNS, frame.compress(struct.pack("<I", len(header)) + header + body)


def decode(codec: int, blob: bytes) -> Rows:
    """The rows in `blob`; raises SchemaTooNew for a codec not known here, DamagedTelemetry for a bad blob."""
    if codec != DELTA_COLUMNS:
        raise SchemaTooNew(
            f"This recording is stored in form {codec}, which this Pyrometer is too old to read."
        )
    try:
        return _unpacked_rows(zstandard.decompress(blob))
    except _DAMAGE as error:
        raise DamagedTelemetry(f"The stored recording cannot be read back: {error}.") from error


def _unpacked_rows(content: bytes) -> Rows:
    (length,) = struct.unpack_from("<I", content)
    header = json.loads(content[4 : 4 + length])
    body = _Body(memoryview(content)[4 + length :])
    rows: int = header["rows"]
    starts, ends = header["stamps"]
    started = _unpacked(body, rows, starts)
    ended = _unpacked(body, rows, ends) + np.append(started[1:], started[-1:])
    values = {str(name): _unpacked_column(body, rows, *described) for name, *described in header["columns"]}
    if body.left:
        raise ValueError(f"{body.left} bytes are left over")
    return Rows(tuple(started.tolist()), tuple(ended.tolist()), values, tuple(header["notes"]))


class _Body:
    """Bytes that are taken from the front."""

    def __init__(self, content: memoryview) -> None:
        self._content = content
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._content) - self._at

    def take(self, size: int) -> npt.NDArray[np.uint8]:
        if not 0 <= size <= self.left:
            raise ValueError(f"{self.left} bytes where {size} belong")
        self._at += size
        return np.frombuffer(self._content[self._at - size : self._at], np.uint8)


def _packed_column(values: Sequence[float | None]) -> tuple[tuple[bool, int, Shape], bytes]:
    """Whether values are missing, the scale and the shape of the others; and all of them as bytes."""
    there = [value for value in values if value is not None]
    missing = len(there) < len(values)
    mask = np.packbits([value is not None for value in values]).tobytes() if missing else b""
    floats = np.array(there, dtype="<f8")
    for scale in _SCALES:
        integers = _as_integers(floats, scale)
        if integers is not None:
            shape, body = _packed(integers)
            return (missing, scale, shape), mask + body
    return (missing, _FLOATS, (0, 8)), mask + _planes(floats.view("<u8"), 8)


def _unpacked_column(
    body: _Body, rows: int, missing: bool, scale: int, shape: Shape
) -> tuple[float | None, ...]:
    there = np.unpackbits(body.take(-(-rows // 8)), count=rows).astype(bool) if missing else None
    count = rows if there is None else int(there.sum())
    if scale == _FLOATS:
        floats = _from_planes(body, count, 8).view("<f8")
    else:
        floats = _unpacked(body, count, shape) / scale
    values: list[float] = floats.tolist()
    if there is None:
        return tuple(values)
    following = iter(values)
    return tuple(next(following) if here else None for here in there.tolist())


def _as_integers(floats: Floats, scale: int) -> Integers | None:
    """The whole numbers that divided by `scale` are exactly `floats`; None if there are no such numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.rint(floats * scale)
    # Not so for NaN either.
    if not bool((np.abs(scaled) < _EXACT).all()):
        return None
    integers = scaled.astype("<i8")
    # Compared bit by bit: -0.0 is no whole number.
    return integers if np.array_equal((integers / scale).view("<i8"), floats.view("<i8")) else None


def _packed(integers: Integers) -> tuple[Shape, bytes]:
    """Integers as the first one and the differences; int64 wraps around, there and back."""
    if not integers.size:
        return (0, 0), b""
    differences = np.diff(integers)
    zigzag = ((differences << 1) ^ (differences >> 63)).view("<u8")
    width = (int(zigzag.max(initial=0)).bit_length() + 7) // 8
    return (int(integers[0]), width), _planes(zigzag, width)


def _unpacked(body: _Body, count: int, shape: Shape) -> Integers:
    first, width = shape
    if not count:
        return np.empty(0, "<i8")
    zigzag = _from_planes(body, count - 1, width)
    differences = (zigzag >> np.uint64(1)).view("<i8") ^ -(zigzag & np.uint64(1)).view("<i8")
    return np.cumsum(np.append(np.array([first], "<i8"), differences), dtype="<i8")


def _planes(numbers: npt.NDArray[np.uint64], width: int) -> bytes:
    """The `width` low bytes of each number, all lowest ones first: neighbours differ least in high bytes."""
    return numbers.view(np.uint8).reshape(-1, 8).T[:width].tobytes()


def _from_planes(body: _Body, count: int, width: int) -> npt.NDArray[np.uint64]:
    numbers = np.zeros((count, 8), np.uint8)
    numbers[:, :width] = body.take(count * width).reshape(width, count).T
    return numbers.view("<u8").ravel()
