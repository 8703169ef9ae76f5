"""Vega-Lite charts of named rows: words and a number above, an interval or dots below, along ratios to 1.

The words stand inside, so that a long name takes no room from the ratios, on a phone either.
"""

from typing import Any

from dashboard.charts import QUIET, RENDERED, Spec

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
#: How a ratio is written along an axis.
TIMES = "format(datum.value, '~g') + '×'"
#: Pixels that a row takes, a line of words and what is drawn below it; and that the axis takes below all.
_ROW, _AXIS = 36, 62
#: Where in its row the words stand, what is drawn, and from where to where the rule at 1 is.
_WORDS, _DRAWN, _RULE = 0.28, 0.72, (0.5, 0.94)
#: Pixels at the right of the words that belong to the number.
_NUMBER = 96
#: The colour of words, on a light and on a dark page: text is not the theme's by itself.
_INK = ("#1c2230", "#e6e9ef")

#: What is drawn of each row; see `drawn`.
BELOW: list[dict[str, Any]] = [{"calculate": f"datum.row + {_DRAWN}", "as": "row"}]
_ABOVE: list[dict[str, Any]] = [{"calculate": f"datum.row + {_WORDS}", "as": "row"}]
# In pieces, so that it never crosses words.
_BESIDE: list[dict[str, Any]] = [
    {"calculate": f"datum.row + {_RULE[1]}", "as": "end"},
    {"calculate": f"datum.row + {_RULE[0]}", "as": "row"},
]


def chart(rows: int, title: str, layers: list[Spec], *, dark: bool) -> Spec:
    """So many rows below each other with `layers` drawn in them, and a rule at 1; `title` is of the axis.

    Named data `rows`: columns row (from 0), label and text, and whatever the layers need; see `ratio`.
    """
    y, ink = height(rows), _INK[dark]
    limit = {"expr": f"width - {_NUMBER}"}
    label = {"type": "text", "align": "left", "fontSize": 11.5, "limit": limit, "color": ink}
    number = {"type": "text", "align": "right", "fontSize": 12, "fontWeight": 700, "color": ink}
    rule = {"type": "rule", "color": QUIET, "strokeDash": [4, 3]}
    return {
        "$schema": SCHEMA,
        "data": {"name": "rows"},
        "height": _ROW * max(1, rows) + _AXIS,
        "layer": [
            {
                "transform": _BESIDE,
                "mark": rule,
                "encoding": {"x": {**ratio("", title), "datum": 1}, "y": y, "y2": {"field": "end"}},
            },
            {
                "transform": _ABOVE,
                "mark": label,
                "encoding": {"x": {"value": 0}, "y": y, "text": _text("label")},
            },
            {
                "transform": _ABOVE,
                "mark": number,
                "encoding": {"x": {"value": "width"}, "y": y, "text": _text("text")},
            },
            *layers,
        ],
        **RENDERED,
    }


def height(rows: int) -> Spec:
    """The y channel of a layer that is drawn below the words; it needs the transform `BELOW`."""
    return {
        "field": "row",
        "type": "quantitative",
        "scale": {"domain": [0, max(1, rows)], "reverse": True, "nice": False, "zero": False},
        "axis": None,
    }


def ratio(field: str, title: str) -> Spec:
    """The x channel of a layer: ratios, so that half and twice lie equally far from 1."""
    channel: Spec = {
        "type": "quantitative",
        "scale": {"type": "log", "padding": 12, "nice": False},
        "axis": {"labelExpr": TIMES, "tickCount": 8, "labelOverlap": True, "title": title},
    }
    return {**channel, "field": field} if field else channel


def _text(field: str) -> Spec:
    return {"field": field, "type": "nominal"}
