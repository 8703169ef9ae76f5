"""Series over dates or PyTorch versions: how they moved, and what else changed meanwhile."""

import streamlit as st

from dashboard.components import load, parts, wording
from dashboard.header import page_context
from dashboard.server.settings import ServerSettings
from dashboard.techniques.ranking import workload_title
from dashboard.trends import sections
from dashboard.trends.load import complaints, load_trends
from dashboard.trends.view import Trends


def show() -> None:
    """The series that the address names, else those of the watched metric."""
    url = ServerSettings.from_environment().database_url
    parts.title("History")
    address = parts.query()
    query = page_context.completed(address, Trends.context, lambda query: complaints(url, query))
    found = load_trends(url, query)
    if found is None:
        parts.nothing_to_draw(load.count_runs(url))
        st.stop()

    chosen, known, drawn, metric = found.chosen, found.known, found.drawn, found.metric
    parts.complain(found.complaints)
    about = f", {workload_title(chosen.workload)}" if chosen.workload else ""
    parts.tab_title(f"History: {metric.title}{about}")
    with page_context.bar("/explore", address, query):
        sections.context(chosen, found.offer, wording.titles(found.offer.metrics, found.defined))
    sections.choices(chosen, found.offer, known, drawn)

    if chosen.shown == "grid":
        sections.every_case(url, chosen, metric)
        parts.pinned(chosen.address)
        return
    opened = sections.at(known, chosen.at)
    sections.chart(
        chosen, metric, drawn, [(line, point) for point, line, track in opened if track in drawn.drawn]
    )
    sections.captions(chosen, metric, known, drawn)
    sections.cut(chosen, known, found.lines)
    sections.canary(chosen, found.offer)
    if opened:
        sections.point(url, chosen, metric, known, drawn, opened)
    sections.moved(chosen, drawn)
    sections.stepped(chosen, drawn)
    sections.every_point(chosen, metric, drawn)
    parts.pinned(chosen.address)
