"""The points of a group as bytes, sorted: what the median is the middle of, alike in both databases."""

import sys
from array import array
from bisect import insort
from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, LargeBinary, func, literal
from sqlalchemy.dialects.postgresql import aggregate_order_by

#: What the aggregate is called that every SQLite connection of ours knows.
NAME = "sorted_points"


def with_more(stored: bytes, points: Iterable[float]) -> "array[float]":
    """The points in `stored` and some more, sorted; of the two zeros the positive one."""
    values = array("d", stored)
    if sys.byteorder == "little":
        values.byteswap()
    for each in points:
        insort(values, each + 0.0)
    return values


def as_bytes(values: "array[float]") -> bytes:
    """Float64s as Postgres' float8send writes them: the highest byte first."""
    if sys.byteorder == "little":
        values = values[:]
        values.byteswap()
    return values.tobytes()


class SortedPoints:
    """The numbers of a group, sorted, as bytes."""

    def __init__(self) -> None:
        self._values: list[float] = []
        self.step = self._values.append

    def finalize(self) -> bytes:
        """Eight bytes for each."""
        return as_bytes(array("d", sorted(each + 0.0 for each in self._values)))


#: What SQLite is given; the types of its module know of aggregates over integers only.
AGGREGATE: Any = SortedPoints


def sorted_points(dialect: str, column: Any) -> ColumnElement[bytes]:
    """The numbers of a column in a grouped query, as bytes."""
    if dialect == "sqlite":
        return getattr(func, NAME)(column)
    # Zero is added because it makes one zero of the two, which are equal and not the same bytes.
    sent = func.float8send(column + 0.0)
    return func.string_agg(sent, aggregate_order_by(literal(b"", LargeBinary()), column))
