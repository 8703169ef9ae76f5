"""What was measured on which hardware under which preset, and when last."""

from collections.abc import Collection
from datetime import timedelta
from math import isfinite

from sqlalchemy import exists, func, select

from records.json_values import Facts
from records.kinds import RunKind, RunSource
from records.outcomes import OutcomeStatus
from records.series import CaseExtent, MeasurementConditions

from ..connection.engine import Database
from ..schema import core_tables as tables
from ..schema import queue_tables
from .series_queries import ids_of, newest_run, series_of_metric, under_technique

#: A place or case counts by what was measured up to so long before its newest measurement.
_COUNTED = timedelta(days=60)


def places(database: Database, metric: str, *, techniques: bool = False) -> list[MeasurementConditions]:
    """Every hardware and preset with a point of `metric`, that of the newest run first.

    With `techniques` only cases under a technique count.
    """
    series, run, hardware, preset = tables.SeriesRow, tables.RunRow, tables.HardwareRow, tables.PresetRow
    columns = series.hardware_id, series.preset_id, newest_run(series.id).label("run")
    latest = select(*columns).where(series.id.in_(ids_of(series_of_metric(metric, techniques=techniques))))
    latest = latest.cte("latest")
    query = (
        select(latest.c.hardware_id, latest.c.preset_id, run.id, run.started_at, run.number, run.source)
        .join(run, run.number == latest.c.run)
        .distinct()
    )
    with database.reading() as connection:
        rows = sorted(connection.execute(query), key=lambda row: (row.started_at, row.number))
        found = {(row.hardware_id, row.preset_id): row for row in rows}
        names = select(hardware.id, hardware.fingerprint, hardware.label, hardware.facts)
        names = names.where(hardware.id.in_({each for each, _ in found}))
        hardwares = {row.id: row for row in connection.execute(names)}
        names = select(preset.id, preset.fingerprint, preset.name, preset.settings)
        names = names.where(preset.id.in_({each for _, each in found}))
        presets = {row.id: row[1:] for row in connection.execute(names)}
    newest_first = sorted(found.values(), key=lambda row: (row.started_at, row.number), reverse=True)
    return [
        MeasurementConditions(
            *hardwares[row.hardware_id][1:3],
            *presets[row.preset_id],
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


def most_nights(database: Database) -> list[tuple[str, str]]:
    """Hardware and preset (fingerprints) that schedules measured, that with the most runs first.

    Counted are the 60 days up to the newest of these runs: a machine that is gone since is behind those that
    are measured today. Of as many the one with the newest run comes first.
    """
    run, task, hardware, preset = tables.RunRow, queue_tables.TaskRow, tables.HardwareRow, tables.PresetRow
    scheduled = exists().where(task.run_id == run.id, task.job == "measure")
    with database.reading() as connection:
        newest = connection.execute(select(func.max(run.started_at)).where(scheduled)).scalar()
        if newest is None:
            return []
        last = func.max(run.started_at).label("last")
        query = (
            select(hardware.fingerprint, preset.fingerprint, func.count().label("runs"), last)
            .select_from(run)
            .join(hardware, hardware.id == run.hardware_id)
            .join(preset, preset.id == run.preset_id)
            .where(scheduled, run.started_at >= newest - _COUNTED)
            .group_by(hardware.fingerprint, preset.fingerprint)
        )
        rows = connection.execute(query).all()
    ordered = sorted(rows, key=lambda row: (row.runs, row.last), reverse=True)
    return [(where, how) for where, how, _, _ in ordered]


def foreign_presets(database: Database) -> set[str]:
    """The presets (fingerprints) of runs that Pyrometer did not measure."""
    run, preset = tables.RunRow, tables.PresetRow
    query = select(preset.fingerprint).join(run, run.preset_id == preset.id)
    with database.reading() as connection:
        return set(connection.execute(query.where(run.source != RunSource.MEASURED).distinct()).scalars())


def longest_series(database: Database) -> list[tuple[str, str]]:
    """Every hardware and preset (fingerprints), that with the most points in one series first.

    Of as many the one with more series of several points comes first, then the one with the newest point.
    """
    table, series = tables.MeasurementRow, tables.SeriesRow
    hardware, preset = tables.HardwareRow, tables.PresetRow
    lengths = select(table.series_id, func.count().label("points"), func.max(table.started_at).label("last"))
    of_series = lengths.group_by(table.series_id).cte("of_series")
    most, last = func.max(of_series.c.points).label("most"), func.max(of_series.c.last).label("last")
    several = func.count().filter(of_series.c.points > 1).label("several")
    query = (
        select(hardware.fingerprint, preset.fingerprint, most, several, last)
        .select_from(of_series)
        .join(series, series.id == of_series.c.series_id)
        .join(hardware, hardware.id == series.hardware_id)
        .join(preset, preset.id == series.preset_id)
        .group_by(hardware.fingerprint, preset.fingerprint)
    )
    with database.reading() as connection:
        rows = connection.execute(query).all()
    ordered = sorted(rows, key=lambda row: (row.most, row.several, row.last, row[:2]), reverse=True)
    return [(where, how) for where, how, *_ in ordered]


def case_extents(
    database: Database, metric: str, hardware: Collection[str], preset: str, *, recent: bool = False
) -> dict[str, CaseExtent]:
    """The points of `metric` that each case has on some hardware under a preset (fingerprints).

    With `recent` only those of the 60 days up to the newest of these points.
    """
    table = tables.MeasurementRow
    names = series_of_metric(metric, preset=preset)
    names = names.where(tables.HardwareRow.fingerprint.in_(set(hardware)))
    in_one = table.series_id.in_(ids_of(names))
    query = select(table.series_id, func.count(), func.min(table.point), func.max(table.point)).where(in_one)
    with database.reading() as connection:
        if recent:
            newest = connection.execute(select(func.max(table.started_at)).where(in_one)).scalar()
            if newest is None:
                return {}
            query = query.where(table.started_at >= newest - _COUNTED)
        cases = {row.id: row.case for row in connection.execute(names)}
        found: dict[str, CaseExtent] = {}
        for series, points, low, high in connection.execute(query.group_by(table.series_id)):
            other = found.get(cases[series], CaseExtent(0, 1.0))
            ratio = high / low if low > 0 and isfinite(high / low) else 1.0
            found[cases[series]] = CaseExtent(other.points + points, max(other.ratio, ratio))
    return found


def technique_runs(
    database: Database, *, hardware: str = "", preset: str = "", limit: int = 50, offset: int = 0
) -> list[str]:
    """The newest runs of ours, by id, in which a case under a technique ended well, newest first.

    A run of two environments in turns is none: it measures each case apart from its baseline.

    Of all places, or of a hardware and a preset (fingerprints).
    """
    run, outcome, case = tables.RunRow, tables.OutcomeRow, tables.BenchmarkCaseRow
    there = (
        exists()
        .where(
            outcome.run_number == run.number, outcome.status == OutcomeStatus.OK, case.id == outcome.case_id
        )
        .where(under_technique())
    )
    query = select(run.id).where(
        there, run.source == RunSource.MEASURED, run.kind.in_((RunKind.RUN, RunKind.TRACE))
    )
    if hardware:
        own = select(tables.HardwareRow.id).where(tables.HardwareRow.fingerprint == hardware)
        query = query.where(run.hardware_id.in_(own))
    if preset:
        own = select(tables.PresetRow.id).where(tables.PresetRow.fingerprint == preset)
        query = query.where(run.preset_id.in_(own))
    newest_first = query.order_by(run.started_at.desc(), run.number.desc()).limit(limit).offset(offset)
    with database.reading() as connection:
        return list(connection.execute(newest_first).scalars())
