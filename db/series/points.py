"""Measurements as points of their series, with the run and the environment of each."""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ScalarSelect, SQLColumnExpression, func, literal, select
from sqlalchemy.orm import InstrumentedAttribute, aliased

from records.series import SeriesPoint

from ..connection.statements import AnyRow, AnySelect
from ..schema import core_tables as tables

#: Before everything.
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def measured_values() -> tuple[InstrumentedAttribute[Any], ...]:
    """The numbers of a measurement, in the order in which both records that hold them name them."""
    table = tables.Measurement
    return table.point, table.low, table.high, table.smallest, table.largest, table.spread, table.n


def measured() -> AnySelect:
    """All measurements with the columns that `points` needs: the series, a `SeriesPoint`, what orders it."""
    table, run, link = tables.Measurement, tables.Run, tables.RunEnvironment
    environment, machine = tables.Environment, tables.Machine
    in_run = (link.run_number == table.run_number) & (link.environment_id == table.environment_id)
    return (
        select(table.series_id, run.id, run.started_at, environment.fingerprint, environment.torch_version)
        .add_columns(machine.name, run.harness, *measured_values())
        .add_columns(run.source, run.source_format, environment.kind, run.number, link.position)
        .select_from(table)
        .join(run, run.number == table.run_number)
        .join(machine, machine.id == run.machine_id)
        .join(environment, environment.id == table.environment_id)
        .join(link, in_run)
    )


def of_series(ids: Collection[int], newest: int | None) -> AnySelect:
    """The measurements of some series; with `newest` only so many of each, and what started with the last."""
    table = tables.Measurement
    if newest is None:
        return measured().where(table.series_id.in_(ids))
    earlier = aliased(tables.Measurement)
    started_at = (
        select(earlier.started_at)
        .where(earlier.series_id == tables.Series.id)
        .order_by(earlier.started_at.desc())
        .limit(1)
        .offset(newest - 1)
        .correlate(tables.Series)
        .scalar_subquery()
    )
    long_ago = literal(_LONG_AGO, tables.UtcTime())
    oldest = select(tables.Series.id, func.coalesce(started_at, long_ago).label("started_at"))
    since = oldest.where(tables.Series.id.in_(ids)).cte("since")
    return measured().join(since, (table.series_id == since.c.id) & (table.started_at >= since.c.started_at))


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


def points(rows: Iterable[AnyRow], cases: Mapping[int, str]) -> list[tuple[int, SeriesPoint]]:
    """Rows of `measured`, each as its series and its point; by case, oldest run first.

    `cases` are the keys by series. They are sorted here: the order of texts is not that of every server.
    """
    ordered = sorted(rows, key=lambda row: (cases[row[0]], row[2], row[-2], row[-1], row[0]))
    return [(row[0], SeriesPoint(cases[row[0]], *row[1:-2])) for row in ordered]
