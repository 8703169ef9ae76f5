"""What the queue and the findings come to, in few and cheap questions: for whoever watches the service."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, case, exists, func, select

from ..connection.engine import Database
from ..schema.finding_tables import Finding
from ..schema.queue_tables import Fire, Task

#: How a task ends that did not bring what it was for.
_FAILURES = ("failed", "lost")

#: Parts that none of so many fires of a schedule had, and none within that time before the newest, are not
#: asked for any more. Not tasks: a fleet may have more of them in one night, and some of its machines would
#: never be told of. What follows a task has a fire for each, so that the number of fires alone will not do.
_RECENT, _LATELY = 200, timedelta(days=7)

#: Jobs whose parts come once and never again: that they succeeded says nothing about today.
_ONCE = ("confirm",)


@dataclass(frozen=True, slots=True)
class Tallies:
    """Tasks by state, failed and lost ones by schedule, findings by state and direction; none is left out.

    A schedule that has fired and had no failure has 0: what is not there before cannot be seen to rise.
    `succeeded` says by schedule and part when a task was done last, of parts that are still asked for.
    """

    tasks: Mapping[str, int]
    failures: Mapping[str, int]
    findings: Mapping[tuple[str, str], int]
    succeeded: Mapping[tuple[str, str], datetime]


def tallies(database: Database) -> Tallies:
    """All of it at one moment; what it costs hardly grows with the years."""
    tasks = select(Task.state, func.count()).group_by(Task.state)
    failures = select(Task.schedule, func.count()).where(Task.state.in_(_FAILURES)).group_by(Task.schedule)
    findings = select(Finding.state, Finding.direction, func.count()).group_by(
        Finding.state, Finding.direction
    )
    with database.reading() as connection:
        schedules = schedule_names(connection)
        failed = {schedule: count for schedule, count in connection.execute(failures)}
        return Tallies(
            {state: count for state, count in connection.execute(tasks)},
            dict.fromkeys(schedules, 0) | failed,
            {(state, direction): count for state, direction, count in connection.execute(findings)},
            {
                (schedule, part): at
                for schedule in schedules
                for part, at in _succeeded(connection, schedule).items()
            },
        )


def schedule_names(connection: Connection) -> list[str]:
    """Every schedule that ever fired: from one to the next along the key, for they are few and fires many."""
    first = select(func.min(Fire.schedule).label("schedule")).cte("schedules", recursive=True)
    following = select(func.min(Fire.schedule)).where(Fire.schedule > first.c.schedule).scalar_subquery()
    every = first.union_all(select(following).where(first.c.schedule.is_not(None)))
    return [name for name in connection.execute(select(every.c.schedule)).scalars().all() if name is not None]


def _succeeded(connection: Connection, schedule: str) -> dict[str, datetime]:
    asked = Task.job.not_in(_ONCE)
    of_it = exists().where(Task.schedule == Fire.schedule, Task.due_at == Fire.due_at, asked)
    fires = select(Fire.due_at).where(Fire.schedule == schedule, of_it).order_by(Fire.due_at.desc())
    moments = fires.limit(_RECENT).subquery().c.due_at
    oldest, newest = connection.execute(select(func.min(moments), func.max(moments))).one()
    if newest is None:
        return {}
    since = min(oldest, newest - _LATELY)
    # Grouped by the database: of a large fleet these are tens of thousands of tasks.
    done_at = func.max(case((Task.state == "done", Task.due_at))).label("due_at")
    recent = select(Task.part, done_at).where(Task.schedule == schedule, Task.due_at >= since, asked)
    last = recent.group_by(Task.part).subquery()
    there = (Task.schedule == schedule) & (Task.due_at == last.c.due_at) & (Task.part == last.c.part)
    rows = connection.execute(select(last, Task.ended_at).outerjoin(Task, there)).all()
    found: dict[str, datetime | None] = {row.part: row.ended_at for row in rows}
    for part in (row.part for row in rows if row.due_at is None):
        before = select(Task.ended_at).where(Task.schedule == schedule, Task.part == part)
        before = before.where(Task.state == "done").order_by(Task.due_at.desc()).limit(1)
        found[part] = connection.execute(before).scalar()
    return {part: at for part, at in found.items() if at is not None}
