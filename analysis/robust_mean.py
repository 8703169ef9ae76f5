"""The centre of a few paired log ratios with its error, robust against outliers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from . import distributions

#: With fewer pairs none is winsorised: the others would be too few to estimate their spread.
ENOUGH_TO_SET_ASIDE = 8
#: The largest effect of the order of starting that is removed (a logarithm): a larger difference comes from
#: outliers.
ORDER_CAP = 0.03
#: With fewer values the order of starting cannot be distinguished from the spread.
_FEWEST_WITH_ORDER = 4


@dataclass(frozen=True, slots=True)
class Location:
    """The centre of `n` log ratios: `point` +- `error` with Student's t of `degrees` degrees of freedom.

    `set_aside` values at each end are replaced by the nearest other one. `error` is 0 if all others agree to
    the last digit. `order` is the removed slowdown of the side that starts first.
    """

    point: float
    error: float
    degrees: int
    n: int
    set_aside: int
    order: float = 0.0

    def half(self, tail: float) -> float:
        """The half width of the interval with the error `tail` on each side."""
        return float(distributions.quantile(self.degrees, 1 - tail)) * self.error

    def visible(self, tail: float, power: float) -> float:
        """The smallest centre whose interval (see `half`) excludes 0 with a probability of `power`, from the
        noncentral t with the observed noise (Johnson and Welch, Applications of the non-central
        t-distribution, Biometrika 31, 1940).
        """
        return _noncentral(self.degrees, tail, power) * self.error

    def p(self) -> float:
        """The two-sided p-value of a centre of 0."""
        if self.error == 0:
            return float(self.point == 0)
        return 2 * distributions.below(self.degrees, -abs(self.point) / self.error)


@lru_cache(maxsize=256)
def _noncentral(degrees: int, tail: float, power: float) -> float:
    return float(distributions.noncentral(degrees, 1 - power, distributions.quantile(degrees, 1 - tail)))


def set_aside(n: int) -> int:
    """The number of `n` values at each end that are winsorised: none of fewer than eight, then one of six."""
    return n // 6 if n >= ENOUGH_TO_SET_ASIDE else 0


def locate(values: Sequence[float], new_first: Sequence[bool | None] = ()) -> Location:
    """The centre of two or more log ratios, one per pair; raises ValueError for fewer, or one not finite.

    Student's t (The probable error of a mean, 1908) for fewer than eight pairs, and the winsorised t from
    then on: with g values at either end replaced by the nearest of the h = n - 2g others, t = mean / (s /
    sqrt(n)) x (h - 1) / (n - 1) has Student's distribution of h - 1 degrees of freedom, nearly (Dixon and
    Tukey, Approximate behavior of the distribution of winsorized t, Technometrics 10, 1968). It was chosen by
    measurement: docs/decisions/0011-verdicts.md.

    `new_first` says which side of each pair started first, None where that is not known. With four or more
    values in both orders, half the difference between the two orders is removed, at most `ORDER_CAP`, for one
    degree of freedom. Unbalanced orders make the error larger.
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
        # Either all agree, or winsorising removed the spread.
        kept, g = ordered, 0
    degrees = n - 2 * g - 1 - lost
    # Relative to the median, so that equal values have a spread of exactly 0.
    middle = float(kept[n // 2])
    deviations = kept - middle
    if g:
        error = float(deviations.std(ddof=1)) / math.sqrt(n) * (n - 1) / degrees
    else:
        # The intercept of a least squares fit: the fitted order costs one degree of freedom.
        error = math.sqrt(float(deviations.var()) / degrees)
    error *= max(1.0, balance)
    return Location(middle + float(deviations.mean()), error, degrees, n, g, order)


def _order_effect(values: NDArray[np.float64], sides: NDArray[np.float64]) -> tuple[float, float]:
    """The slowdown of the side that starts first, and the loss of precision by imbalance. Both are 0
    if the order is known for too few values.
    """
    news, olds = values[sides > 0], values[sides < 0]
    if len(values) < _FEWEST_WITH_ORDER or not len(news) or not len(olds):
        return 0.0, 0.0
    middle = np.median if len(values) >= ENOUGH_TO_SET_ASIDE else np.mean
    effect = float(np.clip((middle(news) - middle(olds)) / 2, -ORDER_CAP, ORDER_CAP))
    return effect, math.sqrt((1 / len(news) + 1 / len(olds)) * len(values) / 4)
