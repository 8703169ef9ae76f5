"""Where this process really ran: CPUs, moves between them, context switches, and whose memory it used.

Read from /proc around blocks and never within one. What a kernel does not show is left out.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..case_key import CaseKey
from ..messages import Block

_SELF = Path("/proc/self")
#: In /proc/PID/stat: CPU time in ticks, and the CPU last run on, counted from the state (proc(5) counts from
#: 1 and calls them 14, 15 and 39).
_STAT_USER, _STAT_SYSTEM, _STAT_PROCESSOR = 11, 12, 36
_PRELOADED = ("tcmalloc", "jemalloc")


class StartConditionNotMet(Exception):
    """This process was not started as its case asks; the text says in one sentence what is different."""


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread: the CPUs it may use as the kernel writes them, the one it last ran on, and its counts.

    `ran` grows while it runs, in nanoseconds or clock ticks; `moves` are migrations between CPUs, None where
    the kernel keeps no account of them.
    """

    allowed: str
    cpu: int
    ran: int
    switches: int
    moves: int | None


Snapshot = dict[int, Thread]


def snapshot(tasks: Path = _SELF / "task") -> Snapshot:
    """The present state of every thread of this process, by its id."""
    threads: Snapshot = {}
    for folder in tasks.iterdir():
        try:
            threads[int(folder.name)] = _thread(folder)
        except (OSError, ValueError, KeyError, IndexError):
            # It ended while it was read.
            continue
    return threads


class ThreadPlacement:
    """What the blocks of one process saw; call `before` and `after` around each."""

    def __init__(self) -> None:
        self._before: Snapshot = {}
        self._allowed: set[str] = set()
        self._cpus: set[int] = set()
        self._moves: int | None = 0
        self._switches = 0
        self._seconds = 0.0
        self._earlier: tuple[int | None, int, float] = (0, 0, 0.0)

    def before(self) -> None:
        """Count from here."""
        self._before = snapshot()

    def after(self, block: Block) -> None:
        """Add what happened over `block`; a thread that slept through it says nothing about CPUs."""
        self._earlier = self._moves, self._switches, self._seconds
        for number, now in snapshot().items():
            then = self._before.get(number)
            switches = now.switches - (then.switches if then else 0)
            moves = None if now.moves is None else now.moves - ((then and then.moves) or 0)
            self._allowed.add(now.allowed)
            self._switches += switches
            self._moves = None if moves is None or self._moves is None else self._moves + moves
            if then is None or now.ran != then.ran:
                self._cpus.add(now.cpu)
        self._seconds += block.wall_ns / 1e9

    def forget(self) -> None:
        """Take the last block's moves and switches back; where threads ran stays true."""
        self._moves, self._switches, self._seconds = self._earlier

    def metrics(self, device: str) -> dict[str, float]:
        """Of a CPU case: moves and switches a second over all blocks, the share of pages on its own nodes."""
        if device != "cpu":
            return {}
        found: dict[str, float] = {}
        if self._seconds:
            found["switches"] = self._switches / self._seconds
            if self._moves is not None:
                found["migrations"] = self._moves / self._seconds
        nodes = {
            int(f.name.removeprefix("node")): parse_cpu_list(_read_text(f / "cpulist")) for f in _nodes()
        }
        if len(nodes) > 1:
            # On a single node there is no other place for a page.
            own = {node for node, cpus in nodes.items() if cpus & self._usable_cpus()}
            share = pages_local(_read_text(_SELF / "numa_maps"), own)
            found |= {} if share is None else {"pages_local": share}
        return found

    def facts(self) -> dict[str, Any]:
        """The CPUs that threads were allowed (an entry per different set) and were seen on; huge pages."""
        facts: dict[str, Any] = {"affinity": {"allowed": sorted(self._allowed), "seen": sorted(self._cpus)}}
        huge = re.search(r"^AnonHugePages:\s+(\d+) kB", _read_text(_SELF / "smaps_rollup"), re.MULTILINE)
        return facts | ({"huge_pages_mib": int(huge[1]) / 1024} if huge else {})

    def _usable_cpus(self) -> set[int]:
        return {cpu for text in self._allowed for cpu in parse_cpu_list(text)}


def in_use(device: str, threads: int) -> dict[str, Any]:
    """As a fact of a CPU case: on how many CPUs its `threads` compute at once, at most."""
    if device != "cpu":
        return {}
    # Under OMP_PROC_BIND each thread has a place, and those not begun yet show theirs nowhere.
    bound = os.environ.get("OMP_PROC_BIND", "false").lower() != "false"
    return {"cpus_in_use": threads if bound else min(threads, len(os.sched_getaffinity(0)))}


def allocator(maps: str | None = None) -> str:
    """The library that serves malloc, from /proc/self/maps: `tcmalloc`, `jemalloc` or `libc`."""
    text = _read_text(_SELF / "maps") if maps is None else maps
    return next((name for name in _PRELOADED if f"/lib{name}" in text), "libc")


def check_start_conditions(key: CaseKey, threads: int) -> dict[str, Any]:
    """Facts on how this process was started; raises StartConditionNotMet when it is not as `key` asks.

    The loader ignores a library that it cannot preload and says so only in the log; torch, whose number of
    `threads` is given, takes no more of them than there are CPUs.
    """
    if key.axis("threads") not in ("preset", str(threads)):
        raise StartConditionNotMet(
            f"torch takes {threads} threads here, not the {key.axis('threads')} asked for"
        )
    limit = os.environ.get("OMP_THREAD_LIMIT", "")
    if limit.isdecimal() and int(limit) < threads:
        raise StartConditionNotMet(
            f"OMP_THREAD_LIMIT={limit} leaves fewer threads than the {threads} torch counts on"
        )
    name, loaded = key.axis("allocator"), allocator()
    if name != "preset" and loaded != (name if name in _PRELOADED else "libc"):
        raise StartConditionNotMet(
            f"malloc was to be {name}, but {loaded} serves it: the preload did not work"
        )
    return {"allocator_loaded": loaded}


def pages_local(numa_maps: str, nodes: set[int]) -> float | None:
    """Share of resident memory on `nodes` in the text of /proc/PID/numa_maps; None where it says nothing."""
    local = total = 0
    for line in numa_maps.splitlines():
        size = re.search(r"kernelpagesize_kB=(\d+)", line)
        for node, pages in re.findall(r"\bN(\d+)=(\d+)", line):
            kib = int(pages) * (int(size[1]) if size else 4)
            total += kib
            local += kib if int(node) in nodes else 0
    return local / total if total else None


def parse_cpu_list(text: str) -> set[int]:
    """The CPUs in a list as the kernel writes it: `0-3,8`."""
    parts = (part.partition("-") for part in text.strip().split(",") if part)
    return {cpu for first, _, last in parts for cpu in range(int(first), int(last or first) + 1)}


def _thread(folder: Path) -> Thread:
    lines = (folder / "status").read_text().splitlines()
    status = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    ran = _read_text(folder / "schedstat").split() or [
        str(int(fields[_STAT_USER]) + int(fields[_STAT_SYSTEM]))
    ]
    moved = re.search(r"nr_migrations\s*:\s*(\d+)", _read_text(folder / "sched"))
    return Thread(
        allowed=status["Cpus_allowed_list"],
        cpu=int(fields[_STAT_PROCESSOR]),
        ran=int(ran[0]),
        switches=int(status["voluntary_ctxt_switches"]) + int(status["nonvoluntary_ctxt_switches"]),
        moves=int(moved[1]) if moved else None,
    )


def _nodes() -> list[Path]:
    return list(Path("/sys/devices/system/node").glob("node[0-9]*"))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
