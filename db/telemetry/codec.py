"""Lossless encoding of a recording's rows."""

import json
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import zstandard

from records.telemetry import Recording

from ..errors import DamagedTelemetry, SchemaTooNew

#: The form that `encode` writes. Form 1 was written up to schema 0008; the migration to 0009 converted it.
ARROW = 2

#: Columns before those of the values.
_STAMPS = ("started_ns", "ended_ns")
_NOTES = b"notes"
_DAMAGE = (zstandard.ZstdError, pa.ArrowException, LookupError, MemoryError, OSError, TypeError, ValueError)


def encode(recording: Recording) -> tuple[int, bytes]:
    """The number of the codec and the bytes of a recording's rows and notes; lossless.

    Form 2 is an Arrow IPC stream of one record batch in one zstd frame with a checksum: the stamps as int64,
    every other column as float64, the notes as JSON in the metadata of the schema. Raises ValueError for
    columns of different lengths, OverflowError for a stamp beyond an int64.
    """
    rows = len(recording.started_ns)
    if {rows} != {rows, len(recording.ended_ns), *map(len, recording.values.values())}:
        raise ValueError(f"the recording of {recording.device} has columns of different lengths")
    stamps = [_stamps(each) for each in (recording.started_ns, recording.ended_ns)]
    values = [_values(each) for each in recording.values.values()]
    schema = pa.schema(
        [(name, pa.int64()) for name in _STAMPS] + [(name, pa.float64()) for name in recording.values],
        metadata={_NOTES: json.dumps(recording.notes)},
    )
    batch: Any = pa.record_batch(stamps + values, schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(batch)
    frame = zstandard.ZstdCompressor(level=3, write_checksum=True)
    return ARROW, frame.compress(sink.getvalue().to_pybytes())


def _stamps(stamps: Sequence[int]) -> Any:
    """As an Arrow array. `pa.array` would import pandas, 47 MiB that no other part of a run needs."""
    return pa.Array.from_buffers(pa.int64(), len(stamps), [None, pa.py_buffer(array("q", stamps))])


def _values(values: Sequence[float | None]) -> Any:
    """As an Arrow array, with a null where there is no value."""
    present = np.array([value is not None for value in values], dtype=bool)
    nulls = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little").tobytes())
    numbers = array("d", (0.0 if value is None else value for value in values))
    return pa.Array.from_buffers(pa.float64(), len(values), [nulls, pa.py_buffer(numbers)])


def decode(
    codec: int, blob: bytes, device: str = "", name: str = "", utilisation_source: str = ""
) -> Recording:
    """The recording in `blob`, which contains all but its device, name and utilisation source.

    Raises SchemaTooNew for an unknown codec, DamagedTelemetry for a damaged blob.
    """
    if codec != ARROW:
        raise SchemaTooNew(
            f"This recording is stored in form {codec}, which this Pyrometer is too old to read."
        )
    try:
        with pa.ipc.open_stream(zstandard.decompress(blob)) as stream:
            table: Any = stream.read_all()
        table.validate(full=True)
        started, ended, *values = (tuple(column.to_pylist()) for column in table.columns)
        columns = dict(zip(table.schema.names[len(_STAMPS) :], values, strict=True))
        notes = tuple(json.loads(table.schema.metadata[_NOTES]))
    except _DAMAGE as error:
        raise DamagedTelemetry(f"The stored recording cannot be read: {error}.") from error
    return Recording(device, name, utilisation_source, started, ended, columns, notes)
