"""The section with the chart of a history: its heading, its legend, and the lines."""

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from analysis.metrics import Metric
from dashboard.components import parts, wording
from dashboard.components.tables import source_tool
from dashboard.trends import charts, marks, tables, words
from dashboard.trends.lines import TrendLine
from dashboard.trends.load import ChartData
from dashboard.trends.view import Trends
from records.series import SeriesPoint


def show(
    chosen: Trends, metric: Metric, drawn: ChartData, opened: Sequence[tuple[TrendLine, SeriesPoint]]
) -> None:
    """Show the lines with all marks, and their explanation."""
    newest = max((p for line in drawn.lines for p in line.points), key=lambda point: point.started_at)
    baseline = chosen.baseline if chosen.scale == "relative" else ""
    title = words.title(metric, stacked=drawn.look.stacked, baseline=baseline)
    parts.heading(
        parts.plain(title),
        lambda: drawn.points.drop(columns=["x", "link", "last", "end"], errors="ignore"),
        f"trend-{chosen.metric}.csv",
        words.how_to_read(metric, chosen.axis, source_tool(newest), rules=drawn.look.rules),
    )
    parts.html(tables.legend(drawn.lines, drawn.drawn if chosen.axis == "date" else {}))
    if drawn.points.empty:
        parts.caption("None of these lines can be compared with that baseline.")
        return
    ring = marks.ring_points(opened, chosen.axis, drawn.points, drawn.levels)
    parts.subject(*words.measured_on(drawn.lines))
    look = replace(drawn.look, opened=not ring.empty, dark=st.context.theme.type == "dark")
    parts.chart(
        charts.leading_to(charts.trend(metric.unit, len(drawn.lines), chosen.axis, look), chosen.prefix),
        alt=words.in_words(metric, drawn.lines, len(drawn.drawn), baseline),
        count=wording.plural(sum(len(line.points) for line in drawn.lines), "point"),
        sets=drawn.sets,
        versions=drawn.versions,
        moves=drawn.marks,
        ticks=drawn.ticks,
        opened=ring,
    )
