"""Tables as Parquet, a row group at a time."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from ..runs import Catalogue, ExportedRun
from .tables import ExportColumn, ExportTable, Kind, Row

_TYPES: dict[Kind, Any] = {
    "text": pa.string(),
    "json": pa.string(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "time": pa.timestamp("us", tz="UTC"),
}
#: Rows that are held at once: a row of a wide table may be tens of kilobytes.
_ROWS, _WIDE_ROWS = 1 << 16, 1 << 10


def write_parquet(
    table: ExportTable, runs: Iterable[ExportedRun], catalogue: Catalogue, sink: BinaryIO
) -> None:
    """A table as Parquet, compressed with zstd; times are UTC to the microsecond.

    What a column means stands in its field's metadata as `meaning`.
    """
    schema = pa.schema([_field(column) for column in table.columns])
    rows = chain.from_iterable(table.rows(exported, catalogue) for exported in runs)
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for group in _row_groups(rows, _WIDE_ROWS if table.wide else _ROWS):
            columns = zip(*group, strict=True)
            arrays = [_array(values, each.type) for values, each in zip(columns, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _field(column: ExportColumn) -> Any:
    return pa.field(column.name, _TYPES[column.kind], metadata={"meaning": column.meaning})


def _row_groups(rows: Iterator[Row], size: int) -> Iterator[list[Row]]:
    while group := list(islice(rows, size)):
        yield group


def _array(values: tuple[Any, ...], of: Any) -> Any:
    if of == pa.string():
        # Half a character, which JSON can hold and UTF-8 cannot, becomes its escape.
        values = tuple(each and each.encode(errors="backslashreplace").decode() for each in values)
    return pa.array(values, of)
