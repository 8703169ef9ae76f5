"""A child of an agent, with a thread that waits for its end."""

import threading
from collections.abc import Callable

from scheduled_jobs.jobs.context import ChildExit
from scheduled_jobs.scheduler.child_process import Child


class RunningChild:
    """A child and its exit; `finished` is called at its end. May be used from any thread."""

    def __init__(self, child: Child, finished: Callable[[], None] | None = None) -> None:
        self._child, self._finished = child, finished
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._ended: ChildExit | None = None
        threading.Thread(target=self._wait, name="child", daemon=True).start()

    def ended(self, seconds: float | None = 0.0) -> ChildExit | None:
        """Its exit, waited for at most so long (None: without limit); None while it runs."""
        return self._ended if self._over.wait(seconds) else None

    def terminate(self) -> None:
        """Have it store its results and end."""
        with self._lock:
            if self._ended is None:
                self._child.terminate()

    def _wait(self) -> None:
        self._child.has_ended(None)
        with self._lock:
            self._ended = self._child.end()
        if self._finished is not None:
            self._finished()
        self._over.set()
