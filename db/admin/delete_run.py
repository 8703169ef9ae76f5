"""Deletes a run with everything that was measured in it."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Table, delete, exists, func, or_, select, update

from records.kinds import RunState

from ..connection.engine import Database
from ..connection.statements import in_batches
from ..errors import DatabaseError, StillReferred
from ..schema import core_tables as tables
from ..schema.finding_tables import FindingRow, TriageRow
from ..schema.queue_tables import AttemptRow, TaskRow

#: The tables with rows of one run, in the order of deletion.
_OF_A_RUN = (
    tables.TelemetryRow,
    tables.SamplesRow,
    tables.OutcomeRow,
    tables.MeasurementRow,
    tables.RunEnvironmentRow,
)


@dataclass(frozen=True, slots=True)
class DeletedRun:
    """The rows that deleting a run removes, and how many findings and tasks refer to the run."""

    run: str
    outcomes: int
    measurements: int
    samples: int
    recordings: int
    findings: int = 0
    tasks: int = 0


def forget_run(
    database: Database, run_id: str, *, force: bool = False, dry_run: bool = False
) -> DeletedRun | None:
    """Delete a run and all that was measured in it, or with `dry_run` only count; None for an unknown run.

    Rows that no other run refers to are deleted too: series without a measurement, the machine, its hardware,
    environments, preset, and their dispatch fingerprints; cases are kept. Raises StillReferred for a run that
    findings or tasks refer to, unless `force`: then the findings are deleted with their triage, and the tasks
    lose their run.
    """
    with database.writing() as connection:
        number = connection.execute(
            select(tables.RunRow.number).where(tables.RunRow.id == run_id).with_for_update()
        ).scalar()
        if number is None:
            return None
        counted = _count_rows(connection, run_id, number)
        if dry_run:
            return counted
        if (counted.findings or counted.tasks) and not force:
            raise StillReferred(f"Run {run_id} is what {_referring(counted)} rest on.")
        _remove_references(connection, run_id, number)
        owners = _owners(connection, number)
        series = _delete_rows(connection, number)
    _delete_empty_series(database, series)
    _delete_unused_owners(database, owners)
    return counted


def clear_run(database: Database, run_id: str) -> None:
    """Delete the results of a run before they are stored again; its number is kept, because findings refer to
    it.

    Runs within the caller's transaction; does nothing for an unknown run.
    """
    run = tables.RunRow
    with database.writing() as connection:
        number = connection.execute(select(run.number).where(run.id == run_id).with_for_update()).scalar()
        if number is not None:
            for table in _OF_A_RUN:
                connection.execute(delete(table).where(table.run_number == number))
            emptied = {"state": RunState.INTERRUPTED, "counts": {}, "notes": []}
            connection.execute(update(run).where(run.number == number).values(emptied))


def _count_rows(connection: Connection, run_id: str, number: int) -> DeletedRun:
    def count(table: type[Any], condition: ColumnElement[bool]) -> int:
        return connection.execute(select(func.count()).select_from(table).where(condition)).scalar_one()

    return DeletedRun(
        run_id,
        outcomes=count(tables.OutcomeRow, tables.OutcomeRow.run_number == number),
        measurements=count(tables.MeasurementRow, tables.MeasurementRow.run_number == number),
        samples=count(tables.SamplesRow, tables.SamplesRow.run_number == number),
        recordings=count(tables.TelemetryRow, tables.TelemetryRow.run_number == number),
        findings=count(FindingRow, _found_in(number)),
        tasks=count(TaskRow, _task_condition(run_id)),
    )


def _found_in(number: int) -> ColumnElement[bool]:
    return or_(FindingRow.at_run == number, FindingRow.before_run == number)


def _task_condition(run_id: str) -> ColumnElement[bool]:
    """A condition: the task, or one of its attempts, made the run."""
    tried = select(AttemptRow.task_id).where(AttemptRow.run_id == run_id)
    return or_(TaskRow.run_id == run_id, TaskRow.id.in_(tried))


def _referring(counted: DeletedRun) -> str:
    named = ((counted.findings, "finding"), (counted.tasks, "task"))
    return " and ".join(f"{count} {word}{'s' if count > 1 else ''}" for count, word in named if count)


def _remove_references(connection: Connection, run_id: str, number: int) -> None:
    """Remove the findings of a run, and the run from its tasks and attempts."""
    findings = select(FindingRow.id).where(_found_in(number))
    connection.execute(delete(TriageRow).where(TriageRow.finding_id.in_(findings)))
    connection.execute(update(FindingRow).where(FindingRow.returns_of.in_(findings)).values(returns_of=None))
    connection.execute(delete(FindingRow).where(_found_in(number)))
    for table in (TaskRow, AttemptRow):
        connection.execute(update(table).where(table.run_id == run_id).values(run_id=None))


def _delete_rows(connection: Connection, number: int) -> set[int]:
    """Delete a run; returns the ids of the series that it had measurements in."""
    point = tables.MeasurementRow
    query = select(point.series_id).where(point.run_number == number).distinct()
    series = set(connection.execute(query).scalars())
    for table in _OF_A_RUN:
        connection.execute(delete(table).where(table.run_number == number))
    connection.execute(delete(tables.RunRow).where(tables.RunRow.number == number))
    return series


def _delete_empty_series(database: Database, series: Collection[int]) -> None:
    """Delete those of some series that have no measurement left.

    This is a separate transaction, so that the run stays deleted even if another writer holds a lock on a
    series.
    """
    table = tables.SeriesRow
    unused = ~or_(
        exists().where(tables.MeasurementRow.series_id == table.id),
        exists().where(FindingRow.series_id == table.id),
    )
    for some in in_batches(sorted(series)):
        # A series that is used again by now is kept.
        with suppress(DatabaseError), database.writing() as connection:
            connection.execute(delete(table).where(table.id.in_(some), unused))


def _owners(connection: Connection, number: int) -> dict[Table, set[int]]:
    """The ids of the rows that a run refers to, by table, in the order of deletion."""
    run, link = tables.RunRow, tables.RunEnvironmentRow
    one = connection.execute(select(run).where(run.number == number)).one()
    environments = select(link.environment_id).where(link.run_number == number)
    every = tables.Base.metadata.tables
    return {
        every["environment"]: set(connection.execute(environments).scalars()),
        every["preset"]: {one.preset_id},
        every["machine"]: {one.machine_id},
        every["hardware"]: {one.hardware_id},
    }


def _delete_unused_owners(database: Database, owners: dict[Table, set[int]]) -> None:
    """Delete those rows that no row refers to any more, with their dispatch fingerprints.

    Each deletion is a separate transaction; a row that is used again by now is kept.
    """
    taken = tables.Base.metadata.tables[tables.CaseFingerprintRow.__tablename__]
    for table, id in ((table, id) for table, ids in owners.items() for id in sorted(ids)):
        with suppress(DatabaseError), database.writing() as connection:
            naming = {
                other: _referring_columns(other, table) for other in tables.Base.metadata.tables.values()
            }
            of_it = naming.pop(taken)
            columns = [column for each in naming.values() for column in each]
            if any(connection.execute(select(exists().where(column == id))).scalar() for column in columns):
                continue
            for column in of_it:
                connection.execute(delete(taken).where(column == id))
            connection.execute(delete(table).where(table.c.id == id))


def _referring_columns(other: Table, table: Table) -> list[Column[Any]]:
    """The columns of other tables that refer to this one."""
    return [key.parent for key in other.foreign_keys if key.column.table is table]
