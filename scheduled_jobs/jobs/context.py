"""What a job is given and what it answers; the service and every job meet here."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from configuration.settings import Settings
from db.connection.engine import Database
from records.tasks import NewTask, Task

#: The other lane of a machine, beside MEASURING: its jobs only think. A node has the first alone.
CONTROL_JOBS = frozenset({"discover", "detect", "digest", "prune", "check"})


class Stopped(Exception):
    """The service ends, or the task was cancelled or taken away: whoever works on it lets go at once."""


class ChildLost(Exception):
    """A child was killed or interrupted by somebody else, or its place was lost: the task is tried again."""


@dataclass(frozen=True, slots=True)
class FollowUp:
    """Tasks that come after a task, as a fire of their own.

    `due_at` is the fire's key: a fire of that schedule at that moment is planted once for ever, so what must
    happen only once (measuring a new release) takes a moment of its own. None is now, and never dropped.
    """

    schedule: str
    tasks: tuple[NewTask, ...]
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a task ended: `done` or `failed`, what came of it as JSON, one sentence why it failed.

    A result may say what it came to in one line for people as "summary". `follow_ups` are planted before the
    task is closed: one that is done has its successors.
    """

    state: str = "done"
    result: Mapping[str, Any] = field(default_factory=dict[str, Any])
    error: str = ""
    follow_ups: tuple[FollowUp, ...] = ()


@dataclass(frozen=True, slots=True)
class ChildExit:
    """How a child ended: its exit code (None: killed by `signal`), the last sentence it left on stderr."""

    code: int | None
    signal: int | None
    sentence: str


#: Hears what a child says for machines.
OnEvent = Callable[[Mapping[str, Any]], None]


def ignore_event(event: Mapping[str, Any]) -> None:
    """Let an event pass."""


class StartChild(Protocol):
    """Has a command of `pyrometer` done to its end as a child, at the place of the task's lane.

    `arguments` are what stands behind `pyrometer` on a command line; what it prints goes to the task's log,
    and each JSON object that is a line of its stdout goes to `on_event` as well. `run` is the run that it
    measures, whose journal is here when it has ended; empty where it measures none. Raises Stopped after the
    child has ended, where somebody asked for the end meanwhile, and ChildLost where the place was lost.
    """

    def __call__(self, arguments: Sequence[str], on_event: OnEvent = ..., run: str = ...) -> ChildExit: ...


@dataclass(frozen=True, slots=True)
class JobContext:
    """What a job works with. It reads no clock but `now` (aware, UTC), and looks at `stop` when it loops.

    `machine` is where its children run; one that is `away` has files of its own and does not see these.
    `set_run` remembers the run that a task measures; it raises Stopped where the task is no longer ours.
    `say` logs one sentence. `waits` says for what a task waits that runs, with an empty text that it goes on.
    """

    settings: Settings
    data_dir: Path
    machine: str
    open_database: Callable[[], Database]
    now: Callable[[], datetime]
    stop: threading.Event
    child: StartChild
    set_run: Callable[[str], None]
    say: Callable[[str], None]
    away: bool = False
    waits: Callable[[str], None] = lambda sentence: None

    def check_stopped(self) -> None:
        """Raise Stopped where somebody asked for the end."""
        if self.stop.is_set():
            raise Stopped


#: A job does a task to its end. What it raises of our own error trees fails the task with that sentence; with
#: ChildLost and DatabaseUnavailable the attempt is lost and the task tried again; Stopped passes through.
Job = Callable[[Task, JobContext], JobResult]
