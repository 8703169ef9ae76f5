"""Counts of the queue and of the findings for Prometheus, in few and cheap queries."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, case, exists, func, select

from records.tasks import TaskState

from ..connection.engine import Database
from ..schema.finding_tables import FindingRow
from ..schema.queue_tables import ScheduledRunRow, TaskRow

#: The final states of a task that count as failures.
_FAILURES = (TaskState.FAILED, TaskState.LOST)

#: A part is exported while it occurs in this number of newest runs of its schedule, or within this time
#: before the newest. Runs are counted, not tasks: one night of a fleet may have more tasks than the limit,
#: and machines would be missing. The time is needed because follow-ups have a run for each task, so that one
#: night fills the number.
_RECENT, _LATELY = 200, timedelta(days=7)

#: Jobs whose parts do not recur: the time of their last success says nothing about today.
_ONCE = ("confirm",)


@dataclass(frozen=True, slots=True)
class Tallies:
    """Tasks by state, failed and lost tasks by schedule, findings by state and direction.

    A schedule that ran without a failure has 0, because an increase from an absent series cannot be seen.
    `succeeded` is the time at which each part that is still expected was last done, by schedule and part;
    `runs` is the run that it measured, for parts that measure.
    """

    tasks: Mapping[str, int]
    failures: Mapping[str, int]
    findings: Mapping[tuple[str, str], int]
    succeeded: Mapping[tuple[str, str], datetime]
    runs: Mapping[tuple[str, str], str]


def tallies(database: Database) -> Tallies:
    """All counts, from one transaction; the cost hardly grows with the age of the database."""
    tasks = select(TaskRow.state, func.count()).group_by(TaskRow.state)
    failures = (
        select(TaskRow.schedule, func.count()).where(TaskRow.state.in_(_FAILURES)).group_by(TaskRow.schedule)
    )
    findings = select(FindingRow.state, FindingRow.direction, func.count()).group_by(
        FindingRow.state, FindingRow.direction
    )
    with database.reading() as connection:
        schedules = schedule_names(connection)
        failed = {schedule: count for schedule, count in connection.execute(failures)}
        last = {
            (schedule, part): task
            for schedule in schedules
            for part, task in _last_successes(connection, schedule).items()
        }
        return Tallies(
            {state: count for state, count in connection.execute(tasks)},
            dict.fromkeys(schedules, 0) | failed,
            {(state, direction): count for state, direction, count in connection.execute(findings)},
            {key: at for key, (at, _) in last.items()},
            {key: run for key, (_, run) in last.items() if run is not None},
        )


def schedule_names(connection: Connection) -> list[str]:
    """Every schedule that ever ran, by stepping along the key: schedules are few, runs are many."""
    first = select(func.min(ScheduledRunRow.schedule).label("schedule")).cte("schedules", recursive=True)
    following = (
        select(func.min(ScheduledRunRow.schedule))
        .where(ScheduledRunRow.schedule > first.c.schedule)
        .scalar_subquery()
    )
    every = first.union_all(select(following).where(first.c.schedule.is_not(None)))
    return [name for name in connection.execute(select(every.c.schedule)).scalars().all() if name is not None]


def _last_successes(connection: Connection, schedule: str) -> dict[str, tuple[datetime, str | None]]:
    """Of each part the last task that was done: when it ended, and its run."""
    recurs = TaskRow.job.not_in(_ONCE)
    of_it = exists().where(
        TaskRow.schedule == ScheduledRunRow.schedule, TaskRow.due_at == ScheduledRunRow.due_at, recurs
    )
    runs = (
        select(ScheduledRunRow.due_at)
        .where(ScheduledRunRow.schedule == schedule, of_it)
        .order_by(ScheduledRunRow.due_at.desc())
    )
    moments = runs.limit(_RECENT).subquery().c.due_at
    oldest, newest = connection.execute(select(func.min(moments), func.max(moments))).one()
    if newest is None:
        return {}
    since = min(oldest, newest - _LATELY)
    # Grouped by the database: of a large fleet these are tens of thousands of tasks.
    done_at = func.max(case((TaskRow.state == TaskState.DONE, TaskRow.due_at))).label("due_at")
    recent = select(TaskRow.part, done_at).where(
        TaskRow.schedule == schedule, TaskRow.due_at >= since, recurs
    )
    last = recent.group_by(TaskRow.part).subquery()
    there = (TaskRow.schedule == schedule) & (TaskRow.due_at == last.c.due_at) & (TaskRow.part == last.c.part)
    rows = connection.execute(select(last, TaskRow.ended_at, TaskRow.run_id).outerjoin(TaskRow, there)).all()
    found = {row.part: (row.ended_at, row.run_id) for row in rows if row.ended_at is not None}
    for part in (row.part for row in rows if row.due_at is None):
        before = select(TaskRow.ended_at, TaskRow.run_id).where(TaskRow.schedule == schedule)
        before = before.where(TaskRow.part == part, TaskRow.state == TaskState.DONE)
        row = connection.execute(before.order_by(TaskRow.due_at.desc()).limit(1)).first()
        if row is not None and row.ended_at is not None:
            found[part] = row.ended_at, row.run_id
    return found
