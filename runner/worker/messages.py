"""The words between controller and worker: JSON lines over private pipes, one dataclass per message."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, get_args, get_origin

#: Raised by one whenever a message changes its meaning; both sides refuse a stranger.
PROTOCOL = 2


class ProtocolError(Exception):
    """A line that is not a message of this protocol."""


@dataclass(frozen=True, slots=True)
class Message:
    """Base of all messages; `type` on the wire is the class's name in lower case."""

    def to_json(self) -> str:
        """One line of JSON without the line's end; what is no text (lone surrogates) becomes `?`."""
        body = {"type": type(self).__name__.lower(), **asdict(self)}
        text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
        return text.encode(errors="replace").decode()


# -- controller to worker -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepare(Message):
    """Build the case, check its answer, call it once, warm it up; the worker answers `Ready`.

    `case` is a case key (see `case_key.py`). Durations are in seconds.
    """

    case: str
    device: str = "cpu"
    seed: int = 0
    warm_up_min_seconds: float = 0.3
    warm_up_max_seconds: float = 10.0
    check: bool = True


@dataclass(frozen=True, slots=True)
class Nodes(Message):
    """The nodes of a case over several, each as a `torchrun.NodeSpec`; sent before `Prepare`, if at all.

    Members on other nodes keep to `cpus` (none: all there). The worker answers nothing.
    """

    nodes: tuple[Mapping[str, Any], ...]
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Measure(Message):
    """Run one block of `iterations` timed iterations; the worker answers `Block`.

    On CUDA `lead_in` untimed iterations come before them, and `per_sample` of them share one sample.
    """

    iterations: int
    lead_in: int = 0
    per_sample: int = 1


@dataclass(frozen=True, slots=True)
class Forget(Message):
    """The last block was disturbed and is taken again: what the worker itself counted of it does not count.

    The worker answers nothing.
    """


@dataclass(frozen=True, slots=True)
class Observe(Message):
    """Run freely for `seconds` (telemetry window, memory peaks); the worker answers `Window`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Trace(Message):
    """Run `steps` steps under torch.profiler, the trace into the file `path`; the worker answers `Traced`."""

    steps: int
    path: str


@dataclass(frozen=True, slots=True)
class TakeFingerprint(Message):
    """Build the case and write into `folder` what one step of it calls; the worker answers `Fingerprinted`.

    Instead of `Prepare`: such a worker measures nothing.
    """

    case: str
    folder: str
    device: str = "cpu"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Finish(Message):
    """Report what only the end knows and exit; the worker answers `Finished`."""


# -- worker to controller -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello(Message):
    """First line of a worker: torch is imported and the cases are registered.

    `build` is what torch this is (see `torch_build`).
    """

    protocol: int
    harness: str
    pid: int
    import_seconds: float
    threads: int
    build: str = ""


@dataclass(frozen=True, slots=True)
class Phase(Message):
    """The worker enters a phase: build, reference, first_call, warm_up, trace, fingerprint, check."""

    name: str


@dataclass(frozen=True, slots=True)
class Ready(Message):
    """The case is built and warm.

    `first_call_ns`: first call of the step, synchronised. `step_ns`: the last warm step, for calibration.
    `warm_up`: iterations, seconds, how it ended (`steady` or `cap`). `facts`: parameters, flops per step,
    items per step, unit, compile counters and what else describes the case as it runs here.
    """

    first_call_ns: int
    step_ns: int
    warm_up: Mapping[str, Any] = field(default_factory=dict[str, Any])
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Block(Message):
    """One block: nanoseconds per iteration and what the kernel counted meanwhile.

    A sample is the mean of `per_sample` iterations. `wall_ns` spans the block between two synchronisations,
    what led in included; `started_ns` is CLOCK_MONOTONIC. `sm_clocks_mhz` is the GPU's clock shortly before
    and right after the timed iterations, empty where it is not known.
    """

    samples_ns: tuple[int, ...]
    wall_ns: int
    started_ns: int
    minor_faults: int = 0
    involuntary_switches: int = 0
    cpu_ns: int = 0
    per_sample: int = 1
    sm_clocks_mhz: tuple[int, ...] = ()

    @property
    def iterations(self) -> int:
        """The number of timed iterations."""
        return len(self.samples_ns) * self.per_sample


@dataclass(frozen=True, slots=True)
class Window(Message):
    """A free-running window, in CLOCK_MONOTONIC nanoseconds."""

    started_ns: int
    ended_ns: int
    iterations: int


@dataclass(frozen=True, slots=True)
class Traced(Message):
    """What the profiler saw, in microseconds and bytes a step.

    `operators`: rows with name, kind (`operator` on the CPU, `kernel` on the device), calls, self and total
    times, memory. `totals`: their sums, `steps`, and what lies in no operator. `trace`: the file, empty when
    it was not kept; then `note` says why.
    """

    operators: tuple[Mapping[str, Any], ...]
    totals: Mapping[str, float]
    trace: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Fingerprinted(Message):
    """The files of a fingerprint are written. `facts`: compile counters, and why a library has no lines."""

    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Unchecked(Message):
    """What `Finished` will hold, without the verdict on the answer: a check may cost the worker its life."""

    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Finished(Message):
    """The end of a worker's life as it sees it: metrics by name, facts that only the end knows."""

    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Failed(Message):
    """The worker could not go on: the status of its outcome, a sentence, and the traceback for the log.

    With `device_lost` the GPU failed, and any case would have.
    """

    status: str
    reason: str
    phase: str = ""
    traceback: str = ""
    device_lost: bool = False


