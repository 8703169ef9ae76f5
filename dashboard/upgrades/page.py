"""Should we move from A to B on this hardware? One upgrade with its verdict and evidence; the list of all."""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import groupby

import streamlit as st

from analysis.decision.comparison import COMPARED
from dashboard.components import links, markup, parts, wording
from dashboard.components import load as records
from dashboard.components.query_params import Query, distinct, pick, public
from dashboard.header import page_context
from dashboard.run_pairs.load import version_pairs
from dashboard.run_pairs.offers import offer_pairs
from dashboard.runs import case_panel
from dashboard.server.settings import ServerSettings
from dashboard.upgrades import charts, form, load, tables
from dashboard.upgrades.rules import RuleChanges, rule_changes
from dashboard.upgrades.sections import IntervalData, Report, ReportSection
from dashboard.upgrades.view import (
    HardwareVerdict,
    UpgradeAddress,
    UpgradeLists,
    UpgradeSummary,
    UpgradeView,
    missing,
    on_all_hardware,
    resolve_address,
    worst_first,
)
from records.kinds import RunKind
from records.runs import Run, RunSummary
from reports import sentences
from reports import wording as report_wording
from reports.tables import cases as cases_table
from reports.tables import metric_table
from reports.upgrade_report import FORMATS, JudgedUpgrade

_MEASURE = "pyrometer upgrade OLD NEW --suite cpu"
#: What the report's files are, by their endings.
_FILES = {
    ".html": ("HTML", "text/html"),
    ".md": ("Markdown", "text/markdown"),
    ".json": ("JSON", "application/json"),
}
#: Upgrades in the table at most, and sessions about findings.
_UPGRADES, _SESSIONS = 50, 20


def show() -> None:
    """The upgrade that the address names, else the newest, and the list of all."""
    url = ServerSettings.from_environment().database_url
    query = parts.query()
    parts.title("Upgrade")
    known = load.newest(url)
    found = resolve_address(query, known.items, older=known.older)
    parts.complain(found.complaints)
    if found.command:
        parts.caption("This measures them, on the machine where it runs:")
        parts.code(found.command)
    opened = one(url, query, found, known.items)
    if opened is None and not known.upgrades:
        nothing_measured(url)
    if known.items:
        lists(known, opened)


def nothing_measured(url: str) -> None:
    """The page before any upgrade: what other runs can be compared, and what to type."""
    offer_pairs("PyTorch versions of imported runs", version_pairs(url))
    with parts.empty_state("No upgrade measured yet"):
        st.write("This measures an old and a new PyTorch in pairs on this machine, and judges every case:")
        st.html(markup.code(_MEASURE))
        st.caption("OLD and NEW: versions, names or interpreters. Shows up while it runs.")
        if records.count_runs(url) > 1:
            ways = ((links.RUN_PAIR, "Compare two runs →"), (links.HARDWARE, "Compare hardware →"))
            parts.html(f"<p>{' · '.join(markup.link(*way) for way in ways)}</p>")


def one(url: str, query: Query, choice: UpgradeAddress, items: Sequence[UpgradeSummary]) -> str | None:
    """The upgrade that an address names, or the newest without such a run; answers which one is shown.

    Where any hardware will do, that is the one with the worst verdict.
    """
    if choice.run is None:
        return None
    if records.run(url, choice.run) is None:
        missed, choice = choice.run, resolve_address({}, items)
        instead = f" Shown is another upgrade, the newest: {choice.run}." if choice.run else ""
        parts.complain([f"{wording.no_such_run(missed, [each.run.id for each in items])}{instead}"])
    if choice.run is None:
        return None
    verdicts = _on_all_hardware(url, query, choice.run, items)
    run_id = verdicts[0].listed.run.id if verdicts and choice.any_hardware else choice.run
    found = records.run(url, run_id)
    if found is None:
        return None
    run, summary = found
    _choice(run, items)
    try:
        comparison = load.comparison_of(run)
        stored = comparison.policy
        rules, complaints = rule_changes(query, stored)
        many = sum(summary.counts.values())
        report = load.judged_by(url, run.id, many, summary.state, rules)
    except ValueError as error:
        _unknown_comparison(run, str(error))
        _hardware(url, verdicts, run)
        return run.id
    metrics = tables.metrics(report.judged)
    shown = pick(query, "shown", list(metrics), next(iter(metrics)), complaints)
    detail = case_panel.read_case(query, [row.case for row in report.rows], complaints)
    parts.complain(complaints)
    _remember(query, run, detail)
    parts.tab_title(_tab_title(report.judged))
    parts.subject(_tab_title(report.judged), run.machine.hardware.label, f"suite {run.suite}")
    chosen = UpgradeView(run.id, rules, shown)
    own = load.judged_by(url, run.id, many, summary.state, RuleChanges()) if rules.changed else report
    parts.complain(_other_rules(report.judged, own.judged) if rules.changed else [])
    if run.kind == RunKind.CONFIRMATION:
        parts.caption("A session that confirmed findings: a few cases, and no upgrade.")
    parts.html(report.verdict)
    _waive(report.judged)
    _hardware(url, verdicts, run)
    _matrix(chosen, report, metrics)
    _files(summary, report)
    _sections(report, folded=False)
    with parts.expander("Pass rate, latency, compile time and memory in full"):
        parts.html(tables.metric_cards(report.judged))
    form.rules(chosen, stored, report.judged)
    form.to_keep(chosen, report.judged)
    _sections(report, folded=True)
    parts.permanent_link(chosen.address)
    if detail is not None:
        case_panel.of_upgrade(url, run, report.judged, next(row for row in report.rows if row.case == detail))
    return run.id


