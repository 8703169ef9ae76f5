"""Recordings of telemetry windows: what each comes to, lists of them, one whole, and how the old ones go."""

from datetime import datetime
from math import isfinite
from typing import Any

from sqlalchemy import Select, delete, func, select

from . import tables, telemetry_codec
from .beside import beside
from .engine import Database
from .records import Pruned, Recording, TelemetryWindow

#: The column that a rung is about; that of `none` is the host's, and no GPU has it.
UTILISATION = {
    "gpm": "sm_utilisation",
    "dcgm": "dcgm_sm_utilisation",
    "samples": "gpu_busy",
    "polling": "gpu_busy_polled",
    "none": "cpu_busy",
}


def stored_values(recording: Recording) -> dict[str, Any]:
    """A recording as a row of its table, but for the outcome it belongs to.

    Raises ValueError for columns of different lengths.
    """
    codec, blob = telemetry_codec.encode(recording)
    span = (recording.started_ns[0], recording.ended_ns[-1]) if recording.started_ns else (0, 0)
    return {
        "device": recording.device,
        "name": recording.name,
        "rung": recording.rung,
        "rows": len(recording.started_ns),
        "seconds": (span[1] - span[0]) / 1e9,
        "utilisation": _mean(recording, UTILISATION.get(recording.rung, "")),
        "power": _mean(recording, "power"),
        "temperature": max((value for _, value in _known(recording, "temperature")), default=None),
        "codec": codec,
        "blob": blob,
    }


def _mean(recording: Recording, column: str) -> float | None:
    """The mean of a column over the time its rows cover; None where there is no such time."""
    known = _known(recording, column)
    whole = sum(length for length, _ in known)
    return sum(length * value for length, value in known) / whole if whole else None


def _known(recording: Recording, column: str) -> list[tuple[int, float]]:
    """The values of a column that are numbers, each with its row's length in nanoseconds."""
    rows = zip(recording.started_ns, recording.ended_ns, recording.values.get(column, ()), strict=False)
    return [(end - start, value) for start, end, value in rows if value is not None and isfinite(value)]


def windows(
    database: Database, *, run: str | None = None, case: str | None = None, limit: int = 100
) -> list[TelemetryWindow]:
    """The recordings of a run, of a case key, of both or of all, newest run and then newest outcome first."""
    query = _windows().limit(limit)
    if run is not None:
        query = query.where(tables.Run.id == run)
    if case is not None:
        query = query.where(tables.BenchmarkCase.key == case)
    with database.reading() as connection:
        return [TelemetryWindow(**row) for row in connection.execute(query).mappings()]


def recording(
    database: Database, run: str, case: str, environment: str, replicate: int, device: str
) -> Recording | None:
    """One recording with all its rows; None if there is none, or none any more.

    `environment` is a fingerprint. Raises DamagedTelemetry for one that cannot be read back and SchemaTooNew
    for one in a form that is not known here.
    """
    table = tables.Telemetry
    columns = select(table.device, table.name, table.rung, table.codec, table.blob)
    query = beside(columns, table, run, case, environment, replicate).where(table.device == device)
    with database.reading() as connection:
        found = connection.execute(query).first()
    if found is None:
        return None
    rows = telemetry_codec.decode(found.codec, found.blob)
    return Recording(
        found.device, found.name, found.rung, rows.started_ns, rows.ended_ns, rows.values, rows.notes
    )


def prune(database: Database, before: datetime, *, dry_run: bool = False) -> Pruned:
    """Delete the recordings of runs that started before a moment, or with `dry_run` only count them.

    Outcomes and measurements, and with them every metric that was made of a recording, stay for ever.
    """
    table = tables.Telemetry
    of_old_runs = table.run_number.in_(select(tables.Run.number).where(tables.Run.started_at < before))
    size = func.length(table.blob)
    if dry_run:
        with database.reading() as connection:
            sizes = connection.execute(select(size).where(of_old_runs)).scalars().all()
    else:
        with database.writing() as connection:
            sizes = connection.execute(delete(table).where(of_old_runs).returning(size)).scalars().all()
    return Pruned(len(sizes), sum(sizes))


def _windows() -> Select[*tuple[Any, ...]]:
    """What the records of a list hold, without a look at any blob."""
    table, run, outcome = tables.Telemetry, tables.Run, tables.Outcome
    case, environment, machine = tables.BenchmarkCase, tables.Environment, tables.Machine
    return (
        select(
            run.id.label("run"),
            run.started_at,
            case.key.label("case"),
            environment.fingerprint.label("environment"),
            environment.name.label("environment_name"),
            environment.torch_version,
            tables.Hardware.label.label("hardware"),
            machine.name.label("machine"),
            table.replicate,
            table.device,
            table.name,
            table.rung,
            table.rows,
            table.seconds,
            table.utilisation,
            table.power,
            table.temperature,
        )
        .join(run, run.number == table.run_number)
        .join(
            outcome,
            (outcome.run_number == table.run_number)
            & (outcome.case_id == table.case_id)
            & (outcome.environment_id == table.environment_id)
            & (outcome.replicate == table.replicate),
        )
        .join(case, case.id == table.case_id)
        .join(environment, environment.id == table.environment_id)
        .join(machine, machine.id == run.machine_id)
        .join(tables.Hardware, tables.Hardware.id == machine.hardware_id)
        .order_by(
            run.started_at.desc(),
            run.number.desc(),
            outcome.started_at.desc(),
            table.case_id,
            table.environment_id,
            table.replicate.desc(),
            table.device,
        )
    )
