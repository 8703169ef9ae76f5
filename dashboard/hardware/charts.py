"""The Vega-Lite spec of the Hardware page, written out: it depends on the number of rows alone."""

from typing import Any

from dashboard.components import row_charts
from dashboard.components.charts import QUIET, Spec


def machines(rows: int, title: str, *, dark: bool) -> Spec:
    """Ratios to the reference: a row for each hardware, with every case a dot and their geomean a diamond.

    Named data `rows`: columns row (from 0), label, text, ratio, smallest, largest and n; `cases`: columns
    row, hardware, case, ratio, value, unit and link. The bar reaches from the least to the most of the cases.
    """
    y = row_charts.height(rows)
    reach: Spec = {
        "transform": row_charts.BELOW,
        "mark": {"type": "rule", "color": QUIET, "strokeWidth": 2, "opacity": 0.5},
        "encoding": {
            "x": row_charts.ratio("smallest", title),
            "x2": {"field": "largest"},
            "y": y,
        },
    }
    dots: Spec = {
        "data": {"name": "cases"},
        "transform": row_charts.BELOW,
        # Hundreds of dots have no names of their own: the chart has one, and a table has the cases.
        "mark": {"type": "point", "filled": True, "size": 28, "opacity": 0.55, "color": QUIET, "aria": False},
        "encoding": {
            "x": row_charts.ratio("ratio", title),
            "y": y,
            "href": {"field": "link", "type": "nominal"},
            "tooltip": [_words("case"), _words("hardware"), _ratio(), _words("value")],
        },
    }
    geomean: Spec = {
        "transform": row_charts.BELOW,
        # No colour: it is the theme's own, in light and in dark.
        "mark": {"type": "point", "filled": True, "size": 130, "opacity": 1, "shape": "diamond"},
        "encoding": {
            "x": row_charts.ratio("ratio", title),
            "y": y,
            "tooltip": [
                {"field": "label", "type": "nominal", "title": "hardware"},
                {**_ratio(), "title": "geomean (×)"},
                {"field": "n", "type": "quantitative", "title": "cases (n)"},
            ],
        },
    }
    return row_charts.ratios(rows, title, [reach, dots, geomean], dark=dark)


def _words(field: str) -> dict[str, Any]:
    return {"field": field, "type": "nominal"}


def _ratio() -> dict[str, Any]:
    return {"field": "ratio", "type": "quantitative", "format": ".3~g", "title": "ratio (×)"}
