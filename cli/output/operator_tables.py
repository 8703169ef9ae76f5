"""Operator tables and their differences as the command line prints them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from analysis.operators import KERNEL, OPERATOR, Operator, OperatorChange, difference, operators, total_us
from common.text import printable
from records.outcomes import Outcome, rows_left_out
from reports.text.numbers import figure

from .console import PlainTable, print_line

#: The most rows of a table; the JSON, the dashboard and the trace have all.
_TOP = 25
_PLACES = {OPERATOR: "CPU", KERNEL: "device"}
_HOW_TO_OPEN = (
    "open a trace in chrome://tracing or at https://ui.perfetto.dev: both read the file in the browser, "
    "without uploading it"
)


def print_traces(console: Console, outcomes: Iterable[Outcome], folder: Path) -> None:
    """Print the table of every traced outcome, the difference of two, and the paths of the traces."""
    traced = [outcome for outcome in outcomes if outcome.facts.get("operators")]
    for outcome in traced:
        print_table(console, outcome.case, operators(outcome.facts["operators"]), outcome.facts)
    if len(traced) == 2:
        case, against = traced
        changes = difference(operators(against.facts["operators"]), operators(case.facts["operators"]))
        left_out = rows_left_out(against.facts), rows_left_out(case.facts)
        print_difference(console, (against.case, case.case), changes, left_out, names=("against", "case"))
    for outcome in traced:
        print_line(console, _where(outcome, folder))
    if any("trace" in outcome.facts for outcome in traced):
        print_line(console, _HOW_TO_OPEN)


def print_table(console: Console, case: str, table: Sequence[Operator], facts: Mapping[str, Any]) -> None:
    """The longest operators, then the longest kernels if there are any, with their sums.

    `facts` are those of the traced outcome.
    """
    print_line(console, f"{case}, per step, including the overhead of the profiler")
    on_device = any(row.kind == KERNEL for row in table)
    for kind, place in _PLACES.items():
        rows = [row for row in table if row.kind == kind]
        if not rows:
            continue
        whole = total_us(rows, kind)
        console.print(_operator_table(rows, kind, whole, with_device=on_device and kind == OPERATOR))
        more = f"; {len(rows) - _TOP} more rows" if len(rows) > _TOP else ""
        print_line(console, f"{figure(whole)} us on the {place} in {len(rows)} rows{more}")
    if left_out := rows_left_out(facts):
        print_line(console, f"sums and shares lack {left_out:,} rows of less time, which were not stored")
    outside = figure(float(facts["traced"].get("outside_us") or 0.0))
    print_line(console, f"{outside} us on the CPU outside operators: Python, and the profiler itself")
    console.print()


def print_difference(
    console: Console,
    sides: tuple[str, str],
    changes: Sequence[OperatorChange],
    left_out: tuple[int, int] = (0, 0),
    names: tuple[str, str] = ("A", "B"),
) -> None:
    """The differences of two tables, second minus first, largest first.

    `left_out` are the numbers of rows that each table was stored without, `names` the headings of the
    columns.
    """
    first, second = names
    width = max(map(len, names))
    title = f"difference {second} - {first}, per step: above zero, {second} is slower"
    print_line(console, title)
    for name, side in zip(names, sides, strict=True):
        print_line(console, f"{name:{width}}  {side}")
    spent = (f"{first} us", f"{second} us", f"{second} - {first} us")
    table = _table("", "where", f"calls {first}", f"calls {second}", *spent)
    for change in changes[:_TOP]:
        table.add_row(
            printable(change.name),
            _PLACES.get(change.kind, change.kind),
            _calls(change.calls_a),
            _calls(change.calls_b),
            _or_dash(change.self_us_a),
            _or_dash(change.self_us_b),
            format_difference(change.delta_us),
        )
    console.print(table)
    for kind, place in _PLACES.items():
        of_kind = [change for change in changes if change.kind == kind]
        if of_kind:
            delta = sum(change.delta_us for change in of_kind)
            print_line(console, f"{format_difference(delta)} us on the {place} in {len(of_kind)} rows")
    if any(left_out):
        lacking = " and ".join(f"{name} lacks {count:,}" for name, count in zip(names, left_out, strict=True))
        print_line(
            console,
            f"rows of less time were not stored ({lacking}); a row that one side lacks may be among them",
        )


def format_difference(value: float) -> str:
    """A difference with its sign; 0 without one."""
    return f"{'+' if value > 0 else ''}{figure(value)}"


def _operator_table(rows: Sequence[Operator], kind: str, whole: float, *, with_device: bool) -> Table:
    place = _PLACES[kind]
    device = ("device us",) if with_device else ()
    memory = ("KiB",) if kind == OPERATOR else ()
    total = (f"{place} total us",) if kind == OPERATOR else ()
    table = _table(kind, "calls", f"{place} self us", "share", *total, *device, *memory)
    for row in rows[:_TOP]:
        cells = [f"{row.calls:g}", figure(row.own_us), f"{100 * row.own_us / whole if whole else 0:.1f} %"]
        if kind == OPERATOR:
            cells.append(figure(row.total_cpu_us))
            cells += [figure(row.self_device_us)] if with_device else []
            cells.append(figure(row.self_memory_bytes / 1024))
        table.add_row(printable(row.name), *cells)
    return table


def _table(first: str, *numbers: str) -> Table:
    table = PlainTable()
    table.add_column(first, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="left" if heading == "where" else "right", no_wrap=True)
    return table


def _calls(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def _or_dash(value: float | None) -> str:
    return "-" if value is None else figure(value)


def _where(outcome: Outcome, folder: Path) -> str:
    if "trace" in outcome.facts:
        path = folder / outcome.facts["trace"]
        return f"trace: {path}" if path.exists() else f"the trace of {outcome.case} was removed: {path}"
    return f"no trace of {outcome.case}: {outcome.facts.get('trace_note', '')}"
