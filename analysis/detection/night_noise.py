"""How much a series differs from night to night, learned as nights come in."""

from bisect import bisect_left, insort

#: Only so many nights back: machines grow louder and quieter.
MEMORY = 60
#: Not even exact values are judged finer than this part of the floor.
_FINEST = 0.15
#: Of normal differences between two nights the median is 1 / 1.048 standard deviations of one night, and
#: eight of ten are below 1.812 of them.
_MEDIAN, _EIGHTIETH = 1.048, 1 / 1.812


def middle(ordered: list[float]) -> float:
    """The median of sorted values; raises IndexError without any."""
    half, odd = divmod(len(ordered), 2)
    return ordered[half] if odd else (ordered[half - 1] + ordered[half]) / 2


class NightNoise:
    """The standard deviation of logarithms between nights, from differences of neighbours.

    Differences know nothing of levels, so neither a step nor a drift makes noise. Their median is deaf to
    spikes; their eightieth percentile hears two modes that take turns. The larger one counts.
    """

    __slots__ = ("_came", "_ordered")

    def __init__(self) -> None:
        self._ordered: list[float] = []
        self._came: list[float] = []

    def add(self, difference: float) -> None:
        """One more difference between two nights that can be compared."""
        size, came = abs(difference), self._came
        insort(self._ordered, size)
        came.append(size)
        if len(came) > MEMORY:
            del self._ordered[bisect_left(self._ordered, came[-MEMORY - 1])]

    def __len__(self) -> int:
        """How many differences it knows."""
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
        """What nights are taken to differ by: more than was seen of few, and never nothing.

        `floor` is the smallest log ratio that matters.
        """
        spread, least = self.spread, _FINEST * floor
        estimate = spread * (1 + 3 / len(self._ordered)) if spread else 0.0
        return estimate if estimate > least else least
