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
    """A process since its machine booted, and the `machine` on which it runs tasks: its own, or a node.

    `boot` also distinguishes containers with one kernel, and machines that are copies of one that ran.
    Written `machine/boot/pid/started`.
    """

    machine: str
    boot: str
    pid: int
    started: int

    @property
    def process(self) -> tuple[str, int, int]:
        """The part that is the same for all owners of one process, on any machine."""
        return self.boot, self.pid, self.started

    def __str__(self) -> str:
        return f"{self.machine}/{self.boot}/{self.pid}/{self.started}"

    @staticmethod
    def parse(text: str) -> "Owner | None":
        """The owner in `text`; None for any other text."""
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
    """The process id of an owner that is certainly dead: it would be visible here, but does not exist.

    Processes on another machine, before a reboot or in another container may be alive. An owner on a node is
    as dead as its process on this machine.
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
    """The start of a living process; None if it does not exist or is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    _, fields = name_and_fields(text)
    return None if fields[0] in "ZX" else int(fields[_STAT_STARTED])
