"""What the queue and the findings come to, in few and cheap questions: for whoever watches the service."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select

from .engine import Database
from .finding_tables import Finding
from .queue_tables import Fire, Task
from .series_names import AnySelect

#: How a task ends that did not bring what it was for.
_FAILURES = ("failed", "lost")

#: Parts that none of so many tasks of a schedule had are not asked for any more.
_RECENT = 200

#: Jobs whose parts come once and never again: that they succeeded says nothing about today.
_ONCE = ("confirm",)


@dataclass(frozen=True, slots=True)
class Tallies:
    """Tasks by state, failed and lost ones by schedule, findings by state and direction; none is left out.

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
        return Tallies(
            {state: count for state, count in connection.execute(tasks)},
            {schedule: count for schedule, count in connection.execute(failures)},
            {(state, direction): count for state, direction, count in connection.execute(findings)},
            {
                (schedule, part): at
                for schedule in schedule_names(connection)
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
    def newest_first(many: int) -> AnySelect:
        query = select(Task.part, Task.state, Task.ended_at).where(Task.schedule == schedule)
        return query.order_by(Task.due_at.desc(), Task.part.desc()).limit(many)

    recent = connection.execute(newest_first(_RECENT).where(Task.job.not_in(_ONCE))).all()
    found: dict[str, datetime | None] = {}
    for row in recent:
        if row.state == "done":
            found.setdefault(row.part, row.ended_at)
    for part in {row.part for row in recent} - found.keys():
        last = connection.execute(newest_first(1).where(Task.part == part, Task.state == "done")).first()
        found[part] = last.ended_at if last is not None else None
    return {part: at for part, at in found.items() if at is not None}
