"""The interface between measuring and telemetry: the counters of one moment, and what a session may ask."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from records.telemetry import HOST, Recording

from .sample_log import bare


@dataclass(frozen=True, slots=True)
class HostCounters:
    """What the kernel has counted so far; only differences mean anything. Times are in nanoseconds.

    `busy_ns` and `steal_ns` are by CPU number, in ticks of 10 ms. `tree_ns` is the CPU time of the measured
    process and all below it, `delay_ns` what their threads waited on a run queue (None where the kernel does
    not report it), `ours_ns` the CPU time of what measures: controller, supervisors, sampler.
    """

    busy_ns: Mapping[int, int]
    steal_ns: Mapping[int, int]
    tree_ns: int
    delay_ns: int | None
    ours_ns: int


@dataclass(frozen=True, slots=True)
class GpuCounters:
    """What a GPU has counted so far; None or an absent reason where it does not report it.

    `throttled_ns` is by reason (see `nvml.THROTTLE_FIELDS`). `xids` are the critical errors that came since
    the reading before. `processes` are the compute processes' pids, and None where they are pids of another
    namespace and say nothing here; `computing` are those that used the device since the reading before, None
    where the driver does not tell. `memory_free` is a share of the device's memory.
    """

    uuid: str
    throttled_ns: Mapping[str, int] = field(default_factory=dict[str, int])
    ecc_uncorrected: int | None = None
    pcie_replays: int | None = None
    xids: tuple[int, ...] = ()
    processes: tuple[int, ...] | None = None
    computing: tuple[int, ...] | None = None
    memory_free: float | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """All counters at one moment: `at_ns` is the middle of the reading, CLOCK_MONOTONIC.

    `host` is None and `gpus` empty for a source that did not answer; `problem` then says why.
    """

    at_ns: int
    host: HostCounters | None = None
    gpus: tuple[GpuCounters, ...] = ()
    problem: str = ""


class Telemetry(Protocol):
    """What a session asks about the machine while nothing is timed. Nothing of it ever raises.

    `root` is a supervisor's process id: what lies below it is the measured tree.
    """

    def read_counters(self, root: int) -> Reading:
        """All counters now; with `problem` where a source does not answer."""
        ...

    def start(self, root: int, hz: float, cpus: tuple[int, ...] = ()) -> None:
        """Begin to sample; the host's rows are about `cpus` (none: the measured ones)."""
        ...

    def stop(self) -> tuple[Recording, ...]:
        """Stop sampling; every row since `start`, a recording per device, the host first."""
        ...

    def close(self) -> None:
        """Leave no process behind."""
        ...


#: Called with a folder for what is sampled, the UUIDs of the GPUs in use, the measured CPUs (none: all), the
#: CPUs of what measures, and the session's token.
StartTelemetry = Callable[[Path, tuple[str, ...], tuple[int, ...], tuple[int, ...], str], Telemetry]


class FilteredTelemetry:
    """A session's telemetry as one of its contenders sees it: of the GPUs only those it computes on.

    The others are idle or belong to other cases, and their load is not recorded for it. `uuids` may lack
    NVML's prefixes.
    """

    def __init__(self, session: Telemetry, uuids: tuple[str, ...]) -> None:
        self._session = session
        self._own = {HOST, *map(bare, uuids)}

    def read_counters(self, root: int) -> Reading:
        """All counters now, those of its own GPUs."""
        reading = self._session.read_counters(root)
        return replace(reading, gpus=tuple(gpu for gpu in reading.gpus if bare(gpu.uuid) in self._own))

    def start(self, root: int, hz: float, cpus: tuple[int, ...] = ()) -> None:
        """Begin to sample."""
        self._session.start(root, hz, cpus)

    def stop(self) -> tuple[Recording, ...]:
        """Stop sampling; the recordings of the host and of its own GPUs."""
        return tuple(one for one in self._session.stop() if bare(one.device) in self._own)

    def close(self) -> None:
        """Nothing: it is the session's to close."""
