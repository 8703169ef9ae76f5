"""Recordings become Arrow, and the numbers of a release are computed on request."""

import json
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
import zstandard
from alembic import op

revision = "0009"
down_revision = "0008"

#: The forms of a recording before and after, as `telemetry.codec` names them.
DELTA_COLUMNS, ARROW = 1, 2
#: Recordings that are held in memory at once.
BATCH = 500

KEY = ("run_number", "case_id", "environment_id", "replicate", "device")
TELEMETRY = sa.table("telemetry", *map(sa.column, KEY), sa.column("codec"), sa.column("blob"))
#: The errors that reading a damaged blob may raise.
DAMAGE = (zstandard.ZstdError, struct.error, LookupError, MemoryError, OverflowError, TypeError, ValueError)


def upgrade() -> None:
    """Convert every recording and drop the rollups."""
    connection = op.get_bind()
    old = TELEMETRY.c.codec == DELTA_COLUMNS
    keys = connection.execute(sa.select(*(TELEMETRY.c[name] for name in KEY)).where(old)).all()
    this = [TELEMETRY.c[name] == sa.bindparam(f"the_{name}") for name in KEY]
    blob = sa.select(TELEMETRY.c.blob).where(*this)
    change = sa.update(TELEMETRY).where(*this).values(codec=ARROW, blob=sa.bindparam("new"))
    for start in range(0, len(keys), BATCH):
        rows: list[dict[str, Any]] = []
        for key in keys[start : start + BATCH]:
            which = {f"the_{name}": value for name, value in zip(KEY, key, strict=True)}
            rows.append(which | {"new": _converted(connection.execute(blob, which).scalar_one())})
        connection.execute(change, rows)
    op.drop_table("release_rollup")


def _converted(blob: bytes) -> bytes:
    """The bytes of form 2; damaged ones stay as they are, which form 2 calls damaged too."""
    try:
        stamps, values, notes = _rows(zstandard.decompress(blob))
    except DAMAGE:
        return blob
    names = ("started_ns", "ended_ns")
    schema = pa.schema(
        [(name, pa.int64()) for name in names] + [(name, pa.float64()) for name in values],
        metadata={b"notes": json.dumps(notes)},
    )
    columns = [pa.array(each, pa.int64()) for each in stamps]
    columns += [pa.array(each, pa.float64()) for each in values.values()]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(pa.record_batch(columns, schema=schema))
    frame = zstandard.ZstdCompressor(level=3, write_checksum=True)
    return frame.compress(sink.getvalue().to_pybytes())


def _rows(content: bytes) -> tuple[list[Any], dict[str, list[float | None]], list[str]]:
    """The stamps, values and notes of form 1.

    It was: the length of a JSON header (uint32, little-endian), the header, the starts of the rows, the gaps
    between them, the columns. Integers are the first one (in the header) and the zigzagged differences in
    byte planes. A column with missing values begins with a bit per row; its scale divides whole numbers, and
    is 0 where it holds float64.
    """
    (length,) = struct.unpack_from("<I", content)
    header = json.loads(content[4 : 4 + length])
    body = Body(content[4 + length :])
    count: int = header["rows"]
    starts, ends = header["stamps"]
    started = body.integers(count, *starts)
    ended = body.integers(count, *ends) + np.append(started[1:], started[-1:])
    values = {str(name): body.column(count, *described) for name, *described in header["columns"]}
    if body.content:
        raise ValueError("bytes are left over")
    return [started.tolist(), ended.tolist()], values, list(header["notes"])


class Body:
    """Bytes that are taken from the front."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def take(self, size: int) -> Any:
        """So many bytes."""
        if not 0 <= size <= len(self.content):
            raise ValueError("bytes are missing")
        taken, self.content = self.content[:size], self.content[size:]
        return np.frombuffer(taken, np.uint8)

    def planes(self, count: int, width: int) -> Any:
        """Unsigned integers of so many bytes each, all lowest bytes first."""
        numbers = np.zeros((count, 8), np.uint8)
        numbers[:, :width] = self.take(count * width).reshape(width, count).T
        return numbers.view("<u8").ravel()

    def integers(self, count: int, first: int, width: int) -> Any:
        """Integers that are kept as differences."""
        if not count:
            return np.empty(0, "<i8")
        zigzag = self.planes(count - 1, width)
        differences = (zigzag >> np.uint64(1)).view("<i8") ^ -(zigzag & np.uint64(1)).view("<i8")
        return np.cumsum(np.append(np.array([first], "<i8"), differences), dtype="<i8")

    def column(self, rows: int, missing: bool, scale: int, shape: tuple[int, int]) -> list[float | None]:
        """The values of one column."""
        there = np.unpackbits(self.take(-(-rows // 8)), count=rows).astype(bool) if missing else None
        count = rows if there is None else int(there.sum())
        floats = self.integers(count, *shape) / scale if scale else self.planes(count, 8).view("<f8")
        values: list[float] = floats.tolist()
        if there is None:
            return list(values)
        following = iter(values)
        return [next(following) if is_valid else None for is_valid in there.tolist()]
