"""Reads of the queue: running and waiting tasks, their results, and the schedulers."""

import json
from collections import defaultdict
from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection, RowMapping, func, or_, select, tuple_, type_coerce

from records.tasks import (
    SUPERSEDED,
    LastScheduledRun,
    ScheduledRun,
    SchedulerSeen,
    Task,
    TaskAttempt,
    TaskState,
    machine_of,
)

from ..connection.engine import Database
from ..connection.statements import AnySelect, in_batches, rows_among
from ..schema import queue_tables
from ..schema.types import PlainText, UtcTime
from .prometheus_counts import schedule_names

_SCHEDULED_RUN, _TASK, _ATTEMPT = queue_tables.ScheduledRunRow, queue_tables.TaskRow, queue_tables.AttemptRow

#: The kinds of scheduled runs that the timetable makes. Only these show how far it was processed.
BY_THE_TIMETABLE = ("timetable", "caught up", "missed", "first seen")


def running_tasks(database: Database) -> list[Task]:
    """The running tasks, the earliest start first."""
    return _tasks(
        database, select(_TASK).where(_TASK.state == TaskState.RUNNING).order_by(_TASK.started_at, _TASK.id)
    )


def tasks(
    database: Database,
    *,
    schedule: str | None = None,
    job: str | None = None,
    state: TaskState | None = None,
    newest: int = 50,
) -> list[Task]:
    """The tasks of the newest fire times, newest first; all, or those of a schedule, a job, a state."""
    query = select(_TASK).order_by(_TASK.due_at.desc(), _TASK.id.desc()).limit(newest)
    for column, value in ((_TASK.schedule, schedule), (_TASK.job, job), (_TASK.state, state)):
        if value is not None:
            query = query.where(column == value)
    return _tasks(database, query)


def waiting_tasks(
    database: Database, *, labels: Collection[str] | None = None, oldest: int = 50
) -> tuple[list[Task], int]:
    """The waiting tasks, longest due first, and the number of the others.

    With `labels` only tasks for one of them; the empty label is that of tasks for any machine.
    """
    condition = _TASK.state == TaskState.WAITING
    if labels is not None:
        condition &= _TASK.label.in_(labels)
    query = select(_TASK).where(condition).order_by(_TASK.due_at, _TASK.id).limit(oldest)
    with database.reading() as connection:
        found = [task_of(row) for row in connection.execute(query).mappings()]
        many = connection.execute(select(func.count()).select_from(_TASK).where(condition)).scalar_one()
    return found, many - len(found)


def waiting_for(database: Database, now: datetime) -> frozenset[tuple[str, str]]:
    """The jobs and labels of tasks that may begin now; a worker without a match need not try to claim."""
    due = or_(_TASK.not_before.is_(None), _TASK.not_before <= now)
    query = select(_TASK.job, _TASK.label).where(_TASK.state == TaskState.WAITING, due).distinct()
    with database.reading() as connection:
        return frozenset((job, label) for job, label in connection.execute(query))


def machines_with_partial_runs(database: Database) -> frozenset[str]:
    """The machines that have unfinished runs of waiting tasks: only they can resume them."""
    query = (
        select(_ATTEMPT.owner)
        .join(_TASK, _TASK.id == _ATTEMPT.task_id)
        .where(_TASK.state == TaskState.WAITING, _ATTEMPT.run_id == _TASK.run_id)
    )
    with database.reading() as connection:
        return frozenset(map(machine_of, connection.execute(query).scalars()))


def task(database: Database, task_id: int) -> Task | None:
    """One task; None if there is none of that id."""
    return next(iter(_tasks(database, select(_TASK).where(_TASK.id == task_id))), None)


def task_of_run(database: Database, run_id: str) -> Task | None:
    """The task that measured a run, or tried to; None for a run that was started by hand."""
    tried = select(_ATTEMPT.task_id).where(_ATTEMPT.run_id == run_id)
    query = select(_TASK).where((_TASK.run_id == run_id) | _TASK.id.in_(tried)).order_by(_TASK.id)
    return next(iter(_tasks(database, query)), None)


def scheduled_runs(database: Database, schedule: str, newest: int = 50) -> list[ScheduledRun]:
    """The newest runs of a schedule with their tasks, newest first."""
    page = (
        select(_SCHEDULED_RUN)
        .where(_SCHEDULED_RUN.schedule == schedule)
        .order_by(_SCHEDULED_RUN.due_at.desc())
        .limit(newest)
    )
    with database.reading() as connection:
        rows = [dict(row) for row in connection.execute(page).mappings()]
        moments = [row["due_at"] for row in rows]
        query = select(_TASK).where(_TASK.schedule == schedule, _TASK.due_at.in_(moments)).order_by(_TASK.id)
        of_moment: dict[datetime, list[Task]] = defaultdict(list)
        for row in connection.execute(query).mappings():
            of_moment[row["due_at"]].append(task_of(row))
    return [ScheduledRun(**row, tasks=tuple(of_moment[row["due_at"]])) for row in rows]


