"""How much a level moved across a border; the shares of machine and PyTorch cannot be separated."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from .nights import NightValue, logs_of

#: A level is the median of at most so many nights next to the border.
_NIGHTS = 30


@dataclass(frozen=True, slots=True)
class Crossing:
    """A level that moved by `change` (a log ratio) across the `border` before night `index`.

    `nights` is how many nights since the border say so. It is no verdict: what moved is not known.
    """

    index: int
    border: str
    change: float
    nights: int


def crossings(nights: Sequence[NightValue]) -> list[Crossing]:
    """Every border of a series with the levels on either side, oldest first.

    A level is the median of the 30 nights next to the border, or of as many as its segment has. Raises
    ValueError for a value that is not above 0.
    """
    values = logs_of(nights)
    edges = [0, *(at for at, night in enumerate(nights) if night.border and at), len(nights)]
    found: list[Crossing] = []
    for begin, at, end in zip(edges, edges[1:], edges[2:], strict=False):
        before, after = values[max(begin, at - _NIGHTS) : at], values[at : min(end, at + _NIGHTS)]
        found.append(Crossing(at, nights[at].border, median(after) - median(before), len(after)))
    return found
