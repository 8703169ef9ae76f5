"""The panel of one case in a run or a comparison: it opens over the page that a number was clicked on.

The address holds what is opened, as `detail` or, of a run, as `case`: the way back closes the panel.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from statistics import median

import pandas as pd
import streamlit as st
from markupsafe import Markup

from analysis.comparison import rounds
from analysis.comparison.verdict import Verdict
from analysis.metrics import METRICS
from analysis.ratios import ratio
from dashboard.components import charts, frames, links, load, markup, parts, tables, wording
from dashboard.components.query_params import Query, last, unknown_value
from dashboard.exports import page_recorder
from dashboard.trends import chart_section
from dashboard.trends.load import load_trends
from interchange.formats import came_from
from records.environments import Environment
from records.fingerprints import AGAIN
from records.kinds import EnvironmentKind
from records.outcomes import Outcome, OutcomeStatus
from records.runs import Run
from reports import sentences
from reports import tables as report_tables
from reports import wording as report_wording
from reports.report_context import Subject
from reports.rows import Row, sign, tone
from reports.table import Column, DataTable
from reports.text.dispatch_text import case_words
from reports.upgrade_report import JudgedUpgrade
from workflows.planning.reproduction import reproduce_command

#: Lines at most of what runs differently.
_MOST_CHANGES = 12


def read_case(query: Query, cases: Sequence[str], complaints: list[str]) -> str | None:
    """The case that the address opens, one of `cases`; another is a complaint."""
    case = last(query, links.DETAIL)
    if case and case not in cases:
        complaints.append(unknown_value("case", case, cases))
        return None
    return case or None


def of_upgrade(url: str, run: Run, judged: JudgedUpgrade, row: Row) -> None:
    """Open one case of an upgrade: every metric of both sides, what runs differently, how it ended."""
    subject = judged.subject
    outcomes = [each for each in load.outcomes(url, run.id) if each.case == row.case]

    def body() -> None:
        parts.html(markup.verdict(row.tone, row.sign, row.word.capitalize(), *_change(row)))
        parts.table_section("Every metric", metrics_table(judged, row.case), f"case-{run.id}.csv")
        _dispatch(subject, row.case)
        kernels = report_tables.kernels_of_case(subject.kernels, row.case)
        parts.table_section("GPU kernels", kernels, f"kernels-{run.id}.csv", sentences.KERNEL_TIMES)
        _process_list(run, outcomes)
        parts.heading("Measure it again")
        parts.code(subject.reproduce(row.case))
        _history(url, run, row.case, subject.policy.metric)

    _open(wording.case(row.case).text, body)


def of_run(url: str, run: Run, case: str, environment: str, metric: str = "") -> None:
    """Open one case of a run in an environment (a fingerprint): its processes, samples and log.

    With a `metric` its history too.
    """
    outcomes = [
        each for each in load.outcomes(url, run.id) if each.case == case and each.environment == environment
    ]

    def body() -> None:
        _process_list(run, outcomes)
        kernels_section(outcomes, f"kernels-{run.id}.csv")
        if outcomes:
            # One that ended otherwise may have no samples.
            well = (each for each in outcomes if each.status == OutcomeStatus.OK)
            first = next(well, outcomes[0])
            blocks = load.samples(url, run.id, case, environment, first.replicate)
            name = f"{run.id}-{first.replicate}"
            reproduce(run, first)
            if any(blocks):
                parts.subject(wording.case(case).text, run.machine.hardware.label)
                samples_section(blocks, name, rounds.tainted_block_numbers(first.facts))
        if metric:
            _history(url, run, case, metric)

    _open(wording.case(case).text, body)


def of_outcome(url: str, run: Run, opened: Outcome, *, observed: bool, defined: wording.Definitions) -> None:
    """Open one outcome of a run, with the other processes of its case and its history.

    `observed` and `defined` are as in `outcome_section`.
    """
    place = opened.case, opened.environment
    outcomes = [each for each in load.outcomes(url, run.id) if (each.case, each.environment) == place]
    metrics = {name: None for each in outcomes for name in each.metrics}
    metric = load.EVERY_CASE if load.EVERY_CASE in metrics else next(iter(metrics), "")

    def body() -> None:
        parts.subject(wording.case(opened.case).text, run.machine.hardware.label)
        blocks = load.samples(url, run.id, *opened.key)
        outcome_section(run, opened, blocks, observed=observed, defined=defined)
        if len(outcomes) > 1:
            parts.table_section("Processes", processes_table(run, outcomes), f"processes-{run.id}.csv")
        if metric:
            _history(url, run, opened.case, metric)

    _open(wording.case(opened.case).text, body, ("case", "environment", "replicate"))


def _open(title: str, body: Callable[[], None], names: Sequence[str] = (links.DETAIL, "environment")) -> None:
    """Open the panel; once it is closed, the parameters of these `names` leave the address.

    The foot of the page lies below it, so that the panel has the button of its own that saves the page.
    """
    closed, record = partial(_close_panel, names), page_recorder.current()

    def panel() -> None:
        body()
        if record is not None:
            page_recorder.page_button(record, page_recorder.slug(f"panel {title}"))

    st.dialog(parts.plain(title), width="large", position="right", on_dismiss=closed)(panel)()


def _close_panel(names: Sequence[str]) -> None:
    for name in names:
        if name in st.query_params:
            del st.query_params[name]


def _change(row: Row) -> list[str]:
    """The numbers of a case in the metric that decides, then what its verdict leaves open."""
    judged = row.verdict
    if judged is None or judged.old is None or judged.new is None:
        return [row.summary]
    old, new = (report_wording.quantity(judged.metric, value) for value in (judged.old, judged.new))
    ends = report_wording.interval(judged.low, judged.high)
    pairs = wording.plural(judged.n, "pair")
    text = f"{old} → {new}: {report_wording.change(judged)} [{ends}] over {pairs}"
    return [text, *([row.summary] if row.summary != row.word else [])]


def _dispatch(subject: Subject, case: str) -> None:
    """What one step of the case runs differently, if anything."""
    found = [each for each in subject.dispatch if each.case == case]
    lines = [line for each in found for line in case_words(each, _MOST_CHANGES)]
    if lines:
        parts.heading("What runs differently")
        parts.html(markup.notes(lines))


def _process_list(run: Run, outcomes: Sequence[Outcome]) -> None:
    """Every process with a link to its samples, and the log of the first one that did not end well."""
    if not outcomes:
        parts.caption("No process of it is stored.")
        return
    table = processes_table(run, outcomes)
    parts.table_section("Processes", table, f"processes-{run.id}.csv")
    failed = next((each for each in table.rows if each.status != OutcomeStatus.OK), None)
    if failed is not None and failed.log_tail.strip():
        log_section(failed.log_tail)


def _history(url: str, run: Run, case: str, metric: str) -> None:
    """The case over time where it was measured more than once, with a link to its own view."""
    place = run.machine.hardware.fingerprint, run.preset.fingerprint
    query = {"metric": [metric], "hardware": [place[0]], "preset": [place[1]], "case": [case]}
    found = load_trends(url, query)
    if found is not None and not found.complaints and len(set(found.drawn.points["x"])) > 1:
        chart_section.show(found.chosen, found.metric, found.drawn, [])
    address = links.trends(metric, *place, case)
    parts.link(address, "History →")


def declared_name(environment: Environment) -> str:
    """What commands call an environment, which has a second name where it was compared with itself."""
    again = environment.fingerprint.endswith(AGAIN)
    return environment.name.removesuffix(AGAIN) if again else environment.name


def samples_section(blocks: Sequence[Sequence[int]], name: str, left_out: frozenset[int]) -> None:
    """The samples of one replicate as they were taken, and the distribution of those that count.

    `left_out` are the blocks, by their number from 0, that do not count.
    """
    parts.heading("Samples", lambda: frames.samples(blocks, left_out), f"samples-{name}.csv")
    counted = [block for number, block in enumerate(blocks) if number not in left_out and block]
    values = frames.milliseconds(counted)
    many = sum(map(len, blocks))
    summary = f"{wording.plural(many, 'sample')} in {wording.plural(len(blocks), 'block')}"
    if len(values):
        summary += f", median {wording.quantity(median(values.tolist()), 'ms')}"
    shown = frames.bulk(values)
    crosses = len(blocks) - len(counted)
    parts.caption(wording.about_samples(summary, many, frames.MAX_SAMPLES, len(values) - len(shown), crosses))
    in_order, distributed = st.columns(2)
    with in_order:
        parts.chart(
            charts.samples_in_order(),
            f"In the order they were taken: {summary}",
            count=summary,
            samples=frames.thin_samples(blocks, left_out),
            blocks=frames.block_starts(blocks),
        )
    if not len(values):
        return
    with distributed:
        parts.chart(
            charts.distribution(),
            f"Distribution: {summary}",
            count=summary,
            bins=frames.histogram(shown),
            median=pd.DataFrame({"milliseconds": [median(values.tolist())]}),
        )


def outcome_section(
    run: Run,
    opened: Outcome,
    blocks: Sequence[Sequence[int]],
    more: Callable[[], None] | None = None,
    *,
    observed: bool,
    defined: wording.Definitions,
) -> None:
    """One outcome: how it ended, how to see it again, its samples, what `more` shows, its log's end.

    `observed`: it has a telemetry window, to which a link leads. `defined`: metrics that came from outside.
    """
    parts.html(tables.outcome_title(opened))
    if observed:
        address = links.utilisation(run.id, opened.case, opened.environment, opened.replicate)
        parts.link(address, "How busy GPU and CPUs were: Utilisation →")
    reproduce(run, opened)
    parts.html(tables.outcome_facts(run, opened, defined))
    if any(blocks):
        name = f"{run.id}-{opened.case.replace('/', '__')}-{opened.replicate}"
        samples_section(blocks, name, rounds.tainted_block_numbers(opened.facts))
    kernels_section([opened], f"kernels-{run.id}-{opened.case.replace('/', '__')}-{opened.replicate}.csv")
    if more is not None:
        more()
    if not came_from(run) or opened.log_tail:
        log_section(opened.log_tail)
    st.divider()


def kernels_section(outcomes: Iterable[Outcome], file_name: str) -> None:
    """The GPU kernels of a case in one environment; nothing of one that has none."""
    parts.table_section(
        "GPU kernels", report_tables.stored_kernels(outcomes), file_name, sentences.KERNEL_TIMES
    )


def reproduce(run: Run, opened: Outcome) -> None:
    """The command that measures a case of a run again, or why there is none."""
    own = (each for each in run.environments if each.kind != EnvironmentKind.CANARY)
    measured = {each.fingerprint: declared_name(each) for each in own}
    if source := came_from(run):
        parts.caption(parts.plain(f"It was {source}: no command of Pyrometer measures it again."))
    elif opened.environment in measured:
        parts.caption("Measure it again:")
        parts.code(reproduce_command(run, opened.case, measured[opened.environment]))
    else:
        parts.caption("The canary runs between sessions, by no command of its own.")


def log_section(text: str) -> None:
    """The end of a log."""
    parts.heading("Log (tail)")
    if not text.strip():
        parts.caption("The worker wrote nothing.")
        return
    parts.code(text)


#: Processes in a table at most.
_MOST_PROCESSES = 30


def metrics_table(judged: JudgedUpgrade, case: str) -> DataTable[Verdict]:
    """The verdict on every metric of a case that was judged, the one that decides first."""
    upgrade = judged.upgrade
    every = [upgrade.verdicts, *(table.verdicts for table in upgrade.tables)]
    found = {each[case].metric: each[case] for each in every if case in each}
    columns: list[Column[Verdict]] = [
        Column("metric", "Metric", lambda one: one.metric, lambda one: METRICS[one.metric].title),
        Column(
            "old", "Old", lambda one: one.old, lambda one: report_wording.quantity(one.metric, one.old), True
        ),
        Column(
            "new", "New", lambda one: one.new, lambda one: report_wording.quantity(one.metric, one.new), True
        ),
        Column("ratio", "Change", lambda one: ratio(one.change), report_wording.change, True),
        Column("ratio_low", value=lambda one: ratio(one.low)),
        Column("ratio_high", value=lambda one: ratio(one.high)),
        Column("", "Interval", format=lambda one: report_wording.interval(one.low, one.high), number=True),
        Column("pairs", "Pairs", lambda one: one.n, number=True),
        Column("verdict", "Verdict", lambda one: one.word, _verdict_cell),
    ]
    return DataTable("Every metric", columns, list(found.values()))


def _verdict_cell(one: Verdict) -> Markup:
    return Markup('<span class="py-{}">{} {}</span>').format(
        tone(one.word), sign(one.word), report_wording.verdict(one)
    )


def processes_table(run: Run, outcomes: Sequence[Outcome]) -> DataTable[Outcome]:
    """The processes that measured a case; each leads to its samples.

    Those that did not end well come first. Those that were not needed are counted and not listed.
    """
    started = [one for one in outcomes if one.status != OutcomeStatus.SKIPPED] or outcomes
    ordered = sorted(started, key=lambda one: one.status == OutcomeStatus.OK)
    left = len(outcomes) - len(ordered)
    table = tables.outcomes(run, ordered)
    columns = [replace(each, label=None) if each.label == "Case" else each for each in table.columns]
    rest = "more, not needed or not listed."
    return replace(table, label="Processes", columns=columns, most=_MOST_PROCESSES, rest=rest, omitted=left)
