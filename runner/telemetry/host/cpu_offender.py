"""Finds the process that took the CPU, from the CPU time of every process at two moments."""

from collections.abc import Mapping
from dataclasses import dataclass

import psutil

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
