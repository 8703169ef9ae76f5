"""The chart of the Hardware page and its data, and the CSV files of cases."""

from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from analysis.metrics import Metric
from dashboard.components import charts, links, wording
from dashboard.components.charts import QUIET, Spec, spec_cache
from dashboard.hardware import normalisation
from dashboard.hardware.normalisation import HardwareColumn, Overall


@spec_cache
def machines(rows: int, title: str, *, dark: bool) -> Spec:
    """Ratios to the reference: a row for each hardware, with every case a dot and their geomean a diamond.

    Named data `rows`: columns row (from 0), label, text, ratio, smallest, largest and n; `cases`: columns
    row, hardware, case, ratio, value, unit and link. The bar extends from the smallest to the largest ratio
    of the cases.
    """
    x, y = charts.ratio_x("ratio", title), charts.row_y(rows)
    reach = charts.in_row().mark_rule(color=QUIET, strokeWidth=2, opacity=0.5)
    # Single dots have no text for screen readers, because there are hundreds: the chart has one, and a table
    # has the cases.
    dots = charts.in_row(alt.NamedData("cases")).mark_point(
        filled=True, size=28, opacity=0.55, color=QUIET, aria=False
    )
    # No colour is set: the theme has one for light and for dark.
    geomean = charts.in_row().mark_point(filled=True, size=130, opacity=1, shape="diamond")
    of_case = [
        alt.Tooltip("case:N"),
        alt.Tooltip("hardware:N"),
        _ratio_tooltip("ratio (×)"),
        alt.Tooltip("value:N"),
    ]
    of_hardware = [
        alt.Tooltip("label:N", title="hardware"),
        _ratio_tooltip("geomean (×)"),
        alt.Tooltip("n:Q", title="cases (n)"),
    ]
    layers = [
        reach.encode(x=charts.ratio_x("smallest", title), x2="largest", y=y),
        dots.encode(x=x, y=y, href="link:N", tooltip=of_case),
        geomean.encode(x=x, y=y, tooltip=of_hardware),
    ]
    return charts.ratio_chart(rows, title, layers, dark=dark)


def _ratio_tooltip(title: str) -> alt.Tooltip:
    return alt.Tooltip("ratio:Q", format=".3~g", title=title)


#: The most dots in one chart; with more cases only bar and geomean are drawn.
MOST_DOTS = 1900


def overall(columns: Sequence[HardwareColumn], means: Sequence[Overall], threshold: float) -> pd.DataFrame:
    """The rows of `machines`: every hardware that shares a case with the reference, which is 1.

    Differences below the `threshold` have no direction.
    """
    pairs = [(column, mean) for column, mean in zip(columns, means, strict=True) if mean.ratio is not None]
    rows = [
        {
            "row": place,
            "label": column.label,
            "text": times(mean.ratio, threshold),
            "ratio": mean.ratio,
            "smallest": mean.smallest,
            "largest": mean.largest,
            "n": mean.n,
        }
        for place, (column, mean) in enumerate(pairs)
    ]
    return pd.DataFrame(rows)


def dots(columns: Sequence[HardwareColumn], drawn: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """A row for each case on each hardware of `drawn`; none if there are too many for one chart."""
    reference = columns[0]
    places = {label: place for place, label in enumerate(drawn["label"])} if len(drawn) else {}
    rows = [
        {
            "row": places[column.label],
            "hardware": column.label,
            "case": wording.case(case).text,
            "ratio": ratio,
            "value": wording.quantity(column.cells[case].value, metric.unit),
            "link": links.run(column.cells[case].run),
        }
        for column in columns
        if column.label in places
        for case, ratio in normalisation.ratios(column, reference, metric.better).items()
    ]
    names = ["row", "hardware", "case", "ratio", "value", "link"]
    return pd.DataFrame(rows if len(rows) <= MOST_DOTS else [], columns=names)


def cells(columns: Sequence[HardwareColumn], metric: Metric) -> pd.DataFrame:
    """Every case on every hardware, for CSV; `ratio` is to the first of `columns`, above 1 is better."""
    reference = columns[0]
    rows = [
        {
            "case": case,
            "hardware": column.label,
            "metric": metric.name,
            "unit": metric.unit,
            "value": cell.value,
            "smallest": cell.smallest,
            "largest": cell.largest,
            "n": cell.n,
            "n_of": cell.of,
            "ratio": ratios.get(case),
            "to": reference.label,
            "torch": cell.torch_version,
            "measured_at": cell.measured_at,
            "run": cell.run,
            "harness": " ".join(cell.harnesses),
        }
        for column in columns
        for ratios in [normalisation.ratios(column, reference, metric.better)]
        for case, cell in sorted(column.cells.items())
    ]
    return pd.DataFrame(rows)


def costs(columns: Sequence[HardwareColumn], prices: Mapping[str, float], currency: str) -> pd.DataFrame:
    """The cost of a million items on hardware with a price, for CSV; `columns` hold the throughput."""
    rows = [
        {
            "case": case,
            "hardware": column.label,
            "price_per_hour": prices[column.hardware],
            "currency": currency,
            "gpus": column.gpus,
            "gpus_used": column.used_gpus(case),
            "throughput": cell.value,
            "cost_per_million_items": normalisation.cost(
                prices[column.hardware], cell.value, column.share(case)
            ),
            "torch": cell.torch_version,
            "measured_at": cell.measured_at,
        }
        for column in columns
        if column.hardware in prices
        for case, cell in sorted(column.cells.items())
    ]
    return pd.DataFrame(rows)


def times(ratio: float | None, threshold: float) -> str:
    """A ratio, above 1 is better; with its direction if it differs from 1 by more than the `threshold`."""
    if ratio is None:
        return wording.NONE
    sign = "" if not normalisation.beyond(ratio, threshold) else "▲ " if ratio > 1 else "▼ "
    return f"{sign}{wording.significant(ratio)}×"