@dataclass(frozen=True, slots=True)
class Described(Message):
    """Answer of `describe`: the environment's facts, the workloads on offer, case files that are broken."""

    environment: Mapping[str, Any]
    workloads: tuple[Mapping[str, Any], ...]
    broken: Mapping[str, str] = field(default_factory=dict[str, str])


#: Message classes by their type on the wire.
_TYPES: dict[str, type[Message]] = {
    cls.__name__.lower(): cls
    for cls in (
        Prepare,
        Nodes,
        Measure,
        Forget,
        Observe,
        Trace,
        TakeFingerprint,
        Finish,
        Hello,
        Phase,
        Ready,
        Block,
        Window,
        Traced,
        Fingerprinted,
        Unchecked,
        Finished,
        Failed,
        Described,
    )
}


def torch_build(version: str, git: str | None) -> str:
    """One build of torch in one word or two: the version, and of what commit it is where that is known."""
    return f"{version} ({git})" if git else version


def parse(line: str) -> Message:
    """The message in `line`; raises ProtocolError for anything else, and never any other exception."""
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not JSON: {line[:200]!r}") from error
    cls = _TYPES.get(str(body.pop("type", ""))) if isinstance(body, dict) else None
    if cls is None:
        raise ProtocolError(f"not a message: {line[:200]!r}")
    kinds = {f.name: f.type for f in fields(cls)}
    if unknown := set(body) - set(kinds):
        raise ProtocolError(f"{cls.__name__.lower()} has unknown fields: {sorted(unknown)}")
    if unfit := [name for name, value in body.items() if not _fits(value, kinds[name])]:
        raise ProtocolError(f"{cls.__name__.lower()} has fields of the wrong type: {sorted(unfit)}")
    try:
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in body.items()})
    except TypeError as error:
        raise ProtocolError(f"{cls.__name__.lower()} is incomplete: {error}") from error


def _fits(value: object, kind: Any) -> bool:
    """Whether a value of JSON can stand in a field annotated with `kind`; containers one level deep."""
    if kind is float:
        return type(value) in (int, float)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple:
        # By sets of types, because a block may hold a hundred thousand samples.
        found = {type(part) for part in value} if isinstance(value, list) else {type(None)}
        return found <= ({int} if inner[0] is int else {dict})
    if origin is Mapping:
        found = {type(part) for part in value.values()} if isinstance(value, dict) else {type(None)}
        return inner[1] is Any or found <= ({str} if inner[1] is str else {int, float})
    return type(value) is kind
