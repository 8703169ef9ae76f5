"""How planned replicates ended, and what they measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .facts import Facts
from .telemetry import Recording


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one planned replicate ended. `environment` is a fingerprint; `metrics` maps name to value."""

    case: str
    environment: str
    replicate: int
    status: str
    reason: str
    phase: str
    started_at: datetime
    wall_seconds: float
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    facts: Facts = field(default_factory=dict[str, Any])
    log_tail: str = ""
    blocks: tuple[tuple[int, ...], ...] = ()
    """Samples in nanoseconds, block by block, in the order they were taken."""
    telemetry: tuple[Recording, ...] = ()
    """The recordings of its telemetry window, one per device."""

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells it apart within its run: case, environment and replicate."""
        return self.case, self.environment, self.replicate


@dataclass(frozen=True, slots=True)
class Replicate:
    """The metrics of one replicate that ended well. `environment` is a fingerprint."""

    case: str
    environment: str
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One metric of one case in one run: `point` is the median of `n` replicates.

    `low`..`high`: 95 % interval, None for fewer than two replicates, or where it would end beyond any float.
    `smallest`..`largest`: the replicates' range. `spread`: standard deviation of their logarithms (0.01 is
    about 1 %), None for fewer than two.
    """

    case: str
    environment: str
    metric: str
    point: float
    low: float | None
    high: float | None
    smallest: float
    largest: float
    spread: float | None
    n: int

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it apart within its run: case, environment and metric."""
        return self.case, self.environment, self.metric


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """A metric that came from outside and is in no catalogue of ours. `better`: lower, higher or neither."""

    name: str
    title: str
    unit: str
    better: str


@dataclass(frozen=True, slots=True)
class OperatorTable:
    """What one traced replicate spent its steps on; `rows` are those of `analysis.operators.operators`.

    `environment` is a name; `hardware` and `profile` are labels with the beginning of a fingerprint, so that
    different ones never read alike.
    """

    run: str
    started_at: datetime
    case: str
    environment: str
    torch_version: str
    hardware: str
    profile: str
    device: str
    harness: str
    rows: tuple[Mapping[str, Any], ...]

    @property
    def workload(self) -> str:
        """The case without its technique."""
        return self.case.rpartition("/")[0]
