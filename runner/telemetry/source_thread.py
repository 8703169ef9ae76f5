"""A telemetry source on a thread of its own, where it may hang without delaying the other sources."""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from .sample_log import SampleLog


class TelemetrySource(Protocol):
    """Counters on request, and rows between requests."""

    def open(self) -> None:
        """Prepare the source, which may take seconds."""
        ...

    def read_counters(self, root: int) -> Any:
        """All counters now."""
        ...

    def begin(self, root: int, hz: float, log: SampleLog, cpus: tuple[int, ...] = ()) -> float:
        """Start the first row, about `cpus` where rows are about CPUs; returns the seconds between rows."""
        ...

    def row(self, log: SampleLog) -> None:
        """End a row and start the next."""
        ...

    def end(self, log: SampleLog) -> None:
        """Write what is still buffered."""
        ...


class SourceThread:
    """One source and its thread. Once `failure` is set (the reason), the source is not used again."""

    def __init__(self, name: str, source: TelemetrySource) -> None:
        self.name = name
        self.failure = ""
        self.ready = threading.Event()
        self._source = source
        self._orders: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._log: SampleLog | None = None
        self._seconds = 1.0
        self._due = 0.0
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def read_counters(self, root: int) -> Future[Any]:
        """Read all counters."""
        return self._submit(lambda: self._source.read_counters(root))

    def start(self, root: int, hz: float, cpus: tuple[int, ...], log: SampleLog) -> Future[Any]:
        """Write rows from now on."""
        return self._submit(lambda: self._begin(root, hz, cpus, log))

    def stop(self) -> Future[Any]:
        """Stop writing rows; the result says how many could not be written, or is empty."""
        return self._submit(self._end)

    def _submit(self, order: Callable[[], Any]) -> "Future[Any]":
        future: Future[Any] = Future()
        self._orders.put((future, order))
        return future

    def _run(self) -> None:
        try:
            self._source.open()
        except Exception as error:
            self.failure = _defect(error)
            return
        self.ready.set()
        while not self.failure:
            try:
                future, order = self._orders.get(timeout=self._seconds_to_row())
            except queue.Empty:
                self._row()
                continue
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(order())
                except Exception as error:
                    future.set_exception(error)

    def _seconds_to_row(self) -> float | None:
        return None if self._log is None else max(0.0, self._due - time.monotonic())

    def _begin(self, root: int, hz: float, cpus: tuple[int, ...], log: SampleLog) -> None:
        self._end()
        self._seconds = self._source.begin(root, hz, log, cpus)
        self._log, self._due = log, time.monotonic() + self._seconds

    def _end(self) -> str:
        log, self._log = self._log, None
        if log is None:
            return ""
        self._source.end(log)
        return log.close()

    def _row(self) -> None:
        if self._log is None:
            return
        began = time.monotonic()
        try:
            self._source.row(self._log)
        except Exception as error:
            self._log.note_all(_defect(error))
        # A late row delays the next ones: to catch up, rows would become too short to hold a sample.
        self._due = max(began + self._seconds, time.monotonic() + self._seconds / 2)


def _defect(error: Exception) -> str:
    return f"a defect in Pyrometer: {type(error).__name__}: {error}"
