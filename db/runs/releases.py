"""PyTorch versions, the hardware and presets of each, and their points in a series."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime

from packaging.version import InvalidVersion, Version
from sqlalchemy import ColumnElement, Select, exists, func, select
from sqlalchemy.orm import aliased

from records.series import ReleasePoint, SeriesKey, SeriesPoint

from ..connection.engine import Database
from ..connection.statements import AnySelect
from ..schema import core_tables as tables
from .series_queries import (
    all_measurements,
    by_name,
    ids_of,
    points,
    series_key,
    series_names,
    series_of_metric,
)


def releases(database: Database) -> list[str]:
    """The measured PyTorch versions, newest first; texts that are not versions come last."""
    environment, link, point = tables.EnvironmentRow, tables.RunEnvironmentRow, tables.MeasurementRow
    measured = exists().where(
        link.environment_id == environment.id,
        point.run_number == link.run_number,
        point.environment_id == environment.id,
    )
    query = select(environment.torch_version).where(environment.torch_version != "", measured).distinct()
    with database.reading() as connection:
        return sorted(connection.execute(query).scalars(), key=_release_order, reverse=True)


def release_points(database: Database, versions: Collection[str], metric: str) -> list[ReleasePoint]:
    """The points of `versions` in the series of `metric`.

    They are sorted by case, hardware and preset, and within a series by version.
    """
    names = series_names().where(tables.SeriesRow.metric == metric)
    table, environment, span = (
        tables.MeasurementRow,
        tables.EnvironmentRow,
        version_spans(versions).cte("span"),
    )
    query = (
        select(table.series_id, environment.torch_version, table.run_number, table.point)
        .join(environment, environment.id == table.environment_id)
        .join(span, span.c.torch_version == environment.torch_version)
        .where(
            table.series_id.in_(ids_of(names)),
            # Read one range of each series, without the points of other versions before and after it.
            table.started_at.between(span.c.first, span.c.last),
        )
    )
    groups: dict[tuple[int, str], list[tuple[float, int]]] = defaultdict(list)
    with database.reading() as connection:
        keys = {row.id: series_key(row) for row in connection.execute(names)}
        for series, version, run, point in connection.execute(query):
            groups[series, version].append((point, run))
    places = {version: _release_order(version) for _, version in groups}
    points: list[ReleasePoint] = []
    for (series, version), group in groups.items():
        ordered, runs = sorted(point for point, _ in group), {run for _, run in group}
        values = median(ordered), ordered[0], ordered[-1]
        points.append(ReleasePoint(keys[series], version, len(runs), *values))
    return sorted(points, key=lambda point: (by_name(point.key), places[point.torch_version]))


def version_spans(versions: Collection[str]) -> AnySelect:
    """The first and last start of the runs of each version: `torch_version`, `first` and `last`."""
    version, started_at = tables.EnvironmentRow.torch_version, tables.RunRow.started_at
    ends = func.min(started_at).label("first"), func.max(started_at).label("last")
    return _runs_of(versions).with_only_columns(version, *ends).group_by(version)


def _runs_of(versions: Collection[str]) -> AnySelect:
    run, link, environment = tables.RunRow, tables.RunEnvironmentRow, tables.EnvironmentRow
    return (
        select(run.number)
        .join(link, link.run_number == run.number)
        .join(environment, environment.id == link.environment_id)
        .where(environment.torch_version.in_(set(versions) - {""}))
    )


def median(ordered: Sequence[float]) -> float:
    """The median of sorted numbers."""
    lower, upper = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return lower + 0.5 * (upper - lower)


def _release_order(version: str) -> tuple[bool, Version, str]:
    """The sort key of versions: 2.9 comes before 2.10, and 2.14.0.dev20261120 before 2.14.0."""
    try:
        return True, Version(version), version
    except InvalidVersion:
        return False, Version("0"), version


def technique_versions(database: Database, metric: str, hardware: str, preset: str) -> frozenset[str]:
    """The PyTorch versions with a point of `metric` of a technique, under a hardware and a preset.

    Both are fingerprints.
    """
    point, environment = tables.MeasurementRow, tables.EnvironmentRow
    there = exists().where(
        point.series_id.in_(ids_of(series_of_metric(metric, hardware, preset, techniques=True))),
        *_in_a_run_with(environment),
    )
    query = select(environment.torch_version).where(environment.torch_version != "", there).distinct()
    with database.reading() as connection:
        return frozenset(connection.execute(query).scalars())


def version_places(
    database: Database, metric: str, versions: Collection[str]
) -> frozenset[tuple[str, str, str]]:
    """The version, hardware and preset (fingerprints) of every point of `metric` of these versions."""
    query = _runs_with(metric).where(tables.EnvironmentRow.torch_version.in_(set(versions)))
    columns = (
        tables.EnvironmentRow.torch_version,
        tables.HardwareRow.fingerprint,
        tables.PresetRow.fingerprint,
    )
    with database.reading() as connection:
        found = connection.execute(query.with_only_columns(*columns).distinct())
        return frozenset((version, where, how) for version, where, how in found)


def version_harnesses(
    database: Database, version: str, metric: str
) -> dict[tuple[str, str], tuple[str, ...]]:
    """By hardware and preset (fingerprints), the harnesses of runs with a point of a version and metric."""
    columns = tables.HardwareRow.fingerprint, tables.PresetRow.fingerprint, tables.RunRow.harness
    query = _runs_with(metric).where(tables.EnvironmentRow.torch_version == version)
    query = query.with_only_columns(*columns).distinct()
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    with database.reading() as connection:
        for where, how, harness in sorted(connection.execute(query).all()):
            found[where, how] = (*found.get((where, how), ()), harness)
    return found


def points_of_version(
    database: Database,
    metric: str,
    version: str,
    *,
    hardware: str | None = None,
    preset: str | None = None,
    techniques: bool = False,
    newest: int = 1,
) -> list[tuple[SeriesKey, SeriesPoint]]:
    """The newest points of one PyTorch version in every series of `metric`, by case, oldest run first.

    All series, or those of a hardware and a preset (fingerprints), or of cases under a technique. Of each
    series only points among the `newest` up to the last one of the version are returned; points of other
    versions count.
    """
    names = series_of_metric(metric, hardware, preset, techniques=techniques)
    with database.reading() as connection:
        keys = {row.id: series_key(row) for row in connection.execute(names)}
        cases = {series: key.case for series, key in keys.items()}
        rows = connection.execute(_last_of_version(version, ids_of(names), newest)).all()
    return [(keys[series], point) for series, point in points(rows, cases)]


def _last_of_version(version: str, ids: Select[int], newest: int) -> AnySelect:
    """The measurements of a version in some series, among the `newest` up to its last one."""
    table, environment, point = tables.MeasurementRow, tables.EnvironmentRow, aliased(tables.MeasurementRow)
    own = select(environment.id).where(environment.torch_version == version)
    span = version_spans([version]).subquery()
    ends = (
        select(
            point.series_id,
            func.min(point.started_at).label("first"),
            func.max(point.started_at).label("last"),
        )
        .join(span, point.started_at.between(span.c.first, span.c.last))
        .where(point.series_id.in_(ids), point.environment_id.in_(own))
        .group_by(point.series_id)
        .cte("ends")
    )
    since: ColumnElement[datetime] = ends.c.last
    if newest > 1:
        earlier = (
            select(point.started_at)
            .where(point.series_id == ends.c.series_id, point.started_at <= ends.c.last)
            .order_by(point.started_at.desc())
            .limit(1)
            .offset(newest - 1)
            .correlate(ends)
            .scalar_subquery()
        )
        since = func.coalesce(earlier, ends.c.first)
    of_series = table.series_id == ends.c.series_id
    return (
        all_measurements()
        .join(ends, of_series & table.started_at.between(since, ends.c.last))
        .where(table.environment_id.in_(own))
    )


def _runs_with(metric: str) -> AnySelect:
    """Runs, each with its hardware, preset and the environments that have a point of `metric` in it."""
    run, environment, link = tables.RunRow, tables.EnvironmentRow, tables.RunEnvironmentRow
    hardware, preset = tables.HardwareRow, tables.PresetRow
    point, series = tables.MeasurementRow, tables.SeriesRow
    # A run that crashed, or measured other cases, has no such point.
    there = (
        exists()
        .where(point.run_number == run.number, point.environment_id == environment.id)
        .where(series.id == point.series_id, series.metric == metric)
    )
    return (
        select(run.number)
        .select_from(environment)
        .join(link, link.environment_id == environment.id)
        .join(run, run.number == link.run_number)
        .join(hardware, hardware.id == run.hardware_id)
        .join(preset, preset.id == run.preset_id)
        .where(there)
    )


def _in_a_run_with(environment: type[tables.EnvironmentRow]) -> tuple[ColumnElement[bool], ...]:
    """The condition that a measurement is of an environment, which is searched by the runs of the
    environment.
    """
    point, link = tables.MeasurementRow, tables.RunEnvironmentRow
    return (
        link.environment_id == environment.id,
        point.run_number == link.run_number,
        point.environment_id == environment.id,
    )
