"""Measurements as points of their series, with the run and the environment of each."""

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, func, literal, select
from sqlalchemy.orm import InstrumentedAttribute

from . import tables
from .parts import in_parts
from .records import SeriesPoint
from .series_names import AnyRow, AnySelect

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


def of_series(ids: Collection[int], newest: int | None) -> AnySelect:
    """The measurements of some series; with `newest` only so many of each, and what started with the last."""
    table = tables.Measurement
    if newest is None:
        return measured().where(table.series_id.in_(ids))
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
    since = oldest.where(tables.Series.id.in_(ids)).cte("since")
    return measured().join(since, (table.series_id == since.c.id) & (table.started_at >= since.c.started_at))


def points(
    connection: Connection, query: AnySelect, cases: Mapping[int, str]
) -> Iterator[tuple[int, SeriesPoint]]:
    """The rows of `query`, which begins as `measured` does, each with its series; oldest run first.

    `cases` are the keys by series. Runs and environments are few and points are many: they are read on their
    own and not once per point, which also leaves a planner no join to get wrong.
    """
    rows = connection.execute(query).all()
    numbers = sorted({row.run_number for row in rows})
    runs: dict[int, AnyRow] = {}
    used: dict[tuple[int, int], AnyRow] = {}
    for some in in_parts(numbers):
        runs |= {row.number: row for row in connection.execute(_runs(some))}
        used |= {(row.run_number, row.id): row for row in connection.execute(_environments(some))}

    def age(row: AnyRow) -> tuple[Any, ...]:
        place = used[row.run_number, row.environment_id].position
        return runs[row.run_number].started_at, row.run_number, place

    for row in sorted(rows, key=age):
        series, number, environment_id, *values = row
        run, environment = runs[number], used[number, environment_id]
        yield (
            series,
            SeriesPoint(
                cases[series],
                run.id,
                run.started_at,
                environment.fingerprint,
                environment.torch_version,
                run.machine,
                run.harness,
                *values,
            ),
        )


def _runs(numbers: Collection[int]) -> AnySelect:
    run, machine = tables.Run, tables.Machine
    return (
        select(run.number, run.id, run.started_at, run.harness, machine.name.label("machine"))
        .join(machine, machine.id == run.machine_id)
        .where(run.number.in_(numbers))
    )


def _environments(numbers: Collection[int]) -> AnySelect:
    table, link = tables.Environment, tables.RunEnvironment
    return (
        select(link.run_number, table.id, link.position, table.fingerprint, table.torch_version)
        .join(link, link.environment_id == table.id)
        .where(link.run_number.in_(numbers))
    )
