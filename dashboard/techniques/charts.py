"""The charts of the Techniques page."""

from typing import Any

import altair as alt

from dashboard.components.charts import (
    BLUE,
    INK,
    QUIET,
    SHAPES,
    TIMES,
    Spec,
    as_spec,
    lines_of,
    once,
    spec_cache,
)


@spec_cache
def pareto(*, dark: bool) -> Spec:
    """Speed-up by peak memory, both against the baseline; rules at 1.

    Named data `points`: columns technique, label, left, right, best, speed_up, memory and status; see
    `frames.pareto`.
    """
    x = alt.X(
        "speed_up:Q",
        scale=alt.Scale(zero=False, padding=24),
        axis=alt.Axis(labelExpr=TIMES, grid=False, title="speed-up (higher is better)"),
    )
    y = alt.Y(
        "memory:Q",
        scale=alt.Scale(zero=False, padding=24),
        axis=alt.Axis(labelExpr=TIMES, title="peak memory (lower is better)"),
    )
    tooltip = [
        alt.Tooltip("technique:N"),
        alt.Tooltip("speed_up:Q", format=".3~g", title="speed-up (×)"),
        alt.Tooltip("memory:Q", format=".3~g", title="peak memory (×)"),
        alt.Tooltip("status:N"),
    ]
    points = alt.Chart(alt.NamedData("points"))
    fill = alt.when("datum.best").then(alt.value(BLUE[dark])).otherwise(alt.value(QUIET))
    dot = points.mark_point(filled=True, size=90, opacity=1)
    # A name is on the side of its point that has room.
    left = points.transform_filter("datum.left").mark_text(align="left", dx=8, dy=-7, **_name(dark=dark))
    right = points.transform_filter("datum.right").mark_text(align="right", dx=-8, dy=-7, **_name(dark=dark))
    names = [each.encode(x=x, y=y, text="label:N") for each in (left, right)]
    rule = once().mark_rule(color=QUIET, strokeDash=[4, 3], opacity=0.7)
    return as_spec(
        alt.layer(
            rule.encode(x=alt.XDatum(1)),
            rule.encode(y=alt.YDatum(1)),
            dot.encode(x=x, y=y, color=fill, tooltip=tooltip),
            *names,
        ).properties(height=300)
    )


def _name(*, dark: bool) -> dict[str, Any]:
    """The position of a point's name."""
    return {"fontSize": 11.5, "color": INK[dark]}


@spec_cache
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


@spec_cache
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
    shapes = alt.Scale(domain=letters, range=SHAPES[:series])
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
