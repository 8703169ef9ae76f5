"""Charts of telemetry windows: small charts above each other along one axis of seconds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt

from dashboard.components.charts import QUIET, Spec, as_spec, spec_cache

#: The scales: `percent` from 0 to 100, `zero` from 0 to the largest value, `free` from the smallest to the
#: largest.
PanelScale = Literal["percent", "zero", "free"]

_HEIGHT = 68
#: The largest height of a map of CPUs.
_HIGHEST = 260
#: The most CPUs named next to a map.
_CPU_NAMES = 10
#: The margin for the numbers left of the lines, as a share of the axis.
_MARGIN = 0.11
#: On the narrowest phones the title of a panel needs a smaller font.
_NARROW = "windowSize()[0] < 360"
_DASHES = [[1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 4], [1, 3]]
_SCALES: dict[PanelScale, dict[str, Any]] = {
    "percent": {"domain": [0, 100]},
    "zero": {"zero": True, "nice": True},
    "free": {"zero": False, "nice": True},
}
#: Panels have the width of the page's column in every layout, because numbers are inside.
_INSIDE: dict[str, Any] = {
    "ticks": False,
    "domain": False,
    "labelFontSize": 10,
    "labelAlign": "left",
    "labelPadding": 0,
}
#: The selection of the row under the pointer, in all panels.
_POINTED = "hover"
_SELECT = alt.PointSelectionConfig(type="point", on="pointerover", clear="pointerout", fields=["began"])
_VALUE = "abs(datum.value) >= 1e5 ? format(datum.value, '.3~s') : format(datum.value, ',.5~r')"


@dataclass(frozen=True, slots=True)
class Panel:
    """One small chart. `lines` are columns of a recording with their labels, all of one unit.

    `heat` shows each column as a row of coloured cells instead.
    """

    title: str
    unit: str
    scale: PanelScale
    lines: tuple[tuple[str, str], ...]
    heat: bool = False

    @property
    def heading(self) -> str:
        """The title with its unit."""
        return f"{self.title} · {self.unit}" if self.unit else self.title


@spec_cache
def window(panels: Sequence[Panel], seconds: float, *, with_tooltips: bool = True) -> Spec:
    """The panels of one device above each other; they share the axis, which reaches from 0 to `seconds`.

    Named data: `line_set` of every panel's place, `heat`, and where anything is `with_tooltips`, `rows`: see
    `dashboard.utilisation.panels.lines`, `heat` and `hover_rows`. The row under the pointer is highlighted in
    every panel.
    """
    last = len(panels) - 1
    charts = [
        _panel(panel, place, _seconds(seconds, with_labels=place == last), with_tooltips=with_tooltips)
        for place, panel in enumerate(panels)
    ]
    stack = alt.vconcat(*charts, spacing=14)
    stack = stack.resolve_scale(x="shared", color="independent", strokeDash="independent")
    if with_tooltips:
        # One selection for all panels; with one in each panel only that panel would react.
        views = [
            layer.name for panel in stack.vconcat for layer in panel.layer if layer.name is not alt.Undefined
        ]
        stack.params = [alt.TopLevelSelectionParameter(name=_POINTED, select=_SELECT, views=views)]
    return as_spec(stack)


def line_set(place: int) -> str:
    """The name of the data of the panel at a position."""
    return f"lines{place}"


def _panel(panel: Panel, place: int, horizontal: dict[str, Any], *, with_tooltips: bool) -> alt.LayerChart:
    rows = [_rows(panel, horizontal)] if with_tooltips else []
    # Cells have their own tooltips and cover the row marks.
    layers = [*rows, _cells(panel, horizontal)] if panel.heat else [_line(panel, place, horizontal), *rows]
    title = alt.Title(
        panel.heading, anchor="start", offset=7, fontSize=alt.ExprRef(f"{_NARROW} ? 10 : 12"), fontWeight=600
    )
    height = min(_HIGHEST, max(_HEIGHT, 4 * len(panel.lines))) if panel.heat else _HEIGHT
    return alt.LayerChart(layer=layers, title=title, height=height)


def _seconds(seconds: float, *, with_labels: bool) -> dict[str, Any]:
    """The common properties of the x channels of a panel."""
    axis = alt.Axis(
        labels=with_labels,
        ticks=with_labels,
        title="seconds since the window began" if with_labels else None,
        values=_ticks(seconds),
        # With `format` Vega would shorten numbers to the digits that distinguish ticks: 100 became 1e+2.
        labelExpr="format(datum.value, '~r')",
        labelOverlap=True,
        labelBound=True,
    )
    return {"axis": axis, "scale": alt.Scale(domain=[-_MARGIN * seconds, seconds], nice=False)}


def _ticks(seconds: float) -> list[float]:
    """At most eight round numbers from 0 to `seconds`."""
    steps = (digit * 10.0**power for power in range(-2, 9) for digit in (1, 2, 5))
    step = next((step for step in steps if seconds / step < 8), seconds)
    return [round(place * step, 3) for place in range(math.floor(seconds / step + 1e-9) + 1)]


def _line(panel: Panel, place: int, horizontal: dict[str, Any]) -> alt.Chart:
    labels = [label for _, label in panel.lines]
    columns = alt.ExprRef(f"{_NARROW} ? 2 : 0")
    legend = _legend(symbolType="stroke", offset=13, columns=columns) if len(labels) > 1 else None
    values = alt.Axis(**_INSIDE, tickCount=3, labelBaseline="line-bottom", labelOffset=-2, labelExpr=_VALUE)
    dashes = alt.Scale(domain=labels, range=_DASHES[: len(labels)])
    # The value of a row applies from its beginning to its end; pieces are not joined.
    line = alt.Chart(alt.NamedData(line_set(place))).mark_line(interpolate="step-before", strokeWidth=1.8)
    return line.encode(
        x=alt.X("second:Q", **horizontal),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(**_SCALES[panel.scale]), axis=values),
        detail="piece:N",
        # No colours are set: Streamlit's theme has some for light and for dark.
        color=alt.Color("line:N", scale=alt.Scale(domain=labels), legend=legend),
        strokeDash=alt.StrokeDash("line:N", scale=dashes, legend=legend),
    )


def _cells(panel: Panel, horizontal: dict[str, Any]) -> alt.Chart:
    every = 2 ** math.ceil(math.log2(max(1, len(panel.lines) / _CPU_NAMES)))
    names = alt.Axis(
        **_INSIDE, labelExpr=f"datum.value % {every} == 0 ? datum.label : ''", labelOverlap=False
    )
    legend = _legend(gradientLength=120, gradientThickness=8, tickCount=2, offset=8)
    busy = alt.Tooltip("value:Q", format=".3~g", title=f"busy ({panel.unit})")
    return (
        alt.Chart(alt.NamedData("heat"))
        .mark_rect()
        .encode(
            x=alt.X("began:Q", **horizontal),
            x2="ended",
            y=alt.Y("cpu:O", title=None, axis=names),
            color=alt.Color("value:Q", scale=alt.Scale(domain=[0, 100]), legend=legend),
            tooltip=[alt.Tooltip("cpu:O", title="CPU"), busy, *_span()],
        )
    )


def _rows(panel: Panel, horizontal: dict[str, Any]) -> alt.Chart:
    """The marks of tooltips: every row over the whole height, invisible until the pointer is on it."""
    suffix = f" ({panel.unit})" if panel.unit else ""
    lines = () if panel.heat else panel.lines
    values = [alt.Tooltip(column, type="nominal", title=label + suffix) for column, label in lines]
    rows = alt.Chart(alt.NamedData("rows"), name="rows").mark_rect(color=QUIET)
    return rows.encode(
        x=alt.X("began:Q", **horizontal),
        x2="ended",
        y=alt.value(0),
        y2=alt.value("height"),
        opacity=alt.when(alt.selection_point(name=_POINTED), empty=False)
        .then(alt.value(0.22))
        .otherwise(alt.value(0)),
        tooltip=[*values, *_span()],
    )


def _span() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("began:Q", format=".2f", title="from (s)"),
        alt.Tooltip("ended:Q", format=".2f", title="to (s)"),
    ]


def _legend(**how: Any) -> alt.Legend:
    return alt.Legend(title=None, orient="top", direction="horizontal", padding=0, **how)
