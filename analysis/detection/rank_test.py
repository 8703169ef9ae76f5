"""A rank test of new nights against earlier ones that accounts for autocorrelation.

The nights of a machine resemble the night before, and some machines have two modes. Such nights deviate from
their level for days, which sums of deviations take for a change; a rank test with the correlation of
neighbours does not.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from operator import mul
from statistics import NormalDist

from .night_noise import middle

#: The fewest arrangements for which new nights beyond all earlier ones are not chance.
_ARRANGEMENTS = 3333
#: The largest autocorrelation: a divisor has to stay above 0.
_MOST_MEMORY = 0.95
#: The correlation of few neighbours is uncertain: this number of its standard errors is added, and its bias
#: if a level was fitted, (1 + 3 r) / n (Kendall, Biometrika 41, 1954).
_DOUBT = 0.5
#: Deviations by which ranks have to differ, and by which medians have to that no rank overlaps.
_RANKS, _MEDIANS = 3.5, 6.0
#: Nine of ten normal values lie within so many deviations, on one side.
_NINE_OF_TEN = 1.2816


@lru_cache(maxsize=1024)
def _scores(count: int) -> tuple[float, ...]:
    """Normal scores of the ranks and half ranks of so many values (van der Waerden 1952), and their squares.

    The last one is the sum of the squares of those of the ranks.
    """
    normal = NormalDist()
    scores = [normal.inv_cdf((half / 2 - 0.5) / count) for half in range(2, 2 * count + 1)]
    return (*scores, sum(one * one for one in scores[::2]))


def _normal_scores(values: Sequence[float]) -> list[float]:
    """The normal scores of values; equal values share the middle rank."""
    ordered = sorted(values)
    last = {value: place for place, value in enumerate(ordered)}
    first = {
        value: place for place, value in zip(range(len(ordered) - 1, -1, -1), reversed(ordered), strict=True)
    }
    scores = _scores(len(ordered))
    return [scores[first[value] + last[value]] for value in values]


def memory(own: Sequence[float], residuals: Sequence[float] = (), fitted: int = 1) -> float:
    """The correlation of neighbours by the normal scores of their ranks, conservatively high.

    `own` are nights of one level, `residuals` the deviations of other nights from their levels, and `fitted`
    the number of parameters fitted to them.
    """
    level = middle(sorted(own))
    nights = [*residuals, *(night - level for night in own)]
    scores, count = _normal_scores(nights), len(nights)
    correlation = max(0.0, sum(map(mul, scores, scores[1:])) / _scores(count)[-1]) if count > 1 else 0.0
    return min(_MOST_MEMORY, correlation + fitted * (1 + 3 * correlation) / count + _DOUBT / math.sqrt(count))


class Earlier:
    """The nights that new ones are compared with, as logarithms.

    `own` are nights of the level itself. `residuals` are the deviations of nights of other levels, which show
    the noise but not this level. `remembered` is the `memory` of both.
    """

    def __init__(self, own: Sequence[float], residuals: Sequence[float], remembered: float) -> None:
        self._own, self._memory = len(own), remembered
        self._level = middle(sorted(own))
        self._ordered = sorted((*(self._level + one for one in residuals), *own))
        tenth = len(self._ordered) // 10
        self._wide = (self._ordered[-1 - tenth] - self._ordered[tenth]) / (2 * _NINE_OF_TEN)

    def exceeded(self, new: Sequence[float], sign: int) -> bool:
        """Whether new nights stand out above (`sign` 1) or below (-1) these."""
        by_ranks = self._by_ranks(new, sign)
        # The bound without autocorrelation is the lowest and decides most nights.
        if by_ranks >= _RANKS and by_ranks >= _RANKS * self._inflation(len(new)):
            return True
        return self._is_apart(new, sign) and self.left(new, sign)

    def left(self, new: Sequence[float], sign: int) -> bool:
        """Whether the median of new nights stands out, even if some of them overlap these."""
        off = sign * (middle(sorted(new)) - self._level)
        error = self._wide * math.sqrt(self._of_mean(len(new)) + self._of_mean(self._own))
        return off >= _MEDIANS * error

    def smallest(self, new: int, power: float) -> float:
        """The smallest step that so many new nights show by their ranks.

        `power` is the quantile of the normal distribution for the share that may be missed.
        """
        error = self._wide * math.sqrt(1 / new + 1 / self._own)
        return (_RANKS + power) * error * self._inflation(new)

    def _by_ranks(self, new: Sequence[float], sign: int) -> float:
        """The deviation of the new nights' normal scores in standard errors, without autocorrelation."""
        n, old = len(new), len(self._ordered)
        ordered, scores = sorted((*self._ordered, *new)), _scores(n + old)
        total = sum(scores[bisect_left(ordered, one) + bisect_right(ordered, one) - 1] for one in new)
        variance = n * old / ((n + old) * (n + old - 1)) * scores[-1]
        # Residuals of other levels do not show the position of this one.
        variance *= (1 / n + 1 / self._own) / (1 / n + 1 / old)
        return sign * total / math.sqrt(variance)

    def _is_apart(self, new: Sequence[float], sign: int) -> bool:
        ordered = self._ordered
        beyond = min(new) > ordered[-1] if sign > 0 else max(new) < ordered[0]
        return beyond and math.comb(len(ordered) + len(new), len(new)) >= _ARRANGEMENTS

    def _inflation(self, nights: int) -> float:
        """The factor by which autocorrelation increases the standard error of the mean of consecutive
        nights.
        """
        return math.sqrt(nights * self._of_mean(nights))

    def _of_mean(self, nights: int) -> float:
        """The variance of the mean of consecutive nights over that of one, for first-order autocorrelation r.

        It is (1 + 2 sum over k of (1 - k / n) r^k) / n.
        """
        r = self._memory
        return (1 + 2 * r / (1 - r) * (1 - (1 - r**nights) / (nights * (1 - r)))) / nights


def best_split(values: Sequence[float], first: int, last: int) -> int:
    """The number of first values, from `first` to `last`, whose ranks differ most from those of the
    others.
    """
    count, scores = len(values), _normal_scores(values)
    best, split, total = -1.0, first, 0.0
    for place, score in enumerate(scores[:last], 1):
        total += score
        strength = total * total / (place * (count - place))
        if place >= first and strength > best:
            best, split = strength, place
    return split
