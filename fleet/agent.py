"""What a node does for its head: has children done one at a time, and lets their files be read."""

import os
import platform
import re
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from configuration.data_dirs import resolve_places
from configuration.errors import ConfigurationError
from configuration.settings import Settings, load_settings
from runner import journal
from scheduled_jobs.jobs.context import ChildExit
from scheduled_jobs.scheduler.child_process import OURSELVES, PATIENCE_SECONDS, Child, Logs, make_room
from scheduled_jobs.scheduler.process_identity import machine_name

from .child_waiter import Held
from .engine import AgentRefused
from .file_chunks import PIECE_BYTES, piece
from .journal_mirror import is_run
from .node_probe import Examiner

#: What may be asked of an agent.
METHODS = frozenset({"describe", "start", "look", "stop", "runs", "read"})
#: A look waits no longer than this for the child's end, whatever it is told.
_MOST_WAIT_SECONDS = 30.0
#: A journal that another process does not let go is left to the child to complain of.
_JOURNAL_PATIENCE_SECONDS = PATIENCE_SECONDS + 20.0
#: So many children are remembered, the last one included.
_REMEMBERED = 8
_MEANWHILE = "something else was begun on this node meanwhile"
_TOKEN = re.compile(r"[0-9a-f]{32}")
#: In the folder of a child: the run that it was started for.
_RUN_FILE = "run"


@dataclass(slots=True)
class _Asked:
    """A child that was asked for: not begun yet, held, or ended before it began."""

    arguments: Sequence[str]
    run: str
    logs: Logs
    journal: Path | None
    since: float
    held: Held | None = None
    ended: ChildExit | None = None

    @property
    def over(self) -> bool:
        return self.ended is not None if self.held is None else self.held.ended() is not None


