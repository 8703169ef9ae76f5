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
    selection: Trends,
    metric: Metric,
    chart_data: ChartData,
    open_points: Sequence[tuple[TrendLine, SeriesPoint]],
) -> None:
    """Show the lines with all marks, and their explanation."""
    newest = max((p for line in chart_data.lines for p in line.points), key=lambda point: point.started_at)
    baseline = selection.baseline if selection.scale == "relative" else ""
    title = words.title(metric, stacked=chart_data.look.stacked, baseline=baseline)
    parts.heading(
        parts.plain(title),
        lambda: chart_data.points.drop(columns=["x", "link", "last", "end"], errors="ignore"),
        f"trend-{selection.metric}.csv",
        words.how_to_read(metric, selection.axis, source_tool(newest), rules=chart_data.look.rules),
    )
    parts.html(tables.legend(chart_data.lines, chart_data.drawn if selection.axis == "date" else {}))
    if chart_data.points.empty:
        parts.caption("None of these lines can be compared with that baseline.")
        return
    ring = marks.ring_points(open_points, selection.axis, chart_data.points, chart_data.levels)
    parts.subject(*words.measured_on(chart_data.lines))
    look = replace(chart_data.look, opened=not ring.empty, dark=st.context.theme.type == "dark")
    parts.chart(
        charts.leading_to(
            charts.trend(metric.unit, len(chart_data.lines), selection.axis, look), selection.prefix
        ),
        alt=words.in_words(metric, chart_data.lines, len(chart_data.drawn), baseline),
        count=wording.plural(sum(len(line.points) for line in chart_data.lines), "point"),
        sets=chart_data.sets,
        versions=chart_data.versions,
        moves=chart_data.marks,
        ticks=chart_data.ticks,
        opened=ring,
    )
