"""What is asked of the nights: which were due, which were missed, and what the newest ones measured."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from sqlalchemy import Connection, func, select

from records.kinds import EnvironmentKind
from records.series import SeriesKey, SeriesPoint
from records.tasks import LastFire, Task

from ..connection.engine import Database
from ..connection.statements import AnyRow, in_batches, rows_among
from ..queue.prometheus_counts import schedule_names
from ..schema import core_tables as tables
from ..schema import queue_tables
from .points import measured, points
from .series_names import series_ids_of, series_key, series_names

_FIRE, _TASK = queue_tables.Fire, queue_tables.Task

#: By series, its points in some runs, oldest run first.
Lines = dict[SeriesKey, tuple[SeriesPoint, ...]]


def night_tasks(database: Database, since: datetime, newest: int) -> list[Task]:
    """The newest tasks that measure and were due at `since` or later, newest first."""
    query = (
        select(_TASK.id, _TASK.schedule, _TASK.due_at, _TASK.part, _TASK.job, _TASK.spec, _TASK.label)
        .add_columns(_TASK.state, _TASK.attempts, _TASK.run_id, _TASK.owner)
        .add_columns(_TASK.started_at, _TASK.ended_at, _TASK.error, _TASK.not_before)
        .where(_TASK.job == "measure", _TASK.due_at >= since)
        .order_by(_TASK.due_at.desc(), _TASK.id.desc())
        .limit(newest)
    )
    with database.reading() as connection:
        return [Task(**row) for row in connection.execute(query).mappings()]


def missed_fires(
    database: Database, schedules: Collection[str], since: datetime
) -> dict[str, list[datetime]]:
    """By schedule the moments from `since` on that nobody was there for, newest first."""
    query = select(_FIRE.schedule, _FIRE.due_at).where(
        _FIRE.schedule.in_(set(schedules)), _FIRE.due_at >= since, _FIRE.how == "missed"
    )
    found: dict[str, list[datetime]] = defaultdict(list)
    with database.reading() as connection:
        for schedule, due_at in connection.execute(query.order_by(_FIRE.due_at.desc())):
            found[schedule].append(due_at)
    return dict(found)


def last_fires(database: Database) -> list[LastFire]:
    """Of every schedule that ever fired the newest fire, by schedule."""
    with database.reading() as connection:
        # One step along the key for each: schedules are few and fires many.
        found = [_last_fire(connection, name) for name in schedule_names(connection)]
    return sorted((each for each in found if each), key=lambda fire: fire.schedule)


def points_of_runs(database: Database, runs: Collection[str], metrics: Collection[str]) -> Lines:
    """All series of some metrics that have a point in these runs, with their points in them."""
    table = tables.Measurement
    wanted = select(tables.Series.id).where(tables.Series.metric.in_(set(metrics)))
    query = measured().where(table.series_id.in_(wanted))
    with database.reading() as connection:
        rows = rows_among(connection, query, table.run_number, _numbers(connection, runs))
        found = rows_among(connection, series_names(), tables.Series.id, {row[0] for row in rows})
    return _lines(rows, {row.id: series_key(row) for row in found})


def lines(database: Database, keys: Sequence[SeriesKey], runs: Collection[str]) -> Lines:
    """The points that these series have in some runs; a series without any is left out."""
    table = tables.Measurement
    with database.reading() as connection:
        found = series_ids_of(connection, keys)
        numbers = _numbers(connection, runs)
        if not found or not numbers:
            return {}
        # One stretch of each series, and what does not belong left out.
        query = measured().where(table.started_at.between(min(numbers.values()), max(numbers.values())))
        rows = [
            row
            for some in in_batches(list(numbers))
            for row in rows_among(connection, query.where(table.run_number.in_(some)), table.series_id, found)
        ]
    return _lines(rows, found)


def compared(database: Database, runs: Collection[str]) -> frozenset[str]:
    """Those of some runs that set several PyTorches against each other."""
    run, link, environment = tables.Run, tables.RunEnvironment, tables.Environment
    query = (
        select(run.id)
        .join(link, link.run_number == run.number)
        .join(environment, environment.id == link.environment_id)
        .where(run.id.in_(set(runs)), environment.kind != EnvironmentKind.CANARY)
        .group_by(run.id)
        .having(func.count() > 1)
    )
    with database.reading() as connection:
        return frozenset(connection.execute(query).scalars())


def _last_fire(connection: Connection, schedule: str) -> LastFire | None:
    newest = select(_FIRE.due_at, _FIRE.how).where(_FIRE.schedule == schedule, _FIRE.how != "first seen")
    fire = connection.execute(newest.order_by(_FIRE.due_at.desc()).limit(1)).first()
    if fire is None:
        return None
    query = (
        select(_TASK.state, func.count(), func.max(_TASK.error))
        .where(_TASK.schedule == schedule, _TASK.due_at == fire.due_at)
        .group_by(_TASK.state)
    )
    rows = sorted(connection.execute(query).all(), key=lambda row: row[0])
    error = next((row[2] for row in rows if row[2]), "")
    return LastFire(schedule, fire.due_at, fire.how, {state: many for state, many, _ in rows}, error)


def _numbers(connection: Connection, runs: Collection[str]) -> dict[int, datetime]:
    """When some runs started, by their numbers."""
    query = select(tables.Run.number, tables.Run.started_at).where(tables.Run.id.in_(set(runs)))
    return {number: started_at for number, started_at in connection.execute(query)}


def _lines(rows: Iterable[AnyRow], keys: dict[int, SeriesKey]) -> Lines:
    found: dict[int, list[SeriesPoint]] = defaultdict(list)
    for series, point in points(rows, {series: key.case for series, key in keys.items()}):
        found[series].append(point)
    return {keys[series]: tuple(each) for series, each in found.items()}
