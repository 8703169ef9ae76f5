"""The lock of a machine: one run measures at a time, because two would disturb each other."""

import errno
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from common.file_lock import lock

from .. import journal
from ..errors import MachineBusy

_LOCK = "pyrometer-measuring.lock"
#: The folder that all users of a machine share, whatever their TMPDIR is.
_FOLDER = "/tmp"
#: Names another folder, for tests that measure in parallel.
_FOLDER_VARIABLE = "PYROMETER_TEST_LOCK_FOLDER"


@contextmanager
def exclusive(on_wait: Callable[[], None], wait_seconds: float | None = None) -> Generator[None]:
    """Hold the machine's lock for the block; waits while another run holds it.

    `on_wait` is called when waiting begins. Raises MachineBusy after `wait_seconds` (None: never). The kernel
    releases the lock when the process ends, however it ends.
    """
    descriptor = _acquire_lock(lock_path(), on_wait, wait_seconds)
    try:
        yield
    finally:
        os.close(descriptor)


def _acquire_lock(path: Path, on_wait: Callable[[], None], wait_seconds: float | None) -> int:
    """The lock file, open and locked; raises MachineBusy."""
    while True:
        descriptor, is_held = _open(path), False
        try:
            if not lock(descriptor, wait_seconds=wait_seconds, poll_seconds=0.2, on_wait=on_wait):
                raise MachineBusy("another run measures this machine; wait for it, or stop it")
            # What cleans the folder by age leaves alone what was used lately.
            with suppress(PermissionError):
                os.utime(descriptor)
            # A lock on a file that was removed meanwhile excludes no process: others open a new one.
            is_held = _is_at(path, descriptor)
        finally:
            if not is_held:
                os.close(descriptor)
        if is_held:
            return descriptor


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def holder() -> str:
    """The process and run that measure this machine now, as text; empty if that is not visible."""
    try:
        found = lock_path().stat()
        locks = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return ""
    # 1: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF; a waiting one has an arrow before its kind. psutil does
    # not report locks.
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for fields in map(str.split, locks.splitlines()):
        if fields[1] == "FLOCK" and fields[5] == place and int(fields[4]) > 0:
            return f"process {fields[4]}, {_describe(int(fields[4]))}"
    return ""


def _describe(process: int) -> str:
    run = _run_of(process)
    return f"run {run}" if run else "which has no run yet"


def _run_of(process: int) -> str:
    """The run whose journal a process has open; empty if there is none or its files may not be read."""
    try:
        opened = [Path(file.path) for file in psutil.Process(process).open_files()]
    except (psutil.Error, OSError):
        return ""
    return next((path.parent.name for path in opened if path.name == journal.FILE), "")


def lock_path() -> Path:
    """The file whose lock a run holds."""
    return Path(os.environ.get(_FOLDER_VARIABLE, _FOLDER)) / _LOCK


def _open(path: Path) -> int:
    """The lock file, created if need be; raises MachineBusy where something else has its name."""
    # Any user may put a link or a pipe there: neither is followed nor waited for. Read-only is enough to
    # lock, and works on a file that belongs to another user.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        try:
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
            # Independent of the umask: other users have to open it, too.
            os.fchmod(descriptor, 0o644)
    except FileExistsError:
        # Another run has just created it.
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise MachineBusy(f"{path} is a link: remove it") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise MachineBusy(f"{path} is no file: remove it")
    return descriptor
