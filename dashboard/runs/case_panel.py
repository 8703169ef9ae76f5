"""The panel of one case in a run or a comparison: it opens over the page when a number is clicked.

The address contains the opened case, as `detail` or, for a run, as `case`, so that going back closes the
panel.
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

#: The most lines of differing operators and kernels.
_MOST_CHANGES = 12


def read_case(query: Query, cases: Sequence[str], complaints: list[str]) -> str | None:
    """The case that the address opens, one of `cases`, or a complaint about another."""
    case = last(query, links.DETAIL)
    if case and case not in cases:
        complaints.append(unknown_value("case", case, cases))
        return None
    return case or None


def of_upgrade(url: str, run: Run, judgement: JudgedUpgrade, row: Row) -> None:
    """Open one case of an upgrade: every metric of both sides, differing operators and kernels, outcomes."""
    subject = judgement.subject
    outcomes = [each for each in load.outcomes(url, run.id) if each.case == row.case]

    def body() -> None:
        parts.html(markup.verdict(row.tone, row.sign, row.word.capitalize(), *_change(row)))
        parts.table_section("Every metric", metrics_table(judgement, row.case), f"case-{run.id}.csv")
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
            # An outcome that is not ok may have no samples.
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


def of_outcome(
    url: str, run: Run, outcome: Outcome, *, has_window: bool, definitions: wording.Definitions
) -> None:
    """Open one outcome of a run, with the other processes of its case and its history.

    `has_window` and `definitions` are as in `outcome_section`.
    """
    place = outcome.case, outcome.environment
    outcomes = [each for each in load.outcomes(url, run.id) if (each.case, each.environment) == place]
    metrics = {name: None for each in outcomes for name in each.metrics}
    metric = load.EVERY_CASE if load.EVERY_CASE in metrics else next(iter(metrics), "")

    def body() -> None:
        parts.subject(wording.case(outcome.case).text, run.machine.hardware.label)
        blocks = load.samples(url, run.id, *outcome.key)
        outcome_section(run, outcome, blocks, has_window=has_window, definitions=definitions)
        if len(outcomes) > 1:
            parts.table_section("Processes", processes_table(run, outcomes), f"processes-{run.id}.csv")
        if metric:
            _history(url, run, outcome.case, metric)

    _open(wording.case(outcome.case).text, body, ("case", "environment", "replicate"))


def _open(title: str, body: Callable[[], None], names: Sequence[str] = (links.DETAIL, "environment")) -> None:
    """Open the panel; when it is closed, these parameters are removed from the address.

    The foot of the page is behind the panel, so the panel has its own button that saves the page.
    """
    close, record = partial(_close_panel, names), page_recorder.current()

    def panel() -> None:
        body()
        if record is not None:
            page_recorder.page_button(record, page_recorder.slug(f"panel {title}"))

    st.dialog(parts.plain(title), width="large", position="right", on_dismiss=close)(panel)()


def _close_panel(names: Sequence[str]) -> None:
    for name in names:
        if name in st.query_params:
            del st.query_params[name]


def _change(row: Row) -> list[str]:
    """The numbers of a case in the deciding metric, then the reason of its verdict."""
    verdict = row.verdict
    if verdict is None or verdict.old is None or verdict.new is None:
        return [row.summary]
    old, new = (report_wording.quantity(verdict.metric, value) for value in (verdict.old, verdict.new))
    ends = report_wording.interval(verdict.low, verdict.high)
    pairs = wording.plural(verdict.n, "pair")
    text = f"{old} → {new}: {report_wording.change(verdict)} [{ends}] over {pairs}"
    return [text, *([row.summary] if row.summary != row.word else [])]


def _dispatch(subject: Subject, case: str) -> None:
    """Show the differing operators and kernels of one step of the case, if any."""
    matches = [each for each in subject.dispatch if each.case == case]
    lines = [line for each in matches for line in case_words(each, _MOST_CHANGES)]
    if lines:
        parts.heading("What runs differently")
        parts.html(markup.notes(lines))


def _process_list(run: Run, outcomes: Sequence[Outcome]) -> None:
    """Show every process with a link to its samples, and the log of the first failed one."""
    if not outcomes:
        parts.caption("No process of it is stored.")
        return
    table = processes_table(run, outcomes)
    parts.table_section("Processes", table, f"processes-{run.id}.csv")
    failure = next((each for each in table.rows if each.status != OutcomeStatus.OK), None)
    if failure is not None and failure.log_tail.strip():
        log_section(failure.log_tail)


def _history(url: str, run: Run, case: str, metric: str) -> None:
    """Show the history of a case that was measured more than once, with a link to its view."""
    place = run.machine.hardware.fingerprint, run.preset.fingerprint
    query = {"metric": [metric], "hardware": [place[0]], "preset": [place[1]], "case": [case]}
    data = load_trends(url, query)
    if data is not None and not data.complaints and len(set(data.drawn.points["x"])) > 1:
        chart_section.show(data.chosen, data.metric, data.drawn, [])
    address = links.trends(metric, *place, case)
    parts.link(address, "History →")


def declared_name(environment: Environment) -> str:
    """The name of an environment in commands; an environment that is compared with itself has a second
    name.
    """
    again = environment.fingerprint.endswith(AGAIN)
    return environment.name.removesuffix(AGAIN) if again else environment.name


def samples_section(blocks: Sequence[Sequence[int]], name: str, left_out: frozenset[int]) -> None:
    """Show the samples of one replicate in the order they were taken, and the distribution of those that
    count.

    `left_out` are the numbers, from 0, of the blocks that do not count.
    """
    parts.heading("Samples", lambda: frames.samples(blocks, left_out), f"samples-{name}.csv")
    counting_blocks = [block for number, block in enumerate(blocks) if number not in left_out and block]
    values = frames.milliseconds(counting_blocks)
    many = sum(map(len, blocks))
    summary = f"{wording.plural(many, 'sample')} in {wording.plural(len(blocks), 'block')}"
    if len(values):
        summary += f", median {wording.quantity(median(values.tolist()), 'ms')}"
    bulk = frames.bulk(values)
    crosses = len(blocks) - len(counting_blocks)
    parts.caption(wording.about_samples(summary, many, frames.MAX_SAMPLES, len(values) - len(bulk), crosses))
    in_order, distribution = st.columns(2)
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
    with distribution:
        parts.chart(
            charts.distribution(),
            f"Distribution: {summary}",
            count=summary,
            bins=frames.histogram(bulk),
            median=pd.DataFrame({"milliseconds": [median(values.tolist())]}),
        )


def outcome_section(
    run: Run,
    outcome: Outcome,
    blocks: Sequence[Sequence[int]],
    more: Callable[[], None] | None = None,
    *,
    has_window: bool,
    definitions: wording.Definitions,
) -> None:
    """Show one outcome: its status, the command that repeats it, its samples, the output of `more`, the end
    of its log.

    `has_window`: it has a telemetry window, which is linked. `definitions`: imported metrics.
    """
    parts.html(tables.outcome_title(outcome))
    if has_window:
        address = links.utilisation(run.id, outcome.case, outcome.environment, outcome.replicate)
        parts.link(address, "Utilisation of GPU and CPUs →")
    reproduce(run, outcome)
    parts.html(tables.outcome_facts(run, outcome, definitions))
    if any(blocks):
        name = f"{run.id}-{outcome.case.replace('/', '__')}-{outcome.replicate}"
        samples_section(blocks, name, rounds.tainted_block_numbers(outcome.facts))
    kernels_section([outcome], f"kernels-{run.id}-{outcome.case.replace('/', '__')}-{outcome.replicate}.csv")
    if more is not None:
        more()
    if not came_from(run) or outcome.log_tail:
        log_section(outcome.log_tail)
    st.divider()


def kernels_section(outcomes: Iterable[Outcome], file_name: str) -> None:
    """Show the GPU kernels of a case in one environment, if there are any."""
    parts.table_section(
        "GPU kernels", report_tables.stored_kernels(outcomes), file_name, sentences.KERNEL_TIMES
    )


def reproduce(run: Run, outcome: Outcome) -> None:
    """The command that measures a case of a run again, or the reason why there is none."""
    own = (each for each in run.environments if each.kind != EnvironmentKind.CANARY)
    names = {each.fingerprint: declared_name(each) for each in own}
    if source := came_from(run):
        parts.caption(parts.plain(f"It was {source}: Pyrometer cannot measure it again."))
    elif outcome.environment in names:
        parts.caption("Measure it again:")
        parts.code(reproduce_command(run, outcome.case, names[outcome.environment]))
    else:
        parts.caption("The canary runs between sessions; there is no command for it.")


def log_section(text: str) -> None:
    """The end of a log."""
    parts.heading("Log (tail)")
    if not text.strip():
        parts.caption("The worker wrote nothing.")
        return
    parts.code(text)


#: Processes in a table at most.
_MOST_PROCESSES = 30


def metrics_table(judgement: JudgedUpgrade, case: str) -> DataTable[Verdict]:
    """The verdict on every judged metric of a case, the deciding one first."""
    upgrade = judgement.upgrade
    every = [upgrade.verdicts, *(table.verdicts for table in upgrade.tables)]
    result = {each[case].metric: each[case] for each in every if case in each}
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
    return DataTable("Every metric", columns, list(result.values()))


def _verdict_cell(one: Verdict) -> Markup:
    return Markup('<span class="py-{}">{} {}</span>').format(
        tone(one.word), sign(one.word), report_wording.verdict(one)
    )


def processes_table(run: Run, outcomes: Sequence[Outcome]) -> DataTable[Outcome]:
    """The processes that measured a case, each with a link to its samples, failed ones first.

    Those that were not needed are only counted.
    """
    begun_outcomes = [one for one in outcomes if one.status != OutcomeStatus.SKIPPED] or outcomes
    in_order = sorted(begun_outcomes, key=lambda one: one.status == OutcomeStatus.OK)
    remainder = len(outcomes) - len(in_order)
    table = tables.outcomes(run, in_order)
    columns = [replace(each, label=None) if each.label == "Case" else each for each in table.columns]
    rest = "more, not needed or not listed."
    return replace(
        table, label="Processes", columns=columns, most=_MOST_PROCESSES, rest=rest, omitted=remainder
    )
