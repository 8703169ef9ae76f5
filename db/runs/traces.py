"""Queries of runs that traced: their operator tables."""

from typing import Any

from sqlalchemy import ColumnElement, Row, Select, select, type_coerce

from records.outcomes import OperatorTable, rows_left_out
from records.series import SeriesKey

from ..connection.engine import Database
from ..connection.statements import begins_with
from ..schema import core_tables as tables
from ..schema.types import PlainText

#: The suite of every such run, as `runner.execution.tracing` names it.
SUITE = "profile"
#: The text in the stored facts of an outcome with a table; within a string each quote has a backslash before
#: it.
_HELD = '"operators":[{'
#: The number of characters of a fingerprint that distinguish two labels.
_FINGERPRINT = 8


def operator_tables(
    database: Database,
    *,
    run: str | None = None,
    case: str | None = None,
    workload: str | None = None,
    like: str | None = None,
    limit: int = 100,
) -> list[OperatorTable]:
    """The operator tables of a run, a case, a workload or of all, newest run first, then in the order of
    tracing.

    With `like`, a run, only those with its hardware, preset and harness: others cannot be compared with its
    tables. All tables of one run are returned, else the first `limit`.
    """
    query = _query().limit(limit) if run is None else _query().where(tables.RunRow.id == run)
    if case is not None:
        query = query.where(tables.BenchmarkCaseRow.key == case)
    if workload is not None:
        query = query.where(begins_with(tables.BenchmarkCaseRow.key, f"{workload}/"))
    if like is not None:
        query = query.where(*_like(like))
    return _tables(database, query)


def newest_operator_table(database: Database, series: SeriesKey, torch_version: str) -> OperatorTable | None:
    """The newest table of a version of PyTorch in the case of a series, under its hardware and preset."""
    query = _query().where(
        tables.BenchmarkCaseRow.key == series.case,
        tables.HardwareRow.fingerprint == series.hardware,
        tables.PresetRow.fingerprint == series.preset,
        tables.EnvironmentRow.torch_version == torch_version,
    )
    return next(iter(_tables(database, query.limit(1))), None)


def _like(run: str) -> list[ColumnElement[bool]]:
    table = tables.RunRow
    alike = (table.hardware_id, table.preset_id, table.harness)
    return [each == select(each).where(table.id == run).scalar_subquery() for each in alike]


def _tables(database: Database, query: Select[*tuple[Any, ...]]) -> list[OperatorTable]:
    with database.reading() as connection:
        return [_table(row) for row in connection.execute(query) if row.facts.get("operators")]


def _table(row: Row[*tuple[Any, ...]]) -> OperatorTable:
    return OperatorTable(
        run=row.id,
        started_at=row.started_at,
        case=row.key,
        environment=row.environment,
        torch_version=row.torch_version,
        hardware=f"{row.hardware} ({row.hardware_fingerprint[:_FINGERPRINT]})",
        preset=f"{row.preset} ({row.preset_fingerprint[:_FINGERPRINT]})",
        device=str(row.facts.get("device", "")),
        harness=row.harness,
        rows=tuple(row.facts["operators"]),
        left_out=rows_left_out(row.facts),
    )


def _query() -> Select[*tuple[Any, ...]]:
    """Outcomes that hold a table, with their identity, newest run first."""
    outcome, case, environment = tables.OutcomeRow, tables.BenchmarkCaseRow, tables.EnvironmentRow
    hardware, preset = tables.HardwareRow, tables.PresetRow
    return (
        select(
            tables.RunRow.id,
            tables.RunRow.started_at,
            tables.RunRow.harness,
            case.key,
            environment.name.label("environment"),
            environment.torch_version,
            hardware.label.label("hardware"),
            hardware.fingerprint.label("hardware_fingerprint"),
            preset.name.label("preset"),
            preset.fingerprint.label("preset_fingerprint"),
            outcome.facts,
        )
        .select_from(outcome)
        .join(tables.RunRow, tables.RunRow.number == outcome.run_number)
        .join(case, case.id == outcome.case_id)
        .join(environment, environment.id == outcome.environment_id)
        .join(hardware, hardware.id == tables.RunRow.hardware_id)
        .join(preset, preset.id == tables.RunRow.preset_id)
        # Facts are compared as stored text. Failed traces, which have no table, and profiles of other tools
        # must not count toward a limit.
        .where(
            tables.RunRow.suite == SUITE,
            type_coerce(outcome.facts, PlainText()).contains(_HELD, autoescape=True),
        )
        .order_by(
            tables.RunRow.started_at.desc(),
            tables.RunRow.number.desc(),
            outcome.started_at,
            outcome.case_id,
            outcome.environment_id,
            outcome.replicate,
        )
    )
