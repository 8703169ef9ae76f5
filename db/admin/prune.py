"""Deletes recordings and samples of old runs, and old tasks of the queue."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Select, and_, delete, exists, func, or_, select, tuple_
from sqlalchemy.orm import aliased

from records.tasks import TaskState

from ..connection.engine import Database
from ..connection.statements import in_batches
from ..queue.queries import BY_THE_TIMETABLE
from ..schema import core_tables as tables
from ..schema.queue_tables import AttemptRow, ScheduledRunRow, TaskRow

Raw = type[tables.TelemetryRow] | type[tables.SamplesRow]

#: The number of runs pruned in one transaction: between two transactions other writers can write.
_RUNS_AT_ONCE = 25


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The number of blobs that were deleted, or would be, and their `bytes`."""

    count: int
    bytes: int


def prune_telemetry(database: Database, before: datetime, *, dry_run: bool = False) -> PruneResult:
    """Delete the recordings of runs that started before a moment, or with `dry_run` only count them.

    Outcomes and measurements, and so the metrics computed from recordings, are kept for ever.
    """
    return (_count_blobs if dry_run else _delete_blobs)(database, tables.TelemetryRow, before)


def prune_samples(database: Database, before: datetime, *, dry_run: bool = False) -> PruneResult:
    """Delete the samples of runs that started before a moment, or with `dry_run` only count them.

    The count is that of outcomes with samples. The outcomes and their metrics are kept for ever.
    """
    return (_count_blobs if dry_run else _delete_blobs)(database, tables.SamplesRow, before)


def prune_queue(database: Database, before: datetime, *, dry_run: bool = False) -> int:
    """Delete scheduled runs that were due before `before`, and their tasks; with `dry_run` only count them.

    A scheduled run is kept while a task of it waits or runs, and where a task has a run: histories are read
    from those. The newest one of each schedule is kept too: its timetable continues from there.
    """
    count = select(func.count()).select_from(ScheduledRunRow).where(_is_expired(before))
    with database.reading() as connection:
        found = connection.execute(count).scalar_one()
    if dry_run or not found:
        return found
    tasks = select(TaskRow.id).where(
        tuple_(TaskRow.schedule, TaskRow.due_at).in_(
            select(ScheduledRunRow.schedule, ScheduledRunRow.due_at).where(_is_expired(before))
        )
    )
    with database.writing() as connection:
        connection.execute(delete(AttemptRow).where(AttemptRow.task_id.in_(tasks)))
        connection.execute(delete(TaskRow).where(TaskRow.id.in_(tasks)))
        return connection.execute(delete(ScheduledRunRow).where(_is_expired(before))).rowcount


def _is_expired(before: datetime) -> ColumnElement[bool]:
    """Whether a scheduled run is old, finished, measured nothing, and is not the newest of its timetable."""
    later = aliased(ScheduledRunRow)
    still_needed = or_(TaskRow.state.in_((TaskState.WAITING, TaskState.RUNNING)), TaskRow.run_id.is_not(None))
    newer = and_(
        later.schedule == ScheduledRunRow.schedule,
        later.due_at > ScheduledRunRow.due_at,
        later.kind.in_(BY_THE_TIMETABLE),
    )
    return and_(
        ScheduledRunRow.due_at < before,
        ~exists().where(
            TaskRow.schedule == ScheduledRunRow.schedule,
            TaskRow.due_at == ScheduledRunRow.due_at,
            still_needed,
        ),
        or_(ScheduledRunRow.kind.not_in(BY_THE_TIMETABLE), exists().where(newer)),
    )


def _count_blobs(database: Database, table: Raw, before: datetime) -> PruneResult:
    size = func.coalesce(func.sum(func.length(table.blob)), 0)
    query = select(func.count(), size).where(table.run_number.in_(_old_runs(table, before)))
    with database.reading() as connection:
        count, size = connection.execute(query).one()
    return PruneResult(count, int(size))


def _delete_blobs(database: Database, table: Raw, before: datetime) -> PruneResult:
    with database.reading() as connection:
        runs = connection.execute(_old_runs(table, before)).scalars().all()
    sizes: list[int] = []
    for some in in_batches(runs, _RUNS_AT_ONCE):
        statement = delete(table).where(table.run_number.in_(some)).returning(func.length(table.blob))
        with database.writing() as connection:
            sizes += connection.execute(statement).scalars()
    return PruneResult(len(sizes), sum(sizes))


def _old_runs(table: Raw, before: datetime) -> Select[int]:
    """The numbers of the runs that started before a moment and still have rows, oldest first."""
    run = tables.RunRow
    has_rows = exists().where(table.run_number == run.number)
    return select(run.number).where(run.started_at < before, has_rows).order_by(run.started_at)
