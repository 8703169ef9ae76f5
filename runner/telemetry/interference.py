"""Interference with a block: other processes on its CPUs or its GPU, or a GPU that was slowed down.

`InterferenceCheck` reads counters right before and after each block of a contender, `find_interference`
judges their difference, and `busiest` names the process that took the CPU.
"""

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any, Literal

import psutil

from records.outcomes import OutcomeStatus

from ..machine import times_stopped
from .telemetry_interface import GpuCounters, HostCounters, Reading, Telemetry

#: /proc/stat counts in ticks: the difference of two counts of one CPU is off by up to one of them, and by
#: 0.4 as a standard deviation (the difference of two uniform errors). Over n CPUs that grows with sqrt(n).
_TICK_NS = 10_000_000
#: Below this, foreign CPU time cannot be distinguished from counting errors: two standard deviations.
_MIN_SIGNIFICANT_TICKS = 0.8
#: Larger than any counting error.
_CERTAIN_TICKS = 3.0
#: Throttle reasons that are abnormal. `power`, `thermal` and `sw_thermal` are not among them: an H100 at full
#: load runs under these.
_ABNORMAL_THROTTLING = ("hw_thermal", "hw_power_brake")
#: Limits of the voltage and the board: of a gaming card at full boost they are the normal state, so they
#: count only where the clock fell below this share of what it was, or is not known.
_VOLTAGE_THROTTLING = ("reliability", "board")
_CLOCK_FELL = 0.98
_THROTTLED_SHARE = 0.01
#: How the server of NVIDIA's Multi-Process Service is called; the kernel keeps 15 letters of a name.
_MPS_SERVER = "nvidia-cuda-mps"
_MPS_NOTE = (
    "NVIDIA's Multi-Process Service shares its GPU, also among processes that compute at the same time"
)
_UNKNOWN_PROCESSES = (
    "the processes on its GPU are not known, as in a container: work of other programs on it is not noticed"
)
#: A limit that no share exceeds.
NEVER = 1.0

#: Other processes on the measured CPUs, the hypervisor, other processes on the GPU, or the GPU itself.
Cause = Literal["cpu", "hypervisor", "company", "gpu"]


