"""The tables of one case: its metrics on both sides of an upgrade, and its processes."""

from collections.abc import Sequence

from markupsafe import Markup

from analysis.comparison.verdict import Verdict
from analysis.metrics import METRICS
from analysis.ratios import ratio
from dashboard.components import links, markup
from dashboard.components.wording import utc
from records.outcomes import Outcome, OutcomeStatus
from records.runs import Run
from reports import wording
from reports.rows import sign, tone
from reports.table import Column, DataTable
from reports.upgrade_report import JudgedUpgrade

#: Processes in a table at most.
_MOST = 30


def metrics(judged: JudgedUpgrade, case: str) -> DataTable[Verdict]:
    """The verdict on every metric of a case that was judged, the one that decides first."""
    upgrade = judged.upgrade
    every = [upgrade.verdicts, *(table.verdicts for table in upgrade.tables)]
    found = {each[case].metric: each[case] for each in every if case in each}
    columns: list[Column[Verdict]] = [
        Column("metric", "Metric", lambda one: one.metric, lambda one: METRICS[one.metric].title),
        Column("old", "Old", lambda one: one.old, lambda one: wording.quantity(one.metric, one.old), True),
        Column("new", "New", lambda one: one.new, lambda one: wording.quantity(one.metric, one.new), True),
        Column("ratio", "Change", lambda one: ratio(one.change), wording.change, True),
        Column("ratio_low", value=lambda one: ratio(one.low)),
        Column("ratio_high", value=lambda one: ratio(one.high)),
        Column("", "Interval", format=lambda one: wording.interval(one.low, one.high), number=True),
        Column("pairs", "Pairs", lambda one: one.n, number=True),
        Column("verdict", "Verdict", lambda one: one.word, _verdict),
    ]
    return DataTable("Every metric", columns, list(found.values()))


def _verdict(one: Verdict) -> Markup:
    return Markup('<span class="py-{}">{} {}</span>').format(
        tone(one.word), sign(one.word), wording.verdict(one)
    )


def processes(run: Run, outcomes: Sequence[Outcome]) -> DataTable[Outcome]:
    """The processes that measured a case; each leads to its samples.

    Those that did not end well come first. Those that were not needed are counted and not listed.
    """
    names = {each.fingerprint: each.name for each in run.environments}
    columns: list[Column[Outcome]] = [
        Column(
            "environment",
            "Environment",
            lambda one: names.get(one.environment, one.environment),
            link=lambda one: links.outcome(run.id, one.case, one.environment, one.replicate),
        ),
        Column("replicate", "Process", lambda one: one.replicate + 1, number=True),
        Column("status", "Outcome", lambda one: one.status, lambda one: Markup(markup.chip(one.status))),
        Column("reason", "Why", lambda one: one.reason),
        Column("started_at", "Started", lambda one: one.started_at, lambda one: utc(one.started_at)),
    ]
    started = [one for one in outcomes if one.status != OutcomeStatus.SKIPPED] or outcomes
    ordered = sorted(started, key=lambda one: one.status == OutcomeStatus.OK)
    left = len(outcomes) - len(ordered)
    return DataTable("Processes", columns, ordered, _MOST, "more, not needed or not listed.", omitted=left)
