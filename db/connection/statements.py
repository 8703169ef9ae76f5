"""Statements that work in both databases: inserts with conflicts, long lists, prefixes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, Select, func, or_
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import InstrumentedAttribute

from ..schema.types import Base

T = TypeVar("T")
Values = Mapping[str, Any]
# Columns are read by name; their types are those of the records built from them.
AnySelect = Select[*tuple[Any, ...]]
AnyRow = Row[*tuple[Any, ...]]
#: The position of a row in a list, newest first: its time, and its number among rows of the same time.
Place = tuple[datetime, int]

#: A stock SQLite takes 32,766 parameters in one statement, Postgres 65,535.
BATCH = 10_000


def in_batches(values: Sequence[T], size: int | None = None) -> Iterator[Sequence[T]]:
    """The values in their order, at most `size` at once; by default as many as one statement may hold."""
    size = size or BATCH
    for start in range(0, len(values), size):
        yield values[start : start + size]


def rows_among(
    connection: Connection, query: AnySelect, column: InstrumentedAttribute[T], values: Iterable[T]
) -> list[AnyRow]:
    """The rows of `query` whose `column` is one of `values`, of which there may be any number."""
    batches = in_batches(list(dict.fromkeys(values)))
    return [row for some in batches for row in connection.execute(query.where(column.in_(some)))]


def insert_for(dialect: str, table: type[Base]) -> sqlite.Insert | postgresql.Insert:
    """An insert with ON CONFLICT in the dialect of the database."""
    build = sqlite.insert if dialect == "sqlite" else postgresql.insert
    return build(table)


def insert_missing(connection: Connection, table: type[Base], rows: Sequence[Values]) -> int:
    """Insert the rows whose key does not exist yet; returns their number.

    All rows have the same columns. Waits for another transaction that is inserting the same rows.
    """
    if not rows:
        return 0
    statement = insert_for(connection.dialect.name, table).on_conflict_do_nothing()
    return connection.execute(statement, rows).rowcount


def insert_or_replace(
    connection: Connection, table: type[Base], rows: Sequence[Values], key: Sequence[str]
) -> None:
    """Insert the rows; a row whose `key` exists is updated with the new values."""
    if not rows:
        return
    statement = insert_for(connection.dialect.name, table)
    changes = {name: statement.excluded[name] for name in rows[0] if name not in key}
    connection.execute(statement.on_conflict_do_update(index_elements=key, set_=changes), rows)


def begins_with(column: InstrumentedAttribute[str], beginning: str) -> ColumnElement[bool]:
    """The condition that a text begins with another, case-sensitively (SQLite's LIKE ignores case)."""
    return func.substr(column, 1, len(beginning), type_=column.type) == beginning


def later_in_list(
    after: Place | None, at: InstrumentedAttribute[datetime], number: InstrumentedAttribute[int]
) -> list[ColumnElement[bool]]:
    """The condition that rows come after a position in a list, newest first; no condition for None."""
    if after is None:
        return []
    moment, last = after
    # An index answers the first one.
    return [at <= moment, or_(at < moment, number < last)]
