"""The forest plot: every case with its point and interval on one logarithmic axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.comparison.verdict import Verdict
from analysis.geomean import Geomean
from analysis.metrics import METRICS

from . import elements, wording
from .rows import Row
from .text import numbers

#: Steps of the axis in per cent; the first that gives few enough ticks is taken.
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
#: Multiples of the axis where per cent do not tell any more.
_MULTIPLES = (2.0, 10.0, 100.0, 1e3, 1e6, 1e12)
_MOST_TICKS = 3
#: An axis that shows one wild case shows nothing of the others: it ends at so many times their median reach.
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
        """Where a change lies, in per cent of the width, never beyond the edges."""
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
    """An axis for the mean and these verdicts, but for single ones far beyond the others."""
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


def forest(metric: str, each: Sequence[Row], overall: Geomean) -> str:
    """The plot as a table: a case, its point and interval as SVG, and both in words.

    Cases without a number are in it too, with the reason; the worst comes first, the geomean last.
    """
    drawn = [row.verdict for row in each if row.verdict and row.verdict.change is not None]
    axis = axis_of(drawn, overall)
    threshold = max((verdict.threshold for verdict in drawn), default=0.0)
    lines = "".join(_line(row, axis) for row in each)
    if overall.change is not None:
        lines += _mean_line(overall, axis, threshold)
    worse, better = ("slower", "faster") if METRICS[metric].unit in ("ms", "s") else ("worse", "better")
    left, right = (better, worse) if METRICS[metric].better == "lower" else (worse, better)
    return (
        '<table class="forest"><thead><tr><th scope="col">case</th>'
        f'<th scope="col" class="strip"><span class="ends"><span>← {left}</span><span>{right} →</span></span>'
        f'{_ticks(axis)}</th><th scope="col" class="number">change and interval</th></tr></thead>'
        f"<tbody>{lines}</tbody></table>"
        f"{_legend(each, worse, better, threshold)}"
    )


def _line(row: Row, axis: ForestAxis) -> str:
    head = f'<th scope="row">{elements.case(row.case)}</th>'
    verdict = row.verdict
    if verdict is None or verdict.change is None:
        return f'<tr class="none">{head}{_without_a_point(row)}</tr>'
    spans = f"{wording.change(verdict)} [{wording.interval(verdict.low, verdict.high)}]"
    title = f"{row.case}: {row.summary}, {spans}, n = {verdict.n}"
    ends = verdict.low, verdict.high
    strip = _strip(axis, verdict.threshold, verdict.change, ends, row.standing, row.tone, title)
    return (
        f'<tr>{head}<td class="strip">{strip}</td><td class="number">{_sign(row, row.word)} '
        f"{_numbers(verdict)}</td></tr>"
    )


def _without_a_point(row: Row) -> str:
    """The cells of a case that has no ratio: how it ended, or the two numbers as they are."""
    verdict = row.verdict
    if verdict is None or verdict.old is None:
        return f'<td class="strip" colspan="2">{_sign(row, row.summary)}</td>'
    old, new = (wording.quantity(verdict.metric, value) for value in (verdict.old, verdict.new))
    return f'<td class="strip">{_sign(row, row.summary)}</td><td class="number">{old} → {new}</td>'


def _sign(row: Row, words: str) -> str:
    return (
        f'<span class="{row.tone}"><span aria-hidden="true">{row.sign}</span> {elements.text(words)}</span>'
    )


def _numbers(verdict: Verdict) -> str:
    ends = "" if verdict.low is None else f"<small>{wording.interval(verdict.low, verdict.high)}</small>"
    return f"<b>{wording.change(verdict)}</b>{ends}"


def _mean_line(overall: Geomean, axis: ForestAxis, threshold: float) -> str:
    assert overall.change is not None
    about = f"geomean, {wording.plural(overall.cases, 'case')}"
    title = f"{about}: {wording.mean(overall)}"
    between = overall.low, overall.high
    strip = _strip(axis, threshold, overall.change, between, "mean", "mean", title)
    ends = wording.interval(overall.low, overall.high)
    return (
        f'<tr class="mean"><th scope="row">{about}</th><td class="strip">{strip}</td>'
        f'<td class="number"><b>{numbers.percent(overall.change)}</b><small>{ends}</small></td></tr>'
    )


def _strip(
    axis: ForestAxis,
    threshold: float,
    change: float,
    interval: tuple[float | None, float | None],
    standing: str,
    tone: str,
    title: str,
) -> str:
    """One line of the plot; places are in per cent of its width, so that it fits any."""
    left, right = axis.place(-threshold), axis.place(threshold)
    parts = [f"<title>{elements.text(title)}</title>"]
    parts.append(f'<rect class="band" x="{left:.2f}%" width="{right - left:.2f}%" y="0" height="100%"/>')
    parts += [_grid_line(axis.place(tick), zero=abs(tick) < 1e-12) for tick in axis.ticks]
    low, high = interval
    if low is not None and high is not None:
        ends = axis.place(low), axis.place(high)
        parts.append(f'<line class="whisker" x1="{ends[0]:.2f}%" x2="{ends[1]:.2f}%" y1="50%" y2="50%"/>')
        parts += [_end(place, end, axis) for place, end in zip(ends, (low, high), strict=True)]
    mark = _MARKS.get(standing, _MARKS["unclear"])
    parts.append(_at(axis.place(change), f'<path class="mark {standing}" d="{mark}"/>'))
    label = elements.text(title)
    return f'<svg class="{tone}" role="img" aria-label="{label}" height="22">{"".join(parts)}</svg>'


def _grid_line(place: float, *, zero: bool) -> str:
    kind = "zero" if zero else "grid"
    return f'<line class="{kind}" x1="{place:.2f}%" x2="{place:.2f}%" y1="0" y2="100%"/>'


def _end(place: float, end: float, axis: ForestAxis) -> str:
    """The end of an interval; an arrow where it lies beyond the axis."""
    if abs(end) <= axis.limit:
        return _at(place, '<path class="whisker" d="M0 -4V4"/>')
    return _at(place, f'<path class="beyond" d="{"M14 0 7 -4V4Z" if end > 0 else "M-14 0 -7 -4V4Z"}"/>')


def _at(place: float, path: str) -> str:
    # An inner svg takes a place in per cent, and a path does not.
    return f'<svg x="{place:.2f}%" y="50%" overflow="visible">{path}</svg>'


def _ticks(axis: ForestAxis) -> str:
    marks = "".join(
        f'<text x="{axis.place(tick):.2f}%" y="13" text-anchor="middle">{_tick(tick)}</text>'
        for tick in axis.ticks
    )
    return f'<svg class="ticks" height="18" aria-hidden="true">{marks}</svg>'


def _tick(change: float) -> str:
    if abs(change) < 1e-12:
        return "0"
    if abs(change) > math.log(2.6):
        factor = f"{math.exp(abs(change)):.3g}"
        return f"×{factor}" if change > 0 else f"1/{factor}"
    return f"{100 * math.expm1(change):+.3g} %"


def _legend(each: Sequence[Row], worse: str, better: str, threshold: float) -> str:
    present = {row.standing for row in each}
    words = {"slower": worse, "unclear": "unclear", "same": "same", "faster": better}
    marks = [
        f'<li class="{tone}"><svg width="14" height="14" aria-hidden="true"><svg x="7" y="7" '
        f'overflow="visible"><path class="mark {word}" d="{_MARKS[word]}"/></svg></svg> {words[word]}</li>'
        for word, tone in (("slower", "bad"), ("unclear", "odd"), ("same", "quiet"), ("faster", "good"))
        if word in present
    ]
    marks.append(
        '<li><span class="band key" aria-hidden="true"></span> too small to matter: '
        + f"{wording.within(threshold)}</li>"
    )
    if any(row.standing.startswith("broken") for row in each):
        marks.append('<li class="bad"><span aria-hidden="true">✗</span> broken</li>')
    return f'<ul class="legend">{"".join(marks)}</ul>'
