"""What the controller plans and what it learns: plain frozen records, ready for the journal."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .telemetry.samples import Recording
from .worker.messages import STATUSES

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Timing:
    """How long to measure. All durations are in seconds.

    A replicate takes blocks of about `block_seconds` until it has `min_blocks` of them and
    `measure_seconds` of measured time (or, for a step of nanoseconds, 100,000 iterations), but stops after
    `max_seconds` once it has `min_blocks // 2`, or took twice as many that did not count. Of inputs of
    several shapes each has to have been timed, too.
    `deadline_seconds` bounds the whole active life of one replicate. With `trace_steps` above 0 nothing is
    measured: that many steps are run under torch.profiler instead. The first replicate of a case is observed
    for `observe_seconds` after it was timed. A block of which others took a larger share than
    `contention_limit` is taken again. The first `cold_replicates` of a compiled case find no compile cache,
    each later one what the last of them left. With `pair_error` above 0 two contenders of two environments
    take more rounds until what they say of each other has a standard error of at most that share, or until
    a cap (see `session` and `pairing`).
    """

    measure_seconds: float = 1.5
    block_seconds: float = 0.1
    min_blocks: int = 5
    max_seconds: float = 20.0
    warm_up_min_seconds: float = 0.3
    warm_up_max_seconds: float = 10.0
    observe_seconds: float = 0.0
    deadline_seconds: float = 600.0
    trace_steps: int = 0
    contention_limit: float = 1.0
    cold_replicates: int = 1
    pair_error: float = 0.0


@dataclass(frozen=True, slots=True)
class Target:
    """The environment a contender runs in: name, interpreter, fingerprint.

    `build` is the torch it had when the run began (see `messages.torch_build`); empty where nobody asked.
    """

    name: str
    python: str
    fingerprint: str
    build: str = ""


@dataclass(frozen=True, slots=True)
class Planned:
    """One replicate to be measured: the identity of exactly one outcome."""

    case: str
    environment: str
    replicate: int


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """Contenders measured together. `estimate_seconds` is what the planner expects it to cost."""

    id: str
    contenders: tuple[Planned, ...]
    estimate_seconds: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one planned replicate ended. `blocks` are nanoseconds per iteration in the order taken.

    `phases` maps phase to seconds; `metrics` maps metric to value in the catalogue's unit. `telemetry` are
    the recordings of its telemetry window, one per device.
    """

    case: str
    environment: str
    replicate: int
    status: str
    reason: str = ""
    phase: str = ""
    started_at: str = ""
    wall_seconds: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict[str, float])
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    facts: Facts = field(default_factory=dict[str, Any])
    log_tail: str = ""
    blocks: tuple[tuple[int, ...], ...] = ()
    telemetry: tuple[Recording, ...] = ()

    @property
    def planned(self) -> Planned:
        """The replicate this is the outcome of."""
        return Planned(self.case, self.environment, self.replicate)

    def to_body(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    @staticmethod
    def from_body(body: Mapping[str, Any]) -> "Outcome":
        """The inverse of `to_body`; raises TypeError for anything else."""
        values: dict[str, Any] = dict(body)
        values["blocks"] = tuple(tuple(block) for block in body.get("blocks", ()))
        try:
            values["telemetry"] = tuple(Recording.from_body(one) for one in body.get("telemetry", ()))
        except (AttributeError, KeyError, ValueError) as error:
            raise TypeError(f"an outcome's telemetry is no recording: {error}") from error
        outcome = Outcome(**values)
        texts = [values.get(name, "") for name in ("case", "environment", "status", "reason", "phase")]
        if not all(isinstance(text, str) for text in texts) or type(values.get("replicate")) is not int:
            raise TypeError("an outcome's names are texts and its replicate a number")
        if values.get("status") not in STATUSES:
            raise TypeError(f"unknown status {values.get('status')!r}, perhaps from a newer Pyrometer")
        if not all(isinstance(values.get(name, {}), dict) for name in ("phases", "metrics", "facts")):
            raise TypeError("an outcome's phases, metrics and facts are tables")
        return outcome
