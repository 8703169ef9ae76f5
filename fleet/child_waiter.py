"""A child of an agent: a thread waits for it, so that whoever asks never waits longer than wanted."""

import threading

from scheduled_jobs.jobs.context import ChildExit
from scheduled_jobs.scheduler.child_process import Child


class Held:
    """A child while it lasts, and how it ended. All of it may be used from any thread."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._ended: ChildExit | None = None
        threading.Thread(target=self._wait, name="child", daemon=True).start()

    def ended(self, seconds: float | None = 0.0) -> ChildExit | None:
        """How it ended, waited for so long at most (None: as long as it takes); None while it runs."""
        return self._ended if self._over.wait(seconds) else None

    def ask(self) -> None:
        """Ask it to keep what it has and end."""
        with self._lock:
            if self._ended is None:
                self._child.ask()

    def _wait(self) -> None:
        self._child.over(None)
        with self._lock:
            self._ended = self._child.end()
        self._over.set()
