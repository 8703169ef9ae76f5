"""Process ids that a driver lists: they are those of the host, and a container has its own."""

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from common.processes import descendants

#: The first pid namespace's inode, the same on every Linux (PROC_PID_INIT_INO).
_FIRST_NAMESPACE = "pid:[4026531836]"
#: A process that computes on a GPU holds it open.
_COMPUTES = "/dev/nvidia-uvm"


class Pids:
    """Process ids as seen from here. `controller` is the root of our processes, `members` are measured."""

    def __init__(self, controller: int, members: Callable[[], frozenset[int]]) -> None:
        self._controller = controller
        self._members = members

    def measured(self, pid: int) -> bool:
        """Whether it is one of the measured processes."""
        return pid in self._members()

    def visible(self, listed: Collection[int]) -> tuple[int, ...] | None:
        """The ids in order; None where ours must be among them and is not: they are another namespace's."""
        if listed and not _in_the_first_namespace():
            ours = {self._controller, *(pid for pid, _ in descendants(self._controller))} - {os.getpid()}
            if ours.isdisjoint(listed) and any(_computes(pid) for pid in ours):
                return None
        return tuple(sorted(listed))


def _in_the_first_namespace() -> bool:
    try:
        return os.readlink("/proc/self/ns/pid") == _FIRST_NAMESPACE
    except OSError:
        return False


def _computes(pid: int) -> bool:
    return any(name.startswith(_COMPUTES) for name in _open_files(pid))


def _open_files(pid: int) -> Iterator[str]:
    """The paths of its open files, devices included, which psutil's `open_files` leaves out."""
    try:
        entries = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return
    for entry in entries:
        try:
            yield os.readlink(entry)
        except OSError:
            continue
