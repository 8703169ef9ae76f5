"""The histories that detection reads: the measurements of a schedule's nights, series by series."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, select

from records.kinds import EnvironmentKind
from records.series import HistoryPoint, HistoryRun, MeasuredFor, SeriesHistory, Track
from records.tasks import TaskState

from ..connection.engine import Database
from ..connection.statements import rows_among
from ..schema import core_tables as tables
from ..schema import queue_tables
from .series_queries import by_name, series_key, series_names

_TASK = queue_tables.TaskRow

#: The tasks whose runs make histories.
_MEASURED = (
    _TASK.job == "measure",
    _TASK.state.in_((TaskState.DONE, TaskState.FAILED)),
    _TASK.run_id.is_not(None),
)


def history(
    database: Database, track: Track, metrics: Collection[str], *, newest: int = 180
) -> list[SeriesHistory]:
    """The series of some metrics over the `newest` runs of a track, each with its points oldest first.

    The runs are the ended ones of its `measure` tasks, whatever their result. The series of the canary are
    included. Series are sorted by case, metric, hardware and preset.
    """
    with database.reading() as connection:
        sides = _sides(connection, _run_ids(connection, track), newest)
        names = series_names().where(tables.SeriesRow.metric.in_(metrics))
        keys = {row.id: series_key(row) for row in connection.execute(names)}
        points = _points(connection, sides, keys)
    found = [SeriesHistory(keys[series], tuple(each)) for series, each in points.items()]
    return sorted(found, key=lambda each: by_name(each.key))


def measured_for(database: Database, runs: Collection[str]) -> list[MeasuredFor]:
    """The tracks for which the environments of some runs (ids) were measured, in no order; unknown runs are
    left out.
    """
    run, link, environment = tables.RunRow, tables.RunEnvironmentRow, tables.EnvironmentRow
    columns = run.id, environment.fingerprint, environment.name, environment.kind
    query = (
        select(*columns)
        .join(link, link.run_number == run.number)
        .join(environment, environment.id == link.environment_id)
        .order_by(link.position)
    )
    task_query = select(_TASK.run_id, _TASK.spec).where(_TASK.job == "measure")
    with database.reading() as connection:
        found = rows_among(connection, query, run.id, sorted(set(runs)))
        specs: dict[str, Any] = {
            str(id): spec for id, spec in rows_among(connection, task_query, _TASK.run_id, sorted(set(runs)))
        }
    last = {id: fingerprint for id, fingerprint, _, kind in found if kind != EnvironmentKind.CANARY}
    return [
        MeasuredFor(
            id,
            fingerprint,
            name,
            last.get(id, fingerprint) == fingerprint,
            _track(specs.get(id, {})),
            str(specs.get(id, {}).get("baseline") or ""),
        )
        for id, fingerprint, name, _ in found
    ]


def _track(spec: Any) -> str:
    return str(spec.get("track", ""))


def _run_ids(connection: Connection, track: Track) -> list[str]:
    """The ids of the runs of a track's tasks."""
    query = select(_TASK.run_id, _TASK.spec).where(
        *_MEASURED, _TASK.schedule == track.schedule, _TASK.label == track.label
    )
    return [run for run, spec in connection.execute(query) if run and _track(spec) == track.track]


def _sides(connection: Connection, run_ids: Sequence[str], newest: int) -> dict[tuple[int, int], HistoryRun]:
    """The environments of the newest of these runs by run number and environment id, oldest run first."""
    run, machine, link, environment = (
        tables.RunRow,
        tables.MachineRow,
        tables.RunEnvironmentRow,
        tables.EnvironmentRow,
    )
    columns = run.id, run.started_at, environment.fingerprint, machine.name
    query = (
        select(run.number, environment.id.label("environment"), link.position, *columns)
        .join(machine, machine.id == run.machine_id)
        .join(link, link.run_number == run.number)
        .join(environment, environment.id == link.environment_id)
    )
    rows = rows_among(connection, query, run.id, run_ids)
    rows.sort(key=lambda row: (row.started_at, row.number, row.position))
    recent = {number: None for number in reversed([row.number for row in rows])}
    numbers = set(list(recent)[:newest])
    return {(row[0], row[1]): HistoryRun(*row[3:]) for row in rows if row.number in numbers}


def _points(
    connection: Connection, sides: dict[tuple[int, int], HistoryRun], series: Collection[int]
) -> dict[int, list[HistoryPoint]]:
    """By series the points of the runs in `sides`, in their order."""
    if not sides:
        return {}
    places = {side: place for place, side in enumerate(sides)}
    moments = [each.started_at for each in sides.values()]
    table = tables.MeasurementRow
    query = select(table.series_id, table.run_number, table.environment_id, table.point)
    # Read one range of each series and drop the other points: to look up the points by run number would cost
    # one index lookup for each.
    query = query.where(table.started_at.between(min(moments), max(moments)))
    found: dict[int, list[tuple[int, HistoryPoint]]] = defaultdict(list)
    for row in rows_among(connection, query, table.series_id, series):
        series_id, number, environment, point = row
        side = number, environment
        if side in sides:
            found[series_id].append((places[side], HistoryPoint(sides[side], point)))
    return {
        series_id: [point for _, point in sorted(each, key=lambda one: one[0])]
        for series_id, each in found.items()
    }
