"""The newest night of a series against the level of the nights before it, with the band of noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, stdev

from .distributions import quantile

#: The most nights of a level, and the fewest for a band of noise.
NIGHTS, LEAST = 14, 4
#: The share of nights that noise alone moves beyond the band.
_CONFIDENCE = 0.99


@dataclass(frozen=True, slots=True)
class RecentChange:
    """A night against a `level`, in the unit of the series: the median of the `nights` nights before it.

    `change` is the log ratio of the night to the level. Noise alone stays within ± `band` (log ratio) in 99
    of 100 nights; None with fewer than `LEAST` nights.
    """

    level: float
    nights: int
    change: float
    band: float | None

    @property
    def outside(self) -> bool:
        """Whether the change exceeds the noise."""
        return self.band is not None and abs(self.change) > self.band


def against(before: Sequence[float], newest: float, least: float = 0.0) -> RecentChange | None:
    """A night against the last `NIGHTS` of those `before`, oldest first.

    No band is below `least` (log ratio). None without nights, or if a value is not above 0. The band is the
    prediction interval of one more observation of a normal sample, on logarithms (Hahn and Meeker,
    Statistical Intervals, 1991, 4.2); the level is a median, whose variance is about pi / 2 times that of a
    mean.
    """
    nights = before[-NIGHTS:]
    if not nights or min(*nights, newest) <= 0:
        return None
    logs = [math.log(value) for value in nights]
    level, count = median(logs), len(logs)
    band = None
    if count >= LEAST:
        t = float(quantile(count - 1, (1 + _CONFIDENCE) / 2))
        band = max(least, t * stdev(logs) * math.sqrt(1 + math.pi / 2 / count))
    return RecentChange(math.exp(level), count, math.log(newest) - level, band)
