"""A host on another machine: an engine runs its orders, and their files are mirrored on the head."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from scheduled_jobs.jobs.context import ChildExit, ChildLost, JobStopped, OnEvent
from scheduled_jobs.scheduler.child_process import Lines, Logs, make_room
from workflows.errors import CANNOT_RESUME

from .engine import (
    Chunk,
    Engine,
    EngineAway,
    EngineError,
    Handle,
    NodeLost,
    NodeRefused,
    NodeSilent,
    Order,
    OrderPaths,
)
from .journal_mirror import Mirror, MirrorBusy, MirrorDiffers, append

Answer = TypeVar("Answer")

#: A node that does not answer for so long is lost (monotonic clock).
SILENT_SECONDS = 60.0
#: Between two attempts at a call.
PAUSE_SECONDS = 1.0
#: How often files are copied; the end of an order is known at once. A poll wakes the agent twice, for 0.1 ms
#: in all: polling more often would disturb what is measured.
POLL_SECONDS = 2.0
#: The most that counts between two failures: a node was not silent while this process was suspended.
_MOST_BETWEEN_SECONDS = 15.0


class RetryPolicy:
    """For how long something has failed without a success."""

    def __init__(self) -> None:
        self._spent = 0.0
        self._at = time.monotonic()

    def note_success(self) -> None:
        """Start again from zero."""
        self._spent, self._at = 0.0, time.monotonic()

    def note_failure(self) -> bool:
        """Note a failure; returns whether SILENT_SECONDS are over."""
        now = time.monotonic()
        self._spent += min(now - self._at, _MOST_BETWEEN_SECONDS)
        self._at = now
        return self._spent >= SILENT_SECONDS


class RemoteHost:
    """The machine of a node; it stays the same when the node restarts with another id.

    `lost` is called when a child of it was lost: the state of the node is unknown then.
    """

    def __init__(
        self, engine: Engine, machine: str, data_dir: Path, lost: Callable[[], None] = lambda: None
    ) -> None:
        self._engine, self._machine, self._data_dir, self._lost = engine, machine, data_dir, lost
        self._node = ""
        self._labels = (machine,)

    @property
    def machine(self) -> str:
        """The machine's name."""
        return self._machine

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that tasks can ask for, its name included."""
        return self._labels

    def update(self, node: str, labels: Sequence[str]) -> None:
        """Set its present id in the engine, and its labels besides its name."""
        self._node = node
        self._labels = tuple(dict.fromkeys((self._machine, *labels)))

    def run(
        self,
        arguments: Sequence[str],
        logs: Logs,
        stop: threading.Event,
        on_event: OnEvent,
        run: str,
        nodes: int = 1,
    ) -> ChildExit:
        """Run a command of `pyrometer` on the node, to its end; the journal of `run` is mirrored.

        Raises JobStopped once it has ended because `stop` was set, and ChildLost when the node is lost, was
        silent for too long, or no longer knows the order, and when the head cannot write. What is measured
        after that is fetched when the node is back.
        """
        order = Order(self._node, tuple(arguments), run, nodes)
        try:
            make_room(logs.folder)
            files = _Files(logs, on_event, self._data_dir, run)
        except MirrorBusy as error:
            raise ChildLost(str(error)) from error
        except OSError as error:
            raise ChildLost(
                f"files of node {self._machine} cannot be written on the head{_why(error)}"
            ) from error
        with files:
            remote = _RemoteOrder(self._engine, order, self._machine, files, stop)
            try:
                return remote.result()
            except JobStopped:
                raise
            except ChildLost:
                self._lost()
                raise
            except BaseException as error:
                # `on_event` failed, or another process writes the mirror: the rest is fetched later.
                remote.give_up()
                self._lost()
                if isinstance(error, MirrorBusy):
                    raise ChildLost(str(error)) from error
                raise


class _Files:
    """The copies of an order's files on the head, and their sizes so far."""

    def __init__(self, logs: Logs, on_event: OnEvent, data_dir: Path, run: str) -> None:
        self._logs, self._lines = logs, Lines(logs.events, on_event)
        self._mirror = Mirror(data_dir, run) if run else None
        self._log_at = self._events_at = 0
        self._journal_at = self._mirror.begin if self._mirror else 0
        #: Why the journal is no longer mirrored.
        self.differs = ""

    def __enter__(self) -> "_Files":
        return self

    def __exit__(self, *_: object) -> None:
        if self._mirror is not None:
            self._mirror.close()

    def note(self, sentence: str) -> None:
        """Add a sentence of the head to the log."""
        append(self._logs.log, f"{sentence}\n".encode())

    def offsets(self, paths: OrderPaths) -> dict[str, int]:
        """The offset from which each file is read next."""
        found = {paths.log: self._log_at, paths.events: self._events_at}
        return found | ({paths.journal: self._journal_at} if self._mirror is not None else {})

    def take(self, paths: OrderPaths, chunks: Mapping[str, Chunk]) -> None:
        """Write what was read, and report events.

        Raises OSError where a write fails: what was not written is read again.
        """
        # The journal first: it has the measurements.
        if self._mirror is not None:
            mirror, at, data = self._mirror, self._journal_at, chunks[paths.journal].data
            self._unless_it_differs(lambda: mirror.append(at, data))
            self._journal_at += len(data)
        append(self._logs.log, chunks[paths.log].data)
        self._log_at += len(chunks[paths.log].data)
        append(self._logs.events, chunks[paths.events].data)
        self._events_at += len(chunks[paths.events].data)
        self._lines.report_events()

    def finish(self) -> None:
        """Write the rest of the journal; raises OSError."""
        if self._mirror is not None:
            self._unless_it_differs(self._mirror.finish)

    def _unless_it_differs(self, write: Callable[[], None]) -> None:
        if self.differs:
            return
        try:
            write()
        except MirrorDiffers as error:
            self.differs = f"{error}; it is left as it is"


