"""Release rollups: what the measurements of one PyTorch version in one series come to, ready for pages."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from packaging.version import InvalidVersion, Version
from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    union,
)

from records.series import ReleasePoint, SeriesKey

from ..connection.aggregates import median, middle
from ..connection.batches import among, as_one, fetched
from ..connection.bulk import insert_rows
from ..connection.engine import Database
from ..connection.sorted_points import as_bytes, sorted_points, with_more
from ..runs.upserts import insert_for
from ..schema import core_tables as tables
from .series_names import AnySelect, by_name, series_key, series_names

#: Key of the Postgres advisory lock under which rollups are written ("roll" in ASCII).
_LOCK = 0x726F6C6C

_COLUMNS = tuple(tables.ReleaseRollup.__table__.columns.keys())


def add_to_rollups(
    connection: Connection, points: Mapping[tuple[str, int], Sequence[float]], started_at: datetime
) -> None:
    """Count the points of one run in, by version and series, in which it had none before.

    No measurement is read: what a rollup is made of is stored with it. Else as `update_rollups`.
    """
    _wait_for_others(connection)
    dialect = connection.dialect.name
    wanted: dict[str, list[int]] = defaultdict(list)
    for version, series in points:
        if version:
            wanted[version].append(series)
    rows: list[tuple[Any, ...]] = []
    for version in sorted(wanted):
        about = {"version": version, "series": as_one(dialect, wanted[version])}
        stored: dict[int, bytes] = dict(fetched(connection, _stored(dialect), about))
        for series in sorted(wanted[version]):
            values = with_more(stored.get(series, b""), points[version, series])
            levels = middle(values), values[0], values[-1]
            rows.append((version, series, 1, *levels, started_at, started_at, as_bytes(values)))
    insert_rows(
        connection,
        tables.ReleaseRollup,
        _COLUMNS,
        rows,
        replacing=_COLUMNS[:2],
        otherwise=_ONE_MORE[dialect],
    )


def update_rollups(
    connection: Connection, series: Collection[int], versions: Collection[str], started_at: datetime
) -> None:
    """Make the rollups of `versions` in `series` anew, after measurements of a run of `started_at` changed.

    Read are only the measurements between the first and the last run of a version in these series. An empty
    version is nobody's release and has no rollup. This is the last thing a transaction does: on Postgres,
    whoever else writes rollups waits from here until its end, and then sees what it wrote.
    """
    _wait_for_others(connection)
    dialect = connection.dialect.name
    for version in sorted(set(versions) - {""}):
        about = {"version": version, "series": as_one(dialect, sorted(series))}
        ends = connection.execute(_span(dialect), about).one()
        moments = [started_at, *(each for each in ends if each is not None)]
        connection.execute(_update(dialect), about | {"oldest": min(moments), "newest": max(moments)})


def rollups_without(connection: Connection, series: Collection[int], versions: Collection[str]) -> None:
    """Make the rollups of `versions` in `series` anew, after measurements went; see `update_rollups`."""
    _wait_for_others(connection)
    table, dialect = tables.ReleaseRollup, connection.dialect.name
    those = delete(table).where(table.torch_version == _VERSION, among(dialect, table.series_id, "series"))
    for version in sorted(set(versions) - {""}):
        about = {"version": version, "series": as_one(dialect, sorted(series))}
        oldest, newest = connection.execute(_span(dialect), about).one()
        connection.execute(those, about)
        if oldest is not None:
            connection.execute(_update(dialect), about | {"oldest": oldest, "newest": newest})


def rebuild_rollups(database: Database) -> int:
    """Make all rollups anew and return how many there are; reads every measurement there is."""
    table = tables.ReleaseRollup
    with database.writing() as connection:
        _wait_for_others(connection)
        connection.execute(delete(table))
        rows = _computed(connection.dialect.name)
        connection.execute(insert(table).from_select(_COLUMNS, rows))
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def rollup_differences(database: Database) -> list[tuple[str, SeriesKey]]:
    """The versions and series whose stored rollup is missing, left over or not what the measurements say.

    There are none unless something else wrote to the database. Reads every measurement there is.
    """
    stored, computed = select(tables.ReleaseRollup), _computed(database.engine.dialect.name)
    either = stored.except_(computed).subquery(), computed.except_(stored).subquery()
    wrong = union(*(select(each.c.torch_version, each.c.series_id) for each in either)).subquery()
    query = (
        series_names()
        .add_columns(wrong.c.torch_version)
        .join(wrong, wrong.c.series_id == tables.Series.id)
        .order_by(wrong.c.torch_version, wrong.c.series_id)
    )
    with database.reading() as connection:
        return [(row.torch_version, series_key(row)) for row in connection.execute(query)]


def releases(database: Database) -> list[str]:
    """The PyTorch versions that have rollups, newest first; what is no version at all comes last."""
    table, environment = tables.ReleaseRollup, tables.Environment
    rolled_up = exists().where(table.torch_version == environment.torch_version)
    query = select(environment.torch_version).where(rolled_up).distinct()
    with database.reading() as connection:
        return sorted(connection.execute(query).scalars(), key=_release_order, reverse=True)


def release_points(
    database: Database, versions: Collection[str], metric: str, *, cases: Collection[str] | None = None
) -> list[ReleasePoint]:
    """The rollups of `versions` in the series of `metric`: of all cases, or of `cases`.

    They come by case, hardware and profile, and within a series oldest version first.
    """
    table = tables.ReleaseRollup
    query = (
        series_names()
        .add_columns(
            table.torch_version, table.runs, table.median, table.lowest, table.highest, table.newest_at
        )
        .join(table, table.series_id == tables.Series.id)
        .where(tables.Series.metric == metric, table.torch_version.in_(set(versions)))
    )
    if cases is not None:
        query = query.where(tables.BenchmarkCase.key.in_(set(cases)))
    with database.reading() as connection:
        points = [ReleasePoint(series_key(row), *row[7:]) for row in connection.execute(query)]
    places = {each: _release_order(each) for each in {point.torch_version for point in points}}
    return sorted(points, key=lambda point: (by_name(point.key), places[point.torch_version]))


def _release_order(version: str) -> tuple[bool, Version, str]:
    """Versions as versions: 2.9 comes before 2.10, and 2.14.0.dev20261120 before 2.14.0."""
    try:
        return True, Version(version), version
    except InvalidVersion:
        return False, Version("0"), version


def _come_to(dialect: str) -> tuple[ColumnElement[Any], ...]:
    """What a group of measurements comes to, as the columns of a rollup after its key."""
    table = tables.Measurement
    return (
        func.count(table.run_number.distinct()),
        median(dialect, table.point),
        func.min(table.point),
        func.max(table.point),
        func.min(table.started_at),
        func.max(table.started_at),
        sorted_points(dialect, table.point),
    )


def _computed(dialect: str) -> AnySelect:
    """What all rollups should be, as the columns of their table."""
    table, environment = tables.Measurement, tables.Environment
    key = environment.torch_version, table.series_id
    return (
        select(*key, *_come_to(dialect))
        .join(environment, environment.id == table.environment_id)
        .where(environment.torch_version != "")
        .group_by(*key)
    )


_VERSION = bindparam("version", type_=tables.PlainText())


def _one_more(earlier: str, later: str) -> dict[str, str]:
    """What becomes of columns that a rollup has already, where a run is added to it."""
    table = tables.ReleaseRollup.__tablename__
    return {
        "runs": f"{table}.runs + 1",
        "oldest_at": f"{earlier}({table}.oldest_at, excluded.oldest_at)",
        "newest_at": f"{later}({table}.newest_at, excluded.newest_at)",
    }


_ONE_MORE = {"sqlite": _one_more("min", "max"), "postgresql": _one_more("least", "greatest")}


@cache
def _stored(dialect: str) -> AnySelect:
    """The points of a version in some series, by series."""
    table = tables.ReleaseRollup
    return select(table.series_id, table.points).where(
        table.torch_version == _VERSION, among(dialect, table.series_id, "series")
    )


@cache
def _span(dialect: str) -> AnySelect:
    """When a version was measured first and last in some series, as far as rollups know."""
    table = tables.ReleaseRollup
    return select(func.min(table.oldest_at), func.max(table.newest_at)).where(
        table.torch_version == _VERSION, among(dialect, table.series_id, "series")
    )


@cache
def _update(dialect: str) -> Insert:
    """Put together once: that takes as long as a third of what the statement does."""
    table, environment = tables.Measurement, tables.Environment
    moment = tables.UtcTime()
    rows = (
        select(_VERSION, table.series_id, *_come_to(dialect))
        .where(
            among(dialect, table.series_id, "series"),
            table.started_at.between(bindparam("oldest", type_=moment), bindparam("newest", type_=moment)),
            table.environment_id.in_(select(environment.id).where(environment.torch_version == _VERSION)),
        )
        .group_by(table.series_id)
    )
    statement = insert_for(dialect, tables.ReleaseRollup).from_select(_COLUMNS, rows)
    changes = {name: statement.excluded[name] for name in _COLUMNS[2:]}
    return statement.on_conflict_do_update(index_elements=_COLUMNS[:2], set_=changes)


def _wait_for_others(connection: Connection) -> None:
    """SQLite's write lock does so already."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
