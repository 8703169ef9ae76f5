"""How planned replicates ended, and what they measured."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from .facts import Facts
from .telemetry import Recording


class OutcomeStatus(StrEnum):
    """How a replicate can end. The worker, which travels alone, keeps the same list (`messages.STATUSES`)."""

    OK = "ok"
    SKIPPED = "skipped"
    UNSUPPORTED = "unsupported"
    OOM = "oom"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    WRONG = "wrong"
    NOT_COMPILED = "not_compiled"
    CONTENDED = "contended"
    THROTTLED = "throttled"
    LOST = "lost"


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Planned:
    """One replicate to be measured: the identity of exactly one outcome."""

    case: str
    environment: str
    replicate: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one planned replicate ended. `environment` is a fingerprint.

    `phase` is where it ended, empty for one that ended well. `metrics` maps metric to value in the
    catalogue's unit. `blocks` are nanoseconds per iteration in the order taken, block by block. `telemetry`
    are the recordings of its telemetry window, one per device.
    """

    case: str
    environment: str
    replicate: int
    status: OutcomeStatus
    reason: str = ""
    phase: str = ""
    started_at: datetime = field(default_factory=_now)
    wall_seconds: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    facts: Facts = field(default_factory=dict[str, Any])
    log_tail: str = ""
    blocks: tuple[tuple[int, ...], ...] = ()
    telemetry: tuple[Recording, ...] = ()

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells it apart within its run: case, environment and replicate."""
        return self.case, self.environment, self.replicate

    @property
    def planned(self) -> Planned:
        """The replicate this is the outcome of."""
        return Planned(self.case, self.environment, self.replicate)

    @property
    def phases(self) -> Mapping[str, float]:
        """Seconds by phase; they are among the facts."""
        return self.facts.get("phases") or {}

    def to_body(self) -> dict[str, Any]:
        """As plain JSON values; the phases are apart from the facts, as in every journal."""
        facts = {name: value for name, value in self.facts.items() if name != "phases"}
        return {
            **asdict(replace(self, blocks=())),
            "blocks": self.blocks,
            "started_at": self.started_at.isoformat(),
            "phases": dict(self.phases),
            "facts": facts,
        }

    @staticmethod
    def from_body(body: Mapping[str, Any]) -> "Outcome":
        """The inverse of `to_body`; raises TypeError for anything else.

        A body without a start is one of old: its outcome started when it is read.
        """
        values: dict[str, Any] = dict(body)
        values["blocks"] = tuple(tuple(block) for block in body.get("blocks", ()))
        try:
            values["telemetry"] = tuple(Recording.from_body(one) for one in body.get("telemetry", ()))
        except (AttributeError, KeyError, ValueError) as error:
            raise TypeError(f"an outcome's telemetry is no recording: {error}") from error
        if not all(isinstance(values.get(name, {}), dict) for name in ("phases", "metrics", "facts")):
            raise TypeError("an outcome's phases, metrics and facts are tables")
        if phases := values.pop("phases", {}):
            values["facts"] = {**values.get("facts", {}), "phases": phases}
        try:
            started = values.pop("started_at", "")
            outcome = Outcome(**values, started_at=datetime.fromisoformat(started) if started else _now())
        except ValueError as error:
            raise TypeError(f"an outcome's start is no moment: {error}") from error
        texts = [values.get(name, "") for name in ("case", "environment", "status", "reason", "phase")]
        if not all(isinstance(text, str) for text in texts) or type(values.get("replicate")) is not int:
            raise TypeError("an outcome's names are texts and its replicate a number")
        try:
            return replace(outcome, status=OutcomeStatus(outcome.status))
        except ValueError:
            raise TypeError(f"unknown status {outcome.status!r}, perhaps from a newer Pyrometer") from None


@dataclass(frozen=True, slots=True)
class OutcomeCount:
    """So many replicates of one case in one run ended with a status; `reason` is that of one of them."""

    run: str
    case: str
    status: OutcomeStatus
    count: int
    reason: str


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
    """The definition of an imported metric that our catalogue lacks. `better`: lower, higher or neither."""

    name: str
    title: str
    unit: str
    better: str


@dataclass(frozen=True, slots=True)
class OperatorTable:
    """What one traced replicate spent its steps on; `rows` are those of `analysis.operators.operators`.

    `environment` is a name; `hardware` and `preset` are labels with the beginning of a fingerprint, so that
    different ones never read alike.
    """

    run: str
    started_at: datetime
    case: str
    environment: str
    torch_version: str
    hardware: str
    preset: str
    device: str
    harness: str
    rows: tuple[Mapping[str, Any], ...]

    @property
    def workload(self) -> str:
        """The case without its technique."""
        return self.case.rpartition("/")[0]