def _tab_title(judged: JudgedUpgrade) -> str:
    """`2.13.0 to 2.15.0: no-go`; environments by their names too where these say something else."""
    sides: list[str] = []
    for side in (judged.subject.old, judged.subject.new):
        short = public(wording.version(side.torch))
        sides.append(short if side.name in (side.torch, public(side.torch)) else f"{side.name} ({short})")
    return f"{' to '.join(sides)}: {report_wording.decision_word(judged.upgrade).lower()}"


def _remember(query: Query, run: Run, detail: str | None) -> None:
    """Keep for other views the hardware of an upgrade that was chosen, and the workload of an opened case."""
    if detail or "run" in query or "hardware" in query:
        place = run.machine.hardware.fingerprint[: links.FINGERPRINT]
        about = {"workload": detail.rpartition("/")[0]} if detail else {}
        page_context.keep("/compare", query, hardware=place, **about)


def _on_all_hardware(
    url: str, query: Query, run_id: str, items: Sequence[UpgradeSummary]
) -> list[HardwareVerdict]:
    """The pair of versions of a run on all hardware, the worst first; nothing for a run of no list."""
    this = next((each for each in items if each.run.id == run_id and not each.confirms), None)
    if this is None:
        return []
    return worst_first(_hardware_verdict(url, query, each) for each in on_all_hardware(this, items))


def _hardware_verdict(url: str, query: Query, each: UpgradeSummary) -> HardwareVerdict:
    found = records.run(url, each.run.id)
    if found is None or each.comparison is None:
        return HardwareVerdict(each, because="not stored")
    rules, _ = rule_changes(query, each.comparison.policy)
    run, summary = found
    try:
        many = sum(summary.counts.values())
        return HardwareVerdict(each, *load.scorecard_of(url, run.id, many, summary.state, rules))
    except ValueError as error:
        return HardwareVerdict(each, because=str(error))


def _hardware(url: str, verdicts: Sequence[HardwareVerdict], run: Run) -> None:
    """A row for each hardware that measured the pair, and what did not."""
    if not verdicts:
        return
    table = tables.hardware(verdicts, run.id)
    title = "All hardware, the worst verdict first" if len(verdicts) > 1 else "Hardware"
    parts.table_section(title, table, "upgrade-hardware.csv")
    known = {place.hardware: place.hardware_label for place in records.measured_places(url)}
    if lacking := missing(verdicts, distinct(known)):
        parts.caption(parts.plain(f"Not measured on: {', '.join(lacking)}."))


def _choice(run: Run, items: Sequence[UpgradeSummary]) -> None:
    """Which upgrade, and its own page as a run."""
    options = {each.run.id: each.label for each in items if not each.confirms or each.run.id == run.id}
    options.setdefault(run.id, f"{run.id} · {run.machine.hardware.label}")
    with st.container(horizontal=True, vertical_alignment="bottom", key="upgrade-choice"):
        parts.select("Upgrade", "run", options, UpgradeView(run.id))


def _unknown_comparison(run: Run, why: str) -> None:
    """A run of which this database does not know what it compares."""
    if COMPARED not in run.facts and run.kind in (RunKind.UPGRADE, RunKind.CONFIRMATION):
        why = (
            "Measured before Pyrometer stored what was compared. The run's journal knows it, and where that "
            "lies this gives the verdict:"
        )
    parts.complain([why])
    parts.code(f"pyrometer report {run.id}")
    parts.html(markup.link(links.run(run.id), "The run, with every number →"))


