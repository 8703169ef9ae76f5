"""Advisory locks on open files (flock). The kernel releases a lock when its process ends for any reason."""

import fcntl
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path


def lock(
    file: int,
    *,
    shared: bool = False,
    wait_seconds: float | None = 0.0,
    poll_seconds: float = 0.02,
    on_wait: Callable[[], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> bool:
    """Lock an open file, exclusively unless `shared`; returns False if another process keeps it locked.

    Retries for `wait_seconds` (None: without limit) or until `cancelled` returns True. `on_wait` is called
    once, when waiting begins. Raises OSError where the file system has no locks.
    """
    mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    deadline = None if wait_seconds is None else time.monotonic() + wait_seconds
    waiting = False
    while True:
        try:
            fcntl.flock(file, mode | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if deadline is not None and time.monotonic() >= deadline:
                return False
        if cancelled is not None and cancelled():
            return False
        if on_wait is not None and not waiting:
            on_wait()
        waiting = True
        time.sleep(poll_seconds)


@contextmanager
def lock_file(path: Path) -> Generator[bool]:
    """Create the lock file `path` if needed and lock it for the block; yields False if it is locked already.

    The file is never removed here: a lock on a deleted file excludes no one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        yield lock(descriptor)
    finally:
        os.close(descriptor)
