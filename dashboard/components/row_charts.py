"""Vega-Lite charts of named rows: words and a number above, an interval or dots below, along one axis.

The words stand inside, so that a long name takes no room from the ratios, on a phone either.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.components.charts import QUIET, RENDERED, Spec

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
#: How a ratio is written along an axis.
TIMES = "format(datum.value, '~g') + '×'"
#: Pixels that a row takes, a line of words and what is drawn below it; and that the axis takes below all.
_ROW, _AXIS = 36, 62
#: Where in its row the words stand, what is drawn, and from where to where the rule at 1 is.
_WORDS, _DRAWN, _RULE = 0.28, 0.72, (0.5, 0.94)
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


@dataclass(frozen=True, slots=True)
class Words:
    """How a row's words are set: so many pixels at their right belong to the number.

    Where the chart is narrower than `narrow`, the words take it all and the table below has the number.
    """

    number: int = 96
    narrow: int = 0

    @property
    def limit(self) -> Spec:
        """Of the words' width."""
        return {"expr": f"width < {self.narrow} ? width : width - {self.number}"}

    @property
    def opacity(self) -> Spec:
        """Of the number."""
        return {"expr": f"width < {self.narrow} ? 0 : 1"}


def chart(
    rows: int, layers: Sequence[Spec], *, dark: bool, behind: Sequence[Spec] = (), words: Words | None = None
) -> Spec:
    """So many rows below each other with `layers` drawn in them, and what lies `behind` them all.

    Named data `rows`: columns row (from 0), label and text, and whatever the layers need.
    """
    y, ink, words = height(rows), _INK[dark], words or Words()
    label = {"type": "text", "align": "left", "fontSize": 11.5, "limit": words.limit, "color": ink}
    number = {"type": "text", "align": "right", "fontSize": 12, "fontWeight": 700, "color": ink}
    return {
        "$schema": SCHEMA,
        "data": {"name": "rows"},
        "height": _ROW * max(1, rows) + _AXIS,
        "layer": [
            *behind,
            {
                "transform": _ABOVE,
                "mark": label,
                "encoding": {"x": {"value": 0}, "y": y, "text": _text("label")},
            },
            {
                "transform": _ABOVE,
                "mark": {**number, "opacity": words.opacity},
                "encoding": {"x": {"value": "width"}, "y": y, "text": _text("text")},
            },
            *layers,
        ],
        **RENDERED,
    }


def ratios(rows: int, title: str, layers: Sequence[Spec], *, dark: bool) -> Spec:
    """The same along ratios, with a rule at 1; `title` is of the axis. See `ratio`."""
    mark = {"type": "rule", "color": QUIET, "strokeDash": [4, 3]}
    x = {**ratio("", title), "datum": 1}
    encoding = {"x": x, "y": height(rows), "y2": {"field": "end"}}
    rule = {"transform": _BESIDE, "mark": mark, "encoding": encoding}
    return chart(rows, layers, dark=dark, behind=[rule])


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
