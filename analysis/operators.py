"""Operator tables of a step, and the difference of two tables."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from records.outcomes import OperatorTable

#: Where a row ran: an operator on the CPU, a kernel on the device.
OPERATOR, KERNEL = "operator", "kernel"


@dataclass(frozen=True, slots=True)
class Operator:
    """One row of an operator table, per step: calls, microseconds, and bytes net of what was freed.

    `self_` times leave out the operators called within. The device times of an operator are those of the
    kernels it launched, which have rows of their own: summing both would count them twice.
    """

    name: str
    kind: str
    calls: float
    self_cpu_us: float
    total_cpu_us: float
    self_device_us: float
    total_device_us: float
    self_memory_bytes: float

    @property
    def own_us(self) -> float:
        """Its own time: on the device for a kernel, on the CPU for an operator."""
        return self.self_device_us if self.kind == KERNEL else self.self_cpu_us


@dataclass(frozen=True, slots=True)
class OperatorChange:
    """One name in two tables, A and B: calls and own microseconds per step, None if absent.

    `delta_us` is B - A: above zero, B is slower; a missing name counts as zero.
    """

    name: str
    kind: str
    calls_a: float | None
    calls_b: float | None
    self_us_a: float | None
    self_us_b: float | None

    @property
    def delta_us(self) -> float:
        """Microseconds a step that B spends more than A."""
        return (self.self_us_b or 0.0) - (self.self_us_a or 0.0)


def operators(rows: Iterable[Mapping[str, Any]]) -> list[Operator]:
    """The operator table in an outcome's facts, the longest own time first."""
    numbers = (
        *("calls", "self_cpu_us", "total_cpu_us", "self_device_us", "total_device_us"),
        "self_memory_bytes",
    )
    found = [
        Operator(str(row["name"]), str(row["kind"]), *(float(row.get(name) or 0.0) for name in numbers))
        for row in rows
    ]
    return sorted(found, key=lambda row: (-row.own_us, row.name))


def total_us(table: Iterable[Operator], kind: str) -> float:
    """The own microseconds a step of all rows of one kind together."""
    return sum((row.own_us for row in table if row.kind == kind), 0.0)


def difference(a: Iterable[Operator], b: Iterable[Operator]) -> list[OperatorChange]:
    """Table B minus table A, by name and kind, the largest absolute difference first."""
    before = {(row.name, row.kind): row for row in a}
    after = {(row.name, row.kind): row for row in b}
    changes: list[OperatorChange] = []
    for name, kind in before.keys() | after.keys():
        old, new = before.get((name, kind)), after.get((name, kind))
        changes.append(
            OperatorChange(
                name,
                kind,
                old.calls if old else None,
                new.calls if new else None,
                old.own_us if old else None,
                new.own_us if new else None,
            )
        )
    return sorted(changes, key=lambda change: (-abs(change.delta_us), change.name, change.kind))


@dataclass(frozen=True, slots=True)
class OriginDifference:
    """The field in which two tables differ, and both values."""

    name: str
    one: str
    other: str


def unlike(a: OperatorTable, b: OperatorTable) -> OriginDifference | None:
    """The reason why two tables cannot be subtracted; None if they can. Environment and technique may
    differ.
    """
    for name in ("workload", "hardware", "preset", "device", "harness"):
        one, other = getattr(a, name), getattr(b, name)
        if one != other:
            return OriginDifference(name, one, other)
    return None
