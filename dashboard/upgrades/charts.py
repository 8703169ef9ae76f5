"""The spec of points with intervals below each other on one axis, without Streamlit.

Written out and not built with Altair, which takes longer than the page has. A test holds it against
Vega-Lite's schema.
"""

from dataclasses import dataclass
from typing import Any

from dashboard.components import row_charts
from dashboard.components.charts import QUIET, TONES, Spec
from reports.forest import Axis

_WORDS = row_charts.Words(number=270, narrow=560)
_SHAPES = {
    "slower": "triangle-up",
    "faster": "triangle-down",
    "same": "circle",
    "unclear": "circle",
    "mean": "diamond",
}
#: What is neither good news nor bad, on a light and on a dark page.
_NEITHER = ("#5d6572", "#a3abb8")


@dataclass(frozen=True, slots=True)
class Look:
    """What the chart must know of its data: how many lines, from where to where, which end is worse.

    `threshold` is the logarithm below which a change does not matter. `metric` is a title.
    """

    lines: int
    axis: Axis
    threshold: float
    metric: str
    left: str
    right: str
    dark: bool = False


def intervals(look: Look) -> Spec:
    """Named data `rows`: see `frames.drawn_cases`; changes are logarithms of new / old."""
    tones = {**TONES[look.dark], "quiet": _NEITHER[look.dark]}
    colours = {"domain": list(tones), "range": list(tones.values())}
    tone: dict[str, Any] = {"field": "tone", "type": "nominal", "scale": colours, "legend": None}
    drawn = [_whiskers(look, tone), _points(look, tone)]
    return row_charts.chart(look.lines, drawn, dark=look.dark, behind=_behind(look), words=_WORDS)


def _x(look: Look) -> dict[str, Any]:
    title = f"← {look.left} · {look.metric.lower()}, new against old · {look.right} →"
    ticks = (
        "abs(datum.value) < 1e-9 ? '0' : abs(datum.value) > 0.95"
        " ? (datum.value > 0 ? '×' : '1/') + format(exp(abs(datum.value)), '.3~r')"
        " : format(exp(datum.value) - 1, '+.3~%')"
    )
    return {
        "type": "quantitative",
        "title": title,
        "scale": {"domain": [-look.axis.limit, look.axis.limit], "nice": False},
        "axis": {"values": look.axis.ticks, "labelExpr": ticks, "labelOverlap": True, "titleLimit": 0},
    }


def _behind(look: Look) -> list[dict[str, Any]]:
    """What does not matter, shaded, and the line of no change."""
    within = min(look.threshold, look.axis.limit)
    once = {"values": [{}]}
    return [
        {
            "data": once,
            "mark": {"type": "rect", "color": QUIET, "opacity": 0.14},
            "encoding": {"x": {**_x(look), "datum": -within}, "x2": {"datum": within}},
        },
        {
            "data": once,
            "mark": {"type": "rule", "color": QUIET, "opacity": 0.7},
            "encoding": {"x": {**_x(look), "datum": 0}},
        },
    ]


def _whiskers(look: Look, tone: dict[str, Any]) -> dict[str, Any]:
    return {
        "transform": [*row_charts.BELOW, {"filter": "isValid(datum.low)"}],
        "mark": {"type": "rule", "strokeWidth": 2},
        "encoding": {
            "x": {**_x(look), "field": "low"},
            "y": row_charts.height(look.lines),
            "x2": {"field": "high"},
            "color": tone,
            # What reaches beyond the axis is no whole interval.
            "strokeDash": {"condition": {"test": "datum.beyond", "value": [4, 3]}, "value": [1, 0]},
        },
    }


def _points(look: Look, tone: dict[str, Any]) -> dict[str, Any]:
    shapes = {"domain": list(_SHAPES), "range": list(_SHAPES.values())}
    hollow = {"test": "datum.standing === 'unclear'", "value": "transparent"}
    tooltip = [("label", "case"), ("told", "verdict"), ("changed", "change"), ("interval", "interval")]
    return {
        "transform": row_charts.BELOW,
        "mark": {"type": "point", "size": 80, "opacity": 1, "strokeWidth": 2},
        "encoding": {
            "x": {**_x(look), "field": "change"},
            "y": row_charts.height(look.lines),
            "stroke": tone,
            "fill": {"condition": hollow, **tone},
            "shape": {"field": "standing", "type": "nominal", "scale": shapes, "legend": None},
            "tooltip": [
                *({"field": field, "type": "nominal", "title": title} for field, title in tooltip),
                {"field": "n", "type": "quantitative", "title": "pairs (n)"},
            ],
        },
    }
