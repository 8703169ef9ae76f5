"""The mean change over cases, from the pairs of each."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from . import student
from .robust_mean import Location

CONFIDENCE = 0.99
#: A case whose error is larger than so many times the median error of the cases counts less.
_IMPRECISE = 3.0
#: Errors (of log ratios) below this are all the same: a mean is never wanted finer.
_FINEST = 1e-3


@dataclass(frozen=True, slots=True)
class Geomean:
    """The weighted geometric mean of new / old over `cases` cases and `pairs` pairs, as logarithms.

    `change` is None without any case. The interval is for these cases with these weights, as measured again
    and again; it says nothing about cases that are not in the suite. Where `confidence` is None, `low` and
    `high` are no interval, but the means of the ends of the cases' ranges. `reduced` are the cases that were
    measured too imprecisely to count with their whole weight, as (case, part of its weight, 0..1); where
    there are any, `whole` is the mean in which they do.
    """

    change: float | None
    low: float | None
    high: float | None
    cases: int
    pairs: int
    confidence: float | None = CONFIDENCE
    reduced: tuple[tuple[str, float], ...] = ()
    whole: "Geomean | None" = None

    @property
    def unreduced(self) -> "Geomean":
        """What is held against a limit: every case with its whole weight, as imprecise as it may be.

        A case that is worse and imprecise must not be within a limit because it counts less.
        """
        return self.whole or self


def precision_factors(errors: Sequence[float]) -> list[float]:
    """With which part of its weight (0..1) each case counts in a mean, by the errors of their log ratios.

    1 up to three times the median error, and from there on in proportion to 1 / error^2, as in a mean
    weighted by precision (Cochran, The combination of estimates from different experiments, Biometrics 10,
    1954). Weights by precision alone would make a mean of the two or three quietest cases; so only a case
    that says next to nothing is kept from deciding the mean of all others.
    """
    limit = _IMPRECISE * max(_FINEST, median(errors)) if errors else 0.0
    return [1.0 if error <= limit else (limit / error) ** 2 for error in errors]


def geomean(
    cases: Iterable[tuple[Location, float]], confidence: float = CONFIDENCE, *, whole: bool = False
) -> Geomean:
    """The geometric mean over (location, weight) of each case; raises ValueError for a weight not above 0.

    A case counts by its weight, however many pairs it has, and by less where its error is far larger than
    that of the others (see `precision_factors`), unless all count `whole`; the error is that of independent
    cases, with the effective degrees of freedom of Satterthwaite (An approximate distribution of estimates of
    variance components, Biometrics Bulletin 2, 1946). Cases that stopped early because they looked extreme
    lie a little too far out, and so does a mean over them.
    """
    each = list(cases)
    if not all(math.isfinite(weight) and weight > 0 for _, weight in each):
        raise ValueError("the weight of a case is a finite number above 0")
    pairs = sum(location.n for location, _ in each)
    if not each:
        return Geomean(None, None, None, 0, 0, confidence)
    if not whole:
        factors = precision_factors([location.error for location, _ in each])
        each = [(location, weight * part) for (location, weight), part in zip(each, factors, strict=True)]
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
