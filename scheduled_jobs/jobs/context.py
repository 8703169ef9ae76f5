"""The interface of jobs: the context that they get and the result that they return."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from configuration.settings import Settings
from db.connection.engine import Database
from db.queue import queries
from records.tasks import NewTask, Task, TaskState

#: Jobs of the control slot, which do not measure; those of MEASURING use the other slot of a machine.
CONTROL_JOBS = frozenset({"discover", "detect", "digest", "prune", "check"})


class JobStopped(Exception):
    """The service stops, or the task was cancelled or lost: the job must end at once."""


class ChildLost(Exception):
    """A child was killed or interrupted from outside, or its host was lost: the task is tried again."""


@dataclass(frozen=True, slots=True)
class FollowUp:
    """Tasks that follow a task, as a separate scheduled run.

    A scheduled run is stored once per schedule and fire time, so what must happen only once (measuring a new
    release) has a fixed `due_at`. None means now, and is never dropped.
    """

    schedule: str
    tasks: tuple[NewTask, ...]
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a task: `state` is done or failed, `result` is JSON, `error` says why it failed.

    A result may have a "summary", one line for people. `follow_ups` are enqueued before the task is closed,
    so a task that is done has its successors.
    """

    state: TaskState = TaskState.DONE
    result: Mapping[str, Any] = field(default_factory=dict[str, Any])
    error: str = ""
    follow_ups: tuple[FollowUp, ...] = ()


@dataclass(frozen=True, slots=True)
class ChildExit:
    """The exit of a child: its exit code (None: killed by `signal`) and its last sentence on stderr."""

    code: int | None
    signal: int | None
    sentence: str


#: Receives the JSON events of a child.
OnEvent = Callable[[Mapping[str, Any]], None]


def ignore_event(event: Mapping[str, Any]) -> None:
    """Do nothing with an event."""


class StartChild(Protocol):
    """Run a command of `pyrometer` to its end as a child, on the host of the task's worker slot.

    `arguments` follow `pyrometer` on the command line. Output goes to the task's log; each line of stdout
    that is a JSON object also goes to `on_event`. `run` is the id of the run that it measures, whose journal
    is on this machine afterwards; empty for none. `nodes` is the number of nodes that the engine of the fleet
    allocates. Raises JobStopped once the child has ended, if a stop was requested, and ChildLost if the host
    was lost.
    """

    def __call__(
        self, arguments: Sequence[str], on_event: OnEvent = ..., run: str = ..., nodes: int = ...
    ) -> ChildExit: ...


@dataclass(frozen=True, slots=True)
class JobContext:
    """The context of a job.

    A job reads no clock but `now` (aware, UTC), and checks `stop` in its loops. `shared_time` returns the
    same moment by the clock that all machines share, which dates heartbeats. `machine` is where its children
    run; if it is `away`, it has its own files and does not see those of this machine. `set_run` records the
    run that a task measures; it raises JobStopped if the task is no longer ours. `say` logs one sentence.
    `waits` reports why a running task waits; an empty text means that it continues.
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
    shared_time: Callable[[Database, datetime], datetime] = queries.shared_time

    def check_stopped(self) -> None:
        """Raise JobStopped if a stop was requested."""
        if self.stop.is_set():
            raise JobStopped


#: A job runs a task to its end. An error of our error trees fails the task with its sentence; after ChildLost
#: and DatabaseUnavailable the attempt is lost and the task is tried again; JobStopped is passed on.
Job = Callable[[Task, JobContext], JobResult]
