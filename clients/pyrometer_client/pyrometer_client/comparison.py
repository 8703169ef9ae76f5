"""Two functions compared in this process: paired batches that take turns, and Student's interval."""

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from .statistics import quantile

Step = Callable[[], object]
#: A batch of calls that takes shorter does not count: the clock's own time would be part of it.
_BATCH_SECONDS = 1e-3
#: A change within this is the same.
_SAME = 0.01
_WIDTH, _HEIGHT = 360, 44


@dataclass(frozen=True)
class StepComparison:
    """How long `b` takes against `a`: `change`, `low` and `high` are shares, 0.05 for 5 % longer.

    `low`..`high` is Student's interval of `confidence` for the mean log ratio of `pairs` pairs of batches,
    all of one process: what differs between processes is in none of them. A verdict of Pyrometer rests on
    fresh processes and on other statistics.
    """

    a_ms: float
    b_ms: float
    change: float
    low: float
    high: float
    pairs: int
    confidence: float

    @property
    def word(self) -> str:
        """`same` (within 1 %), `slower`, `faster` or `unclear`, by this interval alone."""
        if self.low > -_SAME and self.high < _SAME:
            return "same"
        if self.low > 0:
            return "slower"
        return "faster" if self.high < 0 else "unclear"

    def __str__(self) -> str:
        interval = f"Student's {100 * self.confidence:.4g}% interval"
        return (
            f"{self.word}: {self.change:+.2%} [{self.low:+.2%}, {self.high:+.2%}], {self.a_ms:.4g} ms to "
            f"{self.b_ms:.4g} ms, {interval} of {self.pairs} pairs in one process"
        )

    def _repr_html_(self) -> str:
        """For notebooks: the sentence with its interval as a picture."""
        reach = 1.1 * max(abs(self.low), abs(self.high), _SAME)

        def at(share: float) -> float:
            return _WIDTH * (share + reach) / (2 * reach)

        left, right, middle = at(-_SAME), at(_SAME), _HEIGHT / 2
        low, high, stroke = at(self.low), at(self.high), 'stroke="currentColor"'
        band = f'<rect x="{left:.1f}" width="{right - left:.1f}" height="{_HEIGHT}" opacity=".1"/>'
        zero = f'<path d="M{at(0):.1f} 0V{_HEIGHT}" {stroke} opacity=".4"/>'
        line = f'<path d="M{low:.1f} {middle}H{high:.1f}" {stroke} stroke-width="3"/>'
        dot = f'<circle cx="{at(self.change):.1f}" cy="{middle}" r="5"/>'
        return (
            f'<div>{self}</div><svg role="img" aria-label="{self}" width="{_WIDTH}" height="{_HEIGHT}" '
            f'fill="currentColor">{band}{zero}{line}{dot}</svg>'
        )


def compare(a: Step, b: Step, pairs: int = 20, confidence: float = 0.99) -> StepComparison:
    """Call `a` and `b` in turns and compare how long they take; a GPU's step must wait for its device.

    Each of the `pairs` (2 or more) is a batch of calls of either, at least a millisecond long; the two take
    turns at coming first. The interval is Student's for the mean of the log ratios, not the statistics of
    `pyrometer upgrade`, and this is one process, that is one sample. For a decision about versions use
    `pyrometer upgrade`, which measures fresh processes. Raises ValueError for numbers that cannot be, and
    what the functions raise.
    """
    if pairs < 2 or not 0 < confidence < 1:
        raise ValueError("compare needs 2 pairs or more, and a confidence between 0 and 1")
    for step in (a, b):
        step()
    sizes = [_batch(step, 1)[1] for step in (a, b)]
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(pairs):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            taken, sizes[which] = _batch((a, b)[which], sizes[which])
            times[which].append(taken)
    logs = [math.log(new / old) for old, new in zip(*times)]  # noqa: B905 -- runs on Python 3.9
    mean = statistics.fmean(logs)
    half = quantile(pairs - 1, (1 + confidence) / 2) * statistics.stdev(logs) / math.sqrt(pairs)
    change, low, high = (math.expm1(value) for value in (mean, mean - half, mean + half))
    a_ms, b_ms = (statistics.median(each) for each in times)
    return StepComparison(a_ms, b_ms, change, low, high, pairs, confidence)


def _batch(step: Step, calls: int) -> tuple[float, int]:
    """What a call takes in a batch of so many, or of as many more as a millisecond needs, and how many."""
    while True:
        started = time.perf_counter()
        for _ in range(calls):
            step()
        taken = time.perf_counter() - started
        if taken >= _BATCH_SECONDS:
            return 1e3 * taken / calls, calls
        calls *= 2
