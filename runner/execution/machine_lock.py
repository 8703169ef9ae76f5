"""One run at a time on a machine: two that measure together measure each other."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from common.file_lock import lock

from .. import journal
from ..errors import MachineBusy

_LOCK = "pyrometer-measuring.lock"
#: Where it lies: in the one folder that all users of a machine share, whatever their TMPDIR says.
_FOLDER = "/tmp"
#: Names another folder, for tests that measure beside each other.
_FOLDER_VARIABLE = "PYROMETER_TEST_LOCK_FOLDER"


@contextmanager
def exclusive(on_wait: Callable[[], None], wait_seconds: float | None = None) -> Generator[None]:
    """Hold this machine for the length of the block; waits while another run holds it.

    `on_wait` is called once when waiting begins. Raises MachineBusy after `wait_seconds` (None: never).
    The kernel gives the lock back when a process dies, however it dies.
    """
    descriptor = _open(lock_path())
    try:
        if not lock(descriptor, wait_seconds=wait_seconds, poll_seconds=0.2, on_wait=on_wait):
            raise MachineBusy("another run measures this machine; wait for it, or stop it")
        yield
    finally:
        os.close(descriptor)


def holder() -> str:
    """Who measures this machine now, in a few words for people; empty where that cannot be seen from here."""
    try:
        found = lock_path().stat()
        locks = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return ""
    # 1: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF; one that waits has an arrow before its kind.
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for fields in map(str.split, locks.splitlines()):
        if fields[1] == "FLOCK" and fields[5] == place and int(fields[4]) > 0:
            return f"process {fields[4]}, {_about(int(fields[4]))}"
    return ""


def _about(process: int) -> str:
    run = _run_of(process)
    return f"run {run}" if run else "which has no run yet"


def _run_of(process: int) -> str:
    """The run whose journal a process holds open; empty where there is none, or it is somebody else's."""
    try:
        for link in (Path("/proc") / str(process) / "fd").iterdir():
            with suppress(FileNotFoundError):
                target = link.readlink()
                if target.name == journal.FILE:
                    return target.parent.name
    except OSError:
        return ""
    return ""


def lock_path() -> Path:
    """The file whose lock a run holds."""
    return Path(os.environ.get(_FOLDER_VARIABLE, _FOLDER)) / _LOCK


def _open(path: Path) -> int:
    try:
        # Read-only is enough to lock, and works on a file that belongs to another user.
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
        # Whatever our umask: other users have to open it too.
        os.fchmod(descriptor, 0o644)
        return descriptor
