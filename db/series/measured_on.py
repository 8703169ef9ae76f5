"""Where a metric was measured: under which hardware and profile, of which PyTorch, and when last."""

from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, exists, func, select
from sqlalchemy.orm import aliased

from records.facts import Facts
from records.kinds import RunKind, RunSource
from records.series import Place, SeriesKey, SeriesPoint

from ..connection.engine import Database
from ..connection.statements import AnySelect
from ..schema import core_tables as tables
from ..schema import queue_tables
from .points import measured, newest_run, points
from .releases import version_spans
from .series_names import series_key, series_names


def places(database: Database, metric: str, *, techniques: bool = False) -> list[Place]:
    """Every hardware and profile with a point of `metric`, that of the newest run first.

    With `techniques` only cases under a technique count.
    """
    series, run, hardware, profile = tables.Series, tables.Run, tables.Hardware, tables.Profile
    latest = _of(select(series.hardware_id, series.profile_id, newest_run(series.id).label("run")), metric)
    latest = (_under_a_technique(latest) if techniques else latest).cte("latest")
    query = (
        select(latest.c.hardware_id, latest.c.profile_id, run.id, run.started_at, run.number, run.source)
        .join(run, run.number == latest.c.run)
        .distinct()
    )
    with database.reading() as connection:
        rows = sorted(connection.execute(query), key=lambda row: (row.started_at, row.number))
        found = {(row.hardware_id, row.profile_id): row for row in rows}
        names = select(hardware.id, hardware.fingerprint, hardware.label, hardware.facts)
        names = names.where(hardware.id.in_({each for each, _ in found}))
        hardwares = {row.id: row for row in connection.execute(names)}
        names = select(profile.id, profile.fingerprint, profile.name, profile.settings)
        names = names.where(profile.id.in_({each for _, each in found}))
        profiles = {row.id: row[1:] for row in connection.execute(names)}
    newest_first = sorted(found.values(), key=lambda row: (row.started_at, row.number), reverse=True)
    return [
        Place(
            *hardwares[row.hardware_id][1:3],
            *profiles[row.profile_id],
            row.id,
            row.started_at,
            *_size(hardwares[row.hardware_id].facts),
            row.source,
        )
        for row in newest_first
    ]


def _size(facts: Facts) -> tuple[int, int]:
    """How many GPUs some hardware has, and of how many machines it is."""
    gpus, machines = facts.get("gpus"), facts.get("machines")
    return len(gpus) if isinstance(gpus, list) else 0, machines if isinstance(machines, int) else 1


def most_nights(database: Database, days: int = 60) -> list[tuple[str, str]]:
    """Hardware and profile (fingerprints) that schedules measured, that with the most runs first.

    Counted are the `days` up to the newest of these runs: a machine that is gone since is behind those that
    are measured today. Of as many the one with the newest run comes first.
    """
    run, task, hardware, profile = tables.Run, queue_tables.Task, tables.Hardware, tables.Profile
    scheduled = exists().where(task.run_id == run.id, task.job == "measure")
    with database.reading() as connection:
        newest = connection.execute(select(func.max(run.started_at)).where(scheduled)).scalar()
        if newest is None:
            return []
        last = func.max(run.started_at).label("last")
        query = (
            select(hardware.fingerprint, profile.fingerprint, func.count().label("runs"), last)
            .select_from(run)
            .join(hardware, hardware.id == run.hardware_id)
            .join(profile, profile.id == run.profile_id)
            .where(scheduled, run.started_at >= newest - timedelta(days=days))
            .group_by(hardware.fingerprint, profile.fingerprint)
        )
        rows = connection.execute(query).all()
    ordered = sorted(rows, key=lambda row: (row.runs, row.last), reverse=True)
    return [(where, how) for where, how, _, _ in ordered]


def case_points(
    database: Database, metric: str, hardware: Collection[str], profile: str, days: int = 60
) -> dict[str, int]:
    """How many points of `metric` each case has on some hardware under a profile (fingerprints).

    Counted are the `days` up to the newest of these points.
    """
    table = tables.Measurement
    names = _series(metric, None, profile, techniques=False)
    names = names.where(tables.Hardware.fingerprint.in_(set(hardware)))
    in_one = table.series_id.in_(_ids(names))
    with database.reading() as connection:
        newest = connection.execute(select(func.max(table.started_at)).where(in_one)).scalar()
        if newest is None:
            return {}
        cases = {row.id: row.case for row in connection.execute(names)}
        counted = select(table.series_id, func.count()).where(
            in_one, table.started_at >= newest - timedelta(days=days)
        )
        found: Counter[str] = Counter()
        for series, points in connection.execute(counted.group_by(table.series_id)):
            found[cases[series]] += points
    return dict(found)


def technique_runs(
    database: Database, *, hardware: str = "", profile: str = "", limit: int = 50, offset: int = 0
) -> list[str]:
    """The newest runs of ours, by id, in which a case under a technique ended well, newest first.

    A run of two environments in turns is none: it measures each case apart from its baseline.

    Of all places, or of a hardware and a profile (fingerprints).
    """
    run, outcome, case = tables.Run, tables.Outcome, tables.BenchmarkCase
    there = (
        exists()
        .where(outcome.run_number == run.number, outcome.status == "ok", case.id == outcome.case_id)
        .where(_technique())
    )
    query = select(run.id).where(
        there, run.source == RunSource.MEASURED, run.kind.in_((RunKind.RUN, RunKind.TRACE))
    )
    if hardware:
        own = select(tables.Hardware.id).where(tables.Hardware.fingerprint == hardware)
        query = query.where(run.hardware_id.in_(own))
    if profile:
        own = select(tables.Profile.id).where(tables.Profile.fingerprint == profile)
        query = query.where(run.profile_id.in_(own))
    newest_first = query.order_by(run.started_at.desc(), run.number.desc()).limit(limit).offset(offset)
    with database.reading() as connection:
        return list(connection.execute(newest_first).scalars())


