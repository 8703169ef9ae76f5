"""The findings of detection: a list by cause, and one finding with its evidence."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

import streamlit as st

from analysis.decision.comparison import stored_comparison
from analysis.kernel_difference import kernel_changes
from dashboard.components import links, markup, parts, wording
from dashboard.components import load as pages
from dashboard.components.query_params import ALL, Query, choice_labels, decode_name, last
from dashboard.header import page_context
from dashboard.regressions import cause_cards, causes, findings, load, triage
from dashboard.regressions.causes import FindingCause
from dashboard.server.settings import ServerSettings
from records.evidence import evidence_body
from records.findings import Finding, FindingGroup
from records.outcomes import Outcome
from reports import sentences
from reports.tables import kernels_of_case
from reports.text.finding_text import STATES

#: The most causes with a sparkline of their nights: each takes a query.
_PICTURES = 20
#: The sources of the kernels of a finding.
_IN_SESSION = "From the session that measured old and new A/B interleaved."
_IN_NIGHTS = "From the nights before and after, which were not A/B interleaved."
#: A schedule for `pyrometer.toml` that starts detection.
_TOML = """\
[schedules.nightly]
cron = "30 2 * * *"
suite = "cpu"
environments = ["nightly", "2.13.0"]
baseline = "2.13.0"
"""


def show() -> None:
    """Show the finding that the address names, else the list."""
    url, now = ServerSettings.from_environment().database_url, datetime.now(UTC)
    query = parts.query()
    number_text = last(query, "finding")
    if number_text is None:
        _show_list(url, query, now)
    else:
        _show_one(url, query, number_text, now)


def _show_list(url: str, query: Query, now: datetime) -> None:
    """Show findings, by default the open regressions."""
    parts.title("Regressions")
    schedules = load.schedules_with_findings(url)
    if not schedules:
        _nothing_found()
        return
    selection, complaints = load.chosen(query, schedules)
    parts.complain(complaints)
    groups = load.findings_by_group(url, decode_name(selection.schedule) or None)
    _choices(selection, schedules, groups)
    finding_list = load.findings(url, selection)
    older = len(finding_list) > load.MOST_FINDINGS
    visible = [one for one in finding_list[: load.MOST_FINDINGS] if selection.holds(one, now)]
    what = "open regression" if selection.group is FindingGroup.OPEN else "finding"
    count_text = f"{'The newest ' if older else ''}{wording.plural(len(visible), what)}"
    parts.heading(count_text, lambda: findings.frame(visible), "findings.csv")
    if others := findings.other_groups(groups, selection):
        parts.html(others)
    if older:
        parts.caption("Older ones: `pyrometer regressions list --all`.")
    if not visible:
        st.text("No open regression." if selection.group is FindingGroup.OPEN else "Nothing of that kind.")
        return
    items = sorted(causes.causes(visible), key=lambda one: max(each.id for each in one.items), reverse=True)
    parts.table(findings.table(items, _pictures(url, items), now))
    parts.caption("A candidate may be noise until an A/B interleaved session confirms it.")


def _choices(selection: load.Findings, schedules: Sequence[str], groups: Mapping[FindingGroup, int]) -> None:
    states = {
        load.NEW: "New",
        **{group: findings.GROUPS[group] for group in load.GROUPS},
        ALL: "All",
        **{name: name.capitalize() for name in STATES},
    }
    tabs = {
        state: f"{words} {groups[FindingGroup(state)]}" if state in groups else words
        for state, words in findings.TABS.items()
    }
    if selection.state not in tabs:
        tabs[selection.state] = states[selection.state]
    parts.segments("Show", "state", tabs, selection, widget="tab", tabs=True)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        parts.select("Status", "state", states, selection)
        parts.select("Schedule", "schedule", choice_labels("All schedules", schedules), selection)
        parts.select("Triage", "triage", {ALL: "All", load.OPEN: "Open, not muted"}, selection)
        parts.segments(
            "Direction", "direction", {"all": "both", "worse": "worse", "better": "better"}, selection
        )


def _pictures(url: str, items: Sequence[FindingCause]) -> dict[int, str]:
    """The nights of the largest finding of each cause, by its id."""
    lines: dict[int, str] = {}
    for cause in items[:_PICTURES]:
        one = cause.largest
        values = cause_cards.course(url, one)[-findings.NIGHTS :]
        lines[one.id] = markup.sparkline(values, wording.metric(one.key.metric).unit, "nights", cause.tone)
    return lines


def _nothing_found() -> None:
    """The page without a finding."""
    with parts.empty_state("Nothing found"):
        st.write("No finding is stored. Detection needs eight nights of a schedule; this starts them:")
        st.html(markup.code(_TOML))
        st.html(markup.code("pyrometer scheduler"))


def _show_one(url: str, query: Query, number: str, now: datetime) -> None:
    """Show one finding; for an unknown id a message above the list."""
    record = load.finding(url, int(number)) if number.isdecimal() and len(number) < 10 else None
    if record is None:
        parts.complain([f"There is no finding {number!r} in this database; the page shows the list."])
        _show_list(url, {name: values for name, values in query.items() if name != "finding"}, now)
        return
    one, log = record
    cause = _cause_of(url, one)
    place = one.key.hardware[: links.FINGERPRINT]
    page_context.keep("/regressions", query, hardware=place, workload=one.key.case.rpartition("/")[0])
    title = causes.title(FindingCause((one,)))
    parts.title(title)
    parts.tab_title(f"{title} · finding {one.id}")
    parts.html(findings.title(one))
    cause_cards.chart(url, one)
    _actions(url, one, cause)
    for part in (findings.cards(one, now), findings.ways(one)):
        parts.html(part)
    _evidence(url, one)
    items = findings.log(log)
    parts.heading("Triage", items if log else None, f"finding-{one.id}-triage.csv")
    if log:
        parts.table(items)
    else:
        parts.caption("Not triaged yet.")


def _cause_of(url: str, one: Finding) -> FindingCause:
    """All findings of the cause that a finding belongs to."""
    others = load.findings(url, load.Findings(ALL, ALL, one.direction))
    cause_list = (cause for cause in causes.causes(others) if any(each.id == one.id for each in cause.items))
    return next(cause_list, FindingCause((one,)))


def _actions(url: str, one: Finding, cause: FindingCause) -> None:
    """Show the actions on a finding and on all findings of its cause."""
    with st.container(horizontal=True, vertical_alignment="center"):
        triage.acknowledge(url, [one])
        if len(cause.items) > 1:
            triage.acknowledge(url, cause.items, "triage-cause")
        cause_cards.ways_out(url, cause, one)
    triage.section(url, [one])
    if len(cause.items) > 1:
        triage.section(url, cause.items, f"{triage.ALL}, {len(cause.items)} findings", "triage-cause")
        others = [
            markup.link(links.finding(each.id), f"{wording.case(each.key.case).text} →")
            for each in cause.items
            if each.id != one.id
        ]
        parts.html(f"<p>Same cause: {' · '.join(others)}</p>")


def _evidence(url: str, one: Finding) -> None:
    """Show the result of the session, the changes between the nights, and the next commands."""
    evidence, session = one.evidence, one.evidence.confirmation
    rows = evidence_body(evidence)
    if verdict_html := findings.verdict(one):
        frame = partial(findings.evidence_frame, rows["verdict"])
        parts.heading("Measured again", frame, f"finding-{one.id}-verdict.csv")
        parts.html(verdict_html)
    changes = findings.changes(evidence.changes)
    parts.table_section("What changed between the nights", changes, f"finding-{one.id}-changes.csv")
    for title, name, table in (
        ("Related cases in that session", "related", findings.related_cases(session.related)),
        ("Operators that moved too", "moved_with", findings.moved_with(session.moved_with)),
        ("Where time went", "operators", session.operators and findings.operators(session.operators)),
    ):
        if table and rows.get(name):
            frame = partial(findings.evidence_frame, rows[name])
            parts.heading(title, frame, f"finding-{one.id}-{name.replace('_', '-')}.csv")
            parts.html(table)
    if differs := findings.dispatch(session.dispatch):
        frame = partial(findings.evidence_frame, session.dispatch["changes"])
        parts.heading("What runs differently", frame, f"finding-{one.id}-dispatch.csv")
        parts.html(differs)
    _kernels(url, one)
    for title, command in (("Bisect", session.bisect), ("Measure it again", session.reproduce)):
        if command:
            parts.heading(title)
            parts.code(command)


def _kernels(url: str, one: Finding) -> None:
    """Show the GPU kernels of its case on both sides: from the session if it has them, else from both
    nights.
    """
    nights = (one.before_run, one.old_environment), (one.at_run, one.new_environment)
    for about, sides in ((_IN_SESSION, _sides_of_session(url, one)), (_IN_NIGHTS, nights)):
        result = kernel_changes(*(_outcomes(url, one.key.case, *side) for side in sides)) if sides else ()
        table = kernels_of_case(result, one.key.case)
        if table.rows:
            name = f"finding-{one.id}-kernels.csv"
            parts.table_section("GPU kernels", table, name, f"{about} {sentences.KERNEL_TIMES}")
            return


def _sides_of_session(url: str, one: Finding) -> tuple[tuple[str, str], tuple[str, str]] | None:
    """The run of the session with its old and new environment; None if it compares no environments."""
    run = one.evidence.confirmation.run
    stored_run = pages.run(url, run) if run else None
    try:
        comparison = stored_comparison(stored_run[0].facts) if stored_run else None
    except ValueError:
        # Written by a later Pyrometer.
        return None
    return ((run, comparison.old), (run, comparison.new)) if comparison else None


def _outcomes(url: str, case: str, run: str, environment: str) -> list[Outcome]:
    result = pages.outcomes(url, run, cases=[case])
    return [each for each in result if each.environment == environment]
