"""Two contenders that take turns, and whether their rounds say precisely enough how they compare."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from .blocks import Blocks

#: With fewer rounds nothing is known of their spread.
_FEWEST = 4
#: Of the normal distribution, both sides of 95 %.
_Z = 1.96


class Side(Protocol):
    """A contender, as far as it is asked whether it takes another block."""

    @property
    def blocks(self) -> Blocks:
        """What was measured so far."""
        ...

    @property
    def satisfied(self) -> bool:
        """Whether what has to be measured is measured."""
        ...

    @property
    def exhausted(self) -> bool:
        """Whether no round more is taken for the sake of precision alone."""
        ...


AnySide = TypeVar("AnySide", bound=Side)


def hungry(alive: Sequence[AnySide], error: float) -> list[AnySide]:
    """Who of a session's contenders takes a block in the next round.

    With an `error` two of them, which are there to be compared, take as many rounds together as that needs:
    blocks of one number stay those of one round. Without one, or when either is exhausted, each looks after
    itself.
    """
    wanting = [side for side in alive if not side.satisfied]
    if error <= 0 or len(alive) != 2 or any(side.exhausted for side in alive):
        return wanting
    one, other = alive
    if not wanting and precise(one.blocks, other.blocks, error):
        return []
    return [one, other]


def precise(one: Blocks, other: Blocks, error: float) -> bool:
    """Whether the median over rounds of the log ratio of floors has a standard error of at most `error`.

    Only how much the rounds differ decides, never in whose favour they are: with both sides exchanged the
    answer is the same, so taking rounds until it is yes favours nobody.
    """
    ours, theirs = one.floors, other.floors
    return standard_error(_logs(ours, theirs)) <= error


def standard_error(values: Sequence[float]) -> float:
    """Of the median of values, by their order statistics (McKean and Schrader 1984); infinite for too few.

    Half the width of the 95 % interval of a median by ranks, over 1.96: true for any distribution with a
    density at its median, where the formula for normal values is misled by a few wild ones.
    """
    many = len(values)
    if many < _FEWEST:
        return math.inf
    ordered = sorted(values)
    rank = max(1, round((many + 1) / 2 - _Z * math.sqrt(many / 4)))
    return (ordered[many - rank] - ordered[rank - 1]) / (2 * _Z)


def _logs(ours: Mapping[int, int], theirs: Mapping[int, int]) -> list[float]:
    rounds = sorted(ours.keys() & theirs.keys())
    return [math.log(theirs[n] / ours[n]) for n in rounds if ours[n] > 0 and theirs[n] > 0]
