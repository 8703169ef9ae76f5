"""Rows of one table by the driver alone, their values as SQLAlchemy would store them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Dialect, Double, LargeBinary, exc

from ..schema import core_tables as tables
from ..schema.types import as_json

Table = type[tables.Base]

#: Makes of a column's values what the driver takes.
Binder = Callable[[Sequence[Any]], Iterable[Any]]

#: By dialect, table and columns; None where that is the same.
_BINDERS: dict[tuple[str, Table, tuple[str, ...]], tuple[Binder | None, ...]] = {}

#: So few rows are not worth arrays, and a message to a server has room for so many.
_FEW, _AT_ONCE = 4, 500

_NOTHING: Mapping[str, str] = {}


def insert_rows(
    connection: Connection,
    table: Table,
    names: tuple[str, ...],
    rows: Collection[tuple[Any, ...]],
    *,
    missing: bool = False,
    replacing: tuple[str, ...] = (),
    otherwise: Mapping[str, str] = _NOTHING,
) -> int:
    """Insert rows with values of the columns `names`, in that order, and answer how many it changed.

    With `missing` what stands under a key of theirs stays; with `replacing`, columns of a key, what stands
    under that one takes the new values, or by column the SQL in `otherwise`; no two rows have one key then.

    SQLAlchemy's own way goes through every value of every row, which took longer than the database did.
    SQLite is given rows. Postgres answers each row on its own: it is given columns, as arrays.
    """
    if not rows:
        return 0
    dialect = connection.dialect
    binders = _BINDERS.get((dialect.name, table, names))
    if binders is None:
        binders = tuple(_binder(dialect, table, name) for name in names)
        _BINDERS[dialect.name, table, names] = binders
    arrays = dialect.name == "postgresql" and len(rows) > _FEW
    new = _columns(dialect, table, names) if arrays else _row(dialect.name, len(names))
    statement = f"INSERT INTO {table.__tablename__} ({_quoted(names)}) {new}"
    statement += _where_there_is_one(names, missing, replacing, otherwise)
    columns = zip(zip(*rows, strict=True), binders, strict=True)
    try:
        bound = [list(bind(values) if bind else values) for values, bind in columns]
    except (TypeError, ValueError) as error:
        # As SQLAlchemy tells of values that no column takes.
        raise exc.StatementError(str(error), statement, None, error) from error
    if not arrays:
        return connection.exec_driver_sql(statement, list(zip(*bound, strict=True))).rowcount
    parts = range(0, len(rows), _AT_ONCE)
    some = (tuple(values[start : start + _AT_ONCE] for values in bound) for start in parts)
    return sum(connection.exec_driver_sql(statement, each).rowcount for each in some)


def _binder(dialect: Dialect, table: Table, name: str) -> Binder | None:
    kind = table.__table__.columns[name].type
    if isinstance(kind, Double) and dialect.name == "postgresql":
        # An array has values of one type.
        return lambda values: [None if value is None else float(value) for value in values]
    if isinstance(kind, tables.Json):
        return lambda values: map(as_json, values)
    bind = kind.dialect_impl(dialect).bind_processor(dialect)
    if bind is None or isinstance(kind, LargeBinary):
        # Both drivers take bytes as they are.
        return None

    def once_each(values: Sequence[Any]) -> Iterable[Any]:
        # Of texts and times most are alike, and often all are.
        if values.count(values[0]) == len(values):
            return [bind(values[0])] * len(values)
        known = {value: bind(value) for value in set(values)}
        return [known[value] for value in values]

    return once_each


@cache
def _row(dialect: str, columns: int) -> str:
    return f"VALUES ({', '.join(['?' if dialect == 'sqlite' else '%s'] * columns)})"


@cache
def _columns(dialect: Dialect, table: Table, names: tuple[str, ...]) -> str:
    """Arrays in the driver's binary form, which it need not write as text and the server not read."""
    kinds = (table.__table__.columns[name].type.compile(dialect) for name in names)
    return f"SELECT * FROM unnest({', '.join(f'%b::{kind}[]' for kind in kinds)})"


def _where_there_is_one(
    names: tuple[str, ...], missing: bool, replacing: tuple[str, ...], otherwise: Mapping[str, str]
) -> str:
    """What becomes of rows whose key is taken."""
    if missing:
        return " ON CONFLICT DO NOTHING"
    if not replacing:
        return ""
    changes = {name: f'excluded."{name}"' for name in names if name not in replacing} | dict(otherwise)
    written = ", ".join(f'"{name}" = {value}' for name, value in changes.items())
    return f" ON CONFLICT ({_quoted(replacing)}) DO UPDATE SET {written}"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
