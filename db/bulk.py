"""Rows of one table by the driver's executemany alone, their values as SQLAlchemy would store them."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, exc

from . import tables

Table = type[tables.Base]

#: Makes of a column's values what the driver takes.
Binder = Callable[[Sequence[Any]], Iterable[Any]]

#: By dialect, table and columns; None where that is the same.
_BINDERS: dict[tuple[str, Table, tuple[str, ...]], tuple[Binder | None, ...]] = {}


def insert_rows(
    connection: Connection,
    table: Table,
    names: tuple[str, ...],
    rows: Collection[tuple[Any, ...]],
    *,
    missing: bool = False,
    replacing: tuple[str, ...] = (),
) -> None:
    """Insert rows with values of the columns `names`, in that order.

    With `missing` what stands under a key of theirs stays; with `replacing`, columns of a key, what stands
    under that one takes the new values.

    SQLAlchemy's own way goes through every value of every row, which took longer than the database did.
    """
    if not rows:
        return
    dialect = connection.dialect
    binders = _BINDERS.get((dialect.name, table, names))
    if binders is None:
        binders = tuple(_binder(connection, table, name) for name in names)
        _BINDERS[dialect.name, table, names] = binders
    statement = _statement(dialect.name, table, names, missing, replacing)
    columns = zip(zip(*rows, strict=True), binders, strict=True)
    try:
        bound = list(zip(*(bind(values) if bind else values for values, bind in columns), strict=True))
    except (TypeError, ValueError) as error:
        # As SQLAlchemy tells of values that no column takes.
        raise exc.StatementError(str(error), statement, None, error) from error
    connection.exec_driver_sql(statement, bound)


def _binder(connection: Connection, table: Table, name: str) -> Binder | None:
    kind, dialect = table.__table__.columns[name].type, connection.dialect
    bind = kind.dialect_impl(dialect).bind_processor(dialect)
    if bind is None:
        return None
    if isinstance(kind, tables.Json):
        return lambda values: map(bind, values)

    def once_each(values: Sequence[Any]) -> Iterable[Any]:
        # Of texts and times most are alike.
        known = {value: bind(value) for value in set(values)}
        return [known[value] for value in values]

    return once_each


@cache
def _statement(
    dialect: str, table: Table, names: tuple[str, ...], missing: bool, replacing: tuple[str, ...]
) -> str:
    marks = ", ".join(["?" if dialect == "sqlite" else "%s"] * len(names))
    statement = f"INSERT INTO {table.__tablename__} ({_quoted(names)}) VALUES ({marks})"
    if missing:
        return f"{statement} ON CONFLICT DO NOTHING"
    if replacing:
        changes = ", ".join(f'"{name}" = excluded."{name}"' for name in names if name not in replacing)
        return f"{statement} ON CONFLICT ({_quoted(replacing)}) DO UPDATE SET {changes}"
    return statement


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
