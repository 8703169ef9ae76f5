"""The GPU kernels of a case, and their differences between environments."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal, cast

from records.outcomes import Outcome

#: The fact of an outcome with its kernels: name, calls per step and microseconds per step, longest first.
KERNELS = "kernels"
#: The most kernels of a step that the worker stores: a table of this length may lack some.
STORED = 30

#: The kinds of changes of a kernel: it runs in one environment only, or its time differs.
KernelWord = Literal["new", "gone", "slower", "faster", "same"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel, copy or fill on the device, with its calls and microseconds a step."""

    name: str
    calls: float
    us: float


@dataclass(frozen=True, slots=True)
class KernelChange:
    """One kernel of a step in two environments: microseconds and calls a step, 0 where it does not run."""

    name: str
    before_us: float
    after_us: float
    calls_before: float
    calls_after: float

    @property
    def difference_us(self) -> float:
        """The difference in microseconds per step."""
        return self.after_us - self.before_us

    @property
    def word(self) -> KernelWord:
        """The kind of its change: new and gone by the calls, slower and faster by the time of all calls."""
        if not self.calls_before or not self.calls_after:
            return "new" if self.calls_after else "gone"
        if not self.difference_us:
            return "same"
        return "slower" if self.difference_us > 0 else "faster"


@dataclass(frozen=True, slots=True)
class CaseKernels:
    """The kernels of one case in two environments, the largest difference first."""

    case: str
    changes: tuple[KernelChange, ...]


def stored_kernels(outcomes: Iterable[Outcome]) -> tuple[Kernel, ...]:
    """The kernels of the processes of one case, by the median over those with a table, longest first."""
    tables = [table for outcome in outcomes if (table := _table(outcome.facts.get(KERNELS)))]
    names = dict.fromkeys(name for table in tables for name in table)
    found = [Kernel(name, *_middle(tables, name)) for name in names]
    return tuple(sorted((one for one in found if one.calls), key=lambda one: -one.us))


def kernel_changes(before: Iterable[Outcome], after: Iterable[Outcome]) -> tuple[CaseKernels, ...]:
    """The kernels of every case with tables on both sides, by the median over its processes.

    A kernel that a side lacks is left out if it may be too short for that side's full table.
    """
    old, new = _by_case(before), _by_case(after)
    return tuple(
        CaseKernels(case, _changes(old[case], new[case])) for case in sorted(old.keys() & new.keys())
    )


def _by_case(outcomes: Iterable[Outcome]) -> dict[str, list[Mapping[str, tuple[float, float]]]]:
    found: dict[str, list[Mapping[str, tuple[float, float]]]] = {}
    for outcome in outcomes:
        if table := _table(outcome.facts.get(KERNELS)):
            found.setdefault(outcome.case, []).append(table)
    return found


def _table(fact: Any) -> dict[str, tuple[float, float]]:
    """(calls, microseconds) of a step by kernel; rows of another form are left out."""
    table: dict[str, tuple[float, float]] = {}
    for row in cast("list[Any]", fact) if isinstance(fact, list) else ():
        match row:
            case [str(name), int() | float() as calls, int() | float() as us]:
                table[name] = (float(calls), float(us))
            case _:
                continue
    return table


def _changes(
    before: Sequence[Mapping[str, tuple[float, float]]], after: Sequence[Mapping[str, tuple[float, float]]]
) -> tuple[KernelChange, ...]:
    names = dict.fromkeys(name for table in (*before, *after) for name in table)
    before_from, after_from = _full_from_us(before), _full_from_us(after)
    found: list[KernelChange] = []
    for name in names:
        (calls_before, us_before), (calls_after, us_after) = (_middle(side, name) for side in (before, after))
        too_short = (not calls_before and us_after <= before_from) or (
            not calls_after and us_before <= after_from
        )
        if (calls_before or calls_after) and not too_short:
            found.append(KernelChange(name, us_before, us_after, calls_before, calls_after))
    return tuple(sorted(found, key=lambda change: -abs(change.difference_us)))


def _full_from_us(tables: Sequence[Mapping[str, tuple[float, float]]]) -> float:
    """The longest time with which a kernel may be missing in one of the tables; 0 where all are whole."""
    shortest = (min(us for _, us in table.values()) for table in tables if len(table) >= STORED)
    return max(shortest, default=0.0)


def _middle(tables: Sequence[Mapping[str, tuple[float, float]]], name: str) -> tuple[float, float]:
    """Calls and microseconds over the tables, without full ones that may have left out the kernel."""
    nothing = (0.0, 0.0)
    longest = max((table[name][1] for table in tables if name in table), default=0.0)
    values = [
        table.get(name, nothing) for table in tables if name in table or longest > _full_from_us([table])
    ]
    return median(calls for calls, _ in values or [nothing]), median(us for _, us in values or [nothing])
