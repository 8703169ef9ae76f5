"""Two functions compared in this process: pairs of measurements whose blocks take turns."""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .statistics import THRESHOLD, judge, looks

Step = Callable[[], object]
#: A batch of calls that takes shorter does not count: the clock's own time would be part of it.
_BATCH_SECONDS = 1e-3
#: How long a block goes on, of which the fastest batch counts.
_BLOCK_SECONDS = 1e-2
#: Of each pair; in a round either side has a block.
_ROUNDS = 4
_FEWEST_PAIRS = 4
#: `expm1` of more is no float.
_LARGEST_LOG = 700.0
_WIDTH, _HEIGHT = 360, 44


@dataclass(frozen=True)
class StepComparison:
    """How long `b` takes against `a`: `change`, `low` and `high` are shares, 0.05 for 5 % longer.

    `word` is `slower` or `faster` (0 lies outside `low`..`high`, and the change is 1 % or more), `same`
    (proved to be within 1 %) or `unclear`. `pairs` is how many pairs it took. See `compare` for what the
    interval is worth.
    """

    word: str
    a_ms: float
    b_ms: float
    change: float
    low: float
    high: float
    pairs: int
    confidence: float

    def __str__(self) -> str:
        interval = f"{100 * self.confidence:.4g}% interval"
        return (
            f"{self.word}: {self.change:+.2%} [{self.low:+.2%}, {self.high:+.2%}], {self.a_ms:.4g} ms to "
            f"{self.b_ms:.4g} ms, {interval} of {self.pairs} pairs in one process"
        )

    def _repr_html_(self) -> str:
        """For notebooks: the sentence with its interval as a picture."""
        same = math.expm1(THRESHOLD)
        reach = 1.1 * max(abs(self.low), abs(self.high), same)

        def at(share: float) -> float:
            return _WIDTH * (share + reach) / (2 * reach)

        left, right, middle = at(-same), at(same), _HEIGHT / 2
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

    The statistics are those of `pyrometer upgrade` for one case: a pair is the median over four rounds of the
    ratio of the two fastest batches of calls, `a` and `b` start first in turn, and what the order does is
    taken out; from eight pairs on one of six is set aside at either end. The pairs are judged at 4, 6, 8, 10,
    12, 16, 20, ... of them, and measuring ends when the word is clear, or at `pairs` (4 or more). The looks
    share the error, so `confidence` is that of all together.

    The guarantee is weaker: `pyrometer upgrade` measures each pair in two fresh processes, and here all
    pairs share one. What differs from process to process (memory layout, hash seeds, a library's choice of
    algorithm) is in no pair, so the interval holds for this process and is too narrow for any other. The two
    steps also share caches, allocator and garbage collector. A batch, at least a millisecond of calls, is the
    iteration, and the fastest one counts on CUDA too, where the program takes medians. For a decision about
    versions use `pyrometer upgrade`. Raises ValueError for numbers that cannot be, and what the functions
    raise.
    """
    if pairs < _FEWEST_PAIRS or not 0.5 < confidence < 1:
        raise ValueError(f"compare needs {_FEWEST_PAIRS} pairs or more, and a confidence between 0.5 and 1")
    steps = (a, b)
    for step in steps:
        step()
    sizes = [_batch(step, 1)[1] for step in steps]
    floors: list[tuple[list[float], list[float]]] = []
    for look, share in looks(pairs).items():
        while len(floors) < look:
            floors.append(_pair(steps, sizes, b_first=len(floors) % 2 == 1))
        logs = [statistics.median(map(_log_ratio, *sides)) for sides in floors]
        b_first = [number % 2 == 1 for number in range(look)]
        found = judge(logs, b_first, share, confidence)
        if found.word != "unclear":
            break
    a_ms, b_ms = (statistics.median(statistics.median(pair[side]) for pair in floors) for side in (0, 1))
    change, low, high = (math.expm1(min(log, _LARGEST_LOG)) for log in found[1:])
    return StepComparison(found.word, a_ms, b_ms, change, low, high, len(floors), confidence)


def _log_ratio(old: float, new: float) -> float:
    return math.log(new) - math.log(old)


def _pair(steps: Sequence[Step], sizes: list[int], *, b_first: bool) -> tuple[list[float], list[float]]:
    """By side, the fastest batch of each round's block; the sides take turns (A B, B A, A B, B A)."""
    floors: tuple[list[float], list[float]] = ([], [])
    for number in range(_ROUNDS):
        for side in (1, 0) if b_first is (number % 2 == 0) else (0, 1):
            floor, sizes[side] = _block(steps[side], sizes[side])
            floors[side].append(floor)
    return floors


def _block(step: Step, calls: int) -> tuple[float, int]:
    """What a call takes in the fastest batch of a block, and how many calls a batch has."""
    fastest, over = math.inf, time.perf_counter() + _BLOCK_SECONDS
    while fastest == math.inf or time.perf_counter() < over:
        taken, calls = _batch(step, calls)
        fastest = min(fastest, taken)
    return fastest, calls


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
