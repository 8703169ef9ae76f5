"""All that the Trends page asks the database for, before anything of it is shown."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from analysis.metrics import Metric
from dashboard.components import load, wording
from dashboard.components.query_params import Query
from dashboard.trends import chart_data, view
from dashboard.trends.chart_data import ChartData
from dashboard.trends.load import History
from dashboard.trends.view import TrendChoices, Trends
from records.outcomes import MetricDefinition


@dataclass(frozen=True, slots=True)
class TrendsData:
    """A settled view with what it can choose from, what is known of its `lines` lines, and what it draws."""

    chosen: Trends
    offer: TrendChoices
    complaints: tuple[str, ...]
    lines: int
    defined: Mapping[str, MetricDefinition]
    metric: Metric
    known: History
    drawn: ChartData


def asked(url: str, query: Query) -> TrendsData | None:
    """What the page of this query shows; None where there is nothing to draw."""
    keys = load.series_keys(url)
    if not keys:
        return None
    defined = load.metric_definitions(url)
    chosen, offer, complaints = view.trends(
        query, keys, load.opening_places(url), partial(load.leading_cases, url)
    )
    shown = chosen.lines(keys)
    known, chosen = chart_data.reach(url, shown, chosen)
    if not any(line.points for line in known.lines):
        return None
    metric = wording.metric(chosen.metric, defined)
    chosen, more = chart_data.settle(known, chosen)
    drawn = chart_data.drawing(url, shown, replace(chosen, at=""), metric.better)
    return TrendsData(chosen, offer, (*complaints, *more), len(shown), defined, metric, known, drawn)
