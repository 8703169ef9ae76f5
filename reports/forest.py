"""The forest plot: every case with its point and interval on one logarithmic axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.comparison.verdict import Verdict
from analysis.geomean import Geomean
from analysis.metrics import METRICS

from . import wording
from .rows import Row, tone
from .text import numbers

#: Steps of the axis in per cent; the first with few enough ticks is used.
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
#: Ticks in multiples, for changes too large for per cent.
_MULTIPLES = (2.0, 10.0, 100.0, 1e3, 1e6, 1e12)
_MOST_TICKS = 3
#: The axis ends at this multiple of the median reach, so that one outlier does not compress all others.
_WILD = 6

_MARKS = {
    "slower": "M0 -5.5 5.5 4.5H-5.5Z",
    "faster": "M0 5.5 5.5 -4.5H-5.5Z",
    "same": "M-4 0A4 4 0 1 0 4 0 4 4 0 1 0 -4 0Z",
    "unclear": "M-4 0A4 4 0 1 0 4 0 4 4 0 1 0 -4 0Z",
    "mean": "M0 -6 6 0 0 6 -6 0Z",
}


@dataclass(frozen=True, slots=True)
class ForestAxis:
    """From -limit to +limit on the scale of log ratios."""

    limit: float

    def place(self, change: float) -> float:
        """The position of a change in per cent of the width, clipped to the edges."""
        return 50 + 48 * max(-1.0, min(1.0, change / self.limit))

    @property
    def ticks(self) -> list[float]:
        """Round changes, 0 among them."""
        for step in _STEPS:
            if math.log1p(step / 100) * (_MOST_TICKS + 0.5) >= self.limit:
                sizes = [step * n / 100 for n in range(-_MOST_TICKS, _MOST_TICKS + 1)]
                return [log for size in sizes if size > -1 and abs(log := math.log1p(size)) <= self.limit]
        base = next((one for one in _MULTIPLES if math.log(one) * _MOST_TICKS >= self.limit), _MULTIPLES[-1])
        most = min(_MOST_TICKS, int(self.limit / math.log(base)))
        return [n * math.log(base) for n in range(-most, most + 1)]


def axis_of(verdicts: Sequence[Verdict], overall: Geomean) -> ForestAxis:
    """An axis for the mean and these verdicts, which may leave out single distant ones."""
    reaches = sorted(
        max(abs(verdict.change), abs(verdict.low or 0.0), abs(verdict.high or 0.0))
        for verdict in verdicts
        if verdict.change is not None
    )
    least = 2.5 * max((verdict.threshold for verdict in verdicts), default=0.0)
    if not reaches:
        return ForestAxis(max(least, 0.01))
    middle = max(reaches[len(reaches) // 2], least / 2)
    mean = max(abs(overall.low or 0.0), abs(overall.high or 0.0))
    return ForestAxis(max(least, 0.005, 1.08 * mean, 1.08 * min(reaches[-1], _WILD * middle)))


#: The end of an interval: its place, its kind, which is `beyond` outside the axis, and its path.
IntervalEnd = tuple[float, str, str]


@dataclass(frozen=True, slots=True)
class ForestLine:
    """A case, or the geomean: the marks of the plot and the words next to them.

    `place` is None without a ratio; `change` then holds the two numbers or is empty.
    """

    case: str
    status: str
    tone: str
    sign: str
    words: str
    change: str = ""
    interval: str = ""
    title: str = ""
    place: float | None = None
    mark: str = ""
    band: tuple[float, float] = (0.0, 0.0)
    ends: tuple[IntervalEnd, ...] = ()


@dataclass(frozen=True, slots=True)
class ForestPlot:
    """The plot: a line for each case with its point and interval, and both in words.

    `ticks` are lines of the grid: the position in per cent of the width, the label, whether it is 0. Entries
    of the `legend` have status, tone, word and path.
    """

    left: str
    right: str
    ticks: tuple[tuple[float, str, bool], ...]
    lines: tuple[ForestLine, ...]
    legend: tuple[tuple[str, str, str, str], ...]
    threshold: str
    broken: bool


def directions(metric: str) -> tuple[str, str]:
    """The words left and right of no change: `faster` and `slower` for a time."""
    better, worse = (numbers.kind_word(kind, metric) for kind in ("faster", "slower"))
    return (better, worse) if METRICS[metric].better == "lower" else (worse, better)


def forest(metric: str, each: Sequence[Row], overall: Geomean) -> ForestPlot:
    """The plot of these cases, in their order, the geomean last; cases without a number show the reason."""
    drawn = [row.verdict for row in each if row.verdict and row.verdict.change is not None]
    axis = axis_of(drawn, overall)
    threshold = max((verdict.threshold for verdict in drawn), default=0.0)
    lines = [_line(row, axis) for row in each]
    if overall.change is not None:
        lines.append(_mean_line(overall, axis, threshold))
    present = {row.status for row in each}
    words = {kind: numbers.kind_word(kind, metric) for kind in ("slower", "unclear", "same", "faster")}
    return ForestPlot(
        *directions(metric),
        tuple((axis.place(tick), _tick(tick), abs(tick) < 1e-12) for tick in axis.ticks),
        tuple(lines),
        tuple(
            (status, tone(status), word, _MARKS[status])
            for status, word in words.items()
            if status in present
        ),
        wording.within(threshold),
        any(status.startswith("broken") for status in present),
    )


def _line(row: Row, axis: ForestAxis) -> ForestLine:
    verdict = row.verdict
    if verdict is None or verdict.change is None:
        numbered = verdict is not None and verdict.old is not None
        both = (
            [wording.quantity(verdict.metric, side) for side in (verdict.old, verdict.new)] if verdict else []
        )
        change = " → ".join(both) if numbered else ""
        return ForestLine(row.case, row.status, row.tone, row.sign, row.summary, change)
    interval = wording.interval(verdict.low, verdict.high)
    spans = f"{wording.change(verdict)} [{interval}]"
    return ForestLine(
        row.case,
        row.status,
        row.tone,
        row.sign,
        row.word,
        wording.change(verdict),
        "" if verdict.low is None else interval,
        f"{row.case}: {row.summary}, {spans}, n = {verdict.n}",
        axis.place(verdict.change),
        _MARKS.get(row.status, _MARKS["unclear"]),
        _band(axis, verdict.threshold),
        _ends(axis, verdict.low, verdict.high),
    )


def _mean_line(overall: Geomean, axis: ForestAxis, threshold: float) -> ForestLine:
    assert overall.change is not None
    about = f"geomean, {wording.plural(overall.cases, 'case')}"
    return ForestLine(
        "",
        "mean",
        "mean",
        "",
        about,
        numbers.percent(overall.change),
        wording.interval(overall.low, overall.high),
        f"{about}: {wording.mean(overall)}",
        axis.place(overall.change),
        _MARKS["mean"],
        _band(axis, threshold),
        _ends(axis, overall.low, overall.high),
    )


def _band(axis: ForestAxis, threshold: float) -> tuple[float, float]:
    return axis.place(-threshold), axis.place(threshold)


def _ends(axis: ForestAxis, low: float | None, high: float | None) -> tuple[IntervalEnd, ...]:
    if low is None or high is None:
        return ()
    return _end(axis, low), _end(axis, high)


def _end(axis: ForestAxis, end: float) -> IntervalEnd:
    if abs(end) <= axis.limit:
        return axis.place(end), "whisker", "M0 -4V4"
    return axis.place(end), "beyond", "M14 0 7 -4V4Z" if end > 0 else "M-14 0 -7 -4V4Z"


def _tick(change: float) -> str:
    if abs(change) < 1e-12:
        return "0"
    if abs(change) > math.log(2.6):
        factor = f"{math.exp(abs(change)):.3g}"
        return f"×{factor}" if change > 0 else f"1/{factor}"
    return f"{100 * math.expm1(change):+.3g} %"
