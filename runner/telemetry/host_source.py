"""The host as the sampler reads it: the time of its CPUs, and the measured tree on them."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from common.bounded_files import read_or_empty
from common.processes import proportional_kib
from records.telemetry import HOST
from runner.worker.measurements.affinity_check import pages_local

from ..preset import listed_cpus
from .process_tree import Tree, TreeCounts, cpu_ns, resident_kib
from .sample_log import SampleLog
from .telemetry_interface import HostCounters

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_CPUS = Path("/sys/devices/system/cpu")
_NODES = Path("/sys/devices/system/node")
#: What walks page tables or may wake other CPUs is read this seldom, and less where it takes long.
_SELDOM_SECONDS = 1.0
_SELDOM_SHARE = 0.02
#: The kernel goes through the pages of a larger tree for so long that the tree has to wait.
_MOST_KIB = 16 << 20
#: So many CPUs' frequencies are a fair sample of them all.
_FREQUENCIES = 16


@dataclass(frozen=True, slots=True)
class _Times:
    """One CPU so far, in ticks: at work, given away by the hypervisor, and altogether."""

    busy: int
    steal: int
    whole: int


@dataclass(frozen=True, slots=True)
class _Moment:
    at_ns: int
    cpus: dict[int, _Times]
    running: int
    tree: TreeCounts
    ours_ns: int


class HostSource:
    """Counters and rows of the host. `cpus` are the measured ones; none: all that `allowed` names.

    Rows are about these, or about those of the one case that is looked at. What measures is `controller`,
    the supervisor that is the tree's root, and this process.
    """

    def __init__(self, cpus: Sequence[int], allowed: Sequence[int], controller: int) -> None:
        self._all = self._measured = tuple(sorted(cpus or allowed))
        # A technique may use others than the measured ones; where none are named, those outside belong to no
        # case.
        self._counted = frozenset() if cpus else frozenset(allowed)
        self._controller = controller
        self._trees: dict[int, Tree] = {}
        self._watched = 0
        self._last: _Moment | None = None
        self._owed_ns = 0
        self._next_seldom: float | None = None
        self._nodes: set[int] = set()
        self.members: frozenset[int] = frozenset()

    def open(self) -> None:
        """Nothing has to be asked for."""

    def read_counters(self, root: int) -> HostCounters:
        """All counters now: of every CPU where some are measured, otherwise of those that are allowed."""
        now = self._read_moment(root)
        ours = sum(cpu_ns(pid) for pid in self._ours(root))
        cpus = {cpu: times for cpu, times in now.cpus.items() if cpu in self._counted or not self._counted}
        return HostCounters(
            {cpu: times.busy * _TICK_NS for cpu, times in cpus.items()},
            {cpu: times.steal * _TICK_NS for cpu, times in cpus.items()},
            now.tree.cpu_ns,
            now.tree.waited_ns,
            ours,
        )

    def begin(self, root: int, hz: float, log: SampleLog, cpus: tuple[int, ...] = ()) -> float:
        """Start the first row, about `cpus` (none: the measured ones); answers the seconds to the next."""
        self._watched, self._owed_ns, self._next_seldom = root, 0, None
        self._measured = tuple(sorted(cpus)) or self._all
        self._nodes = _own_nodes(self._measured)
        log.device(HOST, "CPU", "none")
        self._last = self._read_moment(root)
        if self._last.tree.waited_ns is None:
            log.note(HOST, "this kernel does not report how long threads wait for a CPU")
        if not _frequencies(self._measured):
            log.note(HOST, "the CPU's frequency is not readable")
        return 1 / hz

    def row(self, log: SampleLog) -> None:
        """End a row and start the next."""
        before, now = self._last, self._read_moment(self._watched)
        self._last = now
        if before is None or now.at_ns <= before.at_ns:
            return
        values = self._times(before, now)
        seconds = (now.at_ns - before.at_ns) / 1e9
        values["foreign"] = self._foreign(before, now)
        values["delay"] = _rate(before.tree.waited_ns, now.tree.waited_ns, seconds * 1e7)
        values["switches"] = _rate(before.tree.slices, now.tree.slices, seconds)
        # The one that reads this is running too.
        values["run_queue"] = max(0, now.running - 1)
        values |= self._seldom(now, log)
        log.row(HOST, before.at_ns, now.at_ns, values)

    def end(self, log: SampleLog) -> None:
        """End the watch; what is left of a row is not one."""
        self._last = None

    def _read_moment(self, root: int) -> _Moment:
        # One entry per supervisor of a session, of which the last few may still be asked for.
        tree = self._trees.setdefault(root, Tree(root))
        started = time.monotonic_ns()
        cpus, running = _stat()
        counts = tree.read_counts()
        on_measured = sum(cpu_ns(pid) for pid in self._ours(root) if self._may_run_on_measured(pid))
        self.members = counts.pids
        return _Moment((started + time.monotonic_ns()) // 2, cpus, running, counts, on_measured)

    def _ours(self, root: int) -> tuple[int, ...]:
        return tuple(dict.fromkeys((self._controller, root, os.getpid())))

    def _may_run_on_measured(self, pid: int) -> bool:
        try:
            return not os.sched_getaffinity(pid).isdisjoint(self._measured)
        except OSError:
            return False

    def _times(self, before: _Moment, now: _Moment) -> dict[str, float | None]:
        """Busy and stolen time in percent of all: of the measured CPUs together, and of each."""
        busy = steal = whole = 0
        values: dict[str, float | None] = {"cpu_busy": None}
        for cpu in self._measured:
            then, times = before.cpus.get(cpu), now.cpus.get(cpu)
            if then is None or times is None or times.whole <= then.whole:
                continue
            of_this = times.whole - then.whole
            values[f"cpu{cpu}"] = 100 * max(0, times.busy - then.busy) / of_this
            busy, steal = busy + max(0, times.busy - then.busy), steal + max(0, times.steal - then.steal)
            whole += of_this
        if whole:
            values |= {"cpu_busy": 100 * busy / whole, "steal": 100 * steal / whole}
        return values

    def _foreign(self, before: _Moment, now: _Moment) -> float:
        """Percent of a CPU that neither the tree nor what measures took on the measured CPUs.

        CPUs count in ticks and processes in nanoseconds, so a row may seem to have had less than was used. It
        owes that to the next ones, up to a tick for each CPU: cutting it off would add up to time of others
        where there were none.
        """
        busy = sum(
            times.busy - before.cpus[cpu].busy
            for cpu, times in now.cpus.items()
            if cpu in self._measured and cpu in before.cpus
        )
        ours = max(0, now.ours_ns - before.ours_ns) + max(0, now.tree.cpu_ns - before.tree.cpu_ns)
        left = busy * _TICK_NS - ours + self._owed_ns
        self._owed_ns = max(-_TICK_NS * len(self._measured), min(0, left))
        return 100 * max(0, left) / (now.at_ns - before.at_ns)

    def _seldom(self, now: _Moment, log: SampleLog) -> dict[str, float | None]:
        started = time.monotonic()
        if self._next_seldom is None:
            # The first row begins before the window does and is never kept: its values would be lost.
            self._next_seldom = started
            return {}
        if started < self._next_seldom:
            return {}
        clocks = _frequencies(self._measured)
        values: dict[str, float | None] = {"frequency": sum(clocks) / len(clocks) if clocks else None}
        if sum(resident_kib(pid) for pid in now.tree.pids) > _MOST_KIB:
            log.note(
                HOST, f"more than {_MOST_KIB >> 20} GiB: going through it would disturb what is measured"
            )
        else:
            sizes = [proportional_kib(pid) for pid in now.tree.pids]
            known = [size for size in sizes if size is not None]
            if sizes and not known:
                log.note(HOST, "the memory of the measured processes is not readable")
            values["tree_memory"] = sum(known) / 1024 if known else None
            values["pages_local"] = self._local(now.tree.pids)
        took = time.monotonic() - started
        self._next_seldom = started + max(_SELDOM_SECONDS, took / _SELDOM_SHARE)
        return values

    def _local(self, pids: frozenset[int]) -> float | None:
        """Percent of resident memory on the nodes of the measured CPUs; None where there is one node only."""
        if not self._nodes:
            return None
        maps = (read_or_empty(Path(f"/proc/{pid}/numa_maps")) for pid in pids)
        share = pages_local("\n".join(maps), self._nodes)
        return None if share is None else 100 * share


def _stat() -> tuple[dict[int, _Times], int]:
    """Every CPU's ticks by CPU number, and the number of runnable tasks.

    psutil reports CPUs by position, which is not their number when some are offline, and no runnable tasks.
    """
    cpus: dict[int, _Times] = {}
    running = 0
    for line in read_or_empty(Path("/proc/stat")).splitlines():
        name, _, rest = line.partition(" ")
        if name.startswith("cpu") and name[3:].isdigit():
            # user, nice, system, idle, iowait, irq, softirq, steal; guests are within user (proc(5)).
            fields = ([int(number) for number in rest.split()] + [0] * 8)[:8]
            busy = fields[0] + fields[1] + fields[2] + fields[5] + fields[6]
            cpus[int(name[3:])] = _Times(busy, fields[7], sum(fields))
        elif name == "procs_running":
            running = int(rest)
    return cpus, running


def _rate(before: int | None, now: int | None, per: float) -> float | None:
    return None if before is None or now is None else max(0, now - before) / per


def _frequencies(cpus: Sequence[int]) -> list[float]:
    """MHz of the CPUs, at most `_FREQUENCIES` of them; empty if the kernel does not report it.

    psutil reads the files of all CPUs each time, and each read may wake an idle CPU.
    """
    some = cpus[:: max(1, -(-len(cpus) // _FREQUENCIES))]
    texts = (read_or_empty(_CPUS / f"cpu{cpu}/cpufreq/scaling_cur_freq").strip() for cpu in some)
    return [int(text) / 1000 for text in texts if text.isdigit()]


def _own_nodes(cpus: Sequence[int]) -> set[int]:
    """The NUMA nodes of `cpus`, none where there is only one node and memory has no other place."""
    folders = list(_NODES.glob("node[0-9]*"))
    own = {
        int(folder.name.removeprefix("node"))
        for folder in folders
        if {*listed_cpus(folder / "cpulist")} & {*cpus}
    }
    return own if len(folders) > 1 else set()
