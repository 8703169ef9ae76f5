"""A command of `pyrometer` as a child of the service: supervised, logged, and its events received."""

import json
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from common.bounded_files import size_of, tail
from common.processes import SupervisedProcess
from common.text import os_reason

from ..jobs.context import ChildExit, ChildLost, JobStopped, OnEvent, ignore_event

#: This program, however it was started; `-P` keeps the current folder's modules out.
OURSELVES = (sys.executable, "-P", "-c", "from cli.app import main; main()")
#: How long a child may take to store its results after SIGTERM.
PATIENCE_SECONDS = 75.0
_LOOK_SECONDS = 0.2
#: The number of newest folders of logs that are kept, and the age up to which changed ones are kept, because
#: their task may still run.
_MOST_LOGS = 1000
_KEPT_SECONDS = 2 * 24 * 3600.0
#: The number of bytes at the end of a log that are read for its last sentence.
_TAIL_BYTES = 4000


@dataclass(frozen=True, slots=True)
class Logs:
    """The files of one attempt: the output of its children for users, and for programs."""

    folder: Path
    attempt: int

    @property
    def log(self) -> Path:
        """The log of stderr: sentences."""
        return self.folder / f"attempt-{self.attempt}.log"

    @property
    def events(self) -> Path:
        """The log of stdout: JSON lines."""
        return self.folder / f"attempt-{self.attempt}.jsonl"


def logs_of(data_dir: Path, task: int, attempt: int) -> Logs:
    """The folder of the logs of an attempt at a task."""
    return Logs(data_dir / "tasks" / str(task), attempt)


def run_child(
    command: Sequence[str],
    logs: Logs,
    stop: threading.Event,
    on_event: OnEvent = ignore_event,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
) -> ChildExit:
    """Run a command to its end. Raises JobStopped once it has ended because `stop` was set.

    It is terminated by SIGTERM, and killed after `patience_seconds`, also when this process dies. Raises
    ChildLost if it cannot be started now for lack of space or processes.
    """
    lines = Lines(logs.events, on_event)
    try:
        child = Child(command, logs, patience_seconds=patience_seconds)
    except OSError as error:
        raise ChildLost(f"the command cannot be started now: {os_reason(error)}") from error
    requested = False
    try:
        while not child.has_ended(_LOOK_SECONDS):
            if stop.is_set() and not requested:
                requested = True
                child.terminate()
            lines.report_events()
    finally:
        ended = child.end()
    lines.report_events()
    if requested:
        raise JobStopped
    return ended


class Child:
    """A command under its supervisor, from its start to the death of its last descendant.

    It starts in `folder` with these variables as its whole environment; None means ours. Any thread may wait
    for it, but `terminate` and `end` must not run at the same time. Raises OSError when it cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        logs: Logs,
        folder: Path | None = None,
        variables: Mapping[str, str] | None = None,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        make_room(logs.folder)
        self._log, self._log_start = logs.log, size_of(logs.log)
        self._process = SupervisedProcess(
            command,
            logs.log,
            out=logs.events,
            patience_seconds=patience_seconds,
            variables=variables,
            folder=folder,
        )

    def has_ended(self, seconds: float | None) -> bool:
        """Whether it has ended; waits at most the given time, None without limit."""
        return self._process.has_ended(seconds)

    def terminate(self) -> None:
        """Have it store its results and end."""
        self._process.terminate()

    def end(self) -> ChildExit:
        """Its exit. Remaining processes are terminated first, and waited for."""
        report = self._process.end()
        code, number = report.get("exit_code"), report.get("signal")
        if code is None and number is None:
            return ChildExit(None, None, str(report.get("failed", "it cannot be killed")))
        return ChildExit(code, number, last_sentence(self._log, self._log_start))


class RunningChild:
    """A child with a thread that waits for its exit, and then calls `finished`. Usable from any thread."""

    def __init__(self, child: Child, finished: Callable[[], None] | None = None) -> None:
        self._child, self._finished = child, finished
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._ended: ChildExit | None = None
        threading.Thread(target=self._wait, name="child", daemon=True).start()

    def wait_for_exit(self, seconds: float | None = 0.0) -> ChildExit | None:
        """Its exit; waits at most the given time (None: without limit); None while it runs."""
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


def last_sentence(log: Path, start: int = 0) -> str:
    """The last line of a log, from byte `start` on, that is not empty; without our name before it."""
    text = tail(log, _TAIL_BYTES, start)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("pyrometer: ") if lines else ""


class Lines:
    """The JSON objects that are lines of a file that grows, from its present end on."""

    def __init__(self, path: Path, on_event: OnEvent) -> None:
        self._path, self._on_event = path, on_event
        self._at = size_of(path)
        self._torn = b""

    def report_events(self) -> None:
        """Report new lines."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                new = file.read()
        except OSError:
            return
        self._at += len(new)
        *lines, self._torn = (self._torn + new).split(b"\n")
        for line in lines:
            with suppress(ValueError, RecursionError):
                event = json.loads(line)
                if isinstance(event, dict):
                    self._on_event(cast(dict[str, Any], event))


def make_room(folder: Path) -> None:
    """Create the folder, and remove the oldest unused folders if there are too many."""
    folder.mkdir(parents=True, exist_ok=True)
    others = [each for each in folder.parent.iterdir() if each.is_dir() and each != folder]
    since = time.time() - _KEPT_SECONDS
    for old in sorted(others, key=_age)[: -_MOST_LOGS + 1]:
        if not _changed_since(old, since):
            shutil.rmtree(old, ignore_errors=True)


def _changed_since(folder: Path, moment: float) -> bool:
    """Whether the folder or a file in it changed since then; a growing file does not change its folder."""
    try:
        return any(each.lstat().st_mtime >= moment for each in (folder, *folder.rglob("*")))
    except OSError:
        # A file was removed meanwhile: the folder is in use.
        return True


def _age(folder: Path) -> int:
    """The time of the last change of a folder's entries in nanoseconds; a removed folder is the oldest."""
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0
