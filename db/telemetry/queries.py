"""Recordings of telemetry windows: summaries, lists, and whole recordings."""

from math import isfinite
from typing import Any

from sqlalchemy import Connection, exists, func, select

from records.telemetry import Recording, TelemetryWindow, mean_over_time

from ..connection.engine import Database
from ..connection.statements import AnyRow, AnySelect
from ..runs.queries import of_outcome
from ..schema import core_tables as tables
from . import codec as telemetry_codec

#: The column that each utilisation source fills; that of `none` is a column of the host.
UTILISATION = {
    "gpm": "sm_utilisation",
    "dcgm": "dcgm_sm_utilisation",
    "samples": "gpu_busy",
    "polling": "gpu_busy_polled",
    "none": "cpu_busy",
}


def stored_values(recording: Recording) -> dict[str, Any]:
    """A recording as a row of its table, without the key of its outcome.

    Raises ValueError for columns of different lengths.
    """
    codec, blob = telemetry_codec.encode(recording)
    span = (recording.started_ns[0], recording.ended_ns[-1]) if recording.started_ns else (0, 0)
    return {
        "device": recording.device,
        "name": recording.name,
        "utilisation_source": recording.utilisation_source,
        "rows": len(recording.started_ns),
        "seconds": (span[1] - span[0]) / 1e9,
        "utilisation": mean_over_time(
            _finite_spans(recording, UTILISATION.get(recording.utilisation_source, ""))
        ),
        "power": _power(recording),
        "temperature": max((value for value, _ in _finite_spans(recording, "temperature")), default=None),
        "codec": codec,
        "blob": blob,
    }


def _power(recording: Recording) -> float | None:
    """Mean power in watts, by the energy counter, or else by the power reading of the driver, which lags a
    second.
    """
    joules = _finite_spans(recording, "energy")
    seconds = sum(ns for _, ns in joules) / 1e9
    if seconds:
        return sum(joule for joule, _ in joules) / seconds
    return mean_over_time(_finite_spans(recording, "power"))


def _finite_spans(recording: Recording, column: str) -> list[tuple[float, int]]:
    """The values of a column that are numbers, each with its row's length in nanoseconds."""
    return [span for span in recording.spans(column) if isfinite(span[0])]


def windows(
    database: Database, *, run: str | None = None, case: str | None = None, limit: int = 100
) -> list[TelemetryWindow]:
    """The recordings of a run, of a case key, of both or of all, newest run and then newest outcome first."""
    with database.reading() as connection:
        runs = _runs(connection, run, case, limit)
        query = _windows().where(tables.TelemetryRow.run_number.in_(list(runs)))
        if case is not None:
            query = query.where(tables.BenchmarkCaseRow.key == case)
        rows = connection.execute(query).all()
    places = {number: place for place, number in enumerate(runs)}
    # Stable sort: within a run the order is unchanged.
    rows = sorted(rows, key=lambda row: places[row[0]])[:limit]
    return [_window(runs[row[0]], row) for row in rows]


def recording(
    database: Database, run: str, case: str, environment: str, replicate: int, device: str
) -> Recording | None:
    """One recording with all its rows; None if it does not exist or was pruned.

    `environment` is a fingerprint. Raises DamagedTelemetry if it cannot be read and SchemaTooNew for an
    unknown codec.
    """
    table = tables.TelemetryRow
    columns = select(table.device, table.name, table.utilisation_source, table.codec, table.blob)
    query = of_outcome(columns, table, run, case, environment, replicate).where(table.device == device)
    with database.reading() as connection:
        found = connection.execute(query).first()
    if found is None:
        return None
    return telemetry_codec.decode(found.codec, found.blob, found.device, found.name, found.utilisation_source)


def _runs(connection: Connection, run: str | None, case: str | None, windows: int) -> dict[int, AnyRow]:
    """The numbers of a run, or of the newest runs that together have enough windows; the other runs are not
    read.
    """
    table, telemetry, machine = tables.RunRow, tables.TelemetryRow, tables.MachineRow
    of_run = telemetry.run_number == table.number
    if case is not None:
        key = tables.BenchmarkCaseRow
        of_run &= telemetry.case_id == select(key.id).where(key.key == case).scalar_subquery()
    query = (
        select(
            table.number,
            table.id,
            table.started_at,
            tables.HardwareRow.label.label("hardware"),
            tables.HardwareRow.fingerprint.label("hardware_fingerprint"),
            machine.name.label("machine"),
            select(func.count()).where(of_run).correlate(table).scalar_subquery().label("windows"),
        )
        .join(machine, machine.id == table.machine_id)
        .join(tables.HardwareRow, tables.HardwareRow.id == table.hardware_id)
        .where(exists().where(of_run).correlate(table))
        .order_by(table.started_at.desc(), table.number.desc())
        .limit(windows)
    )
    if run is not None:
        query = query.where(table.id == run)
    found: dict[int, AnyRow] = {}
    # Read only as far as needed, because counting is slow.
    with connection.execute(query, execution_options={"yield_per": 16}) as rows:
        for row in rows:
            found[row.number] = row
            windows -= row.windows
            if windows <= 0:
                break
    return found


def _window(run: AnyRow, row: AnyRow) -> TelemetryWindow:
    of_run = (run.hardware, run.hardware_fingerprint, run.machine)
    values: list[Any] = [run.id, run.started_at, *row[1:5], *of_run, *row[5:]]
    return TelemetryWindow(*values)


def _windows() -> AnySelect:
    """The rows of a list, without their runs and without reading blobs; newest outcome first."""
    table, outcome = tables.TelemetryRow, tables.OutcomeRow
    case, environment = tables.BenchmarkCaseRow, tables.EnvironmentRow
    return (
        select(
            table.run_number,
            case.key,
            environment.fingerprint,
            environment.name,
            environment.torch_version,
            table.replicate,
            table.device,
            table.name,
            table.utilisation_source,
            table.rows,
            table.seconds,
            table.utilisation,
            table.power,
            table.temperature,
        )
        .join(
            outcome,
            (outcome.run_number == table.run_number)
            & (outcome.case_id == table.case_id)
            & (outcome.environment_id == table.environment_id)
            & (outcome.replicate == table.replicate),
        )
        .join(case, case.id == table.case_id)
        .join(environment, environment.id == table.environment_id)
        .order_by(
            outcome.started_at.desc(),
            table.case_id,
            table.environment_id,
            table.replicate.desc(),
            table.device,
        )
    )
