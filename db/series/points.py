"""Measurements as points of their series, with the run and the environment of each."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, ScalarSelect, SQLColumnExpression, func, literal, select
from sqlalchemy.orm import InstrumentedAttribute, aliased

from records.series import SeriesPoint

from ..connection.batches import among, as_one
from ..schema import core_tables as tables
from .series_names import AnySelect

#: Before everything.
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def measured_values() -> tuple[InstrumentedAttribute[Any], ...]:
    """The numbers of a measurement, in the order in which both records that hold them name them."""
    table = tables.Measurement
    return table.point, table.low, table.high, table.smallest, table.largest, table.spread, table.n


def measured() -> AnySelect:
    """The columns that `points` needs, of all measurements."""
    table = tables.Measurement
    return select(table.series_id, table.run_number, table.environment_id, *measured_values())


def of_series(dialect: str, ids: Collection[int], newest: int | None) -> AnySelect:
    """The measurements of some series; with `newest` only so many of each, and what started with the last."""
    table = tables.Measurement
    if newest is None:
        query = measured().where(among(dialect, table.series_id, "series"))
        return query.params(series=as_one(dialect, ids))
    started_at = (
        select(table.started_at)
        .where(table.series_id == tables.Series.id)
        .order_by(table.started_at.desc())
        .limit(1)
        .offset(newest - 1)
        .correlate(tables.Series)
        .scalar_subquery()
    )
    long_ago = literal(_LONG_AGO, tables.UtcTime())
    oldest = select(tables.Series.id, func.coalesce(started_at, long_ago).label("started_at"))
    since = oldest.where(among(dialect, tables.Series.id, "series")).cte("since")
    query = measured().join(since, (table.series_id == since.c.id) & (table.started_at >= since.c.started_at))
    return query.params(series=as_one(dialect, ids))


def newest_run(
    series_id: SQLColumnExpression[int], *, other_than: SQLColumnExpression[int] | None = None
) -> ScalarSelect[int]:
    """The number of the newest run in a series: one step from the end of the clustered key."""
    point = aliased(tables.Measurement)
    query = (
        select(point.run_number)
        .where(point.series_id == series_id)
        .order_by(point.started_at.desc(), point.run_number.desc())
        .limit(1)
    )
    if other_than is not None:
        query = query.where(point.run_number != other_than)
    return query.scalar_subquery()


def points(
    connection: Connection, query: AnySelect, cases: Mapping[int, str]
) -> Iterator[tuple[int, SeriesPoint]]:
    """The rows of `query`, which begins as `measured` does, each with its series; by case, oldest run first.

    `cases` are the keys by series. Runs and environments are few and points are many: they are read on their
    own and not once per point, which also leaves a planner no join to get wrong.
    """
    # As the driver hands them out: all are numbers, and a look at each for its type takes as long again.
    cursor: Any = connection.execute(query).cursor
    rows: list[tuple[Any, ...]] = cursor.fetchall()
    measured_in = {row[1:3] for row in rows}
    about = {pair: (age, each) for age, (pair, each) in enumerate(_oldest_first(connection, measured_in))}
    first = {case: place * len(about) for place, case in enumerate(sorted(set(cases.values())))}
    starts = {series: first[case] for series, case in cases.items()}
    rows.sort(key=lambda row: starts[row[0]] + about[row[1:3]][0])
    for row in rows:
        series = row[0]
        yield series, SeriesPoint(cases[series], *about[row[1:3]][1], *row[3:])


def _oldest_first(
    connection: Connection, pairs: Collection[tuple[int, int]]
) -> Iterator[tuple[tuple[int, int], tuple[Any, ...]]]:
    """Pairs of a run and an environment, by the age of the run and the order of its environments.

    Each with what a point tells of them: run, start, fingerprint, version, machine and harness.
    """
    dialect = connection.dialect.name
    run, link, environment = tables.Run, tables.RunEnvironment, tables.Environment
    numbers, used = {number for number, _ in pairs}, {used for _, used in pairs}
    runs = {
        number: (started_at, id, machine, harness)
        for number, started_at, id, machine, harness in connection.execute(
            _RUNS.where(among(dialect, run.number, "numbers")), {"numbers": as_one(dialect, numbers)}
        )
    }
    names = {
        id: (fingerprint, torch_version)
        for id, fingerprint, torch_version in connection.execute(
            _ENVIRONMENTS.where(among(dialect, environment.id, "ids")), {"ids": as_one(dialect, used)}
        )
    }
    places: dict[tuple[int, int], int] = {}
    if several := [number for number, many in Counter(number for number, _ in pairs).items() if many > 1]:
        among_them = among(dialect, link.run_number, "numbers")
        rows = connection.execute(_PLACES.where(among_them), {"numbers": as_one(dialect, several)})
        places = {(number, environment_id): place for number, environment_id, place in rows}

    def age(pair: tuple[int, int]) -> tuple[datetime, int, int]:
        return runs[pair[0]][0], pair[0], places.get(pair, 0)

    for pair in sorted(pairs, key=age):
        started_at, id, machine, harness = runs[pair[0]]
        yield pair, (id, started_at, *names[pair[1]], machine, harness)


_RUNS = select(
    tables.Run.number, tables.Run.started_at, tables.Run.id, tables.Machine.name, tables.Run.harness
).join(tables.Machine, tables.Machine.id == tables.Run.machine_id)
_ENVIRONMENTS = select(
    tables.Environment.id, tables.Environment.fingerprint, tables.Environment.torch_version
)
_PLACES = select(
    tables.RunEnvironment.run_number, tables.RunEnvironment.environment_id, tables.RunEnvironment.position
)
