"""A run during its export: its large data are fetched outcome by outcome."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from analysis.metrics import METRICS, Metric
from records.environments import Environment
from records.outcomes import Measurement, MetricDefinition, Outcome
from records.runs import Run
from records.telemetry import Recording


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
    """What the names in a run mean: metrics that came from outside, and the units of telemetry columns."""

    metrics: Mapping[str, MetricDefinition]
    telemetry_unit: Callable[[str], str]

    def metric(self, name: str) -> Metric | MetricDefinition | None:
        """What a metric is: from our catalogue, or as it was defined where it came from."""
        return METRICS.get(name) or self.metrics.get(name)
