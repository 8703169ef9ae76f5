"""Whether schedulers are alive: the identity of their processes, and heartbeats of what they run."""

import os
import re
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.processes import name_and_fields
from records.tasks import Task

#: Start time of a process in /proc/PID/stat, in clock ticks since boot, counted from the state (proc(5): 22).
_STAT_STARTED = 19


@dataclass(frozen=True, slots=True)
class Owner:
    """A process since its machine booted, and the `machine` where it has things done: its own, or a node.

    `boot` also distinguishes containers with one kernel, and machines that are copies of one that ran.
    Written `machine/boot/pid/started`.
    """

    machine: str
    boot: str
    pid: int
    started: int

    @property
    def process(self) -> tuple[str, int, int]:
        """What is the same for everything that one process has done, wherever it has it done."""
        return self.boot, self.pid, self.started

    def __str__(self) -> str:
        return f"{self.machine}/{self.boot}/{self.pid}/{self.started}"

    @staticmethod
    def parse(text: str) -> "Owner | None":
        """The owner that `text` spells; None for anything else."""
        try:
            machine, boot, pid, started = text.split("/")
            return Owner(machine, boot, int(pid), int(started))
        except ValueError:
            return None


def this_process(machine: str) -> Owner:
    """This process."""
    return Owner(machine, _boot(machine), os.getpid(), start_time(os.getpid()) or 0)


def machine_name() -> str:
    """The name of this machine, which is always one of its labels."""
    return socket.gethostname()


def dead_process(owner: str, me: Owner) -> int | None:
    """The process id of an owner that is known to be dead: it could be seen from here, and is not there.

    What runs on another machine, before a reboot or in another container may live for all we can see. What
    a process of this machine had done on a node is as dead as that process.
    """
    other = Owner.parse(owner)
    if other is None or other.boot != me.boot:
        return None
    return None if start_time(other.pid) == other.started else other.pid


def _boot(machine: str) -> str:
    """This boot of the kernel, the numbering of processes that this process sees, and the machine's name."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    numbering = re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))
    return f"{boot}.{numbering}.{machine}"


def start_time(pid: int) -> int | None:
    """When a living process began; None where there is none, or only its remains."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    _, fields = name_and_fields(text)
    return None if fields[0] in "ZX" else int(fields[_STAT_STARTED])


#: An attempt that showed no sign of life for so long is lost.
LEASE_SECONDS = 60.0
#: At most this counts between two checks: time in which this process was suspended is no silence.
_MOST_BETWEEN_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Dead:
    """An attempt whose scheduler is dead, and the reason."""

    task: Task
    token: str
    detail: str


@dataclass(slots=True)
class _Heartbeat:
    beats: int
    silent_seconds: float = 0.0


class Reaper:
    """Checks running tasks repeatedly and returns those whose scheduler is dead."""

    def __init__(self, me: Owner) -> None:
        self._me = me
        self._seen: dict[str, _Heartbeat] = {}
        self._looked: float | None = None

    def look(self, running: Sequence[Task], own_tokens: Collection[str], monotonic: float) -> list[Dead]:
        """The running tasks whose scheduler is dead; `own_tokens` are the tokens of this process.

        `monotonic` is a monotonic clock in seconds.
        """
        passed = 0.0 if self._looked is None else min(monotonic - self._looked, _MOST_BETWEEN_SECONDS)
        self._looked = monotonic
        current = {task.token: task for task in running if task.token is not None}
        self._seen = {token: heartbeat for token, heartbeat in self._seen.items() if token in current}
        return [
            Dead(task, token, detail)
            for token, task in current.items()
            if token not in own_tokens and (detail := self._why(token, task, passed))
        ]

    def _why(self, token: str, task: Task, passed: float) -> str:
        owner = task.owner or ""
        parsed = Owner.parse(owner)
        if parsed is not None and parsed.process == self._me.process:
            # The claim was carried out and its answer was lost: no slot runs the task.
            return "claimed, and never begun"
        if (dead := dead_process(owner, self._me)) is not None:
            return f"its scheduler died (process {dead})"
        heartbeat = self._seen.setdefault(token, _Heartbeat(task.beats))
        if heartbeat.beats != task.beats:
            self._seen[token] = _Heartbeat(task.beats)
            return ""
        heartbeat.silent_seconds += passed
        if heartbeat.silent_seconds < LEASE_SECONDS:
            return ""
        return f"no sign of life from its scheduler for {LEASE_SECONDS:g} s"
