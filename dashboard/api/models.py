"""The rows of answers; the OpenAPI description explains the fields."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from records.runs import RunSummary

Bound = Annotated[float | None, Field(description="of the 95 % interval; null with fewer than two processes")]
Spread = Annotated[float | None, Field(description="standard deviation of the logarithms; 0.01 is about 1 %")]


#: A text without NUL, which databases refuse.
PLAIN = r"^[^\x00]*$"
#: Such a text that is not blank.
LABEL = r"^[^\x00]*[^\x00\s][^\x00]*$"


class ApiRow(BaseModel):
    """A row of an answer, made from a record of the database by the names of its fields."""

    model_config = ConfigDict(from_attributes=True)


class ApiRun(ApiRow):
    """One run of a suite on one machine. Times are UTC."""

    id: str
    suite: str
    kind: str = Field(description="run, upgrade, confirmation, import, ...")
    state: str = Field(description="running, complete, interrupted, ...")
    started_at: datetime
    ended_at: datetime | None
    machine: str
    hardware: str = Field(description="the hardware's label")
    torch_versions: tuple[str, ...]
    preset: str
    planned: int = Field(description="planned replicates")
    counts: Mapping[str, int] = Field(description="number of outcomes by status")
    source: str
    source_format: str = Field(description="the format of an imported run, else empty")

    @staticmethod
    def row(run: RunSummary) -> dict[str, Any]:
        """A run as plain JSON values, for the API and for agents."""
        return ApiRun.model_validate(run).model_dump(mode="json")


class ApiMeasurement(ApiRow):
    """One metric of one case in one run: the median of `n` processes with its 95 % interval."""

    case: str
    environment: str = Field(description="fingerprint of the environment")
    metric: str
    unit: str
    point: float
    low: Bound
    high: Bound
    smallest: float
    largest: float
    spread: Spread
    n: int


class ApiOutcome(ApiRow):
    """The outcome of one planned process."""

    case: str
    environment: str
    replicate: int
    status: str
    reason: str
    phase: str = Field(description="the phase in which it failed; empty for ok")
    started_at: datetime
    wall_seconds: float
    metrics: Mapping[str, float] = Field(description="by metric, in the metric's unit")


class ApiCase(ApiRow):
    """A case that was measured: its metrics, and the labels of the hardware that has them."""

    case: str = Field(description="the key: workload/phase/parameters/technique")
    metrics: tuple[str, ...]
    hardware_labels: tuple[str, ...]


class ApiSeries(ApiRow):
    """The identity of a series: case, metric, hardware and preset."""

    case: str
    metric: str
    unit: str = Field(description="unit of the points; empty if it is unknown or there is none")
    hardware: str = Field(description="fingerprint of the hardware")
    hardware_label: str
    preset: str = Field(description="fingerprint of the preset")
    preset_name: str


class ApiPoint(ApiRow):
    """One measurement of a series: the median of `n` processes with its 95 % interval."""

    run: str
    started_at: datetime
    torch_version: str
    environment: str
    machine: str
    harness: str = Field(description="version of the measuring code")
    point: float
    low: Bound
    high: Bound
    smallest: float
    largest: float
    spread: Spread
    n: int


class ApiFinding(ApiRow):
    """A change that detection found in a series."""

    id: int
    case: str
    metric: str
    hardware_label: str
    schedule: str
    track: str = Field(description="the environment as the schedule names it")
    machine: str
    direction: str = Field(description="worse or better")
    ratio: float = Field(description="new / old: 1.05 is +5 %")
    ratio_low: float | None
    ratio_high: float | None
    state: str = Field(description="candidate, confirmed, refuted, ...")
    triage: str
    owner: str = Field(description="who acknowledged it; empty while it is not acknowledged")
    muted_until: datetime | None
    old_torch_version: str
    new_torch_version: str
    before_run: str
    at_run: str
    at: datetime
    found_at: datetime
    decided_at: datetime | None
    link: str


class NewTriage(BaseModel):
    """An entry in a finding's triage log: `mute` without `until` ends it, `text` of `link` is an address."""

    model_config = ConfigDict(extra="forbid")

    action: Literal["acknowledge", "expected", "fixed", "mute", "note", "link"]
    by: str = Field(description="who or what triages", min_length=1, max_length=100, pattern=PLAIN)
    text: str = Field(default="", max_length=2000, pattern=PLAIN)
    until: AwareDatetime | None = None


class ApiTask(ApiRow):
    """A task of the queue. Times are UTC."""

    id: int
    schedule: str
    due_at: datetime
    part: str
    job: str
    label: str = Field(description="label of the machines that may run it; empty for any")
    state: str = Field(description="waiting, running, done, failed, lost or cancelled")
    attempts: int
    run_id: str | None = Field(description="the run that it measures")
    started_at: datetime | None
    ended_at: datetime | None
    error: str


class ApiTrigger(BaseModel):
    """The tasks of a schedule; `queued` is false if they were waiting already."""

    queued: bool
    tasks: list[ApiTask]


class ApiAmount(BaseModel):
    """Numbers of runs, outcomes and measurements."""

    runs: int
    outcomes: int
    measurements: int


class ApiSubmission(BaseModel):
    """The ids of the submitted runs, the numbers of new rows, and sentences about values that were not
    stored.
    """

    runs: list[str]
    new: ApiAmount
    set_aside: list[str]


class ApiVerdict(ApiRow):
    """One upgrade with its decision; `/verdicts/{run}` has the whole report."""

    id: str
    suite: str
    state: str
    started_at: datetime
    machine: str
    hardware_label: str
    preset: str
    old: str = Field(description="the PyTorch version that is used now, or the name of its environment")
    new: str
    decision: str = Field(description="go, no-go or unclear; empty if none is stored")
    because: str = Field(description="the main reason")


class ApiMachine(ApiRow):
    """A scheduler of a machine, and its last heartbeat."""

    machine: str
    labels: tuple[str, ...]
    started_at: datetime
    seen_at: datetime
    version: str


class ApiSchedule(ApiRow):
    """The newest run of a schedule."""

    schedule: str
    due_at: datetime
    kind: str = Field(description="timetable, caught up, by hand, missed, ...")
    states: Mapping[str, int] = Field(description="number of tasks by state")
    error: str = Field(description="why one of the tasks is not done; empty if all are")