@dataclass(frozen=True, slots=True)
class Interference:
    """Why a block does not count: status, cause, a sentence, and the share of time.

    `share` is None for events without a duration (an error of the GPU, a process on it).
    """

    status: Literal[OutcomeStatus.CONTENDED, OutcomeStatus.THROTTLED]
    cause: Cause
    reason: str
    share: float | None = None

    def to_body(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


def find_interference(
    before: Reading,
    after: Reading,
    wall_ns: int,
    cpus: tuple[int, ...],
    limit: float,
    *,
    own_cpus: tuple[int, ...] = (),
    own: Collection[int] = (),
    clock_ratio: float | None = None,
) -> Interference | None:
    """What disturbed a block of `wall_ns` between two readings; None if nothing did or it cannot be known.

    `cpus` are the measured CPUs (none: all that were counted), `own_cpus` those of the controller, `own` the
    process ids of this run, `clock_ratio` the GPU's clock in this block by that in the others, None where it
    is not known. Other processes may take up to the share `limit` of the time; 1 is no limit.
    Counters that are absent or went backwards (a restarted sampler, a reloaded driver) are ignored.
    """
    # The readings enclose the block; their differences belong to all the time between them.
    elapsed = max(wall_ns, after.at_ns - before.at_ns)
    if elapsed <= 0:
        return None
    found: Interference | None = None
    if limit < NEVER:
        found = _by_cpu_contention(before, after, elapsed, cpus, limit, own_cpus) or _by_other_gpu_processes(
            before, after, own
        )
    return found or _by_gpu_state(before, after, elapsed, clock_ratio)


def _by_cpu_contention(
    before: Reading,
    after: Reading,
    elapsed: int,
    cpus: tuple[int, ...],
    limit: float,
    own_cpus: tuple[int, ...],
) -> Interference | None:
    if before.host is None or after.host is None:
        return None
    counted = cpus or tuple(after.host.busy_ns)
    return _steal_time(before.host, after.host, elapsed, counted, limit) or _cpu_contention(
        before.host, after.host, elapsed, counted, limit, own_cpus_apart=_disjoint(cpus, own_cpus)
    )


def _disjoint(cpus: tuple[int, ...], own_cpus: tuple[int, ...]) -> bool:
    """Whether the controller has CPUs of its own, so that none of its time is on the measured ones."""
    return bool(cpus and own_cpus) and not {*cpus} & {*own_cpus}


def _steal_time(
    before: HostCounters, after: HostCounters, elapsed: int, cpus: tuple[int, ...], limit: float
) -> Interference | None:
    """Steal time of the CPU that lost most: threads that synchronise wait for the slowest."""
    lost = _stolen(before, after, cpus)
    cpu = max(lost, key=lost.__getitem__, default=None)
    if cpu is None or lost[cpu] - _TICK_NS <= limit * elapsed:
        return None
    share = lost[cpu] / elapsed
    return Interference(
        OutcomeStatus.CONTENDED, "hypervisor", f"the hypervisor took {percent(share)} of CPU {cpu}", share
    )


def _stolen(before: HostCounters, after: HostCounters, cpus: tuple[int, ...]) -> dict[int, int]:
    """What the hypervisor took of each CPU, in nanoseconds."""
    return {cpu: grown(before.steal_ns.get(cpu), after.steal_ns.get(cpu)) or 0 for cpu in cpus}


def _cpu_contention(
    before: HostCounters,
    after: HostCounters,
    elapsed: int,
    cpus: tuple[int, ...],
    limit: float,
    *,
    own_cpus_apart: bool,
) -> Interference | None:
    """Foreign CPU time during which the measured threads waited for a CPU.

    Waiting alone proves nothing: a case with more threads than CPUs waits for itself. Foreign CPU time alone
    proves nothing either: it may be on a CPU that the case did not need, or too little to explain the wait.
    """
    foreign_ns = _foreign(before, after, cpus, own_cpus_apart)
    if foreign_ns is None:
        return None
    ticks = _TICK_NS * sqrt(len(cpus))
    foreign, certain = foreign_ns / elapsed, foreign_ns >= _CERTAIN_TICKS * ticks
    if foreign <= limit:
        return None
    if before.delay_ns is None or after.delay_ns is None:
        if not certain:
            return None
        return Interference(
            OutcomeStatus.CONTENDED, "cpu", f"others used {percent(foreign)} of a CPU", foreign
        )
    delay_ns = grown(before.delay_ns, after.delay_ns)
    if delay_ns is None or delay_ns <= limit * elapsed:
        return None
    if not certain and foreign_ns < max(delay_ns / 2, _MIN_SIGNIFICANT_TICKS * ticks):
        return None
    share = delay_ns / elapsed
    reason = f"it waited {percent(share)} of the time for a CPU, of which others used {percent(foreign)}"
    return Interference(OutcomeStatus.CONTENDED, "cpu", reason, share)


def _foreign(
    before: HostCounters, after: HostCounters, cpus: tuple[int, ...], own_cpus_apart: bool
) -> int | None:
    """CPU time on the measured CPUs, in nanoseconds, used neither by the case nor by the controller."""
    busy = [grown(before.busy_ns.get(cpu), after.busy_ns.get(cpu)) for cpu in cpus]
    tree, ours = grown(before.tree_ns, after.tree_ns), grown(before.ours_ns, after.ours_ns)
    if tree is None or ours is None or not busy:
        return None
    total = 0
    for each in busy:
        if each is None:
            return None
        total += each
    return max(0, total - tree - (0 if own_cpus_apart else ours))


def _by_other_gpu_processes(before: Reading, after: Reading, own: Collection[int]) -> Interference | None:
    """Another process that computed on the GPU; one that is only there takes memory, and no time."""
    foreign_pids = _foreign_pids(before, after, own)
    at_work = [gpu.computing for gpu in after.gpus]
    if at_work and all(pids is not None for pids in at_work):
        foreign_pids &= {pid for pids in at_work for pid in pids or ()}
    if not foreign_pids:
        return None
    return Interference(
        OutcomeStatus.CONTENDED,
        "company",
        f"another process computes on its GPU ({_format_pids(foreign_pids)})",
    )


def _foreign_pids(before: Reading, after: Reading, own: Collection[int]) -> set[int]:
    return {pid for gpu in (*before.gpus, *after.gpus) for pid in gpu.processes or () if pid not in own}


def _format_pids(pids: Collection[int]) -> str:
    return f"pid {', '.join(map(str, sorted(pids)))}"


def notes_on_gpu(before: Reading, after: Reading, own: Collection[int]) -> list[str]:
    """Sentences about a GPU during a block that counts: what was there and took no time."""
    company = _foreign_pids(before, after, own)
    # In a container they are those of the host, and cannot be told from its own.
    unknown = [gpu for gpu in after.gpus if gpu.processes is None]
    found = [_UNKNOWN_PROCESSES] if unknown else []
    found += [f"another process has memory on its GPU ({_format_pids(company)})"] if company else []
    elapsed = after.at_ns - before.at_ns
    limits = {
        reason
        for then, gpu in _same_gpus(before, after)
        for reason in _VOLTAGE_THROTTLING
        if any(_find_throttling(then, gpu, elapsed, (reason,)))
    }
    return [
        *found,
        *(f"its GPU was at a limit ({each}), and its clock did not fall" for each in sorted(limits)),
    ]


def _by_gpu_state(
    before: Reading, after: Reading, elapsed: int, clock_ratio: float | None
) -> Interference | None:
    fell = clock_ratio is None or clock_ratio < _CLOCK_FELL
    reasons = (*_ABNORMAL_THROTTLING, *(_VOLTAGE_THROTTLING if fell else ()))
    for then, gpu in _same_gpus(before, after):
        for interference in (*_find_throttling(then, gpu, elapsed, reasons), *_errors(then, gpu)):
            return interference
    return None


def _same_gpus(before: Reading, after: Reading) -> Iterator[tuple[GpuCounters, GpuCounters]]:
    """The counters of each GPU in both readings."""
    earlier = {gpu.uuid: gpu for gpu in before.gpus}
    return ((earlier[gpu.uuid], gpu) for gpu in after.gpus if gpu.uuid in earlier)


def _find_throttling(
    before: GpuCounters, after: GpuCounters, elapsed: int, reasons: Sequence[str]
) -> Iterator[Interference]:
    for reason in reasons:
        held = grown(before.throttled_ns.get(reason), after.throttled_ns.get(reason)) or 0
        if held > _THROTTLED_SHARE * elapsed:
            share = min(1.0, held / elapsed)
            text = f"its GPU held the clock down for {percent(share)} of the time ({reason})"
            yield Interference(OutcomeStatus.THROTTLED, "gpu", text, share)


def _errors(before: GpuCounters, after: GpuCounters) -> Iterator[Interference]:
    if grown(before.ecc_uncorrected, after.ecc_uncorrected):
        yield Interference(
            OutcomeStatus.THROTTLED, "gpu", "its GPU counted an ECC error that it could not correct"
        )
    if after.xids:
        yield Interference(
            OutcomeStatus.THROTTLED, "gpu", f"its GPU reported Xid {', '.join(map(str, after.xids))}"
        )
    if grown(before.pcie_replays, after.pcie_replays):
        yield Interference(OutcomeStatus.THROTTLED, "gpu", "its GPU had to repeat transfers over PCIe")


def grown(before: int | None, after: int | None) -> int | None:
    """By how much a counter grew; None where it is absent or went backwards."""
    return None if before is None or after is None or after < before else after - before


def percent(share: float) -> str:
    """A share in percent, as text."""
    return f"{100 * share:.0f} %"


#: A process below this share of a CPU is not named.
_MIN_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class ProcessCpuTime:
    """CPU time of a process so far, in seconds. `cpu` is where its main thread ran last."""

    name: str
    seconds: float
    threads: int
    cpu: int


@dataclass(frozen=True, slots=True)
class Offender:
    """The process that used most CPU time; `share` is relative to one CPU."""

    name: str
    pid: int
    share: float


#: By process id and start time (seconds since 1970), because ids are reused.
CpuTimes = Mapping[tuple[int, float], ProcessCpuTime]


def cpu_times() -> CpuTimes:
    """The CPU time of every visible process.

    Measured with 145 processes: 19 ms, with a parser of our own 4 ms. It runs at most twice per disturbed
    contender and never while a block is timed.
    """
    found: dict[tuple[int, float], ProcessCpuTime] = {}
    for pid in psutil.pids():
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                times = process.cpu_times()
                found[pid, process.create_time()] = ProcessCpuTime(
                    process.name(), times.user + times.system, process.num_threads(), process.cpu_num()
                )
        except psutil.Error:
            continue
    return found


def busiest(
    before: CpuTimes, after: CpuTimes, seconds: float, cpus: tuple[int, ...], own: frozenset[int]
) -> Offender | None:
    """The process that used the measured `cpus` (none: all) most in `seconds`, except those in `own`.

    A process with one thread counts if it was last seen on one of `cpus`. Of several threads only the main
    thread's CPU is known, so such a process always counts.
    """
    if seconds <= 0:
        return None
    found: Offender | None = None
    for (pid, started), now in after.items():
        then = before.get((pid, started))
        seen_on = {now.cpu, then.cpu} if then else {now.cpu}
        if pid in own or (cpus and now.threads == 1 and not seen_on & {*cpus}):
            continue
        share = (now.seconds - (then.seconds if then else 0.0)) / seconds
        if share >= _MIN_SHARE and (found is None or share > found.share):
            found = Offender(now.name, pid, share)
    return found


def own_processes() -> frozenset[int]:
    """The ids of this process and all its descendants; supervisors adopt the orphans among them."""
    process = psutil.Process()
    return frozenset({process.pid, *(child.pid for child in process.children(recursive=True))})


#: Of a block, in nanoseconds: how long it took, for how long others kept the case's threads waiting for a
#: CPU, and what the hypervisor took of the CPU that lost most.
_CoreTimes = tuple[int, int, int]


def _core_times(
    before: Reading, after: Reading, cpus: tuple[int, ...], own_cpus: tuple[int, ...]
) -> _CoreTimes | None:
    """None where the counters are absent or went backwards."""
    if before.host is None or after.host is None:
        return None
    counted = cpus or tuple(after.host.busy_ns)
    waited = grown(before.host.delay_ns, after.host.delay_ns)
    foreign = _foreign(before.host, after.host, counted, _disjoint(cpus, own_cpus))
    if waited is None or foreign is None or after.at_ns <= before.at_ns:
        return None
    stolen = _stolen(before.host, after.host, counted)
    # The threads of a case also wait for each other.
    return after.at_ns - before.at_ns, min(waited, foreign), max(stolen.values(), default=0)


#: After this many readings in a row without data the telemetry is not read again: each may take seconds.
_MAX_EMPTY_READINGS = 3


class InterferenceCheck:
    """Checks the blocks of the contender whose supervisor is `root`; without `telemetry` it detects nothing.

    `cpus` are the contender's CPUs (none: all), `own_cpus` those of the controller, supervisor and sampler.
    """

    def __init__(
        self,
        telemetry: Telemetry | None,
        root: int,
        cpus: tuple[int, ...],
        own_cpus: tuple[int, ...],
        limit: float,
    ) -> None:
        self._telemetry = telemetry
        self._root = root
        self._cpus = cpus
        self._own_cpus = own_cpus
        self._limit = limit
        self._before: Reading | None = None
        self._own: frozenset[int] = frozenset()
        self._problems: dict[str, None] = {}
        self._empty_readings = 0
        self._first: tuple[float, CpuTimes] | None = None
        self._clean: list[_CoreTimes | None] = []
        self._stopped = 0

    def before(self) -> None:
        """Read the counters before a block."""
        self._stopped = times_stopped()
        self._before = self._take_reading()
        # A child process may have ended after the block, and could then not be recognised as our own.
        self._own = own_processes() if _has_gpu_processes(self._before) else frozenset()

    def after(self, wall_ns: int, clock_ratio: float | None = None) -> Interference | None:
        """Read the counters after a block of `wall_ns`; returns what disturbed it, None if nothing did.

        `clock_ratio` is the GPU's clock in this block by that in the others, None where it is not known.
        """
        before, after = self._before, self._take_reading()
        if before is None or after is None:
            return None
        shared_gpu = _has_gpu_processes(before) or _has_gpu_processes(after)
        own = frozenset[int]()
        if shared_gpu:
            servers = _mps_servers(before, after)
            own = self._own | own_processes() | servers
            self._problems |= dict.fromkeys([_MPS_NOTE] if servers else [])
        interference = find_interference(
            before,
            after,
            wall_ns,
            self._cpus,
            self._limit,
            own_cpus=self._own_cpus,
            own=own,
            clock_ratio=clock_ratio,
        )
        if interference is None:
            stopped = times_stopped() > self._stopped
            times = None if stopped else _core_times(before, after, self._cpus, self._own_cpus)
            self._clean.append(times)
        if interference is None and self._limit < NEVER:
            self._problems |= dict.fromkeys(notes_on_gpu(before, after, own))
        if interference and interference.cause == "cpu" and self._first is None:
            self._first = time.monotonic(), cpu_times()
        return interference

    def offender(self) -> Offender | None:
        """The process that used the CPUs most since the first disturbed block; None if none is visible."""
        if self._first is None:
            return None
        since, before = self._first
        return busiest(before, cpu_times(), time.monotonic() - since, self._cpus, own_processes())

    def core_share(self) -> float | None:
        """The share of a core that the case's processes had of what they wanted, in blocks that count.

        One that sleeps wants none; those that take turns on a core, or fill it in parts, have it together.
        None where the kernel does not report how long threads wait, and where it stopped them at a quota of a
        control group: then no other has what they want.
        """
        times = [each for each in self._clean if each is not None]
        if not times or len(times) < len(self._clean):
            return None
        elapsed, robbed, stolen = (sum(column) for column in zip(*times, strict=True))
        return max(0.0, 1.0 - (robbed + stolen) / elapsed)

    def facts(self) -> Mapping[str, Any]:
        """Facts of the outcome: problems of the telemetry sources."""
        return {"telemetry_notes": list(self._problems)} if self._problems else {}

    def _take_reading(self) -> Reading | None:
        if self._telemetry is None or self._empty_readings >= _MAX_EMPTY_READINGS:
            return None
        reading = self._telemetry.read_counters(self._root)
        if reading.problem:
            self._problems[reading.problem] = None
        self._empty_readings = 0 if reading.host or reading.gpus else self._empty_readings + 1
        return reading


def _mps_servers(*readings: Reading) -> frozenset[int]:
    """The processes on a GPU that serve it to others, and compute nothing themselves."""
    pids = {pid for reading in readings for gpu in reading.gpus for pid in gpu.processes or ()}
    found: set[int] = set()
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            if psutil.Process(pid).name().startswith(_MPS_SERVER):
                found.add(pid)
    return frozenset(found)


def _has_gpu_processes(reading: Reading | None) -> bool:
    return reading is not None and any(gpu.processes for gpu in reading.gpus)


def offender_clause(offender: Offender | None) -> str:
    """The end of a sentence about interference; empty without an offender."""
    if offender is None:
        return ""
    return f"; {offender.name} (pid {offender.pid}) used {percent(offender.share)} of one"
