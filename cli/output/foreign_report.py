"""The report of a run that came from outside: whatever it measured, as its file told it."""

from collections import Counter, defaultdict
from datetime import UTC

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.metrics import METRICS
from analysis.replicates import Summary, summarise
from common.text import printable
from interchange.formats import came_from
from workflows.load_run import Told

from .case_names import CaseName
from .wording import figure


def print_foreign(console: Console, told: Told) -> None:
    """Every metric of every case, then what did not end well, then where it all comes from."""
    values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for outcome in told.result.outcomes:
        for metric, value in outcome.metrics.items():
            values[outcome.case, outcome.environment, metric].append(value)
    console.print(_table(told, values))
    for outcome in told.result.outcomes:
        if outcome.status != "ok":
            line = printable(f"{outcome.case}: {outcome.status}: {outcome.reason}")
            console.print(line, markup=False, soft_wrap=True)
    counts = Counter(outcome.status for outcome in told.result.outcomes)
    summary = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    console.print(
        f"run {told.result.run}: {summary or 'nothing measured'}, {came_from(told)}, "
        f"begun {told.started_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        soft_wrap=True,
    )


def _interval(summary: Summary) -> str:
    if summary.low is None or summary.high is None:
        return "-"
    return f"{figure(summary.low)} to {figure(summary.high)}"


def _table(told: Told, values: dict[tuple[str, str, str], list[float]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
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
        known = METRICS.get(metric) or told.defined.get(metric)
        numbers = [figure(summary.point), *([_interval(summary)] if sure else [])]
        numbers += [figure(summary.smallest), figure(summary.largest)]
        name = case if (case, environment) != before else ""
        before = case, environment
        title, unit, better = (known.title, known.unit, known.better) if known else (metric, "", "neither")
        direction = better if better != "neither" else "-"
        # Strangers' texts are no markup.
        second, last = (Text(printable(text)) for text in (title, unit))
        table.add_row(CaseName(printable(name)), second, *numbers, str(summary.n), last, direction)
    return table
