"""One upgrade with its verdict and evidence, and the list of all upgrades."""

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
#: The types of the report's files, by suffix.
_FILES = {
    ".html": ("HTML", "text/html"),
    ".md": ("Markdown", "text/markdown"),
    ".json": ("JSON", "application/json"),
}
#: The most upgrades in the table, and the most sessions about findings.
_UPGRADES, _SESSIONS = 50, 20


def show() -> None:
    """Show the upgrade that the address names, else the newest, and the list of all."""
    url = ServerSettings.from_environment().database_url
    query = parts.query()
    parts.title("Upgrade")
    upgrade_lists = load.newest(url)
    choice = resolve_address(query, upgrade_lists.items, older=upgrade_lists.older)
    parts.complain(choice.complaints)
    if choice.command:
        parts.caption("This measures them on the machine on which it runs:")
        parts.code(choice.command)
    opened = one(url, query, choice, upgrade_lists.items)
    if opened is None and not upgrade_lists.upgrades:
        nothing_measured(url)
    if upgrade_lists.items:
        lists(upgrade_lists, opened)


def nothing_measured(url: str) -> None:
    """The page before any upgrade: what other runs can be compared, and what to type."""
    offer_pairs("PyTorch versions of imported runs", version_pairs(url))
    with parts.empty_state("No upgrade measured yet"):
        st.write("This measures an old and a new PyTorch in pairs on this machine, and judges every case:")
        st.html(markup.code(_MEASURE))
        st.caption("OLD and NEW: versions, names or interpreters. Listed while it runs.")
        if records.count_runs(url) > 1:
            ways = ((links.RUN_PAIR, "Compare two runs →"), (links.HARDWARE, "Compare hardware →"))
            parts.html(f"<p>{' · '.join(markup.link(*way) for way in ways)}</p>")


def one(url: str, query: Query, choice: UpgradeAddress, items: Sequence[UpgradeSummary]) -> str | None:
    """Show the upgrade that an address names, or the newest if there is none; returns the shown one.

    Without a given hardware it is the one with the worst verdict.
    """
    if choice.run is None:
        return None
    if records.run(url, choice.run) is None:
        missing_run, choice = choice.run, resolve_address({}, items)
        instead = f" The page shows the newest upgrade instead: {choice.run}." if choice.run else ""
        parts.complain([f"{wording.no_such_run(missing_run, [each.run.id for each in items])}{instead}"])
    if choice.run is None:
        return None
    verdicts = _on_all_hardware(url, query, choice.run, items)
    run_id = verdicts[0].listed.run.id if verdicts and choice.any_hardware else choice.run
    stored_run = records.run(url, run_id)
    if stored_run is None:
        return None
    run, summary = stored_run
    _choice(run, items)
    try:
        comparison = load.comparison_of(run)
        policy = comparison.policy
        rules, complaints = rule_changes(query, policy)
        many = sum(summary.counts.values())
        report = load.judged_by(url, run.id, many, summary.state, rules)
    except ValueError as error:
        _unknown_comparison(run, str(error))
        _hardware(url, verdicts, run)
        return run.id
    metrics = tables.metrics(report.judged)
    metric = pick(query, "shown", list(metrics), next(iter(metrics)), complaints)
    detail = case_panel.read_case(query, [row.case for row in report.rows], complaints)
    parts.complain(complaints)
    _remember(query, run, detail)
    parts.tab_title(_tab_title(report.judged))
    parts.subject(_tab_title(report.judged), run.machine.hardware.label, f"suite {run.suite}")
    selection = UpgradeView(run.id, rules, metric)
    own = load.judged_by(url, run.id, many, summary.state, RuleChanges()) if rules.changed else report
    parts.complain(_other_rules(report.judged, own.judged) if rules.changed else [])
    if run.kind == RunKind.CONFIRMATION:
        parts.caption("A session that confirmed findings: a few cases, not an upgrade.")
    parts.html(report.verdict)
    _waive(report.judged)
    _hardware(url, verdicts, run)
    _matrix(selection, report, metrics)
    _files(summary, report)
    _sections(report, is_folded=False)
    with parts.expander("Pass rate, latency, compile time and memory in full"):
        parts.html(tables.metric_cards(report.judged))
    form.rules(selection, policy, report.judged)
    form.to_keep(selection, report.judged)
    _sections(report, is_folded=True)
    parts.permanent_link(selection.address)
    if detail is not None:
        case_panel.of_upgrade(url, run, report.judged, next(row for row in report.rows if row.case == detail))
    return run.id


