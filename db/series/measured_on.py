"""Where a metric was measured: under which hardware and profile, of which PyTorch, and when last."""

from collections import Counter
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from sqlalchemy import exists, func, select

from records.facts import Facts
from records.series import Place, SeriesKey, SeriesPoint

from ..connection.batches import among, as_one
from ..connection.engine import Database
from ..schema import core_tables as tables
from ..schema import queue_tables
from .points import measured, newest_run, points
from .series_names import AnySelect, series_key, series_names


def places(database: Database, metric: str, *, techniques: bool = False) -> list[Place]:
    """Every hardware and profile with a point of `metric`, that of the newest run first.

    With `techniques` only cases under a technique count.
    """
    series, run, hardware, profile = tables.Series, tables.Run, tables.Hardware, tables.Profile
    latest = _of(select(series.hardware_id, series.profile_id, newest_run(series.id).label("run")), metric)
    latest = (_under_a_technique(latest) if techniques else latest).cte("latest")
    query = (
        select(latest.c.hardware_id, latest.c.profile_id, run.id, run.started_at, run.number)
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
    table, dialect = tables.Measurement, database.engine.dialect.name
    names = _series(metric, None, profile, techniques=False)
    names = names.where(tables.Hardware.fingerprint.in_(set(hardware)))
    in_one = among(dialect, table.series_id, "series")
    with database.reading() as connection:
        cases = {row.id: row.case for row in connection.execute(names)}
        about = {"series": as_one(dialect, cases)}
        newest = connection.execute(select(func.max(table.started_at)).where(in_one), about).scalar()
        if newest is None:
            return {}
        counted = select(table.series_id, func.count()).where(
            in_one, table.started_at >= newest - timedelta(days=days)
        )
        found: Counter[str] = Counter()
        for series, points in connection.execute(counted.group_by(table.series_id), about):
            found[cases[series]] += points
    return dict(found)


def technique_runs(
    database: Database, *, hardware: str = "", profile: str = "", limit: int = 50, offset: int = 0
) -> list[tuple[str, Facts]]:
    """The newest runs in which a case under a technique ended well, newest first: their ids and facts.

    Of all places, or of a hardware and a profile (fingerprints).
    """
    run, outcome, case = tables.Run, tables.Outcome, tables.BenchmarkCase
    there = (
        exists()
        .where(outcome.run_number == run.number, outcome.status == "ok", case.id == outcome.case_id)
        .where(_technique())
    )
    query = select(run.id, run.facts).where(there)
    if hardware:
        own = select(tables.Hardware.id).where(tables.Hardware.fingerprint == hardware)
        query = query.where(run.hardware_id.in_(own))
    if profile:
        own = select(tables.Profile.id).where(tables.Profile.fingerprint == profile)
        query = query.where(run.profile_id.in_(own))
    newest_first = query.order_by(run.started_at.desc(), run.number.desc()).limit(limit).offset(offset)
    with database.reading() as connection:
        return [(id, facts) for id, facts in connection.execute(newest_first)]


def measured_versions(
    database: Database, metric: str, hardware: str, profile: str, *, techniques: bool = False
) -> frozenset[str]:
    """The PyTorch versions with a point of `metric` under a hardware and a profile (fingerprints)."""
    environment, rollup = tables.Environment, tables.ReleaseRollup
    names, dialect = _series(metric, hardware, profile, techniques=techniques), database.engine.dialect.name
    in_one = among(dialect, rollup.series_id, "series")
    there = exists().where(rollup.torch_version == environment.torch_version, in_one)
    query = select(environment.torch_version).where(environment.torch_version != "", there).distinct()
    with database.reading() as connection:
        ids = as_one(dialect, [row.id for row in connection.execute(names)])
        return frozenset(connection.execute(query, {"series": ids}).scalars())


def version_places(
    database: Database, metric: str, versions: Collection[str]
) -> frozenset[tuple[str, str, str]]:
    """Which of `versions` have a point of `metric` where: version, hardware and profile (fingerprints)."""
    rollup, series, hardware, profile = (
        tables.ReleaseRollup,
        tables.Series,
        tables.Hardware,
        tables.Profile,
    )
    dialect = database.engine.dialect.name
    there = (
        select(rollup.torch_version, series.hardware_id, series.profile_id)
        .join(series, series.id == rollup.series_id)
        # Both parts of the rollups' key: what other metrics have of these versions is never read.
        .where(rollup.torch_version.in_(set(versions)), among(dialect, rollup.series_id, "series"))
        .distinct()
        .cte("there")
    )
    query = (
        select(there.c.torch_version, hardware.fingerprint, profile.fingerprint)
        .join(hardware, hardware.id == there.c.hardware_id)
        .join(profile, profile.id == there.c.profile_id)
    )
    with database.reading() as connection:
        ids = as_one(dialect, connection.execute(_of(select(series.id), metric)).scalars())
        found = connection.execute(query, {"series": ids})
        return frozenset((version, where, how) for version, where, how in found)


def version_harnesses(
    database: Database, version: str, metric: str
) -> dict[tuple[str, str], tuple[str, ...]]:
    """By hardware and profile (fingerprints), the harnesses of runs with a point of a version and metric."""
    run, environment, of_run = tables.Run, tables.Environment, tables.RunEnvironment
    hardware, profile = tables.Hardware, tables.Profile
    measured, series = tables.Measurement, tables.Series
    # A run that crashed, or measured something else, is in no median.
    there = (
        exists()
        .where(measured.run_number == run.number, measured.environment_id == environment.id)
        .where(series.id == measured.series_id, series.metric == metric)
    )
    query = (
        select(hardware.fingerprint, profile.fingerprint, run.harness)
        .select_from(environment)
        .join(of_run, of_run.environment_id == environment.id)
        .join(run, run.number == of_run.run_number)
        .join(hardware, hardware.id == run.hardware_id)
        .join(profile, profile.id == run.profile_id)
        .where(environment.torch_version == version, there)
        .distinct()
    )
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
        query = _last_of_version(connection.dialect.name, version, keys, newest)
        found = points(connection, query, cases)
        return [(keys[series], point) for series, point in found]


def _last_of_version(dialect: str, version: str, ids: Collection[int], newest: int) -> AnySelect:
    """The measurements of a version in some series, from the `newest`th before its last one on."""
    table, rollup, environment = tables.Measurement, tables.ReleaseRollup, tables.Environment
    since: Any = rollup.newest_at
    if newest > 1:
        earlier = (
            select(table.started_at)
            .where(table.series_id == rollup.series_id, table.started_at <= rollup.newest_at)
            .order_by(table.started_at.desc())
            .limit(1)
            .offset(newest - 1)
            .correlate(rollup)
            .scalar_subquery()
        )
        since = func.coalesce(earlier, rollup.oldest_at)
    # The rollup says where in its series a version ends: nothing needs to be searched for.
    spans = (
        select(rollup.series_id, since.label("since"), rollup.newest_at.label("until"))
        .where(rollup.torch_version == version, among(dialect, rollup.series_id, "series"))
        .cte("spans")
    )
    own = select(environment.id).where(environment.torch_version == version)
    return (
        measured()
        .join(
            spans,
            (table.series_id == spans.c.series_id) & table.started_at.between(spans.c.since, spans.c.until),
        )
        .where(table.environment_id.in_(own))
        .params(series=as_one(dialect, ids))
    )


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