def _other_rules(judged: JudgedUpgrade, own: JudgedUpgrade) -> list[str]:
    """That the page is judged by other rules, what the run's own say, and what of them means nothing here."""
    many = len(judged.results)
    decision = report_wording.decision_word(own.upgrade)
    note = (
        "Judged by the rules in this address, not by those of pyrometer.toml when it was measured: they say "
        f"{decision}. Pairs were taken until those were decided; by stricter ones more may stay unclear."
    )
    cases = [each.case for each in judged.results]
    unmatched = [
        f'{rule}: "{glob}" matches none of the {many} cases.'
        for rule, glob in judged.subject.policy.unmatched_globs(cases)
    ]
    return [note, *unmatched]


def _waive(judged: JudgedUpgrade) -> None:
    """How to decide without the cases that block: the dashboard judges nothing away."""
    blockers = judged.upgrade.blockers
    if not blockers:
        return
    with parts.expander(f"Waive {wording.plural(len(blockers), 'blocker')}"):
        parts.caption("This judges the run without them; the report names the reason:")
        waived = [part for case in blockers for part in ("--waive", case)]
        words = ["pyrometer", "report", judged.subject.run, *waived, "--because", "REASON"]
        parts.code(shlex.join(words))


def _matrix(chosen: UpgradeView, report: Report, metrics: Mapping[str, str]) -> None:
    """Every case in one metric, which is chosen above it."""
    judged = report.judged
    drawn = tables.matrix(judged, report.rows, chosen.shown, chosen.case_address)
    if drawn is None:
        return
    others = {table.metric: table for table in judged.upgrade.tables}
    own = chosen.shown == judged.subject.policy.metric or chosen.shown not in others
    csv = (
        cases_table(judged.subject, judged.upgrade, report.rows)
        if own
        else metric_table(others[chosen.shown])
    )
    parts.heading("Every case, change in %", csv, f"upgrade-{chosen.run}-grid.csv")
    if len(metrics) > 1:
        parts.segments("Metric", "shown", metrics, chosen)
    parts.html(drawn.html())


def _files(summary: RunSummary, report: Report) -> None:
    """What the verdict lacks so far, and the report as files."""
    subject = report.judged.subject
    progress = sentences.so_far(subject)
    if subject.resume:
        parts.caption(f"{progress} {sentences.GOES_ON}")
        parts.code(subject.resume)
    elif progress:
        parts.caption(progress)
    with st.container(horizontal=True, vertical_alignment="center", key="upgrade-files"):
        # On one line with the buttons: what moved begins on the first screen.
        parts.caption("Shaded: proved. · same, ? unclear (possible range), ✗ broken.")
        for ending, (name, mime) in _FILES.items():
            st.download_button(
                f"Report as {name}",
                partial(_written, report.judged, ending),
                file_name=f"upgrade-{summary.id}{ending}",
                mime=mime,
                key=f"report{ending}",
                on_click="ignore",
                help=f"The whole report in one file, judged as it is here, as {name}",
            )
        st.html(markup.link(links.run(summary.id), "Every outcome of this run →"))


def _written(judged: JudgedUpgrade, ending: str) -> bytes:
    return FORMATS[ending](judged).encode()


def _sections(report: Report, *, folded: bool) -> None:
    """The sections that are folded under the name of their group, or those that are not."""
    wanted = [section for section in report.sections if bool(section.group) == folded]
    for group, sections in groupby(wanted, key=lambda section: section.group):
        with st.expander(group) if group else nullcontext():
            for section in sections:
                _section(section)


def _section(section: ReportSection) -> None:
    parts.heading(section.title, section.tables or None, section.file, section.about)
    if section.chart:
        _chart(section.chart)
    for each in section.content:
        parts.html(each) if isinstance(each, str) else parts.table(each)
    for title, table in section.folded:
        with parts.expander(title):
            parts.table(table)


def _chart(drawn: IntervalData) -> None:
    look = replace(drawn.look, dark=st.context.theme.type == "dark")
    parts.chart(charts.intervals(look), drawn.alt, rows=drawn.rows)


def lists(known: UpgradeLists, opened: str | None) -> None:
    """All upgrades, and the sessions that confirmed findings; the one that is `opened` says so."""
    if known.upgrades:
        table = tables.upgrades("Upgrades", known.upgrades, opened or "", _UPGRADES)
        parts.heading("Upgrades", table, "upgrades.csv")
        parts.caption("The decision is that by the policy an upgrade was measured under.")
        parts.table(table)
        _older(len(known.upgrades), "upgrades", older=known.older)
    if known.sessions:
        table = tables.upgrades("Sessions about findings", known.sessions, opened or "", _SESSIONS)
        parts.heading("Sessions about findings", table, "sessions.csv")
        parts.caption("Each measured findings of a night again: a few cases.")
        parts.table(table)
        _older(len(known.sessions), "sessions", older=known.older_sessions)


def _older(many: int, what: str, *, older: bool) -> None:
    """Below a list: that there are older ones than it has."""
    if older:
        parts.caption(f"These are the newest {many:,} {what}; Runs has the older ones.")
