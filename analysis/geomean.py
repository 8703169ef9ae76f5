"""The mean change over cases, from the pairs of each."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from . import student
from .location import Location

CONFIDENCE = 0.99


@dataclass(frozen=True, slots=True)
class Geomean:
    """The weighted geometric mean of new / old over `cases` cases and `pairs` pairs, as logarithms.

    `change` is None without any case. The interval is for these cases with these weights, as measured again
    and again; it says nothing about cases that are not in the suite. Where `confidence` is None, `low` and
    `high` are no interval, but the means of the ends of the cases' ranges.
    """

    change: float | None
    low: float | None
    high: float | None
    cases: int
    pairs: int
    confidence: float | None = CONFIDENCE


def geomean(cases: Iterable[tuple[Location, float]], confidence: float = CONFIDENCE) -> Geomean:
    """The geometric mean over (location, weight) of each case; raises ValueError for a weight not above 0.

    Every case counts by its weight, however many pairs it has; the error is that of independent cases, with
    the effective degrees of freedom of Satterthwaite (An approximate distribution of estimates of variance
    components, Biometrics Bulletin 2, 1946). Cases that stopped early because they looked extreme lie a
    little too far out, and so does a mean over them.
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
        # Each part as a share of the whole: squares of variances can be too small for a float.
        degrees = 1 / math.fsum((part / variance) ** 2 / own for part, own in parts)
        half = float(student.quantile(degrees, (1 + confidence) / 2)) * math.sqrt(variance)
    return Geomean(change, change - half, change + half, len(each), pairs, confidence)
