"""Who took the CPU: the CPU time of every process at two moments."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from common.processes import descendants, name_and_fields

#: Fields of /proc/PID/stat from the state on, which proc(5) counts as the third.
_USER, _SYSTEM, _THREADS, _STARTED, _PROCESSOR = 11, 12, 17, 19, 36
#: Below this share of a CPU nobody is to blame.
_NOTICED = 0.02


@dataclass(frozen=True, slots=True)
class Used:
    """What a process had used by then: seconds of CPU time. `cpu` is where its main thread ran last."""

    name: str
    seconds: float
    threads: int
    cpu: int


@dataclass(frozen=True, slots=True)
class Offender:
    """The process that took most, and how much of one CPU."""

    name: str
    pid: int
    share: float


#: By process id and start, for ids are used again.
CpuTimes = Mapping[tuple[int, int], Used]


def cpu_times(proc: Path = Path("/proc")) -> CpuTimes:
    """Every process that can be seen from here; takes some milliseconds."""
    ticks = os.sysconf("SC_CLK_TCK")
    found: dict[tuple[int, int], Used] = {}
    for entry in os.listdir(proc):
        if not entry.isdigit():
            continue
        try:
            text = (proc / entry / "stat").read_text(errors="replace")
        except OSError:
            continue
        name, fields = name_and_fields(text)
        used = (int(fields[_USER]) + int(fields[_SYSTEM])) / ticks
        key = int(entry), int(fields[_STARTED])
        found[key] = Used(name, used, int(fields[_THREADS]), int(fields[_PROCESSOR]))
    return found


def busiest(
    before: CpuTimes, after: CpuTimes, seconds: float, cpus: tuple[int, ...], own: frozenset[int]
) -> Offender | None:
    """Who used most of the measured `cpus` (none: all) in `seconds`, the processes of `own` left out.

    A process of one thread is taken to have run where it was seen; where several threads ran, nobody knows.
    """
    if seconds <= 0:
        return None
    found: Offender | None = None
    for (pid, started), used in after.items():
        then = before.get((pid, started))
        seen = {used.cpu, then.cpu} if then else {used.cpu}
        if pid in own or (cpus and used.threads == 1 and not seen & {*cpus}):
            continue
        share = (used.seconds - (then.seconds if then else 0.0)) / seconds
        if share >= _NOTICED and (found is None or share > found.share):
            found = Offender(used.name, pid, share)
    return found


def own_processes() -> frozenset[int]:
    """This process and all below it: whatever a run starts, for supervisors take in what loses its parent."""
    me = os.getpid()
    return frozenset({me, *(pid for pid, _ in descendants(me))})
