"""The tables of the queue: scheduled runs, their tasks, attempts at them, and schedulers."""

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from records.tasks import TaskState

from .types import Base, Facts, one_of

#: The kinds of scheduled runs; `missed`: no scheduler was running at the fire time.
SCHEDULED_RUN_KINDS = ("timetable", "caught up", "by hand", "follow-up", "missed", "first seen")

#: The ends of attempts; empty while one is running.
ATTEMPT_ENDS = ("", "done", "failed", "lost", "stale", "released", "cancelled")


class ScheduledRunRow(Base):
    """One fire time of one schedule, stored before any work for it."""

    __tablename__ = "scheduled_run"

    schedule: Mapped[str] = mapped_column(primary_key=True)
    due_at: Mapped[datetime] = mapped_column(primary_key=True)
    kind: Mapped[str]
    made_at: Mapped[datetime]

    __table_args__ = (CheckConstraint(one_of("kind", SCHEDULED_RUN_KINDS), name="kind"),)


class TaskRow(Base):
    """One task of a scheduled run. `token` is that of the running attempt; a write with another token is
    refused.
    """

    __tablename__ = "task"

    id: Mapped[int] = mapped_column(primary_key=True)
    schedule: Mapped[str]
    due_at: Mapped[datetime]
    part: Mapped[str]
    job: Mapped[str]
    spec: Mapped[Facts]
    label: Mapped[str]
    state: Mapped[TaskState]
    attempts: Mapped[int]
    token: Mapped[str | None] = mapped_column(unique=True)
    owner: Mapped[str | None]
    beats: Mapped[int]
    run_id: Mapped[str | None]
    not_before: Mapped[datetime | None]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    result: Mapped[Facts]
    error: Mapped[str]

    __table_args__ = (
        UniqueConstraint("schedule", "due_at", "part"),
        ForeignKeyConstraint(["schedule", "due_at"], ["scheduled_run.schedule", "scheduled_run.due_at"]),
        CheckConstraint(one_of("state", TaskState), name="state"),
        Index(None, "state", "due_at"),
        Index(None, "due_at"),
        Index(None, "run_id"),
    )


class AttemptRow(Base):
    """One attempt at a task, with its own token."""

    __tablename__ = "attempt"

    task_id: Mapped[int] = mapped_column(ForeignKey("task.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    token: Mapped[str] = mapped_column(unique=True)
    owner: Mapped[str]
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    ended: Mapped[str]
    detail: Mapped[str]
    run_id: Mapped[str | None]

    __table_args__ = (CheckConstraint(one_of("ended", ATTEMPT_ENDS), name="ended"), Index(None, "run_id"))


class SchedulerRow(Base):
    """A scheduler with the state in which it was last seen. `facts` is None if its version reports none."""

    __tablename__ = "scheduler"

    owner: Mapped[str] = mapped_column(primary_key=True)
    machine: Mapped[str]
    labels: Mapped[list[str]]
    started_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    beats: Mapped[int]
    version: Mapped[str]
    facts: Mapped[Facts | None]
