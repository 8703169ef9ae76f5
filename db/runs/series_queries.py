"""Series and their points, each with the run and the environment it was measured in."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    ScalarSelect,
    Select,
    SQLColumnExpression,
    func,
    literal,
    select,
    union_all,
)
from sqlalchemy.orm import InstrumentedAttribute, aliased

from records.series import Headline, SeriesKey, SeriesOnly, SeriesPoint

from ..connection.engine import Database
from ..connection.statements import AnyRow, AnySelect, in_batches, rows_among
from ..schema import core_tables as tables

#: Before any run.
_LONG_AGO = datetime.min.replace(tzinfo=UTC)

#: By series, its points in some runs, oldest run first.
Lines = dict[SeriesKey, tuple[SeriesPoint, ...]]


def series_names() -> AnySelect:
    """The series, each with its id and the columns of its key."""
    table, case, hardware, preset = (
        tables.SeriesRow,
        tables.BenchmarkCaseRow,
        tables.HardwareRow,
        tables.PresetRow,
    )
    return (
        select(
            table.id,
            case.key.label("case"),
            table.metric,
            hardware.fingerprint.label("hardware"),
            hardware.label.label("hardware_label"),
            preset.fingerprint.label("preset"),
            preset.name.label("preset_name"),
        )
        .join(case, case.id == table.case_id)
        .join(hardware, hardware.id == table.hardware_id)
        .join(preset, preset.id == table.preset_id)
    )


def series_of_metric(
    metric: str, hardware: str | None = None, preset: str | None = None, *, techniques: bool = False
) -> AnySelect:
    """The series of a metric: all, of a hardware, of a preset (fingerprints), of cases under a technique."""
    query = series_names().where(tables.SeriesRow.metric == metric)
    if hardware is not None:
        query = query.where(tables.HardwareRow.fingerprint == hardware)
    if preset is not None:
        query = query.where(tables.PresetRow.fingerprint == preset)
    return query.where(under_technique()) if techniques else query


def under_technique() -> ColumnElement[bool]:
    """That a case is under a technique: the key of any other ends in `eager`."""
    return tables.BenchmarkCaseRow.key.not_like("%/eager")


def ids_of(names: AnySelect) -> Select[int]:
    """The ids of the series that a query of `series_names` finds."""
    return names.with_only_columns(tables.SeriesRow.id)


def series_key(row: AnyRow) -> SeriesKey:
    """The key in a row that begins with the columns of `series_names`."""
    return SeriesKey(*row[1:7])


def series_ids_of(connection: Connection, keys: Collection[SeriesKey]) -> dict[int, SeriesKey]:
    """The series that these keys name, by id; those that are not there are left out."""
    identities = {identity(key) for key in keys}
    query = series_names().where(tables.SeriesRow.metric.in_({key.metric for key in keys}))
    rows = rows_among(connection, query, tables.BenchmarkCaseRow.key, (key.case for key in keys))
    return {row.id: key for row in rows if identity(key := series_key(row)) in identities}


def identity(key: SeriesKey) -> tuple[str, str, str, str]:
    """A key without its labels, which may have been written differently."""
    return key.case, key.metric, key.hardware, key.preset


def by_name(key: SeriesKey) -> tuple[str, ...]:
    """What keys are sorted by for people."""
    return key.case, key.metric, key.hardware_label, key.preset_name, key.hardware, key.preset


def measured_values() -> tuple[InstrumentedAttribute[Any], ...]:
    """The numbers of a measurement, in the order in which both records that hold them name them."""
    table = tables.MeasurementRow
    return table.point, table.low, table.high, table.smallest, table.largest, table.spread, table.n


def all_measurements() -> AnySelect:
    """All measurements with the columns that `points` needs: the series, a `SeriesPoint`, what orders it."""
    table, run, link = tables.MeasurementRow, tables.RunRow, tables.RunEnvironmentRow
    environment, machine = tables.EnvironmentRow, tables.MachineRow
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
    table = tables.MeasurementRow
    if newest is None:
        return all_measurements().where(table.series_id.in_(ids))
    earlier = aliased(tables.MeasurementRow)
    started_at = (
        select(earlier.started_at)
        .where(earlier.series_id == tables.SeriesRow.id)
        .order_by(earlier.started_at.desc())
        .limit(1)
        .offset(newest - 1)
        .correlate(tables.SeriesRow)
        .scalar_subquery()
    )
    long_ago = literal(_LONG_AGO, tables.UtcTime())
    oldest = select(tables.SeriesRow.id, func.coalesce(started_at, long_ago).label("started_at"))
    since = oldest.where(tables.SeriesRow.id.in_(ids)).cte("since")
    return all_measurements().join(
        since, (table.series_id == since.c.id) & (table.started_at >= since.c.started_at)
    )


def newest_run(
    series_id: SQLColumnExpression[int], *, other_than: SQLColumnExpression[int] | None = None
) -> ScalarSelect[int]:
    """The number of the newest run in a series: one step from the end of the clustered key."""
    point = aliased(tables.MeasurementRow)
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
    """Each row as its series and its point; by case, oldest run first.

    `cases` are the keys by series. They are sorted here: the order of texts is not that of every server.
    """
    ordered = sorted(rows, key=lambda row: (cases[row[0]], row[2], row[-2], row[-1], row[0]))
    return [(row[0], SeriesPoint(cases[row[0]], *row[1:-2])) for row in ordered]


def series_keys(database: Database, only: SeriesOnly | None = None) -> list[SeriesKey]:
    """The series, by case, metric, hardware and preset; without `only`, all there are."""
    with database.reading() as connection:
        rows = connection.execute(series_names().where(*_those(only or SeriesOnly()))).all()
    # Sorted here: the order of texts is not that of every server.
    return sorted((series_key(row) for row in rows), key=by_name)


def has_series(database: Database, key: SeriesKey) -> bool:
    """Whether there is such a series; one whose runs are forgotten may have no points."""
    with database.reading() as connection:
        return bool(series_ids_of(connection, [key]))


def _those(only: SeriesOnly) -> list[ColumnElement[bool]]:
    columns = {
        tables.BenchmarkCaseRow.key: only.case,
        tables.SeriesRow.metric: only.metric,
        tables.HardwareRow.fingerprint: only.hardware,
        tables.PresetRow.fingerprint: only.preset,
    }
    return [column == value for column, value in columns.items() if value]


def series(database: Database, keys: Sequence[SeriesKey], *, newest: int | None = None) -> list[SeriesPoint]:
    """All points of the series named by `keys`, by case and then by when their run started.

    With `newest` so many of each series at most, so that a chart costs the same after years; of points that
    started at the same moment as the oldest of these none is left out.
    """
    with database.reading() as connection:
        cases = {series: key.case for series, key in series_ids_of(connection, keys).items()}
        rows = [
            row for some in in_batches(list(cases)) for row in connection.execute(of_series(some, newest))
        ]
    return [point for _, point in points(rows, cases)]


def page_of_series(
    database: Database, key: SeriesKey, limit: int, offset: int, *, newest: int | None = None
) -> list[SeriesPoint]:
    """Up to `limit` points of one series after the first `offset`, oldest first; `newest` as in `series`."""
    table, number = tables.MeasurementRow, tables.RunRow.number
    with database.reading() as connection:
        ids = list(series_ids_of(connection, [key]))
        ordered = of_series(ids, newest).order_by(table.started_at, number, tables.RunEnvironmentRow.position)
        rows = connection.execute(ordered.limit(limit).offset(offset)).all()
    return [point for _, point in points(rows, dict.fromkeys(ids, key.case))]


def before_newest(database: Database, key: SeriesKey, newest: int) -> int:
    """How many points of one series come before its `newest` ones, which are those of `series`."""
    table = tables.MeasurementRow
    with database.reading() as connection:
        ids = list(series_ids_of(connection, [key]))
        oldest = select(table.started_at).where(table.series_id.in_(ids)).order_by(table.started_at.desc())
        since = oldest.limit(1).offset(newest - 1).scalar_subquery()
        query = select(func.count()).select_from(table)
        return connection.execute(
            query.where(table.series_id.in_(ids), table.started_at < since)
        ).scalar_one()


def headlines(database: Database, metric: str) -> list[Headline]:
    """Of each series of `metric` the newest point and the newest one of an earlier run, by case.

    Of a run with several environments the last one is used: it is the candidate.
    """
    table, point = tables.SeriesRow, tables.MeasurementRow
    latest = select(table.id, newest_run(table.id).label("run")).where(table.metric == metric).cte("latest")
    previous = select(latest.c.id, newest_run(latest.c.id, other_than=latest.c.run))
    # A row for each: with both in one row, Postgres looks for them anew for every point a series ever had.
    ends = union_all(select(latest), previous).cte("ends")
    query = (
        all_measurements()
        .join(ends, (ends.c.id == point.series_id) & (ends.c.run == point.run_number))
        # The time is part of the clustered key: with it a point is found, without it searched for.
        .where(tables.RunRow.number == ends.c.run, tables.RunRow.started_at == point.started_at)
    )
    by_run: dict[int, dict[str, SeriesPoint]] = defaultdict(dict)
    with database.reading() as connection:
        names = series_names().where(table.metric == metric)
        keys = {row.id: series_key(row) for row in connection.execute(names)}
        cases = {series_id: key.case for series_id, key in keys.items()}
        rows = connection.execute(query).all()
    for series_id, each in points(rows, cases):
        by_run[series_id][each.run] = each
    found: list[Headline] = []
    for series_id, of_runs in by_run.items():
        *earlier, newest = of_runs.values()
        found.append(Headline(keys[series_id], newest, earlier[-1] if earlier else None))
    return sorted(found, key=lambda headline: by_name(headline.key))


def points_of_runs(database: Database, runs: Collection[str], metrics: Collection[str]) -> Lines:
    """All series of some metrics that have a point in these runs, with their points in them."""
    table = tables.MeasurementRow
    series = select(tables.SeriesRow.id).where(tables.SeriesRow.metric.in_(set(metrics)))
    query = all_measurements().where(table.series_id.in_(series))
    with database.reading() as connection:
        rows = rows_among(connection, query, table.run_number, _numbers(connection, runs))
        found = rows_among(connection, series_names(), tables.SeriesRow.id, {row[0] for row in rows})
    return _lines(rows, {row.id: series_key(row) for row in found})


def lines(database: Database, keys: Sequence[SeriesKey], runs: Collection[str]) -> Lines:
    """The points that these series have in some runs; a series without any is left out."""
    table = tables.MeasurementRow
    with database.reading() as connection:
        found = series_ids_of(connection, keys)
        numbers = _numbers(connection, runs)
        if not found or not numbers:
            return {}
        # One stretch of each series, and what does not belong left out.
        query = all_measurements().where(
            table.started_at.between(min(numbers.values()), max(numbers.values()))
        )
        rows = [
            row
            for some in in_batches(list(numbers))
            for row in rows_among(connection, query.where(table.run_number.in_(some)), table.series_id, found)
        ]
    return _lines(rows, found)


def _numbers(connection: Connection, runs: Collection[str]) -> dict[int, datetime]:
    """When some runs started, by their numbers."""
    query = select(tables.RunRow.number, tables.RunRow.started_at).where(tables.RunRow.id.in_(set(runs)))
    return {number: started_at for number, started_at in connection.execute(query)}


def _lines(rows: Iterable[AnyRow], keys: dict[int, SeriesKey]) -> Lines:
    found: dict[int, list[SeriesPoint]] = defaultdict(list)
    for series, point in points(rows, {series: key.case for series, key in keys.items()}):
        found[series].append(point)
    return {keys[series]: tuple(each) for series, each in found.items()}
