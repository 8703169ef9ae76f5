"""The tables of GPU kernels: those of one case, and what became of them in another environment."""

import math
from collections.abc import Callable, Iterable, Sequence

from analysis.kernel_difference import Kernel, KernelChange, stored_kernels
from records.outcomes import Outcome

from .report_context import Subject
from .rows import Row
from .table import Column, DataTable
from .tables import CaseFormat, case_column, reason_text
from .text.templates import case as whole_case

#: A case and one of its kernels.
CaseKernel = tuple[str, KernelChange]

#: Kernels of one case shown at most among other cases; the JSON and the case's own panel have more.
_MOST_CHANGES = 6
#: A smaller difference, in microseconds a step, is 0.0 in every report.
_VISIBLE_US = 0.05


def moved(subject: Subject, each: Iterable[Row]) -> list[tuple[Row, tuple[KernelChange, ...]]]:
    """The cases that became slower or faster and have kernels on both sides, with those that differ."""
    known = {one.case: one.changes for one in subject.kernels}
    listed = [
        (row, tuple(one for one in known[row.case] if abs(one.difference_us) >= _VISIBLE_US))
        for row in each
        if row.status in ("slower", "faster") and row.case in known
    ]
    return [(row, changes) for row, changes in listed if changes]


def of_moved_cases(
    subject: Subject, each: Sequence[Row], case: CaseFormat = whole_case
) -> DataTable[CaseKernel]:
    """The kernels that differ most in each case that became slower or faster."""
    found = [
        (row.case, change) for row, changes in moved(subject, each) for change in changes[:_MOST_CHANGES]
    ]
    columns: list[Column[CaseKernel]] = [
        case_column(lambda row: row[0], case),
        *_change_columns(lambda row: row[1]),
    ]
    return DataTable("GPU kernels", columns, found, tall=True)


def of_case(subject: Subject, case: str) -> DataTable[CaseKernel]:
    """Every kernel of one case in both environments."""
    found = [(case, change) for one in subject.kernels if one.case == case for change in one.changes]
    return DataTable("GPU kernels", _change_columns(lambda row: row[1]), found, tall=True)


def stored(outcomes: Iterable[Outcome]) -> DataTable[Kernel]:
    """The kernels of one case in one environment, by the median over its processes."""
    found = stored_kernels(outcomes)
    total = math.fsum(one.us for one in found) or 1.0
    columns: list[Column[Kernel]] = [
        Column("kernel", "Kernel", lambda one: one.name, lambda one: reason_text(one.name, "py-long")),
        Column("calls", "Calls a step", lambda one: one.calls, lambda one: f"{one.calls:g}", number=True),
        Column("us", "µs a step", lambda one: one.us, lambda one: f"{one.us:,.1f}", number=True),
        Column(
            "share",
            "Share",
            lambda one: one.us / total,
            lambda one: f"{100 * one.us / total:.1f} %",
            number=True,
            help="Of the time of these kernels together",
        ),
    ]
    return DataTable("GPU kernels", columns, found, tall=True)


def words(change: KernelChange) -> str:
    """A kernel that differs, as a line: what became of it, by how much, and its name."""
    times = f"{change.before_us:,.1f} → {change.after_us:,.1f} µs a step ({change.difference_us:+,.1f})"
    return f"[{change.word}] {times}: {change.name}"


def _change_columns(of: Callable[[CaseKernel], KernelChange]) -> list[Column[CaseKernel]]:
    def number(
        name: str, label: str | None, value: Callable[[KernelChange], float], form: str
    ) -> Column[CaseKernel]:
        return Column(
            name, label, lambda row: value(of(row)), lambda row: format(value(of(row)), form), number=True
        )

    return [
        Column(
            "kernel", "Kernel", lambda row: of(row).name, lambda row: reason_text(of(row).name, "py-long")
        ),
        Column("change", "Change", lambda row: of(row).word),
        number("before_us", "Before (µs a step)", lambda one: one.before_us, ",.1f"),
        number("after_us", "After (µs a step)", lambda one: one.after_us, ",.1f"),
        number("difference_us", "Difference", lambda one: one.difference_us, "+,.1f"),
        number("calls_before", "Calls before", lambda one: one.calls_before, "g"),
        number("calls_after", "Calls after", lambda one: one.calls_after, "g"),
    ]
