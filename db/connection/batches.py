"""Many rows in statements and transactions that each take a bounded part of them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import ARRAY, ColumnElement, Connection, Select, Text, any_, bindparam, func, select
from sqlalchemy.orm import InstrumentedAttribute

T = TypeVar("T")

#: SQLite takes 32,766 values in one statement, Postgres 65,535.
_AT_ONCE = 10_000


def in_parts(rows: Sequence[T], many: int = _AT_ONCE) -> Iterator[Sequence[T]]:
    """The rows in their order, so `many` at once; by default as many as one statement may name."""
    for start in range(0, len(rows), many):
        yield rows[start : start + many]


def fetched(
    connection: Connection, query: Select[*tuple[Any, ...]], asked: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    """Rows as the driver hands them out: for columns of numbers, texts and bytes, which come as they are.

    A look at each value for its type takes as long again as the rows themselves.
    """
    cursor: Any = connection.execute(query, asked).cursor
    return cursor.fetchall()


def among(dialect: str, column: InstrumentedAttribute[Any], name: str) -> ColumnElement[bool]:
    """That a column holds one of many numbers or texts, which are the parameter `name`, made by `as_one`.

    As a parameter each, thousands take longer to be written into a statement than what they name to be read.
    """
    if dialect == "sqlite":
        listed = func.json_each(bindparam(name, type_=Text())).table_valued("value")
        return column.in_(select(listed.c.value))
    wanted: Any = bindparam(name, type_=ARRAY(column.type))
    return column == any_(wanted)


def as_one(dialect: str, values: Iterable[T]) -> str | list[T]:
    """Numbers or texts as one value, for `among`."""
    listed = list(values)
    return json.dumps(listed) if dialect == "sqlite" else listed
