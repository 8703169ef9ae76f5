"""Which GPU kernels of a case take another time in another environment."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, cast

from records.outcomes import Outcome

#: The fact of an outcome that holds its kernels: name, calls a step and microseconds a step, longest first.
KERNELS = "kernels"


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
        """Microseconds that a step takes longer for it."""
        return self.after_us - self.before_us


@dataclass(frozen=True, slots=True)
class CaseKernels:
    """The kernels of one case that differ, the largest difference first."""

    case: str
    changes: tuple[KernelChange, ...]


def kernel_changes(before: Iterable[Outcome], after: Iterable[Outcome]) -> tuple[CaseKernels, ...]:
    """The kernels of every case that both sides have a table of, by the median over its processes."""
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
    found: list[KernelChange] = []
    for name in names:
        (calls_before, us_before), (calls_after, us_after) = (_middle(side, name) for side in (before, after))
        found.append(KernelChange(name, us_before, us_after, calls_before, calls_after))
    return tuple(sorted(found, key=lambda change: -abs(change.difference_us)))


def _middle(tables: Sequence[Mapping[str, tuple[float, float]]], name: str) -> tuple[float, float]:
    known = [table.get(name, (0.0, 0.0)) for table in tables]
    return median(calls for calls, _ in known), median(us for _, us in known)
