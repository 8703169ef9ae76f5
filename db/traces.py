"""Reads of runs that traced instead of measuring: their operator tables."""

from typing import Any

from sqlalchemy import Select, select

from . import tables
from .engine import Database
from .records import OperatorTable

#: The suite of every such run; what `runner.tracing` calls it.
SUITE = "profile"
#: How much of a fingerprint tells two labels apart.
_FINGERPRINT = 8


def operator_tables(
    database: Database, *, run: str | None = None, workload: str | None = None, limit: int = 100
) -> list[OperatorTable]:
    """The operator tables of a run, of a workload or of all, newest run first, then as they were traced."""
    query = _query().limit(limit)
    if run is not None:
        query = query.where(tables.Run.id == run)
    if workload is not None:
        query = query.where(tables.BenchmarkCase.key.startswith(f"{workload}/", autoescape=True))
    with database.reading() as connection:
        return [
            OperatorTable(
                run=row.id,
                started_at=row.started_at,
                case=row.key,
                environment=row.environment,
                torch_version=row.torch_version,
                hardware=f"{row.hardware} ({row.hardware_fingerprint[:_FINGERPRINT]})",
                profile=f"{row.profile} ({row.profile_fingerprint[:_FINGERPRINT]})",
                device=str(row.facts.get("device", "")),
                harness=row.harness,
                rows=tuple(row.facts["operators"]),
            )
            for row in connection.execute(query)
            if row.facts.get("operators")
        ]


def _query() -> Select[*tuple[Any, ...]]:
    """Traced outcomes with what tells their tables apart, newest run first."""
    outcome, case, environment = tables.Outcome, tables.BenchmarkCase, tables.Environment
    machine, hardware, profile = tables.Machine, tables.Hardware, tables.Profile
    return (
        select(
            tables.Run.id,
            tables.Run.started_at,
            tables.Run.harness,
            case.key,
            environment.name.label("environment"),
            environment.torch_version,
            hardware.label.label("hardware"),
            hardware.fingerprint.label("hardware_fingerprint"),
            profile.name.label("profile"),
            profile.fingerprint.label("profile_fingerprint"),
            outcome.facts,
        )
        .select_from(outcome)
        .join(tables.Run, tables.Run.number == outcome.run_number)
        .join(case, case.id == outcome.case_id)
        .join(environment, environment.id == outcome.environment_id)
        .join(machine, machine.id == tables.Run.machine_id)
        .join(hardware, hardware.id == tables.Run.hardware_id)
        .join(profile, profile.id == tables.Run.profile_id)
        .where(tables.Run.suite == SUITE)
        .order_by(
            tables.Run.started_at.desc(),
            tables.Run.number.desc(),
            outcome.started_at,
            outcome.case_id,
            outcome.environment_id,
            outcome.replicate,
        )
    )
