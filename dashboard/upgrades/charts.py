"""The spec of points with intervals below each other on one axis, without Streamlit.

Written out and not built with Altair, which takes longer than the page has. A test holds it against
Vega-Lite's schema.
"""

from dataclasses import dataclass
from typing import Any

from dashboard.charts import QUIET, RENDERED, Spec
from reports.forest import Axis

_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
#: Pixels of one line: a label, and below it the interval; and of the axis below all.
_LINE, _AXIS = 38, 62
#: On a phone the label takes the whole width, and the table below has the numbers.
_NARROW = "width < 560"
_SHAPES = {
    "slower": "triangle-up",
    "faster": "triangle-down",
    "same": "circle",
    "unclear": "circle",
    "mean": "diamond",
}
_Y: dict[str, Any] = {
    "field": "place",
    "type": "ordinal",
    "axis": None,
    "scale": {"type": "band", "padding": 0},
}
_TONES = ("bad", "odd", "quiet", "good")
#: As in style.css.
_LIGHT = ("#b3261e", "#8a5300", "#5d6572", "#0b6e4f")
_DARK = ("#ff8a80", "#ffc266", "#a3abb8", "#4fd1ac")


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
    colours = {"domain": list(_TONES), "range": list(_DARK if look.dark else _LIGHT)}
    tone: dict[str, Any] = {"field": "tone", "type": "nominal", "scale": colours, "legend": None}
    return {
        "$schema": _SCHEMA,
        "data": {"name": "rows"},
        "height": _LINE * look.lines + _AXIS,
        "layer": [*_behind(look), _whiskers(look, tone), _points(look, tone), *_words(look)],
        "config": {"view": {"stroke": None}},
        **RENDERED,
    }


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
        "transform": [{"filter": "isValid(datum.low)"}],
        "mark": {"type": "rule", "strokeWidth": 2, "yOffset": 9},
        "encoding": {
            "x": {**_x(look), "field": "low"},
            "y": _Y,
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
        "mark": {"type": "point", "size": 80, "opacity": 1, "strokeWidth": 2, "yOffset": 9},
        "encoding": {
            "x": {**_x(look), "field": "change"},
            "y": _Y,
            "stroke": tone,
            "fill": {"condition": hollow, **tone},
            "shape": {"field": "standing", "type": "nominal", "scale": shapes, "legend": None},
            "tooltip": [
                *({"field": field, "type": "nominal", "title": title} for field, title in tooltip),
                {"field": "n", "type": "quantitative", "title": "pairs (n)"},
            ],
        },
    }


def _words(look: Look) -> list[dict[str, Any]]:
    """The label of each line, and its numbers where there is room."""
    colour = "#e6e9ef" if look.dark else "#1c2230"
    label: dict[str, Any] = {"type": "text", "align": "left", "dy": -8, "fontSize": 12, "color": colour}
    label["limit"] = {"expr": f"{_NARROW} ? width : width - 250"}
    numbers: dict[str, Any] = {"type": "text", "align": "right", "dy": -8, "fontSize": 12, "color": colour}
    numbers["opacity"] = {"expr": f"{_NARROW} ? 0 : 1"}
    return [
        {"mark": label, "encoding": {"x": {"value": 0}, "y": _Y, "text": {"field": "label"}}},
        {"mark": numbers, "encoding": {"x": {"value": "width"}, "y": _Y, "text": {"field": "numbers"}}},
    ]
