"""The median as an aggregate: Postgres has one, SQLite is given the same."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, func

#: What the aggregate is called that every SQLite connection of ours knows.
NAME = "median"


def middle(ordered: Sequence[float]) -> float:
    """The middle one of sorted numbers, or halfway from the lower to the upper one of an even number.

    The halfway point is reckoned as Postgres' percentile_cont does it, to the last bit.
    """
    lower, upper = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return lower + 0.5 * (upper - lower)


class Median:
    """The `middle` of a group."""

    def __init__(self) -> None:
        self._values: list[float] = []
        self.step = self._values.append

    def finalize(self) -> float | None:
        """None for an empty group."""
        return middle(sorted(self._values)) if self._values else None


#: What SQLite is given; the types of its module know of aggregates over integers only.
AGGREGATE: Any = Median


def median(dialect: str, column: Any) -> ColumnElement[float]:
    """The median of a column in a grouped query."""
    if dialect == "sqlite":
        return getattr(func, NAME)(column)
    return func.percentile_cont(0.5).within_group(column)