def _tab_title(judgement: JudgedUpgrade) -> str:
    """`2.13.0 to 2.15.0: no-go`; with the names of the environments if these differ from the versions."""
    sides: list[str] = []
    for side in (judgement.subject.old, judgement.subject.new):
        short = public(wording.version(side.torch))
        sides.append(short if side.name in (side.torch, public(side.torch)) else f"{side.name} ({short})")
    return f"{' to '.join(sides)}: {report_wording.decision_word(judgement.upgrade).lower()}"


def _remember(query: Query, run: Run, detail: str | None) -> None:
    """Remember for other views the hardware of a selected upgrade, and the workload of an opened case."""
    if detail or "run" in query or "hardware" in query:
        place = run.machine.hardware.fingerprint[: links.FINGERPRINT]
        about = {"workload": detail.rpartition("/")[0]} if detail else {}
        page_context.keep("/compare", query, hardware=place, **about)


def _on_all_hardware(
    url: str, query: Query, run_id: str, items: Sequence[UpgradeSummary]
) -> list[HardwareVerdict]:
    """The pair of versions of a run on all hardware, worst first; empty for a run that is not listed."""
    this = next((each for each in items if each.run.id == run_id and not each.confirms), None)
    if this is None:
        return []
    return worst_first(_hardware_verdict(url, query, each) for each in on_all_hardware(this, items))


def _hardware_verdict(url: str, query: Query, each: UpgradeSummary) -> HardwareVerdict:
    stored_run = records.run(url, each.run.id)
    if stored_run is None or each.comparison is None:
        return HardwareVerdict(each, because="not stored")
    rules, _ = rule_changes(query, each.comparison.policy)
    run, summary = stored_run
    try:
        many = sum(summary.counts.values())
        return HardwareVerdict(each, *load.scorecard_of(url, run.id, many, summary.state, rules))
    except ValueError as error:
        return HardwareVerdict(each, because=str(error))


def _hardware(url: str, verdicts: Sequence[HardwareVerdict], run: Run) -> None:
    """Show a row for each hardware that measured the pair, and the hardware that did not."""
    if not verdicts:
        return
    table = tables.hardware(verdicts, run.id)
    title = "All hardware, the worst verdict first" if len(verdicts) > 1 else "Hardware"
    parts.table_section(title, table, "upgrade-hardware.csv")
    labels = {place.hardware: place.hardware_label for place in records.measured_places(url)}
    if lacking := missing(verdicts, distinct(labels)):
        parts.caption(parts.plain(f"Not measured on: {', '.join(lacking)}."))


def _choice(run: Run, items: Sequence[UpgradeSummary]) -> None:
    """Show the choice of the upgrade, and the link to its run."""
    options = {each.run.id: each.label for each in items if not each.confirms or each.run.id == run.id}
    options.setdefault(run.id, f"{run.id} · {run.machine.hardware.label}")
    with st.container(horizontal=True, vertical_alignment="bottom", key="upgrade-choice"):
        parts.select("Upgrade", "run", options, UpgradeView(run.id))


def _unknown_comparison(run: Run, why: str) -> None:
    """Show a run whose comparison is not stored in this database."""
    if COMPARED not in run.facts and run.kind in (RunKind.UPGRADE, RunKind.CONFIRMATION):
        why = (
            "Measured by an old version that did not store the comparison. The journal of the run contains "
            "it: on its machine this command gives the verdict:"
        )
    parts.complain([why])
    parts.code(f"pyrometer report {run.id}")
    parts.html(markup.link(links.run(run.id), "The run with all numbers →"))


