"""What an importer makes of a file: runs as the database knows them, and what it could not use."""

from dataclasses import dataclass

from records.outcomes import Measurement, MetricDefinition, Outcome
from records.runs import Run

from .errors import SourcePlace


@dataclass(frozen=True, slots=True)
class ImportProblem:
    """Something in a file that was set aside."""

    place: SourcePlace
    sentence: str

    def __str__(self) -> str:
        return f"{self.place}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """One run with all it holds."""

    run: Run
    outcomes: tuple[Outcome, ...]
    measurements: tuple[Measurement, ...]


@dataclass(frozen=True, slots=True)
class Imported:
    """What a file or folder holds. `metrics` are those that our own catalogue does not know.

    `repeats` hold nothing that is not in the runs: nothing is lost with them.
    """

    format: str
    runs: tuple[ImportedRun, ...]
    metrics: tuple[MetricDefinition, ...] = ()
    set_aside: tuple[ImportProblem, ...] = ()
    repeats: tuple[ImportProblem, ...] = ()
