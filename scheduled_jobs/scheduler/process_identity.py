"""The identity of a scheduler process, by which another one can check whether it is alive."""

import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from common.processes import name_and_fields

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
