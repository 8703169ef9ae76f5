"""The outcomes of planned replicates and their measurements."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from .json_values import (
    LONGEST_SENTENCE,
    LONGEST_TEXT,
    WHERE_WHOLE,
    BodyPlace,
    Facts,
    JsonValue,
    bounded_facts,
    bounded_text,
    count_of,
    integers,
    moment_of,
    name_of,
    one_of,
    table_of,
    text_of,
)
from .telemetry import Recording, read_recording


class OutcomeStatus(StrEnum):
    """The ways in which a replicate can end."""

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


#: Samples fit into the largest integer of a database.
_SAMPLE = 2**63
#: The optional fields of a body, and the largest sizes.
_USUAL: Mapping[str, Any] = {
    "reason": "",
    "phase": "",
    "wall_seconds": 0.0,
    "metrics": {},
    "facts": {},
    "phases": {},
    "log_tail": "",
    "blocks": [],
    "telemetry": [],
}
_KNOWN = {*_USUAL, "case", "environment", "replicate", "status", "started_at"}


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class PlannedReplicate:
    """One replicate of the plan: the identity of exactly one outcome."""

    case: str
    environment: str
    replicate: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one planned replicate ended. `environment` is a fingerprint.

    `phase` is the phase in which it failed, empty for an `ok` replicate. `metrics` maps metric to value in
    the catalogue's unit. `blocks` are nanoseconds per iteration in the order taken, block by block.
    `telemetry` are the recordings of its telemetry window, one per device.
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
        """Its identity within its run: case, environment and replicate."""
        return self.case, self.environment, self.replicate

    @property
    def planned_replicate(self) -> PlannedReplicate:
        """The replicate this is the outcome of."""
        return PlannedReplicate(self.case, self.environment, self.replicate)

    @property
    def phases(self) -> Mapping[str, float]:
        """Seconds by phase; they are among the facts."""
        return self.facts.get("phases") or {}

    def shorten_texts(self, where: str = WHERE_WHOLE) -> "Outcome":
        """The outcome with its texts shortened for pages; a shortened text says `where` the whole text is."""
        return replace(
            self,
            reason=bounded_text(self.reason, LONGEST_SENTENCE, where),
            phase=bounded_text(self.phase, LONGEST_SENTENCE, where),
            facts=bounded_facts(self.facts, where),
            log_tail=bounded_text(self.log_tail, LONGEST_TEXT, where),
        )

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
        """The outcome in a line of a journal; raises BodyError, a TypeError, for anything else.

        Fields that early journals lack are empty; an outcome without a start gets the time of reading.
        """
        if unknown := body.keys() - _KNOWN:
            raise BodyPlace(min(unknown)).error("is unknown, perhaps from a newer Pyrometer")
        usual = {**_USUAL, "started_at": _now().isoformat()}
        whole = usual | {name: value for name, value in body.items() if value != "" or name != "started_at"}
        return read_outcome(JsonValue(whole, BodyPlace()), strict=False)


def read_outcome(at: JsonValue, *, strict: bool = True) -> Outcome:
    """The inverse of `Outcome.to_body`; raises the place's error.

    `strict`: numbers must be finite and names not empty. The phases stand apart from the facts, save in
    exports of 0.1.0.
    """
    phases = table_of(at, "phases") if at.get("phases") else {}
    metrics = at.need("metrics").object().items()
    name = name_of if strict else text_of
    return Outcome(
        case=name(at, "case"),
        environment=name(at, "environment"),
        replicate=count_of(at, "replicate"),
        status=OutcomeStatus(one_of(at, "status", tuple(OutcomeStatus))),
        reason=text_of(at, "reason"),
        phase=text_of(at, "phase"),
        started_at=moment_of(at.need("started_at")),
        wall_seconds=at.need("wall_seconds").number(),
        metrics={metric: value.as_written(finite=strict) for metric, value in metrics},
        facts=table_of(at, "facts") | ({"phases": phases} if phases else {}),
        log_tail=text_of(at, "log_tail"),
        blocks=tuple(integers(block, -_SAMPLE, _SAMPLE) for block in at.need("blocks").list()),
        telemetry=tuple(read_recording(each, strict=strict) for each in at.need("telemetry").list()),
    )


@dataclass(frozen=True, slots=True)
class OutcomeCount:
    """The number of replicates of one case in one run that ended with a status; `reason` is that of one of
    them.
    """

    run: str
    case: str
    status: OutcomeStatus
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class Replicate:
    """The metrics of one `ok` replicate. `environment` is a fingerprint."""

    case: str
    environment: str
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One metric of one case in one run: `point` is the median of `n` replicates.

    `low`..`high`: 95 % interval, None for fewer than two replicates, or if an end would exceed the range of a
    float. `smallest`..`largest`: the replicates' range. `spread`: standard deviation of their logarithms
    (0.01 is about 1 %), None for fewer than two.
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
        """Its identity within its run: case, environment and metric."""
        return self.case, self.environment, self.metric


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """The definition of an imported metric that our catalogue lacks. `better`: lower, higher or neither."""

    name: str
    title: str
    unit: str
    better: str


def rows_left_out(facts: Facts) -> int:
    """The number of rows of an operator table that were not stored, because they took the least time."""
    traced = facts.get("traced")
    found: Any = traced.get("rows_left_out") if isinstance(traced, Mapping) else None
    return int(found) if isinstance(found, int | float) and math.isfinite(found) else 0


@dataclass(frozen=True, slots=True)
class OperatorTable:
    """The operator table of one traced replicate; `rows` are those of `analysis.operators.operators`.

    `environment` is a name; `hardware` and `preset` are labels with the beginning of a fingerprint, so that
    different ones are never displayed alike. `left_out` is the number of rows that were not stored, because
    they took the least time.
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
    left_out: int = 0

    @property
    def workload(self) -> str:
        """The case without its technique."""
        return self.case.rpartition("/")[0]
