"""The report at the end of a run, and `pyrometer report`, which prints it again."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Set
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from analysis.replicates import Summary, summarise
from analysis.speedups import Gain, gains
from common.text import printable
from records.kinds import RunSource
from records.outcomes import Outcome
from reports import sentences
from runner.suites.references import baselines
from workflows.errors import UsageError
from workflows.ingest import store_pending
from workflows.load_run import LATEST, Told, judge_told, retell

from ..context import FAILED, context, in_one_sentence
from ..options import Reports
from ..output.case_names import CaseName
from ..output.foreign_report import print_foreign
from ..output.gains import print_gains
from ..output.operator_tables import print_traces
from ..output.progress import JsonWatcher, duration, report_console
from ..output.upgrade_result import check_reports, tell, write_reports
from ..output.wording import figure, times

#: Columns of the table: metric and heading.
_COLUMNS = (
    ("latency_floor", "min-based ms"),
    ("latency", "median ms"),
    ("throughput", "items/s"),
    ("compile_cold", "compile cold s"),
    ("compile_warm", "warm s"),
    ("rss_peak", "peak RSS MiB"),
    ("model_tflops", "TFLOP/s"),
)

#: Below this many columns the table shows what speed-ups are made of, or median latency and throughput; the
#: dashboard has the rest.
_WIDE = 120
#: Below this many it shows no more than three metrics beside speed-ups with their intervals.
_WIDEST = 160
#: What a case key may claim of a narrow terminal before it is folded, and what it must leave to the others.
_CASE_WIDTH = _OTHERS_WIDTH = 40


def report(
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="a run's id, or `latest`")] = LATEST,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="the lines `outcome` and `ended` of `run --json`, of an upgrade `verdict`"
        ),
    ] = False,
    files: Reports = None,
) -> None:
    """Print again what `run` printed at its end, or the verdict of an upgrade."""
    with in_one_sentence():
        check_reports(files or ())
        here = context()
        store_pending(here)
        told = retell(here.places.data_dir, run, here.open_database)
        judged = judge_told(told)
        if files and judged is None:
            raise UsageError(f"run {told.result.run} is no upgrade: only of one there is a report to write")
    console = report_console()
    if judged is not None:
        tell(console, judged, as_json=as_json, here=told.header is not None)
        if not write_reports(judged, files or ()):
            raise typer.Exit(FAILED)
        return
    if not as_json:
        print_told(console, told, here.runs / told.result.run)
        return
    watcher = JsonWatcher(console)
    for outcome in told.result.outcomes:
        watcher.measured(outcome)
    # Of what others measured nobody knows what was alive together: there are no gains.
    foreign = told.source != RunSource.MEASURED
    watcher.finished(replace(told.result, outcomes=()) if foreign else told.result)


def print_told(console: Console, told: Told, folder: Path) -> None:
    """The end of a run that has its traces in `folder`: the tables of what was traced, and the report."""
    if told.traced:
        print_traces(console, told.result.outcomes, folder)
    if told.source != RunSource.MEASURED:
        print_foreign(console, told)
        return
    print_report(console, told)


def print_report(console: Console, told: Told) -> None:
    """Cases with their numbers, then what did not go well, then what to do next."""
    result = told.result
    by_case: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in result.outcomes:
        by_case[outcome.case].append(outcome)
    found = gains(result.outcomes, baselines)
    if not told.traced and by_case:
        console.print(_table(by_case, _speed_ups(found), console.width))
    for case, outcomes in by_case.items():
        bad = [outcome for outcome in outcomes if outcome.status != "ok"]
        for reason, count in Counter((o.status, o.reason) for o in bad).items():
            console.print(
                f"{case}: {count} x {reason[0]}: {printable(reason[1])}", markup=False, soft_wrap=True
            )
    if not told.traced:
        print_gains(console, by_case, found)
    counts = Counter(outcome.status for outcome in result.outcomes)
    summary = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    if result.state == "running":
        console.print(_so_far(told, summary), soft_wrap=True)
    else:
        console.print(
            f"run {result.run} is {result.state}: {summary or 'nothing measured'} "
            f"of {told.planned} planned, {_when(told)}"
        )
        if not result.stored:
            console.print("not in the database yet: the journal holds it, and the next command stores it")
    if result.state == "interrupted":
        # What only the database knows has no journal here to go on with.
        how = "go on with:" if told.header is not None else sentences.GOES_ON
        console.print(f"{how} pyrometer run --resume {result.run}")


def _so_far(told: Told, summary: str) -> str:
    """How far a run is that goes on."""
    done = len(told.result.outcomes)
    head = f"run {told.result.run} is running, {_when(told)}: "
    if done:
        return f"{head}{done} of {told.planned} replicates have ended ({summary}); the rest is still to come"
    return (
        f"{head}none of {told.planned} replicates has ended yet; those of one workload are measured in turns "
        "and end together"
    )


def _when(told: Told) -> str:
    if told.result.seconds is not None:
        return f"in {duration(told.result.seconds)}"
    return f"begun {told.started_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _speed_ups(found: Mapping[tuple[str, str], tuple[Gain, ...]]) -> dict[str, Gain]:
    return {case: gain for (case, _), own in found.items() for gain in own if gain.kind == "speed-up"}


def _table(by_case: dict[str, list[Outcome]], speed_ups: Mapping[str, Gain], width: int) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    case_width = min(_CASE_WIDTH, max(width - _OTHERS_WIDTH, 1), max(map(len, by_case), default=0))
    table.add_column("case", overflow="fold", min_width=case_width)
    table.add_column("n", justify="right")
    made_of = {gain.metric for gain in speed_ups.values() if gain.ratio is not None}
    wide, with_items = width >= _WIDE, _items_differ(by_case, speed_ups)
    if with_items:
        table.add_column("items", justify="right")
    measured = {metric for outcomes in by_case.values() for one in outcomes for metric in one.metrics}
    shown = [column for column in _chosen(made_of, width) if column[0] in measured]
    for _, heading in shown:
        table.add_column(heading, justify="right")
    table.add_column("spread", justify="right")
    if made_of:
        table.add_column("speed-up", no_wrap=True)
    bases = {gain.against for gain in speed_ups.values()}
    varies = "latency_floor" if "latency_floor" in made_of else "latency"
    for case, outcomes in by_case.items():
        good = [outcome for outcome in outcomes if outcome.status == "ok"]
        row: list[str | CaseName] = [CaseName(case), f"{len(good)}/{len(outcomes)}"]
        row += [_items(good)] if with_items else []
        row += [_cell(good, metric) for metric, _ in shown]
        row.append(_percent(_summary(good, varies)))
        if made_of:
            gain = speed_ups.get(case)
            row.append(times(gain, interval=wide) if gain else "baseline" if case in bases else "-")
        table.add_row(*row)
    return table


def _chosen(made_of: Set[str], width: int) -> list[tuple[str, str]]:
    """The columns that have room; what the ratios are `made_of` always has."""
    if width >= (_WIDEST if made_of else _WIDE):
        return list(_COLUMNS)
    if not made_of:
        return [column for column in _COLUMNS if column[0] in ("latency", "throughput")]
    also = ("latency", "compile_cold") if width >= _WIDE else ()
    found = [column for column in _COLUMNS if column[0] in made_of or column[0] in also]
    return found[:3]


def _items_differ(by_case: Mapping[str, list[Outcome]], speed_ups: Mapping[str, Gain]) -> bool:
    """Whether some ratio cannot be read from times alone, for a step of its two sides has other items."""
    return any(
        gain.ratio is not None and _items(by_case[case]) != _items(by_case.get(gain.against, []))
        for case, gain in speed_ups.items()
    )


def _items(outcomes: list[Outcome]) -> str:
    """Items of a step."""
    return next((f"{one.facts['items']:g}" for one in outcomes if "items" in one.facts), "-")


def _summary(outcomes: list[Outcome], metric: str) -> Summary | None:
    values = [outcome.metrics[metric] for outcome in outcomes if metric in outcome.metrics]
    return summarise(values) if values else None


def _cell(outcomes: list[Outcome], metric: str) -> str:
    summary = _summary(outcomes, metric)
    return figure(summary.point) if summary else "-"


def _percent(summary: Summary | None) -> str:
    if summary is None or summary.spread is None:
        return "-"
    return f"{100 * summary.spread:.1f} %"
