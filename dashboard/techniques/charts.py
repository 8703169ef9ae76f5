"""The charts of the Techniques page."""

from typing import Any

import altair as alt

from dashboard.components import row_charts
from dashboard.components.charts import QUIET, TONES, Spec, as_spec, kept, lines_of
from dashboard.components.row_charts import TIMES

_STATUSES = ("faster", "slower", "unclear", "one pair", "no interval")
_SHAPES = ("triangle-up", "triangle-down", "circle", "diamond", "diamond")
_SERIES_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_TITLE = "speed-up over eager fp32 (×, higher is better)"


@kept
def speed_ups(cases: int, *, dark: bool) -> Spec:
    """Speed-ups of so many cases below each other, each with its interval; a rule at 1.

    Named data `rows`: columns row (from 0), label, text, ratio, low, high, from, to, status, n, run and
    link; see `frames.speed_ups`.
    """
    good, bad = TONES[dark]["good"], TONES[dark]["bad"]
    # A shape and a sign say the same.
    tones = alt.Scale(domain=_STATUSES, range=(good, bad, QUIET, QUIET, QUIET))
    tone = alt.Color("status:N", scale=tones, legend=None)
    shape = alt.Shape("status:N", scale=alt.Scale(domain=_STATUSES, range=_SHAPES), legend=None)
    tooltip = [
        alt.Tooltip("label:N", title="case"),
        alt.Tooltip("text:N", title="speed-up"),
        alt.Tooltip("low:Q", format=".4~g", title="95 % low"),
        alt.Tooltip("high:Q", format=".4~g", title="95 % high"),
        alt.Tooltip("status:N"),
        alt.Tooltip("n:Q", title="pairs (n)"),
        alt.Tooltip("run:N"),
    ]
    y, low, ratio = (
        row_charts.height(cases),
        row_charts.ratio("from", _TITLE),
        row_charts.ratio("ratio", _TITLE),
    )
    interval = row_charts.below().mark_rule(strokeWidth=2.5)
    point = row_charts.below().mark_point(filled=True, size=80, opacity=1)
    layers = [
        interval.encode(x=low, x2="to", y=y, color=tone),
        point.encode(x=ratio, y=y, color=tone, shape=shape, href="link:N", tooltip=tooltip),
    ]
    return row_charts.ratios(cases, _TITLE, layers, dark=dark)


@kept
def scaling(series: int, most: int) -> Spec:
    """Speed-up over one rank along the ranks, up to `most` of them, for up to six series; dashed: the ideal.

    Named data `points`: columns letter, last, case, ranks, times, low, high, efficiency, n and link; `ideal`:
    columns ranks and times.
    """
    x = alt.X(
        "ranks:Q",
        scale=alt.Scale(domain=[1, max(2, most)], nice=False, padding=30),
        axis=alt.Axis(tickMinStep=1, format="d", grid=False, title="ranks"),
    )
    vertical: dict[str, Any] = {
        "scale": alt.Scale(zero=True),
        "axis": alt.Axis(labelExpr=TIMES, title="items/s over one rank's (higher is better)"),
    }
    ideal = alt.Chart(alt.NamedData("ideal")).mark_line(color=QUIET, strokeDash=[5, 4])
    tooltip = [
        alt.Tooltip("case:N"),
        alt.Tooltip("ranks:Q"),
        alt.Tooltip("times:Q", format=".3~g", title="over one rank (×)"),
        alt.Tooltip("efficiency:N"),
        alt.Tooltip("n:Q", title="pairs (n)"),
    ]
    layers = [
        ideal.encode(x=x, y=alt.Y("times:Q", **vertical)),
        *_lines(series, x, "times", vertical, tooltip),
    ]
    return as_spec(alt.layer(*layers).properties(height=340))


@kept
def batches(series: int) -> Spec:
    """Throughput along the batch for up to six techniques of one workload.

    Named data `points`: columns letter, last, case, batch, throughput, low, high, latency, n and link.
    """
    x = alt.X(
        "batch:Q",
        scale=alt.Scale(type="log", base=2, nice=False, padding=30),
        axis=alt.Axis(format="d", grid=False, title="batch", labelOverlap=True),
    )
    vertical: dict[str, Any] = {
        "scale": alt.Scale(zero=True),
        "axis": alt.Axis(format="~s", title="items/s (higher is better)"),
    }
    tooltip = [
        alt.Tooltip("case:N"),
        alt.Tooltip("batch:Q"),
        alt.Tooltip("throughput:Q", format=",.4~r", title="items/s"),
        alt.Tooltip("latency:Q", format=".4~g", title="latency (ms)"),
        alt.Tooltip("n:Q", title="replicates (n)"),
    ]
    layers = _lines(series, x, "throughput", vertical, tooltip)
    return as_spec(alt.layer(*layers).properties(height=280))


def _lines(
    series: int, x: alt.X, value: str, vertical: dict[str, Any], tooltip: list[alt.Tooltip]
) -> list[alt.Chart]:
    """Line, intervals and points of lettered series; colours are the theme's."""
    letters = lines_of(series)
    colour = alt.Color("letter:N", scale=alt.Scale(domain=letters), legend=None)
    shapes = alt.Scale(domain=letters, range=_SERIES_SHAPES[:series])
    y, low = alt.Y(f"{value}:Q", **vertical), alt.Y("low:Q", **vertical)
    points = alt.Chart(alt.NamedData("points"))
    line = points.mark_line(strokeWidth=1.6)
    interval = points.mark_rule(strokeWidth=2, opacity=0.6)
    dot = points.mark_point(filled=True, size=70, opacity=1)
    name = points.transform_filter("datum.last").mark_text(align="left", dx=9, fontWeight=700, fontSize=12)
    shape = alt.Shape("letter:N", scale=shapes, legend=None)
    return [
        line.encode(x=x, y=y, color=colour),
        interval.encode(x=x, y=low, y2="high", color=colour),
        dot.encode(x=x, y=y, color=colour, shape=shape, href="link:N", tooltip=tooltip),
        name.encode(x=x, y=y, color=colour, text="letter:N"),
    ]