def measured_versions(
    database: Database, metric: str, hardware: str, profile: str, *, techniques: bool = False
) -> frozenset[str]:
    """The PyTorch versions with a point of `metric` under a hardware and a profile (fingerprints)."""
    point, environment = tables.Measurement, tables.Environment
    there = exists().where(
        point.series_id.in_(_ids(_series(metric, hardware, profile, techniques=techniques))),
        *_in_a_run_with(environment),
    )
    query = select(environment.torch_version).where(environment.torch_version != "", there).distinct()
    with database.reading() as connection:
        return frozenset(connection.execute(query).scalars())


def version_places(
    database: Database, metric: str, versions: Collection[str]
) -> frozenset[tuple[str, str, str]]:
    """Which of `versions` have a point of `metric` where: version, hardware and profile (fingerprints)."""
    query = _runs_with(metric).where(tables.Environment.torch_version.in_(set(versions)))
    columns = tables.Environment.torch_version, tables.Hardware.fingerprint, tables.Profile.fingerprint
    with database.reading() as connection:
        found = connection.execute(query.with_only_columns(*columns).distinct())
        return frozenset((version, where, how) for version, where, how in found)


def version_harnesses(
    database: Database, version: str, metric: str
) -> dict[tuple[str, str], tuple[str, ...]]:
    """By hardware and profile (fingerprints), the harnesses of runs with a point of a version and metric."""
    columns = tables.Hardware.fingerprint, tables.Profile.fingerprint, tables.Run.harness
    query = _runs_with(metric).where(tables.Environment.torch_version == version)
    query = query.with_only_columns(*columns).distinct()
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    with database.reading() as connection:
        for where, how, harness in sorted(
            connection.execute(query.with_only_columns(*columns).distinct()).all()
        ):
            found[where, how] = (*found.get((where, how), ()), harness)
    return found


def points_of_version(
    database: Database,
    metric: str,
    version: str,
    *,
    hardware: str | None = None,
    profile: str | None = None,
    techniques: bool = False,
    newest: int = 1,
) -> list[tuple[SeriesKey, SeriesPoint]]:
    """The newest points of one PyTorch version in every series of `metric`, by case, oldest run first.

    All series, or those of a hardware and a profile (fingerprints), or of cases under a technique. Each has
    what lies among its `newest` points up to the version's last, whatever version the others are of.
    """
    names = _series(metric, hardware, profile, techniques=techniques)
    with database.reading() as connection:
        keys = {row.id: series_key(row) for row in connection.execute(names)}
        cases = {series: key.case for series, key in keys.items()}
        rows = connection.execute(_last_of_version(version, _ids(names), newest)).all()
    return [(keys[series], point) for series, point in points(rows, cases)]


def _last_of_version(version: str, ids: Select[int], newest: int) -> AnySelect:
    """The measurements of a version in some series, from the `newest`th before its last one on."""
    table, environment, point = tables.Measurement, tables.Environment, aliased(tables.Measurement)
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
        measured()
        .join(ends, of_series & table.started_at.between(since, ends.c.last))
        .where(table.environment_id.in_(own))
    )


def _runs_with(metric: str) -> AnySelect:
    """Runs, each with its hardware, profile and the environments that have a point of `metric` in it."""
    run, environment, link = tables.Run, tables.Environment, tables.RunEnvironment
    hardware, profile = tables.Hardware, tables.Profile
    point, series = tables.Measurement, tables.Series
    # A run that crashed, or measured something else, is in no median.
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
        .join(profile, profile.id == run.profile_id)
        .where(there)
    )


def _in_a_run_with(environment: type[tables.Environment]) -> tuple[ColumnElement[bool], ...]:
    """That a measurement is of an environment: found by the runs that had it, not among all there are."""
    point, link = tables.Measurement, tables.RunEnvironment
    return (
        link.environment_id == environment.id,
        point.run_number == link.run_number,
        point.environment_id == environment.id,
    )


def _ids(series: AnySelect) -> Select[int]:
    return series.with_only_columns(tables.Series.id)


def _series(metric: str, hardware: str | None, profile: str | None, *, techniques: bool) -> AnySelect:
    query = series_names().where(tables.Series.metric == metric)
    if hardware is not None:
        query = query.where(tables.Hardware.fingerprint == hardware)
    if profile is not None:
        query = query.where(tables.Profile.fingerprint == profile)
    return query.where(_technique()) if techniques else query


def _of(query: AnySelect, metric: str) -> AnySelect:
    return query.where(tables.Series.metric == metric)


def _under_a_technique(query: AnySelect) -> AnySelect:
    case = tables.BenchmarkCase
    return query.join(case, case.id == tables.Series.case_id).where(_technique())


def _technique() -> Any:
    """That a case is under a technique: the key of any other ends in `eager`."""
    return tables.BenchmarkCase.key.not_like("%/eager")
