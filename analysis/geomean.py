"""The mean change over cases, from the pairs of each."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from . import distributions
from .robust_mean import Location

CONFIDENCE = 0.99
#: An error of a log ratio below this counts as 0.
_NO_ERROR = 1e-5


@dataclass(frozen=True, slots=True)
class Geomean:
    """The weighted geometric mean of new / old over `cases` cases and `pairs` pairs, as logarithms.

    `change` is None without any case. The interval is for these cases with these weights, under repeated
    measurement; it does not apply to other cases. If `confidence` is None, `low` and `high` are not an
    interval, but the means of the ends of the cases' ranges. `typical` is the random-effects mean (see
    `random_effects`) as (change, low, high), which uncertain cases hardly affect; None if there is none.
    """

    change: float | None
    low: float | None
    high: float | None
    cases: int
    pairs: int
    confidence: float | None = CONFIDENCE
    typical: tuple[float, float, float] | None = None


def geomean(cases: Iterable[tuple[Location, float]], confidence: float = CONFIDENCE) -> Geomean:
    """The geometric mean over (location, weight) of each case; raises ValueError for a weight not above 0.

    A case counts by its weight, regardless of its number of pairs; the error is that of independent cases,
    with the effective degrees of freedom of Satterthwaite (An approximate distribution of estimates of
    variance components, Biometrics Bulletin 2, 1946). Cases that stopped early because they looked extreme
    are slightly biased, and so is a mean over them.
    """
    each = list(cases)
    if not all(math.isfinite(weight) and weight > 0 for _, weight in each):
        raise ValueError("the weight of a case is a finite number above 0")
    pairs = sum(location.n for location, _ in each)
    if not each:
        return Geomean(None, None, None, 0, 0, confidence)
    total = math.fsum(weight for _, weight in each)
    change = math.fsum(location.point * weight / total for location, weight in each)
    parts = [((location.error * weight / total) ** 2, location.degrees) for location, weight in each]
    variance = math.fsum(part for part, _ in parts)
    half = 0.0
    if variance > 0:
        # Each part as a share of the whole, because squares of variances can underflow.
        degrees = 1 / math.fsum((part / variance) ** 2 / own for part, own in parts)
        half = float(distributions.quantile(degrees, (1 + confidence) / 2)) * math.sqrt(variance)
    points, errors = zip(*((location.point, location.error) for location, _ in each), strict=True)
    typical = random_effects(points, errors, confidence) if variance > 0 else None
    return Geomean(change, change - half, change + half, len(each), pairs, confidence, typical)


def random_effects(
    points: Sequence[float], errors: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[float, float, float] | None:
    """The mean change of cases like these and its interval, as logarithms; None for fewer than two cases.

    The variance between cases is that of Paule and Mandel (Consensus values and weighting factors, Journal of
    Research of the National Bureau of Standards 87, 1982), the interval that of Hartung and Knapp (A refined
    method for the meta-analysis of controlled clinical trials, Statistics in Medicine 20, 2001). Cases are
    weighted by their precision, not by the weights of a policy.
    """
    if len(points) < 2:
        return None
    x, variances = np.asarray(points), np.maximum(np.asarray(errors), _NO_ERROR) ** 2

    def excess(between: float) -> float:
        a = 1 / (variances + between)
        centre = float((a * x).sum() / a.sum())
        return float((a * (x - centre) ** 2).sum()) - (len(x) - 1)

    low, high = 0.0, float(np.ptp(x)) ** 2 + 1e-12
    if excess(0.0) > 0:
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    a = 1 / (variances + low)
    centre = float((a * x).sum() / a.sum())
    scale = max(1.0, float((a * (x - centre) ** 2).sum()) / (len(x) - 1))
    half = float(distributions.quantile(len(x) - 1, (1 + confidence) / 2)) * math.sqrt(scale / float(a.sum()))
    return centre, centre - half, centre + half
