"""Whether a block was disturbed: by others on its CPUs or its GPU, or by a GPU that was slowed down."""

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any, Literal

from .counters import GpuCounters, HostCounters, Reading

#: /proc/stat counts in ticks: the difference of two counts of one CPU is off by up to one of them, and by
#: 0.4 as a standard deviation (the difference of two uniform errors). Over n CPUs that grows with sqrt(n).
_TICK_NS = 10_000_000
#: Below this nobody can tell others from the ticks: two standard deviations.
_DOUBT_TICKS = 0.8
#: What no error of counting can be.
_CERTAIN_TICKS = 3.0
#: Why a GPU holds its clock down although the load is normal for it: `power`, `thermal` and `sw_thermal` are
#: not among these, for at full load they are how an H100 runs.
_HELD_DOWN = ("hw_thermal", "hw_power_brake", "reliability", "board")
_HELD_DOWN_SHARE = 0.01
#: A limit that nobody exceeds.
NEVER = 1.0

#: Who it was: others on the measured CPUs, the hypervisor, others on the GPU, or the GPU itself.
Cause = Literal["cpu", "hypervisor", "company", "gpu"]


@dataclass(frozen=True, slots=True)
class Taint:
    """Why a block does not count: status, cause, a sentence, and what share of the time.

    `share` is None for what happened and did not last (an error of the GPU, a process on it).
    """

    status: Literal["contended", "throttled"]
    cause: Cause
    reason: str
    share: float | None = None

    def to_body(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


def tainted(
    before: Reading,
    after: Reading,
    wall_ns: int,
    cpus: tuple[int, ...],
    limit: float,
    *,
    own_cpus: tuple[int, ...] = (),
    own: Collection[int] = (),
) -> Taint | None:
    """What disturbed a block of `wall_ns` between two readings; None where nothing did or nobody can tell.

    `cpus` are the measured CPUs (none: all that were counted), `own_cpus` those of what measures, `own` the
    processes of this run. Others may take up to `limit` of the time; 1: whatever they like. Counters that are
    absent or went backwards, because a sampler was restarted or a driver loaded anew, say nothing.
    """
    # Readings lie around the block, and what they count belongs to all the time between them.
    elapsed = max(wall_ns, after.at_ns - before.at_ns)
    if elapsed <= 0:
        return None
    found: Taint | None = None
    if limit < NEVER:
        found = _by_the_host(before, after, elapsed, cpus, limit, own_cpus) or _by_company(before, after, own)
    return found or _by_the_gpu(before, after, elapsed)


def _by_the_host(
    before: Reading,
    after: Reading,
    elapsed: int,
    cpus: tuple[int, ...],
    limit: float,
    own_cpus: tuple[int, ...],
) -> Taint | None:
    if before.host is None or after.host is None:
        return None
    counted = cpus or tuple(after.host.busy_ns)
    return _stolen(before.host, after.host, elapsed, counted, limit) or _taken(
        before.host, after.host, elapsed, counted, limit, apart=_apart(cpus, own_cpus)
    )


def _apart(cpus: tuple[int, ...], own_cpus: tuple[int, ...]) -> bool:
    """Whether what measures has CPUs of its own, so that none of its time is on the measured ones."""
    return bool(cpus and own_cpus) and not {*cpus} & {*own_cpus}


def _stolen(
    before: HostCounters, after: HostCounters, elapsed: int, cpus: tuple[int, ...], limit: float
) -> Taint | None:
    """By the hypervisor, from the CPU that lost most: threads that wait for each other wait for that one."""
    lost = {cpu: grown(before.steal_ns.get(cpu), after.steal_ns.get(cpu)) or 0 for cpu in cpus}
    cpu = max(lost, key=lost.__getitem__, default=None)
    if cpu is None or lost[cpu] - _TICK_NS <= limit * elapsed:
        return None
    share = lost[cpu] / elapsed
    return Taint("contended", "hypervisor", f"the hypervisor took {percent(share)} of CPU {cpu}", share)


def _taken(
    before: HostCounters,
    after: HostCounters,
    elapsed: int,
    cpus: tuple[int, ...],
    limit: float,
    *,
    apart: bool,
) -> Taint | None:
    """By processes that are not ours, where ours waited for a CPU meanwhile.

    Waiting alone proves nothing: a case with more threads than CPUs waits for itself. Nor do others alone, on
    a CPU that our threads did not want, or so little of a long block that it cannot be what ours waited for.
    """
    foreign_ns = _foreign(before, after, cpus, apart)
    if foreign_ns is None:
        return None
    ticks = _TICK_NS * sqrt(len(cpus))
    foreign, certain = foreign_ns / elapsed, foreign_ns >= _CERTAIN_TICKS * ticks
    if foreign <= limit:
        return None
    if before.delay_ns is None or after.delay_ns is None:
        if not certain:
            return None
        return Taint("contended", "cpu", f"others used {percent(foreign)} of a CPU", foreign)
    delay_ns = grown(before.delay_ns, after.delay_ns)
    if delay_ns is None or delay_ns <= limit * elapsed:
        return None
    if not certain and foreign_ns < max(delay_ns / 2, _DOUBT_TICKS * ticks):
        return None
    share = delay_ns / elapsed
    reason = f"it waited {percent(share)} of the time for a CPU, of which others used {percent(foreign)}"
    return Taint("contended", "cpu", reason, share)


def _foreign(before: HostCounters, after: HostCounters, cpus: tuple[int, ...], apart: bool) -> int | None:
    """CPU time on the measured CPUs, in nanoseconds, that was neither the case's nor of what measures."""
    busy = [grown(before.busy_ns.get(cpu), after.busy_ns.get(cpu)) for cpu in cpus]
    tree, ours = grown(before.tree_ns, after.tree_ns), grown(before.ours_ns, after.ours_ns)
    if tree is None or ours is None or not busy:
        return None
    total = 0
    for each in busy:
        if each is None:
            return None
        total += each
    return max(0, total - tree - (0 if apart else ours))


def _by_company(before: Reading, after: Reading, own: Collection[int]) -> Taint | None:
    strangers = {pid for gpu in (*before.gpus, *after.gpus) for pid in gpu.processes or () if pid not in own}
    if not strangers:
        return None
    named = ", ".join(str(pid) for pid in sorted(strangers))
    return Taint("contended", "company", f"on its GPU computes another process too (pid {named})")


def _by_the_gpu(before: Reading, after: Reading, elapsed: int) -> Taint | None:
    earlier = {gpu.uuid: gpu for gpu in before.gpus}
    for gpu in after.gpus:
        if then := earlier.get(gpu.uuid):
            for taint in (*_held_down(then, gpu, elapsed), *_errors(then, gpu)):
                return taint
    return None


def _held_down(before: GpuCounters, after: GpuCounters, elapsed: int) -> Iterator[Taint]:
    for reason in _HELD_DOWN:
        held = grown(before.throttled_ns.get(reason), after.throttled_ns.get(reason)) or 0
        if held > _HELD_DOWN_SHARE * elapsed:
            share = min(1.0, held / elapsed)
            text = f"its GPU held the clock down for {percent(share)} of the time ({reason})"
            yield Taint("throttled", "gpu", text, share)


def _errors(before: GpuCounters, after: GpuCounters) -> Iterator[Taint]:
    if grown(before.ecc_uncorrected, after.ecc_uncorrected):
        yield Taint("throttled", "gpu", "its GPU counted an ECC error that it could not correct")
    if after.xids:
        yield Taint("throttled", "gpu", f"its GPU reported Xid {', '.join(map(str, after.xids))}")
    if grown(before.pcie_replays, after.pcie_replays):
        yield Taint("throttled", "gpu", "its GPU had to repeat transfers over PCIe")


def grown(before: int | None, after: int | None) -> int | None:
    """By how much a counter grew; None where it is absent or went backwards."""
    return None if before is None or after is None or after < before else after - before


def percent(share: float) -> str:
    """A share for people."""
    return f"{100 * share:.0f} %"
