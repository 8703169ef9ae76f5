"""A source of telemetry at work on a thread of its own, where it may hang without holding up the others."""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from .sample_log import Spool


class Source(Protocol):
    """What is read: counters when asked for, rows in between."""

    def open(self) -> str:
        """Get ready, which may take seconds; answers what is missing, or the empty string."""
        ...

    def mark(self, root: int) -> Any:
        """All counters now."""
        ...

    def begin(self, root: int, hz: float, spool: Spool, cpus: tuple[int, ...] = ()) -> float:
        """Start the first row, about `cpus` where it is about any; answers the seconds from row to row."""
        ...

    def row(self, spool: Spool) -> None:
        """End a row and start the next."""
        ...

    def end(self, spool: Spool) -> None:
        """Write what is still to be written."""
        ...


class Desk:
    """One source and its thread. Once it is `silent` (the text says why) nothing asks it again."""

    def __init__(self, name: str, source: Source) -> None:
        self.name = name
        self.silent = ""
        self.ready = threading.Event()
        self._source = source
        self._orders: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._spool: Spool | None = None
        self._seconds = 1.0
        self._due = 0.0
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def mark(self, root: int) -> Future[Any]:
        """Have all counters read."""
        return self._order(lambda: self._source.mark(root))

    def watch(self, root: int, hz: float, cpus: tuple[int, ...], spool: Spool) -> Future[Any]:
        """Have rows written from now on."""
        return self._order(lambda: self._begin(root, hz, cpus, spool))

    def rest(self) -> Future[Any]:
        """Have no more rows written; the answer says how many could not be, or is empty."""
        return self._order(self._end)

    def _order(self, order: Callable[[], Any]) -> "Future[Any]":
        future: Future[Any] = Future()
        self._orders.put((future, order))
        return future

    def _work(self) -> None:
        try:
            self._source.open()
        except Exception as error:
            self.silent = _defect(error)
            return
        self.ready.set()
        while not self.silent:
            try:
                future, order = self._orders.get(timeout=self._patience())
            except queue.Empty:
                self._row()
                continue
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(order())
                except Exception as error:
                    future.set_exception(error)

    def _patience(self) -> float | None:
        return None if self._spool is None else max(0.0, self._due - time.monotonic())

    def _begin(self, root: int, hz: float, cpus: tuple[int, ...], spool: Spool) -> None:
        self._end()
        self._seconds = self._source.begin(root, hz, spool, cpus)
        self._spool, self._due = spool, time.monotonic() + self._seconds

    def _end(self) -> str:
        spool, self._spool = self._spool, None
        if spool is None:
            return ""
        self._source.end(spool)
        return spool.close()

    def _row(self) -> None:
        if self._spool is None:
            return
        began = time.monotonic()
        try:
            self._source.row(self._spool)
        except Exception as error:
            self._spool.note_all(_defect(error))
        # A late row moves those after it: to catch up, rows would have to be too short to hold a sample.
        self._due = max(began + self._seconds, time.monotonic() + self._seconds / 2)


def _defect(error: Exception) -> str:
    return f"a defect in Pyrometer: {type(error).__name__}: {error}"
