"""What the metrics of one file mean: stored before what was measured of them, or left out with the reason."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from analysis.metrics import METRICS
from db.connection.engine import Database
from db.runs import metric_definitions
from interchange.runs import ImportedRun
from records.outcomes import MetricDefinition


class Definitions:
    """The definitions of one file, in its order; `problem` gets the reason for each one left out."""

    def __init__(self, problem: Callable[[str], None]) -> None:
        self._problem = problem
        self._definitions: list[MetricDefinition] = []
        self._meant: dict[str, MetricDefinition] = {}
        self._refused: set[str] = set()
        self._unknown: set[str] = set()

    def __len__(self) -> int:
        return len(self._definitions)

    def add(self, definitions: Iterable[MetricDefinition]) -> None:
        """Add the next definitions of the file; `define` stores them."""
        self._definitions += definitions

    def define(self, start: int, end: int, database: Database | None) -> None:
        """Store definitions `start` to `end`, and refuse those that mean something else here."""
        # By name, so that two imports of the same metrics wait for each other in turn and never in a circle.
        for each in sorted(self._definitions[start:end], key=lambda each: each.name):
            first = self._meant.setdefault(each.name, each)
            try:
                if (first.unit, first.better) != (each.unit, each.better):
                    raise ValueError(f"metric {each.name} is defined twice in the file, and not alike")
                if known := METRICS.get(each.name):
                    raise ValueError(f"metric {each.name} is one of Pyrometer's own, in {known.unit}")
                if database is not None:
                    metric_definitions.save_metrics(database, [each])
            except (KeyError, ValueError) as error:
                if each.name not in self._refused:
                    self._problem(f"{error}; its points are left out")
                self._refused.add(each.name)

    def usable(self, one: ImportedRun, database: Database | None) -> ImportedRun:
        """A run without the metrics that are refused or undefined: their unit is not known."""
        used = {each.metric for each in one.measurements}.union(*(each.metrics for each in one.outcomes))
        unknown = used - METRICS.keys() - self._meant.keys()
        if unknown and database is not None:
            unknown -= metric_definitions.metric_definitions(database).keys()
        for name in sorted(unknown - self._unknown):
            self._problem(f"metric {name} is defined neither in the file nor here; its points are left out")
        self._unknown |= unknown
        return _without(one, self._refused | unknown)


def _without(one: ImportedRun, refused: Collection[str]) -> ImportedRun:
    """A run without the metrics called `refused`; its outcomes stay."""
    if not refused:
        return one
    outcomes = tuple(
        replace(each, metrics={name: value for name, value in each.metrics.items() if name not in refused})
        for each in one.outcomes
    )
    return ImportedRun(
        one.run, outcomes, tuple(each for each in one.measurements if each.metric not in refused)
    )
