"""What the sampler reads at a moment: the counters of the kernel and of the GPUs. Plain frozen records."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
    namespace and say nothing here.
    """

    uuid: str
    throttled_ns: Mapping[str, int] = field(default_factory=dict[str, int])
    energy_mj: int | None = None
    ecc_uncorrected: int | None = None
    pcie_replays: int | None = None
    xids: tuple[int, ...] = ()
    processes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """All counters at one moment: `at_ns` is the middle of the reading, CLOCK_MONOTONIC.

    `host` is None and `gpus` empty for a source that did not answer; `problem` then says why.
    """

    at_ns: int
    host: HostCounters | None = None
    gpus: tuple[GpuCounters, ...] = ()
    problem: str = ""