def last_due(database: Database) -> dict[str, datetime]:
    """By schedule, the last fire time that the timetable has processed: planned, caught up or missed.

    Runs triggered by hand and follow-ups do not count: they say nothing about the timetable.
    """
    query = (
        select(_SCHEDULED_RUN.schedule, func.max(_SCHEDULED_RUN.due_at))
        .where(_SCHEDULED_RUN.kind.in_(BY_THE_TIMETABLE))
        .group_by(_SCHEDULED_RUN.schedule)
    )
    with database.reading() as connection:
        return {schedule: due_at for schedule, due_at in connection.execute(query)}


def last_of_each(database: Database) -> dict[tuple[str, str], Task]:
    """By schedule and part, the newest task that has ended."""
    newest = (
        select(_TASK.schedule, _TASK.part, func.max(_TASK.due_at))
        .where(_TASK.ended_at.is_not(None))
        .group_by(_TASK.schedule, _TASK.part)
    )
    query = select(_TASK).where(tuple_(_TASK.schedule, _TASK.part, _TASK.due_at).in_(newest))
    found = _tasks(database, query)
    return {(each.schedule, each.part): each for each in found}


def not_started(database: Database, job: str) -> list[Task]:
    """Two tasks of each target that waits: the newest one, and the oldest since a task of it last began.

    The second one dates the beginning of the wait; it waits as well or is superseded, and often both are the
    same task. The number of nights and parts in between does not matter.
    """
    named = (_TASK.schedule, _TASK.part)
    conditions = (
        _TASK.job == job,
        _TASK.attempts == 0,
        _TASK.state.in_((TaskState.WAITING, TaskState.CANCELLED)),
    )
    waits = select(*named).where(*conditions, _TASK.state == TaskState.WAITING)
    stands = or_(_TASK.state == TaskState.WAITING, _TASK.error == SUPERSEDED)
    query = select(*named, _TASK.due_at, _TASK.id, _TASK.state).where(
        *conditions, stands, tuple_(*named).in_(waits)
    )
    since: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    with database.reading() as connection:
        rows = connection.execute(query.order_by(_TASK.due_at)).all()
        begun = _last_begun(connection, job, rows[0].due_at) if rows else {}
        for schedule, part, due_at, task_id, state in rows:
            if (last := begun.get((schedule, part))) is None or due_at > last:
                since[schedule, part].append((task_id, state))
        ids: set[int] = set()
        for own in since.values():
            if waiting := [task_id for task_id, state in own if state == TaskState.WAITING]:
                ids |= {own[0][0], waiting[-1]}
        found = [
            task_of(row)
            for some in in_batches(sorted(ids))
            for row in connection.execute(select(_TASK).where(_TASK.id.in_(some))).mappings()
        ]
    return sorted(found, key=lambda each: (each.due_at, each.id), reverse=True)


def last_taken_up(database: Database, schedule: str) -> dict[str, datetime]:
    """By part of a schedule, when one of its tasks was last claimed; parts without a claim are left out.

    Of a lost task that waits again only the fire time is known.
    """
    at = func.coalesce(_TASK.started_at, _TASK.due_at)
    query = (
        select(_TASK.part, func.max(at))
        .where(_TASK.schedule == schedule, _TASK.attempts > 0)
        .group_by(_TASK.part)
    )
    with database.reading() as connection:
        return {part: taken_up for part, taken_up in connection.execute(query)}


def _last_begun(connection: Connection, job: str, since: datetime) -> dict[tuple[str, str], datetime]:
    """By schedule and part, the fire time of the newest task that has begun, if later than `since`."""
    begun = or_(_TASK.state.not_in((TaskState.WAITING, TaskState.CANCELLED)), _TASK.attempts > 0)
    query = (
        select(_TASK.schedule, _TASK.part, func.max(_TASK.due_at))
        .where(_TASK.job == job, _TASK.due_at > since, begun)
        .group_by(_TASK.schedule, _TASK.part)
    )
    return {(schedule, part): due_at for schedule, part, due_at in connection.execute(query)}


def attempts(database: Database, task_id: int) -> list[TaskAttempt]:
    """The attempts at a task, first one first."""
    query = select(_ATTEMPT).where(_ATTEMPT.task_id == task_id).order_by(_ATTEMPT.number)
    with database.reading() as connection:
        return [TaskAttempt(**dict(row)) for row in connection.execute(query).mappings()]


def schedulers(database: Database) -> list[SchedulerSeen]:
    """The schedulers that registered and did not unregister, by machine and owner."""
    table = queue_tables.SchedulerRow
    # As text: a thousand schedulers may report the same, which is then parsed once.
    facts = type_coerce(table.facts, PlainText()).label("facts")
    columns = (table.owner, table.machine, table.labels, table.started_at, table.seen_at, table.beats)
    query = select(*columns, table.version, facts)
    with database.reading() as connection:
        rows = connection.execute(query).all()
    parsed = {text: json.loads(text) or {} for text in {row.facts or "{}" for row in rows}}
    found = [
        SchedulerSeen(row[0], row[1], tuple(row.labels), *row[3:7], parsed[row.facts or "{}"]) for row in rows
    ]
    # Not by the database: each has its own order of texts.
    return sorted(found, key=lambda scheduler: (scheduler.machine, scheduler.owner))


