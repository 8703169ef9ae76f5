"""A place on another machine: its children run under the node's agent, their files are mirrored here."""

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from scheduled_jobs.jobs.context import ChildExit, ChildLost, OnEvent, Stopped
from scheduled_jobs.scheduler.child_process import PATIENCE_SECONDS, Lines, Logs, make_room
from workflows.errors import CANNOT_RESUME

from .engine import Engine, EngineError
from .file_chunks import PIECE_BYTES, bytes_of
from .journal_mirror import Mirror, MirrorBusy, MirrorDiffers, append
from .retrying_client import PAUSE_SECONDS, Line, RetryPolicy

#: A look waits on the node for the child's end, so that is known at once; whatever else is new comes this
#: often. While it waits nothing runs there. It wakes the agent, for 0.05 ms, and what the engine needs to
#: carry a call: if it came more often nobody would see more, and who measures there would be disturbed more.
LOOK_SECONDS = 2.0
#: How long a child may wait for another one to be gone, or for a journal.
_BEGIN_SECONDS = 2 * PATIENCE_SECONDS


class RemoteHost:
    """The machine of a node. The same one stays when the node is started anew, under another id.

    `lost` is called when a child of it was lost: who knows what else there is on the node now.
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
        """What it can be asked by, its name included."""
        return self._labels

    def told(self, node: str, labels: Sequence[str]) -> None:
        """The id that it has with the engine now, and what it can be asked by besides its name."""
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
        """Have a command of `pyrometer` done on the node, to its end; the journal of `run` is mirrored.

        Raises Stopped once it has ended because `stop` was set, and ChildLost when the node is lost, was
        silent for too long, or knows nothing of the child any more, and when nothing can be written here;
        what it goes on to measure is fetched when it is met again.
        """
        node = self._node
        line = Line(self._engine, node, self._machine, stop)
        try:
            make_room(logs.folder)
            files = _Files(logs, on_event, self._data_dir, run)
        except MirrorBusy as error:
            raise ChildLost(str(error)) from error
        except OSError as error:
            where = f" {error.filename}" if error.filename else ""
            raise ChildLost(
                f"nothing of node {self._machine} can be written here{where}: {error.strerror or error}"
            ) from error
        with files:
            return self._done(_Errand(line, files, stop, self._machine), node, arguments, run, nodes)

    def _done(
        self, errand: "_Errand", node: str, arguments: Sequence[str], run: str, nodes: int
    ) -> ChildExit:
        try:
            return errand.done(arguments, run, nodes)
        except Stopped:
            raise
        except ChildLost:
            self._lost()
            raise
        except BaseException as error:
            # Whoever listens to it has failed, or writes here: it is ended, and the rest fetched afterwards.
            with suppress(EngineError):
                self._engine.call(node, "stop", {"token": errand.token}, PAUSE_SECONDS)
            self._lost()
            if isinstance(error, MirrorBusy):
                raise ChildLost(str(error)) from error
            raise


class _Files:
    """The files of a child as they come here, and how far they came."""

    def __init__(self, logs: Logs, on_event: OnEvent, data_dir: Path, run: str) -> None:
        self._logs, self._lines = logs, Lines(logs.events, on_event)
        self._mirror = Mirror(data_dir, run) if run else None
        self._log_at = self._events_at = 0
        self._journal_at = self._mirror.begin if self._mirror else 0
        #: Why the journal is mirrored no more.
        self.differs = ""

    def __enter__(self) -> "_Files":
        return self

    def __exit__(self, *_: object) -> None:
        if self._mirror is not None:
            self._mirror.close()

    def places(self) -> dict[str, int]:
        """From where a look is to tell what is new."""
        return {"log_at": self._log_at, "events_at": self._events_at, "journal_at": self._journal_at}

    def take(self, answer: Mapping[str, Any]) -> None:
        """Write what a look found, and hand events on.

        Raises OSError where it cannot be written: what was not comes again with the next look.
        """
        # The journal first: of the rest nothing would be missed.
        journal = bytes_of(answer["journal"])
        if self._mirror is not None and not self.differs:
            try:
                self._mirror.append(self._journal_at, journal)
                if answer["ended"] is not None:
                    self._mirror.finish()
            except MirrorDiffers as error:
                self.differs = f"{error}; it is left as it is"
        self._journal_at += len(journal)
        for_people, for_machines = bytes_of(answer["log"]), bytes_of(answer["events"])
        append(self._logs.log, for_people)
        self._log_at += len(for_people)
        append(self._logs.events, for_machines)
        self._events_at += len(for_machines)
        self._lines.read()


class _Errand:
    """One child on a node, from the wish to have it to its end."""

    def __init__(self, line: Line, files: _Files, stop: threading.Event, machine: str) -> None:
        self._line, self._files, self._stop, self._machine = line, files, stop, machine
        self.token = uuid.uuid4().hex
        self._asked = False
        self._disk = RetryPolicy()

    def done(self, arguments: Sequence[str], run: str, nodes: int = 1) -> ChildExit:
        """Have it begin, look until it has ended, and answer how; raises Stopped and ChildLost."""
        self._begin(arguments, run, nodes)
        more = False
        while True:
            if not self._asked and (self._stop.is_set() or self._files.differs):
                self._line.ask("stop", token=self.token)
                self._asked = True
            began = time.monotonic()
            answer = self._look(0.0 if more else LOOK_SECONDS)
            if answer["unknown"]:
                raise ChildLost(f"the agent of node {self._machine} was started anew: what it did was ended")
            if not self._taken(answer):
                continue
            if answer["ended"] is not None:
                break
            more = bool(answer["more"])
            if not more:
                # Of an answer that came sooner than it was to come, not a flood of looks.
                self._line.pause(max(0.0, LOOK_SECONDS - (time.monotonic() - began)))
        if self._asked and self._stop.is_set():
            raise Stopped
        if self._files.differs:
            return ChildExit(CANNOT_RESUME, None, self._files.differs)
        ended = answer["ended"]
        return ChildExit(ended["code"], ended["signal"], str(ended["sentence"]))

    def _begin(self, arguments: Sequence[str], run: str, nodes: int) -> None:
        after = self._look(0.0)["last"]
        give_up = time.monotonic() + _BEGIN_SECONDS
        wish: dict[str, Any] = {"token": self.token, "arguments": list(arguments), "run": run, "after": after}
        wish["nodes"] = nodes
        while not self._stop.is_set():
            answer = self._line.ask("start", **wish)
            if answer["begun"]:
                return
            if time.monotonic() > give_up:
                raise ChildLost(f"node {self._machine} does not begin: {answer['why']}")
            self._line.pause()

    def _look(self, wait: float) -> Mapping[str, Any]:
        wish: dict[str, Any] = {"token": self.token, "most": PIECE_BYTES, "seconds": wait}
        return self._line.ask("look", wait=wait, **wish, **self._files.places())

    def _taken(self, answer: Mapping[str, Any]) -> bool:
        """Whether all of an answer could be written here; raises ChildLost when that fails for too long."""
        try:
            self._files.take(answer)
        except OSError as error:
            if self._disk.failed():
                where = f" {error.filename}" if error.filename else ""
                raise ChildLost(
                    f"what node {self._machine} measures cannot be written here{where}: "
                    f"{error.strerror or error}; it is kept there, and fetched when there is room"
                ) from error
            self._line.pause()
            return False
        self._disk.well()
        return True
