"""Runs being imported or exported: the result of an importer, and what an exporter fetches of a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from analysis.metrics import METRICS, Metric
from records.environments import Environment
from records.outcomes import Measurement, MetricDefinition, Outcome
from records.runs import Run
from records.telemetry import Recording

from .errors import SourcePlace


@dataclass(frozen=True, slots=True)
class ImportProblem:
    """A part of a file that was not used, and why."""

    place: SourcePlace
    sentence: str

    def __str__(self) -> str:
        return f"{self.place}: {self.sentence}"


#: Problems of one file beyond that number are counted and not listed.
MOST_PROBLEMS = 1000


@dataclass(slots=True)
class ProblemLog:
    """The problems so far; `many_more` of them are counted only."""

    problems: list[ImportProblem] = field(default_factory=list[ImportProblem])
    many_more: int = 0

    def add(self, place: SourcePlace, sentence: str) -> None:
        """Record a problem."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(ImportProblem(place, sentence))
        else:
            self.many_more += 1


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """One run with all it holds."""

    run: Run
    outcomes: tuple[Outcome, ...]
    measurements: tuple[Measurement, ...]


@dataclass(frozen=True, slots=True)
class ImportBatch:
    """The runs of a file or folder. `metrics` are those that our own catalogue does not know.

    `many_more` problems are not listed. `repeats` hold nothing that is not in the runs too.
    """

    format: str
    runs: tuple[ImportedRun, ...]
    metrics: tuple[MetricDefinition, ...] = ()
    set_aside: tuple[ImportProblem, ...] = ()
    many_more: int = 0
    repeats: tuple[ImportProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """One run. Its outcomes are without samples and recordings: `samples` and `recordings` fetch those."""

    run: Run
    outcomes: Sequence[Outcome]
    measurements: Sequence[Measurement]
    samples: Callable[[Outcome], tuple[tuple[int, ...], ...]]
    recordings: Callable[[Outcome], tuple[Recording, ...]]

    @property
    def environments(self) -> dict[str, Environment]:
        """Its environments by fingerprint."""
        return {each.fingerprint: each for each in self.run.environments}


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The meaning of names in a run: imported metrics, and the units of telemetry columns."""

    metrics: Mapping[str, MetricDefinition]
    telemetry_unit: Callable[[str], str]

    def metric(self, name: str) -> Metric | MetricDefinition | None:
        """The definition of a metric: from our catalogue, or from the file that it came from."""
        return METRICS.get(name) or self.metrics.get(name)
