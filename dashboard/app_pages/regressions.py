"""What the nights found: a list with filters, and one finding opened with its evidence."""

from datetime import UTC, datetime
from functools import partial

import streamlit as st

from dashboard.components import filters, load, markup, parts, wording
from dashboard.components.query_params import ALL, meant, offered
from dashboard.regressions import findings, triage
from dashboard.server.settings import ServerSettings
from records.evidence import evidence_body
from records.findings import FindingGroup
from reports.text.finding_text import STATES

url = ServerSettings.from_environment().database_url
now = datetime.now(UTC)
query = parts.query()


def show_list() -> None:
    """Findings, the open regressions unless the address says otherwise."""
    parts.title("Regressions")
    known = load.schedules_with_findings(url)
    if not known:
        nothing_found()
        return
    chosen, complaints = filters.findings(query, known)
    parts.complain(complaints)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        states = {
            **{group: findings.GROUPS[group] for group in filters.GROUPS},
            ALL: "All",
            **{name: name.capitalize() for name in STATES},
        }
        parts.select("State", "state", states, chosen)
        parts.select("Schedule", "schedule", offered("All schedules", known), chosen)
        parts.select("Triage", "triage", {ALL: "All", filters.OPEN: "Open, not muted"}, chosen)
        parts.segments(
            "Direction", "direction", {"all": "both", "worse": "worse", "better": "better"}, chosen
        )
    found = load.findings(url, chosen)
    older = len(found) > load.MOST_FINDINGS
    shown = [one for one in found[: load.MOST_FINDINGS] if chosen.holds(one, now)]
    what = "open regression" if chosen.group is FindingGroup.OPEN else "finding"
    counted = f"{'The newest ' if older else ''}{wording.plural(len(shown), what)}"
    parts.heading(counted, lambda: findings.frame(shown), "findings.csv")
    groups = load.findings_by_group(url, meant(chosen.schedule) or None)
    if others := findings.counted(groups, chosen):
        parts.html(others)
    if older:
        parts.caption(
            "Older ones of this kind are not listed here: `pyrometer regressions list --all` has them."
        )
    parts.caption(
        "A candidate may be noise. It is a regression or an improvement once old and new were measured again "
        "in turns on the same machine, and the pairs show it."
    )
    if shown:
        parts.html(findings.table(shown, now))
    else:
        st.text("No open regression." if chosen.group is FindingGroup.OPEN else "Nothing of that kind.")


def nothing_found() -> None:
    """The page before anything was found."""
    with parts.empty_state("Nothing found"):
        st.write(
            "No series has changed from night to night so far; the first eight nights of each are learnt "
            "from. Nights are measured by schedules:"
        )
        st.html(markup.code("pyrometer schedule list"))


def show_one(number: str) -> None:
    """One finding; for an unknown id the page says so, above the list."""
    found = load.finding(url, int(number)) if number.isdecimal() and len(number) < 10 else None
    if found is None:
        parts.complain([f"There is no finding {number!r} in this database; shown is what there is."])
        show_list()
        return
    one, log = found
    evidence, session = one.evidence, one.evidence.confirmation
    rows = evidence_body(evidence)
    parts.title(f"Finding {one.id}")
    for part in (findings.title(one), findings.cards(one, now), findings.ways(one)):
        parts.html(part)
    if verdict_html := findings.verdict(one):
        frame = partial(findings.evidence_frame, rows["verdict"])
        parts.heading("Measured again", frame, f"finding-{one.id}-verdict.csv")
        parts.html(verdict_html)
    for title, name, table in (
        ("What changed between the nights", "changes", findings.changes(evidence.changes)),
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
    for title, command in (
        ("Between which versions?", session.bisect),
        ("Measure it again", session.reproduce),
    ):
        if command:
            parts.heading(title)
            parts.code(command)
    log_of_finding = partial(findings.log_frame, log) if log else None
    parts.heading("Triage", log_of_finding, f"finding-{one.id}-triage.csv")
    if log:
        parts.html(findings.log(log))
    triage.section(url, one)


wanted = filters.last(query, "finding")
if wanted is None:
    show_list()
else:
    show_one(wanted)
