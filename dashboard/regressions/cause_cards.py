"""A card for each cause: the change, its nights, its evidence, and actions."""

from collections.abc import Sequence
from datetime import datetime

import streamlit as st

from dashboard.components import links, load, markup, parts, wording
from dashboard.regressions import causes, night_chart, triage
from dashboard.regressions.causes import FindingCause
from dashboard.trends import load as trends
from records.findings import Finding
from reports.text.finding_text import kind

#: The most charts: each takes a query, so that only the worst causes have one.
_CHARTS = 6
#: The number of points of a series that are read: those of its track, of the baseline, and of single runs
#: between.
_POINTS = 400


def cards(url: str, items: Sequence[FindingCause], now: datetime) -> None:
    """One card for each cause, in the given order."""
    for place, cause in enumerate(items):
        with st.container(border=True, key=f"cause-{cause.tone}-{cause.largest.id}"):
            _card(url, cause, now, with_chart=place < _CHARTS)


def _card(url: str, cause: FindingCause, now: datetime, *, with_chart: bool) -> None:
    one = cause.largest
    marks = [markup.label(each, "odd") for each in causes.marks(cause, now)]
    chips = [markup.chip(kind(one.state, one.direction)), *marks]
    parts.html(markup.card_title(causes.title(cause), *chips))
    parts.html(
        markup.paragraph(causes.first_seen(cause))
        + markup.bullets(causes.case_lines(cause))
        + markup.paragraph(causes.sentence(cause))
        + markup.bullets(f"runs differently: {each}" for each in causes.differences(cause))
    )
    if with_chart:
        chart(url, one)
    with st.container(horizontal=True, vertical_alignment="center"):
        triage.acknowledge(url, cause.items, f"triage-{one.id}")
        ways_out(url, cause, one)
        parts.html(markup.link(links.finding(one.id), f"Evidence: finding {one.id} →"))
    if cause.bisect:
        parts.code(cause.bisect)
    if triage.refusal(url):
        # The page of a finding has the reason.
        return
    title = triage.ONE if len(cause.items) == 1 else f"{triage.ALL}, {len(cause.items)} findings"
    triage.section(url, cause.items, title, f"triage-{one.id}")


def ways_out(url: str, cause: FindingCause, one: Finding) -> None:
    """Buttons with external links: a new issue of PyTorch, and the commits between both builds."""
    st.link_button("Open issue ↗", causes.issue_address(cause))
    if commits := _commits(url, one):
        st.link_button("Commits ↗", commits)


def course(url: str, one: Finding) -> list[float]:
    """The values of a finding's series in its track on its machine, oldest first."""
    line = trends.history(url, (one.key,), _POINTS).lines[0]
    return [point.point for point in line.of_track(one.track) if point.machine == one.machine]


def chart(url: str, one: Finding) -> None:
    """Show the nights around a finding; nothing if there are too few."""
    history = trends.history(url, (one.key,), _POINTS)
    chart_data = night_chart.night_chart(
        one, history.lines[0], history.tracks_of_place, history.of_line, history.findings
    )
    if chart_data is None:
        return
    title = wording.metric(one.key.metric).title
    dark = st.context.theme.type == "dark"
    parts.subject(wording.case(one.key.case).text, one.key.hardware_label, one.machine)
    parts.chart(
        night_chart.spec(wording.with_unit(title, chart_data.unit), chart_data.tracks, dark=dark),
        chart_data.words,
        file_name=f"finding-{one.id}-nights",
        count=wording.plural(len(chart_data.nights), "night"),
        nights=chart_data.nights,
        changes=chart_data.changes,
        borders=chart_data.borders,
    )


def _commits(url: str, one: Finding) -> str:
    """The address of PyTorch's commits between the builds of a finding; empty if they are unknown."""
    old, new = (
        _git_hash(url, run, environment)
        for run, environment in ((one.before_run, one.old_environment), (one.at_run, one.new_environment))
    )
    return causes.commits_address(old, new)


def _git_hash(url: str, run: str, environment: str) -> str:
    stored_run = load.run(url, run)
    if stored_run is None:
        return ""
    own = [each for each in stored_run[0].environments if each.fingerprint == environment]
    return str(own[0].facts.get("torch_git") or "") if own else ""
