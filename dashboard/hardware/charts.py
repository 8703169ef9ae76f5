"""The chart of the Hardware page; it depends on the number of rows alone."""

import altair as alt

from dashboard.components import row_charts
from dashboard.components.charts import QUIET, Spec, kept


@kept
def machines(rows: int, title: str, *, dark: bool) -> Spec:
    """Ratios to the reference: a row for each hardware, with every case a dot and their geomean a diamond.

    Named data `rows`: columns row (from 0), label, text, ratio, smallest, largest and n; `cases`: columns
    row, hardware, case, ratio, value, unit and link. The bar reaches from the least to the most of the cases.
    """
    x, y = row_charts.ratio("ratio", title), row_charts.height(rows)
    reach = row_charts.below().mark_rule(color=QUIET, strokeWidth=2, opacity=0.5)
    # Hundreds of dots have no names of their own: the chart has one, and a table has the cases.
    dots = row_charts.below(alt.NamedData("cases")).mark_point(
        filled=True, size=28, opacity=0.55, color=QUIET, aria=False
    )
    # No colour: it is the theme's own, in light and in dark.
    geomean = row_charts.below().mark_point(filled=True, size=130, opacity=1, shape="diamond")
    of_case = [alt.Tooltip("case:N"), alt.Tooltip("hardware:N"), _ratio("ratio (×)"), alt.Tooltip("value:N")]
    of_hardware = [
        alt.Tooltip("label:N", title="hardware"),
        _ratio("geomean (×)"),
        alt.Tooltip("n:Q", title="cases (n)"),
    ]
    layers = [
        reach.encode(x=row_charts.ratio("smallest", title), x2="largest", y=y),
        dots.encode(x=x, y=y, href="link:N", tooltip=of_case),
        geomean.encode(x=x, y=y, tooltip=of_hardware),
    ]
    return row_charts.ratios(rows, title, layers, dark=dark)


def _ratio(title: str) -> alt.Tooltip:
    return alt.Tooltip("ratio:Q", format=".3~g", title=title)
