"""Vega-Lite specs of telemetry windows: small charts above each other along one axis of seconds.

They are written out and not built with Altair: a dozen panels take it half a second, and hardly two windows
are of one length, so that keeping them would help nobody. A test holds them against Vega-Lite's schema.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dashboard.components.charts import QUIET, RENDERED, Spec

#: `percent` reaches from 0 to 100, `zero` from 0 as far as needed, `free` has what it needs.
Scale = Literal["percent", "zero", "free"]

_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_HEIGHT = 68
#: A map of CPUs grows with them, up to here.
_HIGHEST = 260
#: CPUs named beside a map at most.
_CPU_NAMES = 10
#: Room for the numbers left of the lines, as a share of the axis.
_MARGIN = 0.11
#: On the narrowest phones what stands above a panel would reach beyond it.
_NARROW = "windowSize()[0] < 360"
_DASHES = [[1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 4], [1, 3]]
_SCALES: dict[Scale, dict[str, Any]] = {
    "percent": {"domain": [0, 100]},
    "zero": {"zero": True, "nice": True},
    "free": {"zero": False, "nice": True},
}
#: Panels are as wide as the page's column whatever stands beside them: numbers stand inside.
_INSIDE = {"ticks": False, "domain": False, "labelFontSize": 10, "labelAlign": "left", "labelPadding": 0}
_VALUE = "abs(datum.value) >= 1e5 ? format(datum.value, '.3~s') : format(datum.value, ',.5~r')"
_SPAN = [
    {"field": "began", "type": "quantitative", "format": ".2f", "title": "from (s)"},
    {"field": "ended", "type": "quantitative", "format": ".2f", "title": "to (s)"},
]


@dataclass(frozen=True, slots=True)
class Panel:
    """One small chart. `lines` are columns of a recording with their labels, all of one unit.

    `heat` shows each column as a row of coloured cells instead.
    """

    title: str
    unit: str
    scale: Scale
    lines: tuple[tuple[str, str], ...]
    heat: bool = False

    @property
    def heading(self) -> str:
        """The title with its unit."""
        return f"{self.title} · {self.unit}" if self.unit else self.title


def window(panels: Sequence[Panel], seconds: float, *, hovered: bool = True) -> Spec:
    """The panels of one device above each other; they share the axis, which reaches from 0 to `seconds`.

    Named data: `line_set` of every panel's place, `heat`, and where anything is `hovered`, `rows`: see
    `dashboard.utilisation.panels.lines`, `heat` and `hovered`. Where the pointer is, that row lights up in
    every panel.
    """
    pointed = {"type": "point", "on": "pointerover", "clear": "pointerout", "fields": ["began"]}
    views = [f"rows{place}" for place in range(len(panels))]
    last = len(panels) - 1
    return {
        "$schema": _SCHEMA,
        "vconcat": [
            _panel(panel, place, _seconds(seconds, labelled=place == last), hovered=hovered)
            for place, panel in enumerate(panels)
        ],
        "spacing": 14,
        "resolve": {"scale": {"x": "shared", "color": "independent", "strokeDash": "independent"}},
        **({"params": [{"name": "hover", "select": pointed, "views": views}]} if hovered else {}),
        **RENDERED,
    }


def line_set(place: int) -> str:
    """What the data of the panel at a place is called."""
    return f"lines{place}"


def _panel(panel: Panel, place: int, x: dict[str, Any], *, hovered: bool) -> Spec:
    rows = [{"name": f"rows{place}", **_rows(panel, x)}] if hovered else []
    # Cells answer to the pointer themselves, and lie above what would.
    layers = [*rows, _cells(panel, x)] if panel.heat else [_line(panel, place, x), *rows]
    return {
        "title": {
            "text": panel.heading,
            "anchor": "start",
            "offset": 7,
            "fontSize": {"expr": f"{_NARROW} ? 10 : 12"},
            "fontWeight": 600,
        },
        "height": min(_HIGHEST, max(_HEIGHT, 4 * len(panel.lines))) if panel.heat else _HEIGHT,
        "layer": layers,
    }


def _seconds(seconds: float, *, labelled: bool) -> dict[str, Any]:
    axis = {
        "labels": labelled,
        "ticks": labelled,
        "title": "seconds since the window began" if labelled else None,
        "values": _ticks(seconds),
        # Vega would shorten a `format` to the digits that tell ticks apart: 100 became 1e+2.
        "labelExpr": "format(datum.value, '~r')",
        "labelOverlap": True,
        "labelBound": True,
    }
    scale = {"domain": [-_MARGIN * seconds, seconds], "nice": False}
    return {"type": "quantitative", "axis": axis, "scale": scale}


def _ticks(seconds: float) -> list[float]:
    """At most eight round numbers from 0 to `seconds`."""
    steps = (digit * 10.0**power for power in range(-2, 9) for digit in (1, 2, 5))
    step = next((step for step in steps if seconds / step < 8), seconds)
    return [round(place * step, 3) for place in range(math.floor(seconds / step + 1e-9) + 1)]


def _line(panel: Panel, place: int, x: dict[str, Any]) -> Spec:
    labels = [label for _, label in panel.lines]
    columns = {"expr": f"{_NARROW} ? 2 : 0"}
    legend = _legend(symbolType="stroke", offset=13, columns=columns) if len(labels) > 1 else None
    values = {
        **_INSIDE,
        "tickCount": 3,
        "labelBaseline": "line-bottom",
        "labelOffset": -2,
        "labelExpr": _VALUE,
    }
    dashes = {"domain": labels, "range": _DASHES[: len(labels)]}
    return {
        "data": {"name": line_set(place)},
        # A row's value holds from its beginning to its end; pieces are never joined.
        "mark": {"type": "line", "interpolate": "step-before", "strokeWidth": 1.8},
        "encoding": {
            "x": {"field": "second", **x},
            "y": {
                "field": "value",
                "type": "quantitative",
                "title": None,
                "scale": _SCALES[panel.scale],
                "axis": values,
            },
            "detail": {"field": "piece", "type": "nominal"},
            # No colours: they come from Streamlit's theme, which has its own for light and for dark.
            "color": {"field": "line", "type": "nominal", "scale": {"domain": labels}, "legend": legend},
            "strokeDash": {"field": "line", "type": "nominal", "scale": dashes, "legend": legend},
        },
    }


def _cells(panel: Panel, x: dict[str, Any]) -> Spec:
    every = 2 ** math.ceil(math.log2(max(1, len(panel.lines) / _CPU_NAMES)))
    names = {**_INSIDE, "labelExpr": f"datum.value % {every} == 0 ? datum.label : ''", "labelOverlap": False}
    legend = _legend(gradientLength=120, gradientThickness=8, tickCount=2, offset=8)
    return {
        "data": {"name": "heat"},
        "mark": {"type": "rect"},
        "encoding": {
            "x": {"field": "began", **x},
            "x2": {"field": "ended"},
            "y": {"field": "cpu", "type": "ordinal", "title": None, "axis": names},
            "color": {
                "field": "value",
                "type": "quantitative",
                "scale": {"domain": [0, 100]},
                "legend": legend,
            },
            "tooltip": [
                {"field": "cpu", "type": "ordinal", "title": "CPU"},
                {"field": "value", "type": "quantitative", "format": ".3~g", "title": f"busy ({panel.unit})"},
                *_SPAN,
            ],
        },
    }


def _rows(panel: Panel, x: dict[str, Any]) -> Spec:
    """What the pointer meets: every row over the whole height, unseen until it is met."""
    suffix = f" ({panel.unit})" if panel.unit else ""
    lines = () if panel.heat else panel.lines
    said = [{"field": column, "type": "nominal", "title": label + suffix} for column, label in lines]
    return {
        "data": {"name": "rows"},
        "mark": {"type": "rect", "color": QUIET},
        "encoding": {
            "x": {"field": "began", **x},
            "x2": {"field": "ended"},
            "y": {"value": 0},
            "y2": {"value": "height"},
            "opacity": {"condition": {"param": "hover", "empty": False, "value": 0.22}, "value": 0},
            "tooltip": [*said, *_SPAN],
        },
    }


def _legend(**how: Any) -> dict[str, Any]:
    return {"title": None, "orient": "top", "direction": "horizontal", "padding": 0, **how}