def shared_time(database: Database, now: datetime) -> datetime:
    """The present time by the clock that all machines of a database share; `now` is the clock of this
    machine.

    For a server it is the clock of the server. All users of a file are on one machine, so it is `now`.
    """
    if database.engine.dialect.name == "sqlite":
        return now
    with database.reading() as connection:
        return connection.execute(select(func.current_timestamp(type_=UtcTime()))).scalar_one()


def task_of(row: RowMapping) -> Task:
    """The task in a row of its table, whose columns are the fields of the record."""
    return Task(**dict(row))


def _tasks(database: Database, query: AnySelect) -> list[Task]:
    with database.reading() as connection:
        return [task_of(row) for row in connection.execute(query).mappings()]


def wait_reasons(database: Database, tasks: Collection[int]) -> dict[int, str]:
    """By task, what its running attempt waits for; without those that wait for nothing."""
    query = select(_ATTEMPT.task_id, _ATTEMPT.detail).where(_ATTEMPT.ended == "", _ATTEMPT.detail != "")
    with database.reading() as connection:
        rows = rows_among(connection, query.order_by(_ATTEMPT.number), _ATTEMPT.task_id, tasks)
    return {task: detail for task, detail in rows}


def attempt_seconds(database: Database, tasks: Collection[int]) -> dict[int, tuple[float, int]]:
    """By task, the seconds of all its ended attempts and their number; tasks without one are left out.

    A lost attempt lasted until it was given up, which may be later than its end.
    """
    seconds: dict[int, list[float]] = defaultdict(list)
    query = select(_ATTEMPT.task_id, _ATTEMPT.started_at, _ATTEMPT.ended_at)
    query = query.where(_ATTEMPT.ended_at.is_not(None))
    with database.reading() as connection:
        for task, started_at, ended_at in rows_among(connection, query, _ATTEMPT.task_id, tasks):
            seconds[task].append((ended_at - started_at).total_seconds())
    return {task: (sum(each), len(each)) for task, each in seconds.items()}


def night_tasks(database: Database, since: datetime, until: datetime, newest: int) -> list[Task]:
    """The newest tasks that measure and were due from `since` to `until`, newest first."""
    query = (
        select(_TASK.id, _TASK.schedule, _TASK.due_at, _TASK.part, _TASK.job, _TASK.spec, _TASK.label)
        .add_columns(_TASK.state, _TASK.attempts, _TASK.run_id, _TASK.owner)
        .add_columns(_TASK.started_at, _TASK.ended_at, _TASK.error, _TASK.not_before)
        .where(_TASK.job == "measure", _TASK.due_at >= since, _TASK.due_at <= until)
        .order_by(_TASK.due_at.desc(), _TASK.id.desc())
        .limit(newest)
    )
    with database.reading() as connection:
        return [Task(**row) for row in connection.execute(query).mappings()]


def missed_runs(database: Database, schedules: Collection[str], since: datetime) -> dict[str, list[datetime]]:
    """By schedule, the fire times from `since` on at which no scheduler was running, newest first."""
    query = select(_SCHEDULED_RUN.schedule, _SCHEDULED_RUN.due_at).where(
        _SCHEDULED_RUN.schedule.in_(set(schedules)),
        _SCHEDULED_RUN.due_at >= since,
        _SCHEDULED_RUN.kind == "missed",
    )
    found: dict[str, list[datetime]] = defaultdict(list)
    with database.reading() as connection:
        for schedule, due_at in connection.execute(query.order_by(_SCHEDULED_RUN.due_at.desc())):
            found[schedule].append(due_at)
    return dict(found)


def last_scheduled_runs(database: Database) -> list[LastScheduledRun]:
    """The newest run of every schedule that has run, by schedule."""
    with database.reading() as connection:
        # One step along the key for each: schedules are few and runs many.
        found = [_last_scheduled_run(connection, name) for name in schedule_names(connection)]
    return sorted((each for each in found if each), key=lambda run: run.schedule)


def _last_scheduled_run(connection: Connection, schedule: str) -> LastScheduledRun | None:
    newest = select(_SCHEDULED_RUN.due_at, _SCHEDULED_RUN.kind).where(
        _SCHEDULED_RUN.schedule == schedule, _SCHEDULED_RUN.kind != "first seen"
    )
    run = connection.execute(newest.order_by(_SCHEDULED_RUN.due_at.desc()).limit(1)).first()
    if run is None:
        return None
    query = (
        select(_TASK.state, func.count(), func.max(_TASK.error))
        .where(_TASK.schedule == schedule, _TASK.due_at == run.due_at)
        .group_by(_TASK.state)
    )
    rows = sorted(connection.execute(query).all(), key=lambda row: row[0])
    error = next((row[2] for row in rows if row[2]), "")
    return LastScheduledRun(schedule, run.due_at, run.kind, {state: many for state, many, _ in rows}, error)
