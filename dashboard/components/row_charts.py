"""Charts of named rows: words and a number above, an interval or dots below, along one axis.

The words stand inside, so that a long name takes no room from the ratios, on a phone either.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from dashboard.components.charts import QUIET, Spec, as_spec

#: How a ratio is written along an axis.
TIMES = "format(datum.value, '~g') + '×'"
#: Pixels that a row takes, a line of words and what is drawn below it; and that the axis takes below all.
_ROW, _AXIS = 36, 62
#: Where in its row the words stand, what is drawn, and from where to where the rule at 1 is.
_WORDS, _DRAWN, _RULE = 0.28, 0.72, (0.5, 0.94)
#: The colour of words, on a light and on a dark page: text is not the theme's by itself.
_INK = ("#1c2230", "#e6e9ef")


@dataclass(frozen=True, slots=True)
class RowWords:
    """How a row's words are set: so many pixels at their right belong to the number.

    Where the chart is narrower than `narrow`, the words take it all and the table below has the number.
    """

    number: int = 96
    narrow: int = 0

    @property
    def limit(self) -> alt.ExprRef:
        """Of the words' width."""
        return alt.ExprRef(f"width < {self.narrow} ? width : width - {self.number}")

    @property
    def opacity(self) -> alt.ExprRef:
        """Of the number."""
        return alt.ExprRef(f"width < {self.narrow} ? 0 : 1")


def chart(
    rows: int,
    layers: Sequence[alt.Chart],
    *,
    dark: bool,
    behind: Sequence[alt.Chart] = (),
    words: RowWords | None = None,
) -> Spec:
    """So many rows below each other with `layers` drawn in them, and what lies `behind` them all.

    Named data `rows`: columns row (from 0), label and text, and whatever the layers need.
    """
    y, ink, words = height(rows), _INK[dark], words or RowWords()
    above = alt.Chart().transform_calculate(row=f"datum.row + {_WORDS}")
    label = above.mark_text(align="left", fontSize=11.5, limit=words.limit, color=ink)
    number = above.mark_text(align="right", fontSize=12, fontWeight=700, color=ink, opacity=words.opacity)
    written = [
        label.encode(x=alt.value(0), y=y, text="label:N"),
        number.encode(x=alt.value("width"), y=y, text="text:N"),
    ]
    layered = alt.layer(*behind, *written, *layers, data=alt.NamedData("rows"))
    return as_spec(layered.properties(height=_ROW * max(1, rows) + _AXIS))


def ratios(rows: int, title: str, layers: Sequence[alt.Chart], *, dark: bool) -> Spec:
    """The same along ratios, with a rule at 1; `title` is of the axis. See `ratio`."""
    # In pieces, so that it never crosses words.
    pieces = alt.Chart().transform_calculate(end=f"datum.row + {_RULE[1]}")
    rule = pieces.transform_calculate(row=f"datum.row + {_RULE[0]}").mark_rule(color=QUIET, strokeDash=[4, 3])
    x = alt.XDatum(1, type="quantitative", **_along_ratios(title))
    return chart(rows, layers, dark=dark, behind=[rule.encode(x=x, y=height(rows), y2="end")])


def below(data: alt.NamedData | None = None) -> alt.Chart:
    """The chart of a layer that is drawn below the words of its rows, of the chart's data or of its own."""
    return alt.Chart(data or alt.Undefined).transform_calculate(row=f"datum.row + {_DRAWN}")


def height(rows: int) -> alt.Y:
    """The y channel of a layer."""
    scale = alt.Scale(domain=[0, max(1, rows)], reverse=True, nice=False, zero=False)
    return alt.Y("row:Q", scale=scale, axis=None)


def ratio(field: str, title: str) -> alt.X:
    """The x channel of a layer: ratios, so that half and twice are equally far from 1."""
    return alt.X(f"{field}:Q", **_along_ratios(title))


def _along_ratios(title: str) -> dict[str, Any]:
    return {
        "scale": alt.Scale(type="log", padding=12, nice=False),
        "axis": alt.Axis(labelExpr=TIMES, tickCount=8, labelOverlap=True, title=title),
    }
