"""Vega-Lite specs of the Techniques page, written out: they depend on little and are made in no time."""

from typing import Any

from dashboard.components import row_charts
from dashboard.components.charts import QUIET, RENDERED, TONES, Spec
from dashboard.components.row_charts import SCHEMA, TIMES

_STANDINGS = ("faster", "slower", "unclear", "one pair", "no interval")
_SHAPES = ("triangle-up", "triangle-down", "circle", "diamond", "diamond")
_SERIES_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_TITLE = "speed-up over eager fp32 (×, higher is better)"


def speed_ups(cases: int, *, dark: bool) -> Spec:
    """Speed-ups of so many cases below each other, each with its interval; a rule at 1.

    Named data `rows`: columns row (from 0), label, text, ratio, low, high, from, to, standing, n, run and
    link; see `frames.speed_ups`.
    """
    good, bad = TONES[dark]["good"], TONES[dark]["bad"]
    # A shape and a sign say the same.
    y, tone = row_charts.height(cases), _scaled("standing", (good, bad, QUIET, QUIET, QUIET))
    tooltip = [
        {"field": "label", "type": "nominal", "title": "case"},
        {"field": "text", "type": "nominal", "title": "speed-up"},
        {"field": "low", "type": "quantitative", "format": ".4~g", "title": "95 % low"},
        {"field": "high", "type": "quantitative", "format": ".4~g", "title": "95 % high"},
        {"field": "standing", "type": "nominal"},
        {"field": "n", "type": "quantitative", "title": "pairs (n)"},
        {"field": "run", "type": "nominal"},
    ]
    low, ratio = row_charts.ratio("from", _TITLE), row_charts.ratio("ratio", _TITLE)
    interval: Spec = {
        "transform": row_charts.BELOW,
        "mark": {"type": "rule", "strokeWidth": 2.5},
        "encoding": {"x": low, "x2": {"field": "to"}, "y": y, "color": tone},
    }
    point: Spec = {
        "transform": row_charts.BELOW,
        "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1},
        "encoding": {
            "x": ratio,
            "y": y,
            "color": tone,
            "shape": _scaled("standing", _SHAPES),
            "href": {"field": "link", "type": "nominal"},
            "tooltip": tooltip,
        },
    }
    return row_charts.ratios(cases, _TITLE, [interval, point], dark=dark)


def scaling(series: int, most: int) -> Spec:
    """Speed-up over one rank along the ranks, up to `most` of them, for up to six series; dashed: the ideal.

    Named data `points`: columns letter, last, case, ranks, times, low, high, efficiency, n and link; `ideal`:
    columns ranks and times.
    """
    x = {
        "field": "ranks",
        "type": "quantitative",
        "scale": {"domain": [1, max(2, most)], "nice": False, "padding": 30},
        "axis": {"tickMinStep": 1, "format": "d", "grid": False, "title": "ranks"},
    }
    y = {
        "field": "times",
        "type": "quantitative",
        "scale": {"zero": True},
        "axis": {"labelExpr": TIMES, "title": "items/s over one rank's (higher is better)"},
    }
    ideal = {
        "data": {"name": "ideal"},
        "mark": {"type": "line", "color": QUIET, "strokeDash": [5, 4]},
        "encoding": {"x": x, "y": y},
    }
    tooltip = [
        {"field": "case", "type": "nominal"},
        {"field": "ranks", "type": "quantitative"},
        {"field": "times", "type": "quantitative", "format": ".3~g", "title": "over one rank (×)"},
        {"field": "efficiency", "type": "nominal"},
        {"field": "n", "type": "quantitative", "title": "pairs (n)"},
    ]
    return {
        "$schema": SCHEMA,
        "height": 340,
        "layer": [ideal, *_lines(series, x, y, "times", tooltip)],
        **RENDERED,
    }


def batches(series: int) -> Spec:
    """Throughput along the batch for up to six techniques of one workload.

    Named data `points`: columns letter, last, case, batch, throughput, low, high, latency, n and link.
    """
    x = {
        "field": "batch",
        "type": "quantitative",
        "scale": {"type": "log", "base": 2, "nice": False, "padding": 30},
        "axis": {"format": "d", "grid": False, "title": "batch", "labelOverlap": True},
    }
    y = {
        "field": "throughput",
        "type": "quantitative",
        "scale": {"zero": True},
        "axis": {"format": "~s", "title": "items/s (higher is better)"},
    }
    tooltip = [
        {"field": "case", "type": "nominal"},
        {"field": "batch", "type": "quantitative"},
        {"field": "throughput", "type": "quantitative", "format": ",.4~r", "title": "items/s"},
        {"field": "latency", "type": "quantitative", "format": ".4~g", "title": "latency (ms)"},
        {"field": "n", "type": "quantitative", "title": "replicates (n)"},
    ]
    return {
        "$schema": SCHEMA,
        "height": 280,
        "layer": _lines(series, x, y, "throughput", tooltip),
        **RENDERED,
    }


def _lines(series: int, x: Spec, y: Spec, value: str, tooltip: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Line, intervals and points of lettered series; colours are the theme's."""
    letters = list("ABCDEF"[:series])
    colour = {
        "field": "letter",
        "type": "nominal",
        "scale": {"domain": letters},
        "legend": None,
    }
    shape = {**colour, "scale": {"domain": letters, "range": list(_SERIES_SHAPES[:series])}}
    points = {"data": {"name": "points"}}
    ends = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour}
    return [
        {
            **points,
            "mark": {"type": "line", "strokeWidth": 1.6},
            "encoding": {"x": x, "y": y, "color": colour},
        },
        {**points, "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.6}, "encoding": ends},
        {
            **points,
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
            "encoding": {
                "x": x,
                "y": {**y, "field": value},
                "color": colour,
                "shape": shape,
                "href": {"field": "link", "type": "nominal"},
                "tooltip": tooltip,
            },
        },
        {
            **points,
            "transform": [{"filter": "datum.last"}],
            "mark": {"type": "text", "align": "left", "dx": 9, "fontWeight": 700, "fontSize": 12},
            "encoding": {
                "x": x,
                "y": {**y, "field": value},
                "color": colour,
                "text": {"field": "letter", "type": "nominal"},
            },
        },
    ]


def _scaled(field: str, values: tuple[str, ...]) -> dict[str, Any]:
    scale = {"domain": list(_STANDINGS), "range": list(values)}
    return {"field": field, "type": "nominal", "scale": scale, "legend": None}
