"""The report of a run: its cases, the gains of techniques, and imported runs."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from itertools import chain
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.claims_check import ClaimMeasurement, findings
from analysis.metrics import METRICS
from analysis.replicates import Summary, summarise
from analysis.speedups import Gain, gains
from common.text import printable, utc
from interchange.formats import came_from
from records.kinds import RunSource, RunState
from records.outcomes import Outcome, OutcomeStatus
from records.references import Claim
from reports import sentences
from reports.run_report import COLUMNS
from reports.text.numbers import figure
from reports.text.verdict_text import refusal
from runner.suites.references import baselines, claims_for
from workflows.load_run import LoadedRun

from .console import CaseName, PlainTable, print_line
from .operator_tables import print_traces
from .progress import duration

#: Below this width the table has only the metric of the speed-ups, or median latency and throughput; the
#: dashboard has the others.
_WIDE = 120
#: Below this width it has at most three metrics next to speed-ups with their intervals.
_WIDEST = 160
#: The share of a narrow terminal that a case key takes before it is folded.
_CASE_WIDTH = 40
#: The smallest widths of columns with numbers and with speed-ups, with and without intervals.
_NUMBER_WIDTH, _TIMES_WIDTH, _INTERVAL_WIDTH = 6, 8, 24
#: Columns between two columns of a table.
_GAP = 2


def print_loaded(console: Console, loaded: LoadedRun, folder: Path) -> None:
    """Print the end of a run with its traces in `folder`: the operator tables, and the report."""
    if loaded.traced:
        print_traces(console, loaded.result.outcomes, folder)
    if loaded.source != RunSource.MEASURED:
        print_foreign(console, loaded)
        return
    print_report(console, loaded)


def print_report(console: Console, loaded: LoadedRun) -> None:
    """Cases with their numbers, then failures, then the next command."""
    result = loaded.result
    by_case: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in result.outcomes:
        by_case[outcome.case].append(outcome)
    found = gains(result.outcomes, baselines)
    if not loaded.traced and by_case:
        console.print(_table(by_case, _speed_ups(found), console.width))
    for case, outcomes in by_case.items():
        bad = [outcome for outcome in outcomes if outcome.status != OutcomeStatus.OK]
        for reason, count in Counter((o.status, o.reason) for o in bad).items():
            print_line(console, f"{case}: {count} x {reason[0]}: {reason[1]}")
    if not loaded.traced:
        print_gains(console, by_case, found)
    counts = Counter(outcome.status for outcome in result.outcomes)
    summary = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    if result.state == RunState.RUNNING:
        console.print(_so_far(loaded, summary), soft_wrap=True)
    else:
        console.print(
            f"run {result.run} is {result.state}: {summary or 'nothing measured'} "
            f"of {loaded.planned} planned, {_when(loaded)}"
        )
        if not result.stored:
            console.print("not in the database yet: the next command stores it from the journal")
    if result.state == RunState.INTERRUPTED:
        # A run that is only in the database has no journal to resume here.
        how = "resume with:" if loaded.header is not None else sentences.GOES_ON
        console.print(f"{how} pyrometer run --resume {result.run}")


def _so_far(loaded: LoadedRun, summary: str) -> str:
    """The progress of a run that has not ended."""
    done = len(loaded.result.outcomes)
    head = f"run {loaded.result.run} is running, {_when(loaded)}: "
    if done:
        return (
            f"{head}{done} of {loaded.planned} replicates have ended ({summary}); the others are still to "
            f"come"
        )
    return (
        f"{head}none of {loaded.planned} replicates has ended yet; replicates of one workload take turns and "
        f"end together"
    )


def _when(loaded: LoadedRun) -> str:
    if loaded.result.seconds is not None:
        return f"in {duration(loaded.result.seconds)}"
    return f"begun {utc(loaded.started_at)}"


def _speed_ups(found: Mapping[tuple[str, str], tuple[Gain, ...]]) -> dict[str, Gain]:
    return {case: gain for (case, _), own in found.items() for gain in own if gain.kind == "speed-up"}


def _table(by_case: dict[str, list[Outcome]], speed_ups: Mapping[str, Gain], width: int) -> Table:
    table = PlainTable()
    made_of = {gain.metric for gain in speed_ups.values() if gain.ratio is not None}
    wide, with_items = width >= _WIDE, _items_differ(by_case, speed_ups)
    measured = {metric for outcomes in by_case.values() for one in outcomes for metric in one.metrics}
    columns = [column for column in _chosen(made_of, width) if column[0] in measured]
    numbers = ["n", *(["items"] if with_items else []), *(heading for _, heading in columns), "spread"]
    others = [max(len(heading), _NUMBER_WIDTH) for heading in numbers]
    others += [_INTERVAL_WIDTH if wide else _TIMES_WIDTH] if made_of else []
    room = width - sum(others) - _GAP * len(others)
    table.add_column(
        "case", overflow="fold", min_width=min(_CASE_WIDTH, max(room, 1), max(map(len, by_case), default=0))
    )
    for heading in numbers:
        table.add_column(heading, justify="right")
    if made_of:
        table.add_column("speed-up", no_wrap=True)
    bases = {gain.against for gain in speed_ups.values()}
    varies = "latency_floor" if "latency_floor" in made_of else "latency"
    for case, outcomes in by_case.items():
        good = [outcome for outcome in outcomes if outcome.status == OutcomeStatus.OK]
        row: list[str | CaseName] = [CaseName(case), f"{len(good)}/{len(outcomes)}"]
        row += [_items(good)] if with_items else []
        row += [_cell(good, metric) for metric, _ in columns]
        row.append(_percent(_summary(good, varies)))
        if made_of:
            gain = speed_ups.get(case)
            row.append(_times(gain, interval=wide) if gain else "baseline" if case in bases else "-")
        table.add_row(*row)
    return table


def _times(gain: Gain, *, interval: bool = True) -> str:
    """A ratio with its interval, "1.92x [1.88, 1.96]", and n if pairs are missing; a dash for none.

    An efficiency is a percentage: "93.1 % [92.0, 94.2]". A star marks a ratio with disturbed processes.
    """
    if gain.ratio is None:
        return "-"
    scale, unit = (100, " %") if gain.kind == "efficiency" else (1, "x")
    text = f"{figure(gain.ratio * scale, 3)}{unit}"
    if interval and gain.low is not None and gain.high is not None:
        text += f" [{figure(gain.low * scale, 3)}, {figure(gain.high * scale, 3)}]"
    text += "*" if gain.disturbed else ""
    return f"{text} n={gain.n}" if interval and gain.left_out else text


def _chosen(made_of: Set[str], width: int) -> list[tuple[str, str]]:
    """The columns that fit; those of the metric that ratios are `made_of` are always included."""
    if width >= (_WIDEST if made_of else _WIDE):
        return list(COLUMNS)
    if not made_of:
        return [column for column in COLUMNS if column[0] in ("latency", "throughput")]
    also = ("latency", "compile_cold") if width >= _WIDE else ()
    found = [column for column in COLUMNS if column[0] in made_of or column[0] in also]
    return found[:3]


def _items_differ(by_case: Mapping[str, list[Outcome]], speed_ups: Mapping[str, Gain]) -> bool:
    """Whether some ratio does not follow from the times alone, because the items per step differ."""
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


_HOW = (
    "speed-up: time per item of eager fp32 / of the case, from min-based latency (the median over blocks of "
    "each block's fastest iteration, on CUDA of its median; from items/s where several processes run at once)"
    "; median over pairs of replicates of one session [95 % interval]"
)
_DISTURBED = (
    "*: in some pair a process had less than 90 % of its core, because other programs used it; such a ratio "
    "is not reliable: measure again when the machine is quiet"
)
_HOW_SCALING = (
    "scaling: efficiency is the speed-up per item over one rank / ranks; x is the throughput of several "
    "processes / of one with all the CPUs; items/s are of all ranks and processes together, computed from "
    "the same latency as the ratio"
)

#: The gains in the table of scaling, and their headings.
_SCALING = {"efficiency": "efficiency", "one process": "comparison with one process"}

#: Kinds of claims that are printed in per cent.
_PERCENTAGES = ("saved", "efficiency")


def print_gains(
    console: Console,
    by_case: Mapping[str, Sequence[Outcome]],
    found: Mapping[tuple[str, str], tuple[Gain, ...]],
) -> None:
    """The notes on speed-ups and missing ones, the table of scaling, and published claims."""
    every = [gain for own in found.values() for gain in own]
    if any(gain.kind == "speed-up" and gain.ratio is not None for gain in every):
        print_line(console, _HOW)
    if any(gain.ratio is not None and gain.disturbed for gain in every):
        print_line(console, _DISTURBED)
    for line in _missing(every, by_case):
        print_line(console, line)
    scaled = [gain for gain in every if gain.kind in _SCALING]
    if any(gain.ratio is not None for gain in scaled):
        console.print(_scaling(scaled, by_case))
        print_line(console, _HOW_SCALING)
    claims = _claims(by_case, found)
    if claims:
        print_line(console, "published claims, and the values measured here [95 % interval]:")
    for line in claims:
        print_line(console, line)


def _missing(every: Sequence[Gain], by_case: Mapping[str, Sequence[Outcome]]) -> list[str]:
    """One line for each reason why cases whose replicates are all `ok` have no ratio."""
    well = {case for case, outcomes in by_case.items() if all(o.status == OutcomeStatus.OK for o in outcomes)}
    missing = [gain for gain in every if gain.ratio is None and gain.case in well]
    lines: list[str] = []
    for (kind, reason), many in Counter((gain.kind, gain.reason) for gain in missing).items():
        cases = [gain.case for gain in missing if (gain.kind, gain.reason) == (kind, reason)]
        what = _SCALING.get(kind, kind)
        lines.append(f"no {what} for {cases[0] if many == 1 else f'{many} cases'}: {refusal(reason)}")
    return lines


def _scaling(gains: Sequence[Gain], by_case: Mapping[str, Sequence[Outcome]]) -> Table:
    table = PlainTable()
    table.add_column("case", overflow="fold")
    table.add_column("items/s", justify="right")
    table.add_column("against", overflow="fold")
    table.add_column("items/s", justify="right")
    table.add_column("scaling", no_wrap=True)
    for gain in gains:
        # Only the technique of the baseline is printed, because the workload is the same.
        against = gain.against.rsplit("/", 1)[-1]
        rates = [_rate(by_case.get(case, ()), gain.metric) for case in (gain.case, gain.against)]
        table.add_row(CaseName(gain.case), rates[0], against, rates[1], _times(gain))
    return table


def _rate(outcomes: Sequence[Outcome], metric: str) -> str:
    """Items per second, computed from the latency or throughput of this `metric`; the median over
    processes.
    """
    values = [
        one.facts["items"] / one.metrics[metric] * 1e3 if metric == "latency_floor" else one.metrics[metric]
        for one in outcomes
        if one.status == OutcomeStatus.OK and one.metrics.get(metric) and one.facts.get("items")
    ]
    return figure(median(values)) if values else "-"


def _claims(
    by_case: Mapping[str, Sequence[Outcome]], found: Mapping[tuple[str, str], tuple[Gain, ...]]
) -> list[str]:
    """Each claim about a case of the run, and below it what was measured, case by case."""
    lines: list[str] = []
    for claim, measured in findings(chain.from_iterable(by_case.values()), found, claims_for).items():
        ends = [_number(claim, value) for value in dict.fromkeys((claim.low, claim.high))]
        claimed = " to ".join(ends) + _unit(claim)
        lines.append(f"  {claim.statement} ({claim.hardware}): {claimed}")
        lines += [
            f"    {_format_measurement(claim, measurement)}: {case}" for case, _, measurement in measured
        ]
    return lines


def _format_measurement(claim: Claim, measurement: ClaimMeasurement) -> str:
    if measurement.point is None:
        return f"none, {refusal(measurement.reason)}"
    text = _number(claim, measurement.point) + _unit(claim)
    if measurement.low is None or measurement.high is None:
        return text
    return f"{text} [{_number(claim, measurement.low)}, {_number(claim, measurement.high)}]"


def _number(claim: Claim, value: float) -> str:
    return figure(100 * value if claim.kind in _PERCENTAGES else value, 3)


def _unit(claim: Claim) -> str:
    if claim.kind in _PERCENTAGES:
        return " %"
    definition = METRICS.get(claim.metric)
    return "x" if claim.kind == "ratio" else f" {definition.unit}" if definition else ""


def print_foreign(console: Console, loaded: LoadedRun) -> None:
    """Every metric of every case, then failures, then the source of the run."""
    values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for outcome in loaded.result.outcomes:
        for metric, value in outcome.metrics.items():
            values[outcome.case, outcome.environment, metric].append(value)
    console.print(_foreign_table(loaded, values))
    for outcome in loaded.result.outcomes:
        if outcome.status != OutcomeStatus.OK:
            print_line(console, f"{outcome.case}: {outcome.status}: {outcome.reason}")
    counts = Counter(outcome.status for outcome in loaded.result.outcomes)
    summary = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    console.print(
        f"run {loaded.result.run}: {summary or 'nothing measured'}, {came_from(loaded)}, "
        f"begun {utc(loaded.started_at)}",
        soft_wrap=True,
    )


def _interval(summary: Summary) -> str:
    if summary.low is None or summary.high is None:
        return "-"
    return f"{figure(summary.low)} to {figure(summary.high)}"


def _foreign_table(loaded: LoadedRun, values: dict[tuple[str, str, str], list[float]]) -> Table:
    table = PlainTable()
    summaries = {key: summarise(each) for key, each in values.items()}
    sure = any(summary.low is not None for summary in summaries.values())
    table.add_column("case")
    table.add_column("metric", overflow="fold")
    for heading in ("median", *(["95 % interval"] if sure else []), "smallest", "largest", "n"):
        table.add_column(heading, justify="right")
    table.add_column("unit")
    table.add_column("better")
    before = ("", "")
    for (case, environment, metric), summary in sorted(summaries.items()):
        definition = METRICS.get(metric) or loaded.defined.get(metric)
        numbers = [figure(summary.point), *([_interval(summary)] if sure else [])]
        numbers += [figure(summary.smallest), figure(summary.largest)]
        name = case if (case, environment) != before else ""
        before = case, environment
        title, unit, better = (
            (definition.title, definition.unit, definition.better) if definition else (metric, "", "neither")
        )
        direction = better if better != "neither" else "-"
        # Texts from files are not markup.
        second, last = (Text(printable(text)) for text in (title, unit))
        table.add_row(CaseName(printable(name)), second, *numbers, str(summary.n), last, direction)
    return table
