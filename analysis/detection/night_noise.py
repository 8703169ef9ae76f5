"""The noise of a series from night to night, updated with each night."""

from bisect import bisect_left, insort

#: The number of nights in the estimate: the noise of machines changes.
MEMORY = 60
#: The smallest noise as a share of the floor, also for exact values.
_FINEST = 0.15
#: Of normal differences between two nights the median is 1 / 1.048 standard deviations of one night, and
#: eight of ten are below 1.812 of them.
_MEDIAN, _EIGHTIETH = 1.048, 1 / 1.812


def middle(ordered: list[float]) -> float:
    """The median of sorted values; raises IndexError without any."""
    half, odd = divmod(len(ordered), 2)
    return ordered[half] if odd else (ordered[half - 1] + ordered[half]) / 2


class NightNoise:
    """The standard deviation of logarithms between nights, from differences of neighbours, which neither a
    step nor a drift affects.

    Their median is insensitive to spikes; their eightieth percentile detects two alternating modes. The
    larger estimate counts.
    """

    __slots__ = ("_came", "_ordered")

    def __init__(self) -> None:
        self._ordered: list[float] = []
        self._came: list[float] = []

    def add(self, difference: float) -> None:
        """Add the difference between two comparable nights."""
        size, came = abs(difference), self._came
        insort(self._ordered, size)
        came.append(size)
        if len(came) > MEMORY:
            del self._ordered[bisect_left(self._ordered, came[-MEMORY - 1])]

    def __len__(self) -> int:
        """The number of differences."""
        return len(self._ordered)

    @property
    def spread(self) -> float | None:
        """The estimate; None without any difference."""
        ordered = self._ordered
        if not ordered:
            return None
        by_median, by_eightieth = _MEDIAN * middle(ordered), _EIGHTIETH * ordered[4 * len(ordered) // 5]
        return by_median if by_median > by_eightieth else by_eightieth

    def above(self, floor: float) -> float:
        """The assumed noise: larger than the estimate for few nights, and never 0.

        `floor` is the smallest log ratio that matters.
        """
        spread, least = self.spread, _FINEST * floor
        estimate = spread * (1 + 3 / len(self._ordered)) if spread else 0.0
        return estimate if estimate > least else least
