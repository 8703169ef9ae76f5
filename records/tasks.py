"""The queue: scheduled runs, their tasks, the attempts, and the schedulers that run them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from .json_values import Facts

#: The error of a task that was superseded before it began. A task that a person cancelled has no error.
SUPERSEDED = "a later one stands for it"


class TaskState(StrEnum):
    """The state of a task. LOST: its owner disappeared too often. CANCELLED: by a person, or superseded."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task of a scheduled run; `part` distinguishes it from the run's other tasks.

    `label` names the machines that may run it, empty for any. `spec` is read by the job only; that of a
    `measure` task names its `track`. It is not claimed before `not_before`.
    """

    part: str
    job: str
    spec: Facts
    label: str = ""
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A task with its present state.

    `attempts` does not count those that were returned unfinished. `token` is the fencing token of the running
    attempt, None without one. `started_at` is the start of the newest attempt, `ended_at` the final end of
    the task. `owner` is the scheduler that claimed it last.
    """

    id: int
    schedule: str
    due_at: datetime
    part: str
    job: str
    spec: Facts
    label: str
    state: TaskState
    attempts: int
    run_id: str | None = None
    owner: str | None = None
    beats: int = 0
    token: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    result: Facts = field(default_factory=dict[str, Any])
    error: str = ""
    not_before: datetime | None = None

    @property
    def superseded(self) -> bool:
        """Whether a later task replaced it, so that it was cancelled, but not by a person."""
        return self.state == TaskState.CANCELLED and self.error == SUPERSEDED

    @property
    def track(self) -> str:
        """The environment that a `measure` task follows, as the schedule asks for it."""
        return str(self.spec.get("track") or "")

    @property
    def baseline(self) -> str:
        """The environment that the schedule of a `measure` task pins, empty for none."""
        return str(self.spec.get("baseline") or "")

    @property
    def machine(self) -> str:
        """The machine that claimed the task last; before the first claim, the one it is meant for."""
        return machine_of(self.owner or self.label)


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """One try at a task. `ended`: done, failed, lost, stale, released, cancelled, or nothing while it runs.

    A stale attempt reported a result after it had been given up.
    """

    task_id: int
    number: int
    token: str
    owner: str
    started_at: datetime
    ended_at: datetime | None
    ended: str
    detail: str
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class SchedulerSeen:
    """A scheduler that is alive, or was when it was last seen; `beats` increases while it is alive.

    `seen_at` is by the clock that all machines share (`db.queue.queries.shared_time`). `facts` are its report
    (written by `scheduled_jobs.scheduler.planner`); empty for an earlier version.
    """

    owner: str
    machine: str
    labels: tuple[str, ...]
    started_at: datetime
    seen_at: datetime
    beats: int
    version: str
    facts: Facts = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """One fire time of one schedule with its tasks.

    `kind`: timetable, caught up, by hand, follow-up, missed, first seen. A missed run has no tasks, because a
    later one replaces it. The run that marks when a schedule was first seen has none either: earlier fire
    times are not caught up.
    """

    schedule: str
    due_at: datetime
    kind: str
    made_at: datetime
    tasks: tuple[Task, ...] = ()


def machine_of(owner: str | None) -> str:
    """The machine on which an owner runs its tasks; empty if there is none."""
    return (owner or "").partition("/")[0]


@dataclass(frozen=True, slots=True)
class LastScheduledRun:
    """The newest run of a schedule. `states` counts its tasks, `error` is the reason why one of them is not
    done.
    """

    schedule: str
    due_at: datetime
    kind: str
    states: Mapping[TaskState, int]
    error: str
