"""Many rows in statements and transactions that each take a bounded part of them."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

#: SQLite takes 32,766 values in one statement, Postgres 65,535.
_AT_ONCE = 10_000


def in_parts(rows: Sequence[T], many: int = _AT_ONCE) -> Iterator[Sequence[T]]:
    """The rows in their order, so `many` at once; by default as many as one statement may name."""
    for start in range(0, len(rows), many):
        yield rows[start : start + many]
