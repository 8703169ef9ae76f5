"""The table at the end of a run."""

from collections import Counter, defaultdict

from rich.console import Console
from rich.table import Table

from analysis.replicates import Summary, summarise
from runner.records import Outcome
from scheduled_jobs.header import Header
from scheduled_jobs.measure import RunResult

from .watchers import duration
from .wording import figure, printable

#: Columns of the table: metric and heading.
_COLUMNS = (
    ("latency", "latency ms"),
    ("throughput", "items/s"),
    ("compile_cold", "compile cold s"),
    ("compile_warm", "warm s"),
    ("rss_peak", "peak RSS MiB"),
    ("model_tflops", "TFLOP/s"),
)

#: Below this many columns the table shows latency and throughput only; the dashboard has the rest.
_WIDE = 120
#: What a case key may claim of a narrow terminal before it is folded.
_CASE_WIDTH = 40


def print_report(console: Console, header: Header, result: RunResult) -> None:
    """Cases with their numbers, then what did not go well, then what to do next."""
    by_case: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in result.outcomes:
        by_case[outcome.case].append(outcome)
    console.print(_table(by_case, console.width))
    for case, outcomes in by_case.items():
        bad = [outcome for outcome in outcomes if outcome.status != "ok"]
        for reason, count in Counter((o.status, o.reason) for o in bad).items():
            console.print(
                f"{case}: {count} x {reason[0]}: {printable(reason[1])}", markup=False, soft_wrap=True
            )
    counts = Counter(outcome.status for outcome in result.outcomes)
    summary = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    console.print(
        f"run {result.run} is {result.state}: {summary or 'nothing measured'} "
        f"of {len(header.planned)} planned, in {duration(result.seconds)}"
    )
    if not result.stored:
        console.print("not in the database yet: the journal holds it, and the next command stores it")
    if result.state != "complete":
        console.print(f"go on with: pyrometer run --resume {result.run}")


def _table(by_case: dict[str, list[Outcome]], width: int) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("case", overflow="fold", min_width=min(_CASE_WIDTH, max(map(len, by_case), default=0)))
    table.add_column("n", justify="right")
    columns = _COLUMNS if width >= _WIDE else _COLUMNS[:2]
    shown = [c for c in columns if any(c[0] in o.metrics for os in by_case.values() for o in os)]
    for _, heading in shown:
        table.add_column(heading, justify="right")
    table.add_column("spread", justify="right")
    for case, outcomes in by_case.items():
        good = [outcome for outcome in outcomes if outcome.status == "ok"]
        cells = [_cell(good, metric) for metric, _ in shown]
        spread = _summary(good, "latency")
        table.add_row(case, f"{len(good)}/{len(outcomes)}", *cells, _percent(spread))
    return table


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
