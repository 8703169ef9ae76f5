"""Series of measurements across runs, and the histories that detection reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .kinds import EnvironmentKind, RunSource


@dataclass(frozen=True, slots=True)
class SeriesKey:
    """The identity of a series. `hardware` and `preset` are fingerprints; labels are for people."""

    case: str
    metric: str
    hardware: str
    hardware_label: str
    preset: str
    preset_name: str


@dataclass(frozen=True, slots=True)
class SeriesOnly:
    """Which series a list holds: of a case, a metric, a hardware, a preset (these two by their fingerprint).

    Empty leaves nothing out.
    """

    case: str = ""
    metric: str = ""
    hardware: str = ""
    preset: str = ""


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """One measurement in its series, with what a chart needs about it."""

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
    source: RunSource = RunSource.MEASURED
    source_format: str = ""
    environment_kind: EnvironmentKind = EnvironmentKind.MEASURED


@dataclass(frozen=True, slots=True)
class CaseExtent:
    """How many points a case has in a metric, and by how much they differ: the highest / the lowest.

    `ratio` is 1 where that is no number, as with a point of 0.
    """

    points: int
    ratio: float


@dataclass(frozen=True, slots=True)
class Headline:
    """The newest point of a series and the one before it."""

    key: SeriesKey
    latest: SeriesPoint
    previous: SeriesPoint | None


@dataclass(frozen=True, slots=True)
class ReleasePoint:
    """What one PyTorch version came to in a series: the median of its points, their range, how many runs.

    `torch_version` is a whole version with its local part.
    """

    key: SeriesKey
    torch_version: str
    runs: int
    median: float
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class MeasurementConditions:
    """A hardware and a preset under which a metric was measured, and the newest run that did.

    `hardware` and `preset` are fingerprints; `settings` are those of the preset. `gpus` is how many GPUs
    the hardware has, `machines` how many machines measured as one.
    """

    hardware: str
    hardware_label: str
    preset: str
    preset_name: str
    settings: Mapping[str, Any]
    run: str
    started_at: datetime
    gpus: int = 0
    machines: int = 1
    source: RunSource = RunSource.MEASURED


@dataclass(frozen=True, slots=True)
class Track:
    """What is judged as one history: an environment as a schedule asks for it, on the machines of a label."""

    schedule: str
    track: str
    label: str


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """One environment in one run of a history; `environment` is a fingerprint, `machine` a name."""

    run: str
    started_at: datetime
    environment: str
    machine: str


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One measurement of a history; as there are many, those of one run and environment share one `at`."""

    at: HistoryRun
    point: float


@dataclass(frozen=True, slots=True)
class SeriesHistory:
    """The points of one series in one track, oldest first."""

    key: SeriesKey
    points: tuple[HistoryPoint, ...]


@dataclass(frozen=True, slots=True)
class MeasuredFor:
    """Whom one environment of a run was measured for. `environment` is a fingerprint, `name` the one typed.

    `track` is the schedule's word for it and `baseline` the track that the schedule pins; both are empty for
    a run that no `measure` task made. `last`: of the run's environments with a PyTorch it was given last, as
    a candidate is.
    """

    run: str
    environment: str
    name: str
    last: bool
    track: str = ""
    baseline: str = ""
