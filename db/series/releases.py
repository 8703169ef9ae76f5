"""PyTorch versions and what the measurements of one come to in a series."""

from collections import defaultdict
from collections.abc import Collection, Sequence

from packaging.version import InvalidVersion, Version
from sqlalchemy import exists, func, select

from records.series import ReleasePoint

from ..connection.engine import Database
from ..connection.statements import AnySelect
from ..schema import core_tables as tables
from .series_names import by_name, series_key, series_names


def releases(database: Database) -> list[str]:
    """The PyTorch versions that were measured, newest first; what is no version at all comes last."""
    environment, link, point = tables.Environment, tables.RunEnvironment, tables.Measurement
    measured = exists().where(
        link.environment_id == environment.id,
        point.run_number == link.run_number,
        point.environment_id == environment.id,
    )
    query = select(environment.torch_version).where(environment.torch_version != "", measured).distinct()
    with database.reading() as connection:
        return sorted(connection.execute(query).scalars(), key=_release_order, reverse=True)


def release_points(
    database: Database, versions: Collection[str], metric: str, *, cases: Collection[str] | None = None
) -> list[ReleasePoint]:
    """What `versions` come to in the series of `metric`: in those of all cases, or of `cases`.

    They come by case, hardware and profile, and within a series oldest version first.
    """
    names = series_names().where(tables.Series.metric == metric)
    if cases is not None:
        names = names.where(tables.BenchmarkCase.key.in_(set(cases)))
    table, environment, span = tables.Measurement, tables.Environment, version_spans(versions).cte("span")
    query = (
        select(table.series_id, environment.torch_version, table.run_number, table.point)
        .join(environment, environment.id == table.environment_id)
        .join(span, span.c.torch_version == environment.torch_version)
        .where(
            table.series_id.in_(names.with_only_columns(tables.Series.id)),
            # One stretch of each series: what other versions have before and after it is not read.
            table.started_at.between(span.c.first, span.c.last),
        )
    )
    starts = _runs_of(versions).with_only_columns(tables.Run.number, tables.Run.started_at)
    groups: dict[tuple[int, str], list[tuple[float, int]]] = defaultdict(list)
    with database.reading() as connection:
        keys = {row.id: series_key(row) for row in connection.execute(names)}
        started_at = {number: at for number, at in connection.execute(starts)}
        for series, version, run, point in connection.execute(query):
            groups[series, version].append((point, run))
    places = {version: _release_order(version) for _, version in groups}
    points: list[ReleasePoint] = []
    for (series, version), group in groups.items():
        ordered, runs = sorted(point for point, _ in group), {run for _, run in group}
        values = median(ordered), ordered[0], ordered[-1], max(started_at[run] for run in runs)
        points.append(ReleasePoint(keys[series], version, len(runs), *values))
    return sorted(points, key=lambda point: (by_name(point.key), places[point.torch_version]))


def version_spans(versions: Collection[str]) -> AnySelect:
    """When the runs of each version started: `torch_version`, `first` and `last`."""
    version, started_at = tables.Environment.torch_version, tables.Run.started_at
    ends = func.min(started_at).label("first"), func.max(started_at).label("last")
    return _runs_of(versions).with_only_columns(version, *ends).group_by(version)


def _runs_of(versions: Collection[str]) -> AnySelect:
    run, link, environment = tables.Run, tables.RunEnvironment, tables.Environment
    return (
        select(run.number)
        .join(link, link.run_number == run.number)
        .join(environment, environment.id == link.environment_id)
        .where(environment.torch_version.in_(set(versions) - {""}))
    )


def median(ordered: Sequence[float]) -> float:
    """The middle one of sorted numbers, or halfway from the lower to the upper one of an even number."""
    lower, upper = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return lower + 0.5 * (upper - lower)


def _release_order(version: str) -> tuple[bool, Version, str]:
    """Versions as versions: 2.9 comes before 2.10, and 2.14.0.dev20261120 before 2.14.0."""
    try:
        return True, Version(version), version
    except InvalidVersion:
        return False, Version("0"), version
