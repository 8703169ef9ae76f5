"""What does not stay for ever: recordings and samples of old runs, deleted without anything else."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Select, delete, exists, func, select

from . import tables
from .engine import Database
from .parts import in_parts
from .records import Pruned

Raw = type[tables.Telemetry] | type[tables.Samples]

#: So many runs are pruned in one transaction: whoever waits to write comes in between.
_RUNS_AT_ONCE = 25


def prune_telemetry(database: Database, before: datetime, *, dry_run: bool = False) -> Pruned:
    """Delete the recordings of runs that started before a moment, or with `dry_run` only count them.

    Outcomes and measurements, and with them every metric that was made of a recording, stay for ever.
    """
    return (
        _counted(database, tables.Telemetry, before)
        if dry_run
        else _deleted(database, tables.Telemetry, before)
    )


def prune_samples(database: Database, before: datetime, *, dry_run: bool = False) -> Pruned:
    """Delete the samples of runs that started before a moment, or with `dry_run` only count them.

    Counted are the outcomes that had any. They and their metrics stay for ever.
    """
    return (
        _counted(database, tables.Samples, before) if dry_run else _deleted(database, tables.Samples, before)
    )


def _counted(database: Database, table: Raw, before: datetime) -> Pruned:
    size = func.coalesce(func.sum(func.length(table.blob)), 0)
    query = select(func.count(), size).where(table.run_number.in_(_old_runs(table, before)))
    with database.reading() as connection:
        count, size = connection.execute(query).one()
    return Pruned(count, int(size))


def _deleted(database: Database, table: Raw, before: datetime) -> Pruned:
    with database.reading() as connection:
        runs = connection.execute(_old_runs(table, before)).scalars().all()
    sizes: list[int] = []
    for some in in_parts(runs, _RUNS_AT_ONCE):
        sizes += _deleted_of(database, table, some)
    return Pruned(len(sizes), sum(sizes))


def _deleted_of(database: Database, table: Raw, runs: Sequence[int]) -> list[int]:
    statement = delete(table).where(table.run_number.in_(runs)).returning(func.length(table.blob))
    with database.writing() as connection:
        return list(connection.execute(statement).scalars())


def _old_runs(table: Raw, before: datetime) -> Select[int]:
    """The numbers of the runs that started before a moment and still have rows, oldest first."""
    run = tables.Run
    has_rows = exists().where(table.run_number == run.number)
    return select(run.number).where(run.started_at < before, has_rows).order_by(run.started_at)
