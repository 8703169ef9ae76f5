"""Where the centre of a few paired log ratios lies, and how surely, with wild pairs among them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from . import distributions

#: Under so many pairs nothing is set aside: of fewer, the rest would be too few to know their own spread.
ENOUGH_TO_SET_ASIDE = 8
#: The effect of the order of starting is taken out up to this size (a logarithm): a larger difference is that
#: of wild pairs, which must not pass for it.
ORDER_CAP = 0.03
#: With fewer values the order of starting cannot be distinguished from the spread.
_FEWEST_WITH_ORDER = 4


@dataclass(frozen=True, slots=True)
class Location:
    """The centre of `n` log ratios: `point` +- `error` with Student's t of `degrees` degrees of freedom.

    `set_aside` values at either end count as the nearest one that is not. `error` is 0 where all others agree
    to the last digit. `order` is by how much the side that starts first is slower; it is taken out.
    """

    point: float
    error: float
    degrees: int
    n: int
    set_aside: int
    order: float = 0.0

    def half(self, tail: float) -> float:
        """The half width of the interval that leaves the share `tail` of all cases out at either end."""
        return float(distributions.quantile(self.degrees, 1 - tail)) * self.error

    def visible(self, tail: float, power: float) -> float:
        """The smallest centre whose interval (see `half`) leaves 0 outside with a probability of `power`.

        It is where the noncentral t has that probability beyond the quantile, the noise being what was seen
        (Johnson and Welch, Applications of the non-central t-distribution, Biometrika 31, 1940).
        """
        return _noncentral(self.degrees, tail, power) * self.error

    def p(self) -> float:
        """How often a centre of 0 would show itself this far from 0, on either side."""
        if self.error == 0:
            return float(self.point == 0)
        return 2 * distributions.below(self.degrees, -abs(self.point) / self.error)


@lru_cache(maxsize=256)
def _noncentral(degrees: int, tail: float, power: float) -> float:
    return float(distributions.noncentral(degrees, 1 - power, distributions.quantile(degrees, 1 - tail)))


def set_aside(n: int) -> int:
    """How many of `n` values at either end are set aside: none of fewer than eight, then one of six."""
    return n // 6 if n >= ENOUGH_TO_SET_ASIDE else 0


def locate(values: Sequence[float], new_first: Sequence[bool | None] = ()) -> Location:
    """The centre of two or more log ratios, one per pair; raises ValueError for fewer, or one not finite.

    Student's t (The probable error of a mean, 1908) for fewer than eight pairs, and the winsorised t from
    then on: with g values at either end replaced by the nearest of the h = n - 2g others, t = mean / (s /
    sqrt(n)) x (h - 1) / (n - 1) has Student's distribution of h - 1 degrees of freedom, nearly (Dixon and
    Tukey, Approximate behavior of the distribution of winsorized t, Technometrics 10, 1968). It was chosen by
    measurement: docs/decisions/0011-verdicts.md.

    `new_first` says which side of each pair started first, None where that is not known. Of four or more
    values in both orders, half the difference between the two orders is taken out, at most `ORDER_CAP`, for
    one degree of freedom. Orders that are not balanced make the error larger.
    """
    given = np.asarray(values, dtype=np.float64)
    if len(given) < 2 or not np.isfinite(given).all():
        raise ValueError(f"a location needs two or more finite values, not {list(values)}")
    sides = np.array(
        [0.0 if one is None else 1.0 if one else -1.0 for one in new_first or [None] * len(given)]
    )
    order, balance = _order_effect(given, sides)
    lost = 1 if balance else 0
    ordered = np.sort(given - order * sides)
    n, g = len(ordered), set_aside(len(ordered))
    kept = np.clip(ordered, ordered[g], ordered[n - 1 - g])
    if kept[0] == kept[-1]:
        # Either all agree, or setting aside left no spread to judge by.
        kept, g = ordered, 0
    degrees = n - 2 * g - 1 - lost
    # Around the middle, for equal values must have no spread at all.
    middle = float(kept[n // 2])
    deviations = kept - middle
    if g:
        error = float(deviations.std(ddof=1)) / math.sqrt(n) * (n - 1) / degrees
    else:
        # The intercept of a least squares fit: with the order taken out its spread has a degree less.
        error = math.sqrt(float(deviations.var()) / degrees)
    error *= max(1.0, balance)
    return Location(middle + float(deviations.mean()), error, degrees, n, g, order)


def _order_effect(values: NDArray[np.float64], sides: NDArray[np.float64]) -> tuple[float, float]:
    """By how much the side that starts first is slower, and how much less is known for want of balance.

    0 and 0 where the order is not known of enough values.
    """
    news, olds = values[sides > 0], values[sides < 0]
    if len(values) < _FEWEST_WITH_ORDER or not len(news) or not len(olds):
        return 0.0, 0.0
    middle = np.median if len(values) >= ENOUGH_TO_SET_ASIDE else np.mean
    effect = float(np.clip((middle(news) - middle(olds)) / 2, -ORDER_CAP, ORDER_CAP))
    return effect, math.sqrt((1 / len(news) + 1 / len(olds)) * len(values) / 4)
