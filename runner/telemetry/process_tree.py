"""CPU time and run queue waits of all processes below one.

Parsed from /proc here, because the sampler reads it at every block and row: 1.2 ms with 145 processes, and
6.9 ms with psutil's `oneshot`, which reports neither nanoseconds nor the time spent waiting on run queues.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from common.processes import below, name_and_fields

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
#: Fields of /proc/PID/stat from the state on, which proc(5) counts as the third.
_PARENT, _FLAGS, _USER, _SYSTEM, _REAPED_USER, _REAPED_SYSTEM = 1, 6, 11, 12, 13, 14
#: In the flags: a thread of the kernel, of which a large machine has thousands (PF_KTHREAD).
_OF_THE_KERNEL = 0x200000


@dataclass(frozen=True, slots=True)
class TreeCounts:
    """Counted so far. `waited_ns` on run queues and `slices` (turns on a CPU) are None where untold."""

    pids: frozenset[int]
    cpu_ns: int
    waited_ns: int | None
    slices: int | None


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    flags: int
    ticks: int
    reaped_ticks: int


class Tree:
    """The processes below `root`, itself left out: a supervisor, to which its orphans come back.

    CPU time is that of the living, of the dead that are not collected yet, and of those that members or
    the root collected, whose time is known in ticks. What threads waited dies with them, so it is added up
    here from reading to reading: what a thread waits after its last reading is not counted.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._kernel: set[int] = set()
        self._threads: dict[tuple[int, int], tuple[int, int]] = {}
        self._waited_ns = 0
        self._slices = 0

    def read_counts(self) -> TreeCounts:
        """Everything now; empty for a root that is gone."""
        processes = dict(self._processes())
        pids = frozenset(below(self._root, {pid: one.parent for pid, one in processes.items()}))
        root = processes.get(self._root)
        reaped = sum(processes[pid].reaped_ticks for pid in pids) + (root.reaped_ticks if root else 0)
        own = (_process_ns(pid, processes[pid].ticks) for pid in pids)
        counted = self._count(pids)
        return TreeCounts(
            pids,
            sum(own) + reaped * _TICK_NS,
            self._waited_ns if counted else None,
            self._slices if counted else None,
        )

    def _processes(self) -> Iterator[tuple[int, _Process]]:
        """Every process but the kernel's own, which are looked at once."""
        listed = {int(entry) for entry in os.listdir("/proc") if entry.isdigit()}
        self._kernel &= listed
        for pid in listed - self._kernel:
            text = _read_file(f"/proc/{pid}/stat")
            if not text:
                continue
            process = _parse(text)
            if process.flags & _OF_THE_KERNEL:
                self._kernel.add(pid)
            else:
                yield pid, process

    def _count(self, pids: frozenset[int]) -> bool:
        """Add what the threads of `pids` waited since the last time; whether the kernel reports it."""
        now = {(pid, thread): counts for pid in pids for thread, counts in _threads(pid)}
        for key, (waited, slices) in now.items():
            waited_then, slices_then = self._threads.get(key, (0, 0))
            if slices < slices_then:
                # A thread's number, used again.
                waited_then = slices_then = 0
            self._waited_ns += max(0, waited - waited_then)
            self._slices += slices - slices_then
        self._threads = now
        return bool(now) or not pids


def cpu_ns(pid: int) -> int:
    """CPU time of one process without its children, all its threads, also those that ended; 0 if gone."""
    text = _read_file(f"/proc/{pid}/stat")
    return _process_ns(pid, _parse(text).ticks) if text else 0


def resident_kib(pid: int) -> int:
    """Resident memory in KiB with all that is shared, which is cheap to read; 0 for one that is gone."""
    fields = _read_file(f"/proc/{pid}/statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") // 1024 if len(fields) > 1 else 0


def _process_ns(pid: int, ticks: int) -> int:
    try:
        # The clock of another process: clock_getcpuclockid(3) makes its id so.
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:
        return ticks * _TICK_NS


def _parse(text: str) -> _Process:
    _, fields = name_and_fields(text)
    return _Process(
        int(fields[_PARENT]),
        int(fields[_FLAGS]),
        int(fields[_USER]) + int(fields[_SYSTEM]),
        int(fields[_REAPED_USER]) + int(fields[_REAPED_SYSTEM]),
    )


def _threads(pid: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """(thread, (nanoseconds waited, turns)) of each living thread."""
    try:
        entries = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for entry in entries:
        fields = _read_file(f"/proc/{pid}/task/{entry}/schedstat").split()
        if len(fields) == 3:
            yield int(entry), (int(fields[1]), int(fields[2]))


def _read_file(path: str) -> str:
    """The whole of a small file of /proc, empty where it cannot be read; plain calls, for there are many."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(descriptor, 1 << 14).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