def _other_rules(judgement: JudgedUpgrade, own: JudgedUpgrade) -> list[str]:
    """Show that other rules are used, the decision by the run's rules, and rules that match nothing."""
    many = len(judgement.results)
    decision = report_wording.decision_word(own.upgrade)
    note = (
        "Judged by the rules in this address, not by those of pyrometer.toml when it was measured: by those "
        f"it is {decision}. Pairs were measured until those were decided; with stricter rules more cases may "
        "stay unclear."
    )
    cases = [each.case for each in judgement.results]
    unmatched_rules = [
        f'{rule}: "{glob}" matches none of the {many} cases.'
        for rule, glob in judgement.subject.policy.unmatched_globs(cases)
    ]
    return [note, *unmatched_rules]


def _waive(judgement: JudgedUpgrade) -> None:
    """Show the command that waives the blocking cases; the dashboard cannot waive them."""
    blockers = judgement.upgrade.blockers
    if not blockers:
        return
    with parts.expander(f"Waive {wording.plural(len(blockers), 'blocker')}"):
        parts.caption("This judges the run without them; the report contains the reason:")
        waive_options = [part for case in blockers for part in ("--waive", case)]
        words = ["pyrometer", "report", judgement.subject.run, *waive_options, "--because", "REASON"]
        parts.code(shlex.join(words))


def _matrix(selection: UpgradeView, report: Report, metrics: Mapping[str, str]) -> None:
    """Show every case in one metric, which can be chosen above."""
    judgement = report.judged
    matrix = tables.matrix(judgement, report.rows, selection.shown, selection.case_address)
    if matrix is None:
        return
    others = {table.metric: table for table in judgement.upgrade.tables}
    own = selection.shown == judgement.subject.policy.metric or selection.shown not in others
    csv = (
        cases_table(judgement.subject, judgement.upgrade, report.rows)
        if own
        else metric_table(others[selection.shown])
    )
    parts.heading("Every case, change in %", csv, f"upgrade-{selection.run}-grid.csv")
    if len(metrics) > 1:
        parts.segments("Metric", "shown", metrics, selection)
    parts.html(matrix.html())


def _files(summary: RunSummary, report: Report) -> None:
    """Show notes on an unfinished verdict, and the report as files."""
    subject = report.judged.subject
    progress = sentences.so_far(subject)
    if subject.resume:
        parts.caption(f"{progress} {sentences.GOES_ON}")
        parts.code(subject.resume)
    elif progress:
        parts.caption(progress)
    with st.container(horizontal=True, vertical_alignment="center", key="upgrade-files"):
        # On one line with the buttons, so that changed cases begin on the first screen.
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
        st.html(markup.link(links.run(summary.id), "All outcomes of this run →"))


def _written(judgement: JudgedUpgrade, ending: str) -> bytes:
    return FORMATS[ending](judgement).encode()


def _sections(report: Report, *, is_folded: bool) -> None:
    """The sections that are folded under the name of their group, or those that are not."""
    wanted = [section for section in report.sections if bool(section.group) == is_folded]
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


def _chart(data: IntervalData) -> None:
    look = replace(data.look, dark=st.context.theme.type == "dark")
    parts.chart(charts.intervals(look), data.alt, rows=data.rows)


def lists(upgrade_lists: UpgradeLists, opened: str | None) -> None:
    """All upgrades, and the sessions that confirmed findings; the one that is `opened` says so."""
    if upgrade_lists.upgrades:
        table = tables.upgrades("Upgrades", upgrade_lists.upgrades, opened or "", _UPGRADES)
        parts.heading("Upgrades", table, "upgrades.csv")
        parts.caption("Decisions are by the policy under which each upgrade was measured.")
        parts.table(table)
        _older(len(upgrade_lists.upgrades), "upgrades", older=upgrade_lists.older)
    if upgrade_lists.sessions:
        table = tables.upgrades("Sessions about findings", upgrade_lists.sessions, opened or "", _SESSIONS)
        parts.heading("Sessions about findings", table, "sessions.csv")
        parts.caption("Each measured findings of a night again: a few cases.")
        parts.table(table)
        _older(len(upgrade_lists.sessions), "sessions", older=upgrade_lists.older_sessions)


def _older(many: int, what: str, *, older: bool) -> None:
    """The note below a list that there are older ones."""
    if older:
        parts.caption(f"These are the newest {many:,} {what}; Runs has the older ones.")
