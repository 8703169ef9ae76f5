"""Many rows in statements and transactions that each take a bounded part of them."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import ARRAY, ColumnElement, Integer, Text, any_, bindparam, func, select
from sqlalchemy.orm import InstrumentedAttribute

T = TypeVar("T")

#: SQLite takes 32,766 values in one statement, Postgres 65,535.
_AT_ONCE = 10_000


def in_parts(rows: Sequence[T], many: int = _AT_ONCE) -> Iterator[Sequence[T]]:
    """The rows in their order, so `many` at once; by default as many as one statement may name."""
    for start in range(0, len(rows), many):
        yield rows[start : start + many]


def among(dialect: str, column: InstrumentedAttribute[int], name: str) -> ColumnElement[bool]:
    """That a column holds one of many numbers, which are the parameter `name`, made by `as_one`.

    As a parameter each, thousands take longer to be written into a statement than what they name to be read.
    """
    if dialect == "sqlite":
        listed = func.json_each(bindparam(name, type_=Text())).table_valued("value")
        return column.in_(select(listed.c.value))
    wanted: Any = bindparam(name, type_=ARRAY(Integer))
    return column == any_(wanted)


def as_one(dialect: str, numbers: Iterable[int]) -> str | list[int]:
    """Numbers as one value, for `among`."""
    listed = list(numbers)
    return json.dumps(listed) if dialect == "sqlite" else listed