class Agent:
    """Has commands of `pyrometer` done in `folder`, where the node's pyrometer.toml lies.

    `command` is how this program is started, `variables` the whole environment of what it starts; None is
    ours. Every method takes and answers JSON values, may be called from any thread, and again and again:
    a call that was carried out and not answered is just made again. Raises AgentRefused with one sentence.
    """

    def __init__(
        self,
        folder: Path,
        command: Sequence[str] = OURSELVES,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._folder, self._command, self._variables = folder.absolute(), tuple(command), variables
        self._lock = threading.RLock()
        self._asked: dict[str, _Asked] = {}
        #: What was begun last: whoever has something begun says behind what, so an old wish comes to nothing.
        self._last = uuid.uuid4().hex
        self._examiner = Examiner(lambda arguments, logs: self._child(arguments, logs))

    def answer(self, method: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Do what is asked by name; raises AgentRefused, for what goes wrong on the node as well."""
        if method not in METHODS:
            raise AgentRefused(f"an agent of version {version('pyrometer')} does not know {method!r}")
        try:
            return getattr(self, method)(**arguments)
        except AgentRefused:
            raise
        except ConfigurationError as error:
            raise AgentRefused(str(error)) from error
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            raise AgentRefused(f"{error.strerror or error}{where}") from error
        except (TypeError, ValueError) as error:
            raise AgentRefused(f"{method} was asked in another way than it is done: {error}") from error

    def describe(self) -> dict[str, Any]:
        """Who this node is, and what its doctor said last. An idle node has itself examined meanwhile."""
        settings, data_dir = self._settled()
        with self._lock:
            idle = all(asked.over for asked in self._asked.values())
            if idle:
                self._examiner.look(data_dir / "fleet")
        return {
            "machine": machine_name(),
            "labels": list(settings.machine_labels),
            "version": version("pyrometer"),
            "python": platform.python_version(),
            "folder": str(self._folder),
            "idle": idle,
            "notes": _notes(),
            **self._examiner.told(data_dir / "fleet"),
        }

    def start(
        self, token: str, arguments: Sequence[str], run: str, after: str, nodes: int = 1
    ) -> dict[str, Any]:
        """Begin a child, once for each token; `after` is what a look told as `last`.

        Answers whether it has `begun`, and `why` not: another child is asked to end first, and a journal of
        the run that is still written to is waited for. Raises AgentRefused when something else was begun here
        since `after` was told. Whatever `nodes` says, the run has this node alone: its cases over several are
        `unsupported`.
        """
        with self._lock:
            asked = self._asked.get(token) or self._take_on(token, arguments, run, after)
            if asked.held is None and not asked.over:
                if why := self._in_the_way(asked):
                    return {"begun": False, "why": why}
                self._begin(asked)
        return {"begun": True, "why": ""}

    def look(
        self,
        token: str,
        log_at: int,
        events_at: int,
        journal_at: int,
        most: int = PIECE_BYTES,
        seconds: float = 0.0,
    ) -> dict[str, Any]:
        """What is new in the files of a child, each from a byte on, as base64: `most` bytes of each.

        Of a journal that is written to only whole lines. `more` is whether there is more at once; only where
        there is none, `ended` tells how the child ended. It is waited for that end for `seconds`.
        `unknown` is a token that this agent never heard of; `last` what was begun last.
        """
        asked = self._asked.get(token)
        if asked is None:
            nothing = {"log": "", "events": "", "journal": "", "more": False, "ended": None}
            return {**nothing, "unknown": True, "last": self._last}
        ended = asked.ended
        if asked.held is not None:
            # Before the files are read: what is in them then is all that will ever be.
            ended = asked.held.ended(min(seconds, _MOST_WAIT_SECONDS))
        log, events = piece(asked.logs.log, log_at, most), piece(asked.logs.events, events_at, most)
        found = [log, events]
        if asked.journal is not None:
            found.append(piece(asked.journal, journal_at, most, settled=ended is not None))
        more = any(each.more for each in found)
        return {
            "log": log.text,
            "events": events.text,
            "journal": found[2].text if asked.journal is not None else "",
            "more": more,
            "ended": None if ended is None or more else _ended_body(ended),
            "unknown": False,
            "last": self._last,
        }

    def stop(self, token: str) -> dict[str, Any]:
        """Ask a child to keep what it has and end; one that was not begun is never begun."""
        with self._lock:
            asked = self._asked.get(token)
            if asked is None:
                asked = self._asked[token] = self._wish(token, (), "")
            if asked.held is not None:
                asked.held.ask()
            elif asked.ended is None:
                asked.ended = ChildExit(None, None, "stopped before it began")
        return {}

    def runs(self) -> dict[str, Any]:
        """The runs that heads had begun here, as far back as logs are kept: how large their journals are."""
        _, data_dir = self._settled()
        found: list[dict[str, Any]] = []
        for run in sorted({_text(each) for each in (data_dir / "fleet" / "children").glob(f"*/{_RUN_FILE}")}):
            path = data_dir / "runs" / run / journal.FILE
            if run and path.exists():
                found.append({"run": run, "size": path.stat().st_size, "in_use": journal.in_use(path)})
        return {"runs": found}

    def read(self, run: str, at: int, most: int = PIECE_BYTES) -> dict[str, Any]:
        """Bytes of a run's journal from `at` on, as base64, and its size."""
        _, data_dir = self._settled()
        path = self._journal(data_dir, run)
        if not path.exists():
            raise AgentRefused(f"there is no run {run} here")
        found = piece(path, at, most, settled=not journal.in_use(path))
        return {"data": found.text, "more": found.more, "size": path.stat().st_size}

    def close(self) -> None:
        """Ask whatever runs to keep what it has and end, as the end of this process would."""
        with self._lock:
            self._examiner.stop()
            for asked in self._asked.values():
                if asked.held is not None:
                    asked.held.ask()

    def _take_on(self, token: str, arguments: Sequence[str], run: str, after: str) -> _Asked:
        if after != self._last:
            raise AgentRefused(_MEANWHILE)
        asked = self._wish(token, tuple(map(str, arguments)), run)
        for other in self._asked.values():
            if other.held is None and other.ended is None:
                other.ended = ChildExit(None, None, _MEANWHILE)
        self._asked[token], self._last = asked, token
        old = [each for each, other in self._asked.items() if other.over]
        for each in old[: max(0, len(self._asked) - _REMEMBERED)]:
            del self._asked[each]
        return asked

    def _wish(self, token: str, arguments: Sequence[str], run: str) -> _Asked:
        if not _TOKEN.fullmatch(token):
            raise AgentRefused(f"{token!r} is no name for a child")
        _, data_dir = self._settled()
        logs = Logs(data_dir / "fleet" / "children" / token, 1)
        path = self._journal(data_dir, run) if run else None
        return _Asked(arguments, run, logs, path, time.monotonic())

    def _in_the_way(self, asked: _Asked) -> str:
        """Why a child cannot begin yet; what can be done about it is done."""
        others = [other for other in self._asked.values() if other is not asked and not other.over]
        for other in others:
            if other.held is not None:
                other.held.ask()
        if others:
            return "the child before it is asked to end, and keeps what it has"
        if not self._examiner.stop():
            return "the machine is examined: that is asked to end"
        # An agent before us may have left a child behind, which ends by itself, but not at once.
        waited = time.monotonic() - asked.since
        path = asked.journal if waited < _JOURNAL_PATIENCE_SECONDS else None
        if path is not None and path.exists() and journal.in_use(path):
            return f"another process writes to the journal of run {asked.run}"
        return ""

    def _begin(self, asked: _Asked) -> None:
        try:
            make_room(asked.logs.folder)
            (asked.logs.folder / _RUN_FILE).write_text(asked.run)
            asked.held = Held(self._child(asked.arguments, asked.logs))
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            asked.ended = ChildExit(None, None, f"it cannot be started: {error.strerror or error}{where}")

    def _child(self, arguments: Sequence[str], logs: Logs) -> Child:
        return Child([*self._command, *arguments], logs, self._folder, self._variables)

    def _settled(self) -> tuple[Settings, Path]:
        """The node's settings as they stand now, and its data folder."""
        environ = os.environ if self._variables is None else self._variables
        settings = load_settings(cwd=self._folder, environ=environ)
        return settings, resolve_places(settings, environ=environ).data_dir

    @staticmethod
    def _journal(data_dir: Path, run: str) -> Path:
        if not is_run(run):
            raise AgentRefused(f"{run!r} is no name of a run")
        return data_dir / "runs" / run / journal.FILE


def _notes() -> list[str]:
    """What of this process would disturb what it starts."""
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    if niceness <= 0:
        return []
    return [f"what is measured here would have niceness {niceness}, as its agent has: start that with 0"]


def _ended_body(ended: ChildExit) -> dict[str, Any]:
    return {"code": ended.code, "signal": ended.signal, "sentence": ended.sentence}


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
