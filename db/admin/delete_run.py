"""A run taken out again, with everything that was measured in it."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, exists, func, or_, select, update

from ..connection.engine import Database
from ..connection.statements import in_batches
from ..errors import DatabaseError, StillReferred
from ..schema import core_tables as tables
from ..schema.finding_tables import Finding, Triage
from ..schema.queue_tables import Attempt, Task

#: What belongs to one run, in the order in which it can go.
_OF_A_RUN = (tables.Telemetry, tables.Samples, tables.Outcome, tables.Measurement, tables.RunEnvironment)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How much of a run went, or would go; and how many findings and tasks rested on it."""

    run: str
    outcomes: int
    measurements: int
    samples: int
    recordings: int
    findings: int = 0
    tasks: int = 0


def forget_run(
    database: Database, run_id: str, *, force: bool = False, dry_run: bool = False
) -> Forgotten | None:
    """Delete a run and all that was measured in it, or with `dry_run` only count; None if there is none.

    Series that have no measurement left go too; machines, environments, presets and cases stay. Raises
    StillReferred for a run that findings or tasks refer to, unless `force`: then the findings go, with what
    people did with them, and the tasks lose sight of it.
    """
    with database.writing() as connection:
        number = connection.execute(
            select(tables.Run.number).where(tables.Run.id == run_id).with_for_update()
        ).scalar()
        if number is None:
            return None
        counted = _counted(connection, run_id, number)
        if dry_run:
            return counted
        if (counted.findings or counted.tasks) and not force:
            raise StillReferred(f"Run {run_id} is what {_referring(counted)} rest on.")
        _let_go(connection, run_id, number)
        series = _deleted(connection, number)
    _sweep(database, series)
    return counted


def _counted(connection: Connection, run_id: str, number: int) -> Forgotten:
    def count(table: type[Any], condition: ColumnElement[bool]) -> int:
        return connection.execute(select(func.count()).select_from(table).where(condition)).scalar_one()

    return Forgotten(
        run_id,
        outcomes=count(tables.Outcome, tables.Outcome.run_number == number),
        measurements=count(tables.Measurement, tables.Measurement.run_number == number),
        samples=count(tables.Samples, tables.Samples.run_number == number),
        recordings=count(tables.Telemetry, tables.Telemetry.run_number == number),
        findings=count(Finding, _found_in(number)),
        tasks=count(Task, _made(run_id)),
    )


def _found_in(number: int) -> ColumnElement[bool]:
    return or_(Finding.at_run == number, Finding.before_run == number)


def _made(run_id: str) -> ColumnElement[bool]:
    """That a task made a run, or that one of its attempts did."""
    tried = select(Attempt.task_id).where(Attempt.run_id == run_id)
    return or_(Task.run_id == run_id, Task.id.in_(tried))


def _referring(counted: Forgotten) -> str:
    named = ((counted.findings, "finding"), (counted.tasks, "task"))
    return " and ".join(f"{count} {word}{'s' if count > 1 else ''}" for count, word in named if count)


def _let_go(connection: Connection, run_id: str, number: int) -> None:
    """Take away what refers to a run."""
    findings = select(Finding.id).where(_found_in(number))
    connection.execute(delete(Triage).where(Triage.finding_id.in_(findings)))
    connection.execute(update(Finding).where(Finding.returns_of.in_(findings)).values(returns_of=None))
    connection.execute(delete(Finding).where(_found_in(number)))
    for table in (Task, Attempt):
        connection.execute(update(table).where(table.run_id == run_id).values(run_id=None))


def _deleted(connection: Connection, number: int) -> set[int]:
    """Delete a run, and answer the series that it had measurements in."""
    point = tables.Measurement
    query = select(point.series_id).where(point.run_number == number).distinct()
    series = set(connection.execute(query).scalars())
    for table in _OF_A_RUN:
        connection.execute(delete(table).where(table.run_number == number))
    connection.execute(delete(tables.Run).where(tables.Run.number == number))
    return series


def _sweep(database: Database, series: Collection[int]) -> None:
    """Delete those of some series in which nothing was measured any more.

    In a transaction of its own: the run is gone even where another writer holds on to one of them.
    """
    table = tables.Series
    unused = ~or_(
        exists().where(tables.Measurement.series_id == table.id),
        exists().where(Finding.series_id == table.id),
    )
    for some in in_batches(sorted(series)):
        # One that is used again by now stays.
        with suppress(DatabaseError), database.writing() as connection:
            connection.execute(delete(table).where(table.id.in_(some), unused))
