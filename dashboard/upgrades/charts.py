"""The chart of points with intervals, one row each, on one axis."""

from dataclasses import dataclass
from typing import Any

import altair as alt

from dashboard.components import charts
from dashboard.components.charts import QUIET, TONES, Spec, once, spec_cache
from reports.forest import ForestAxis

_WORDS = charts.RowWords(number=270, narrow=560)
_SHAPES = {
    "slower": "triangle-up",
    "faster": "triangle-down",
    "same": "circle",
    "unclear": "circle",
    "mean": "diamond",
}
#: The colours of neutral marks on a light and on a dark page.
_NEITHER = ("#5d6572", "#a3abb8")


@dataclass(frozen=True, slots=True)
class IntervalStyle:
    """The properties of the data on which the spec depends: the number of lines, the range, the worse end.

    `threshold` is the logarithm below which a change does not matter. `metric` is a title.
    """

    lines: int
    axis: ForestAxis
    threshold: float
    metric: str
    left: str
    right: str
    dark: bool = False


@spec_cache
def intervals(style: IntervalStyle) -> Spec:
    """Named data `rows`: see `frames.drawn_cases`; changes are logarithms of new / old."""
    tones = {**TONES[style.dark], "quiet": _NEITHER[style.dark]}
    colours = alt.Scale(domain=list(tones), range=list(tones.values()))
    layers = [_whiskers(style, colours), _points(style, colours)]
    return charts.row_chart(style.lines, layers, dark=style.dark, behind=_behind(style), words=_WORDS)


def _horizontal(style: IntervalStyle) -> dict[str, Any]:
    """The common properties of the x channels of all layers."""
    ticks = (
        "abs(datum.value) < 1e-9 ? '0' : abs(datum.value) > 0.95"
        " ? (datum.value > 0 ? '×' : '1/') + format(exp(abs(datum.value)), '.3~r')"
        " : format(exp(datum.value) - 1, '+.3~%')"
    )
    return {
        "type": "quantitative",
        "title": f"← {style.left} · {style.metric.lower()}, new against old · {style.right} →",
        "scale": alt.Scale(domain=[-style.axis.limit, style.axis.limit], nice=False, **_WORDS.scale_range),
        "axis": alt.Axis(values=style.axis.ticks, labelExpr=ticks, labelOverlap=True, titleLimit=0),
    }


def _behind(style: IntervalStyle) -> list[alt.Chart]:
    """The shaded range below the threshold, and the line of no change."""
    within, channels = min(style.threshold, style.axis.limit), _horizontal(style)
    shade, rule = once().mark_rect(color=QUIET, opacity=0.14), once().mark_rule(color=QUIET, opacity=0.7)
    return [
        shade.encode(x=alt.XDatum(-within, **channels), x2=alt.X2Datum(within)),
        rule.encode(x=alt.XDatum(0, **channels)),
    ]


def _whiskers(style: IntervalStyle, colours: alt.Scale) -> alt.Chart:
    whiskers = charts.in_row().transform_filter("isValid(datum.low)").mark_rule(strokeWidth=2)
    return whiskers.encode(
        x=alt.X("low", **_horizontal(style)),
        x2="high",
        y=charts.row_y(style.lines),
        color=alt.Color("tone:N", scale=colours, legend=None),
        # An interval that extends beyond the axis is not drawn with an end.
        strokeDash=alt.when("datum.beyond").then(alt.value([4, 3])).otherwise(alt.value([1, 0])),
    )


def _points(style: IntervalStyle, colours: alt.Scale) -> alt.Chart:
    shapes = alt.Scale(domain=list(_SHAPES), range=list(_SHAPES.values()))
    hollow = alt.when("datum.status === 'unclear'").then(alt.value("transparent"))
    return (
        charts.in_row()
        .mark_point(size=80, opacity=1, strokeWidth=2)
        .encode(
            x=alt.X("change", **_horizontal(style)),
            y=charts.row_y(style.lines),
            stroke=alt.Stroke("tone:N", scale=colours, legend=None),
            fill=hollow.otherwise(alt.Fill("tone:N", scale=colours, legend=None)),
            shape=alt.Shape("status:N", scale=shapes, legend=None),
            tooltip=[
                alt.Tooltip("label:N", title="case"),
                alt.Tooltip("summary:N", title="verdict"),
                alt.Tooltip("changed:N", title="change"),
                alt.Tooltip("interval:N", title="interval"),
                alt.Tooltip("n:Q", title="pairs (n)"),
            ],
        )
    )