class _RemoteOrder:
    """One order, from its submission to its end. Each call is repeated until it is answered."""

    def __init__(
        self, engine: Engine, order: Order, machine: str, files: _Files, stop: threading.Event
    ) -> None:
        self._engine, self._order, self._machine = engine, order, machine
        self._files, self._stop = files, stop
        self._answers, self._disk = RetryPolicy(), RetryPolicy()
        self._handle: Handle | None = None

    def result(self) -> ChildExit:
        """Its exit; raises JobStopped and ChildLost."""
        if self._stop.is_set():
            raise JobStopped
        handle = self._handle = self._retry_call(lambda: self._engine.submit(self._order))
        cancelled, wait_reason = False, ""
        while True:
            if not cancelled and (self._stop.is_set() or self._files.differs):
                self._retry_call(handle.cancel)
                cancelled = True
            began = time.monotonic()
            # Before the files are read: once it is done, they are complete.
            done = self._retry_call(lambda: handle.done(POLL_SECONDS))
            if handle.wait_reason and not wait_reason:
                self._written(lambda: self._files.note(handle.wait_reason))
            wait_reason = handle.wait_reason
            self._copy(handle.paths, final=done)
            if done:
                break
            # An early answer must not cause a flood of calls.
            self._pause(max(0.0, POLL_SECONDS - (time.monotonic() - began)))
        if cancelled and self._stop.is_set():
            raise JobStopped
        if self._files.differs:
            return ChildExit(CANNOT_RESUME, None, self._files.differs)
        return self._retry_call(handle.result)

    def give_up(self) -> None:
        """Cancel it, if its node can be reached."""
        if self._handle is not None:
            with suppress(EngineError):
                self._handle.cancel()

    def _copy(self, paths: OrderPaths, *, final: bool) -> None:
        """Copy what is new in its files."""
        more = True
        while more:
            offsets = self._files.offsets(paths)
            chunks = self._retry_call(lambda: self._engine.read_files(self._order.node, offsets, final=final))  # noqa: B023
            more = any(chunk.more and chunk.data for chunk in chunks.values())
            if not self._written(lambda: self._files.take(paths, chunks)):  # noqa: B023
                more = True
        while final and not self._written(self._files.finish):
            pass

    def _retry_call(self, call: Callable[[], Answer]) -> Answer:
        """The answer of a call that is repeated until it has one; raises ChildLost."""
        while True:
            try:
                answer = call()
            except NodeLost as error:
                raise ChildLost(f"node {self._machine} is lost: {error}") from error
            except NodeRefused as error:
                raise ChildLost(f"node {self._machine}: {error}") from error
            except (NodeSilent, EngineAway) as error:
                if self._answers.note_failure():
                    raise ChildLost(
                        f"node {self._machine} was silent for {SILENT_SECONDS:g} s: {error}"
                    ) from error
                self._pause(PAUSE_SECONDS)
            else:
                self._answers.note_success()
                return answer

    def _written(self, write: Callable[[], None]) -> bool:
        """Whether a write succeeded; raises ChildLost when writes fail for too long."""
        try:
            write()
        except OSError as error:
            if self._disk.note_failure():
                raise ChildLost(
                    f"what node {self._machine} measures cannot be written on the head{_why(error)}; it "
                    "is kept on the node, and fetched when there is room"
                ) from error
            self._pause(PAUSE_SECONDS)
            return False
        self._disk.note_success()
        return True

    def _pause(self, seconds: float) -> None:
        """Pause before the next call; a stop that is requested meanwhile ends the pause."""
        if self._stop.is_set():
            time.sleep(seconds)
        else:
            self._stop.wait(seconds)


def _why(error: OSError) -> str:
    where = f" {error.filename}" if error.filename else ""
    return f"{where}: {error.strerror or error}"
