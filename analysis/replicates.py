"""The measurement of a metric from its replicates: point, interval, spread."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from . import distributions

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of `n` replicates.

    `low`..`high` is None for fewer than two, if a value is not positive, and if an end would overflow.
    """

    point: float
    low: float | None
    high: float | None
    smallest: float
    largest: float
    spread: float | None
    n: int


def summarise(values: Sequence[float]) -> Summary:
    """Summarise one value per replicate (any unit, at least one value; raises ValueError for none).

    `point` is the median. `low`..`high` is Student's 95 % interval for the mean of the logarithms, converted
    back (a multiplicative interval around the geometric mean, because timings are skewed to the right),
    widened if needed to contain the point. `spread` is the standard deviation of the logarithms. A process is
    one sample: variation *within* a process is not used.
    """
    if not values:
        raise ValueError("no replicate to summarise")
    point, smallest, largest = _middle(values), min(values), max(values)
    if len(values) < 2 or smallest <= 0:
        return Summary(point, None, None, smallest, largest, None, len(values))
    logs = [math.log(value) for value in values]
    spread = stdev(logs)
    quantile = float(distributions.quantile(len(logs) - 1, (1 + CONFIDENCE) / 2))
    half = quantile * spread / math.sqrt(len(logs))
    centre = fmean(logs)
    try:
        low, high = math.exp(centre - half), math.exp(centre + half)
    except OverflowError:
        # For values that far apart, or near the largest float, no estimate is possible.
        return Summary(point, None, None, smallest, largest, spread, len(values))
    return Summary(point, min(low, point), max(high, point), smallest, largest, spread, len(values))


def _middle(values: Sequence[float]) -> float:
    """The median, also if the sum of the two middle values would overflow."""
    middle = median(values)
    return middle if math.isfinite(middle) else 2 * median(value / 2 for value in values)
