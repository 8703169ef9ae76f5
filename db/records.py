"""What others see of the database: frozen records, no ORM."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from records.kinds import EnvironmentKind, RunKind, RunSource

Facts = Mapping[str, Any]


# -- written by the store -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hardware:
    """What makes machines comparable. `label` is for people: "Xeon 6430, 2 cores"."""

    fingerprint: str
    label: str
    facts: Facts = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Machine:
    """One host."""

    fingerprint: str
    name: str
    hardware: Hardware
    facts: Facts = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Environment:
    """One interpreter with one PyTorch build; `torch_version` is empty where it has none or it is unknown."""

    fingerprint: str
    name: str
    torch_version: str
    python_version: str
    facts: Facts = field(default_factory=dict[str, Any])
    kind: EnvironmentKind = EnvironmentKind.MEASURED


@dataclass(frozen=True, slots=True)
class Profile:
    """A measurement profile: the settings under which the worker ran."""

    fingerprint: str
    name: str
    settings: Facts = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a suite on one machine. Times are UTC. `state`: running, complete, interrupted.

    `source_format` names the format of an imported run, and is empty for any other.
    """

    id: str
    suite: str
    started_at: datetime
    ended_at: datetime | None
    state: str
    machine: Machine
    environments: tuple[Environment, ...]
    profile: Profile
    harness: str
    planned: int
    command: str
    notes: tuple[str, ...] = ()
    facts: Facts = field(default_factory=dict[str, Any])
    kind: RunKind = RunKind.RUN
    source: RunSource = RunSource.MEASURED
    source_format: str = ""


@dataclass(frozen=True, slots=True)
class Recording:
    """What one device told of itself while a case ran; row i is about `started_ns[i]` to `ended_ns[i]`.

    Stamps are nanoseconds of CLOCK_MONOTONIC. `values` maps a column to a value per row, None where there
    was none. `rung` says where GPU utilisation came from, and is `none` for the host. `notes` say in
    sentences what is missing and why.
    """

    device: str
    name: str
    rung: str
    started_ns: tuple[int, ...]
    ended_ns: tuple[int, ...]
    values: Mapping[str, tuple[float | None, ...]]
    notes: tuple[str, ...] = ()


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


# -- answers of the queries ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One row of a list of runs. `counts` maps status to number of outcomes."""

    id: str
    suite: str
    started_at: datetime
    ended_at: datetime | None
    state: str
    machine: str
    hardware: str
    torch_versions: tuple[str, ...]
    profile: str
    planned: int
    counts: Mapping[str, int]
    kind: RunKind = RunKind.RUN
    source: RunSource = RunSource.MEASURED
    source_format: str = ""


@dataclass(frozen=True, slots=True)
class RunsOnly:
    """Which runs a list holds: of a suite, of machines of a name, in a state; empty leaves nothing out."""

    suite: str = ""
    machine: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class SeriesKey:
    """The identity of a series. `hardware` and `profile` are fingerprints; labels are for people."""

    case: str
    metric: str
    hardware: str
    hardware_label: str
    profile: str
    profile_name: str


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """One measurement in its series, with what a chart needs beside it."""

    case: str
    run: str
    started_at: datetime
    environment: str
    torch_version: str
    machine: str
    harness: str
    point: float
    low: float | None
    high: float | None
    smallest: float
    largest: float
    spread: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Headline:
    """The newest point of a series and the one before it."""

    key: SeriesKey
    latest: SeriesPoint
    previous: SeriesPoint | None


@dataclass(frozen=True, slots=True)
class ReleasePoint:
    """What one PyTorch version came to in a series: the median of its points, their range, how many runs.

    `torch_version` is a whole version with its local part; `newest_at` is the start of the newest run.
    """

    key: SeriesKey
    torch_version: str
    runs: int
    median: float
    lowest: float
    highest: float
    newest_at: datetime


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


@dataclass(frozen=True, slots=True)
class TelemetryWindow:
    """One recording as in a list: whose it is, and what it comes to.

    `started_at` is the run's, `environment` a fingerprint. `seconds` go from the first row's start to the
    last one's end. `utilisation` (%) is the mean of what `rung` tells: SM utilisation for `gpm` and `dcgm`,
    GPU busy time for `samples` and `polling`, busy time of the CPUs for the host; numbers of two rungs are
    never compared. `power` (W) is a mean, `temperature` (°C) the highest; means are weighted by the rows'
    lengths. Each is None where no row has it.
    """

    run: str
    started_at: datetime
    case: str
    environment: str
    environment_name: str
    torch_version: str
    hardware: str
    machine: str
    replicate: int
    device: str
    name: str
    rung: str
    rows: int
    seconds: float
    utilisation: float | None
    power: float | None
    temperature: float | None


@dataclass(frozen=True, slots=True)
class Replicate:
    """The metrics of one replicate that ended well. `environment` is a fingerprint."""

    case: str
    environment: str
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was deleted, or would be: how many blobs of how many `bytes`."""

    count: int
    bytes: int
