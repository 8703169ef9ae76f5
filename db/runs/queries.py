"""Queries of runs and their contents: one function per query, which returns records."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    UnaryExpression,
    exists,
    func,
    or_,
    select,
    tuple_,
)
from sqlalchemy.orm import InstrumentedAttribute

from records.environments import Environment, NamedEnvironment
from records.kinds import EnvironmentKind, RunCategory, RunKind, RunSource, RunState
from records.machines import Hardware, Machine
from records.outcomes import Measurement, Outcome, OutcomeCount, OutcomeStatus, Replicate
from records.runs import ForeignRuns, Run, RunPreset, RunsOnly, RunSummary, UpgradeRun

from ..connection.engine import Database
from ..connection.statements import AnySelect, Place, in_batches, later_in_list, rows_among
from ..schema import core_tables as tables
from ..schema import queue_tables
from . import sample_codec
from .series_queries import measured_values

#: The most words of a search text that are used.
_WORDS = 8
#: Less than any number of outcomes, for a run that is stored as running: its missing outcomes are unknown.
STILL_RUNNING = -1


def recent_runs(
    database: Database,
    *,
    limit: int = 50,
    offset: int = 0,
    only: RunsOnly | None = None,
    after: Place | None = None,
) -> list[RunSummary]:
    """Runs, newest start first; all of them without `only`.

    `after`: only those after this position, which is that of another run (`place_of_run`).
    """
    # The page is found in the index alone, without reading the rows of earlier pages.
    numbers = select(tables.RunRow.number).where(*_those(only), *_after(after))
    numbers = numbers.order_by(*_newest_run_first()).limit(limit).offset(offset)
    page = numbers.subquery()
    query = _summaries().join(page, page.c.number == tables.RunRow.number).order_by(*_newest_run_first())
    with database.reading() as connection:
        return _run_summaries(connection, query)


def place_of_run(database: Database, run_id: str) -> Place | None:
    """The position of a run in a list, newest first; None for an unknown id."""
    query = select(tables.RunRow.started_at, tables.RunRow.number).where(tables.RunRow.id == run_id)
    with database.reading() as connection:
        found = connection.execute(query).first()
    return (found.started_at, found.number) if found else None


def count_runs(database: Database, only: RunsOnly | None = None) -> int:
    """The number of runs."""
    query = select(func.count()).select_from(tables.RunRow).where(*_those(only))
    with database.reading() as connection:
        return connection.execute(query).scalar_one()


def suites_and_machines(database: Database) -> tuple[list[str], list[str]]:
    """The suites and the machine names of all runs."""
    ran = exists().where(tables.RunRow.machine_id == tables.MachineRow.id)
    with database.reading() as connection:
        suites = connection.execute(select(tables.RunRow.suite).distinct()).scalars()
        machines = connection.execute(select(tables.MachineRow.name).where(ran).distinct()).scalars()
        # Sorted here: the order of texts is not that of every server.
        return sorted(suites), sorted(machines)


def run_summary(database: Database, run_id: str) -> RunSummary | None:
    """The row of one run; None for an unknown id."""
    with database.reading() as connection:
        found = _run_summaries(connection, _summaries().where(tables.RunRow.id == run_id))
    return found[0] if found else None


def run_summaries(database: Database, run_ids: Collection[str]) -> dict[str, RunSummary]:
    """Rows of some runs, by id; unknown ids are left out."""
    with database.reading() as connection:
        batches = in_batches(sorted(set(run_ids)))
        found = [
            _run_summaries(connection, _summaries().where(tables.RunRow.id.in_(some))) for some in batches
        ]
    return {summary.id: summary for some in found for summary in some}


def foreign_runs(database: Database) -> list[ForeignRuns]:
    """The runs that Pyrometer did not measure, counted by source and format."""
    run = tables.RunRow
    query = (
        select(run.source, run.source_format, func.count())
        .where(run.source != RunSource.MEASURED)
        .group_by(run.source, run.source_format)
        .order_by(run.source, run.source_format)
    )
    with database.reading() as connection:
        return [ForeignRuns(*row) for row in connection.execute(query)]


def run_ids(database: Database) -> frozenset[str]:
    """The ids of all runs."""
    with database.reading() as connection:
        return frozenset(connection.execute(select(tables.RunRow.id)).scalars())


def runs_by_age(database: Database) -> list[str]:
    """The ids of all runs, earliest start first; equal starts by name."""
    query = select(tables.RunRow.id, tables.RunRow.started_at)
    with database.reading() as connection:
        # Sorted here: the order of texts is not that of every server.
        return [row.id for row in sorted(connection.execute(query), key=lambda row: (row.started_at, row.id))]


def latest_run_id(database: Database) -> str | None:
    """The id of the run that started last; None for an empty database."""
    with database.reading() as connection:
        return connection.execute(select(tables.RunRow.id).order_by(*_newest_run_first()).limit(1)).scalar()


def run_record(database: Database, run_id: str) -> Run | None:
    """One run without its outcomes; None for an unknown id."""
    run, machine, hardware, preset = tables.RunRow, tables.MachineRow, tables.HardwareRow, tables.PresetRow
    with database.reading() as connection:
        row = connection.execute(
            select(
                run,
                machine.fingerprint.label("machine_fingerprint"),
                machine.name.label("machine_name"),
                machine.facts.label("machine_facts"),
                hardware.fingerprint.label("hardware_fingerprint"),
                hardware.label,
                hardware.facts.label("hardware_facts"),
                preset.fingerprint.label("preset_fingerprint"),
                preset.name.label("preset_name"),
                preset.settings,
            )
            .join(machine, machine.id == run.machine_id)
            .join(hardware, hardware.id == run.hardware_id)
            .join(preset, preset.id == run.preset_id)
            .where(run.id == run_id)
        ).first()
        if row is None:
            return None
        environments = tuple(_environments(connection, row.number))
    return Run(
        id=row.id,
        suite=row.suite,
        started_at=row.started_at,
        ended_at=row.ended_at,
        state=row.state,
        machine=Machine(
            row.machine_fingerprint,
            row.machine_name,
            Hardware(row.hardware_fingerprint, row.label, row.hardware_facts),
            row.machine_facts,
        ),
        environments=environments,
        preset=RunPreset(row.preset_fingerprint, row.preset_name, row.settings),
        harness=row.harness,
        planned=row.planned,
        command=row.command,
        notes=tuple(row.notes),
        facts=row.facts,
        kind=row.kind,
        source=row.source,
        source_format=row.source_format,
    )


def outcomes_of_run(
    database: Database, run_id: str, *, cases: Collection[str] | None = None
) -> list[Outcome]:
    """The outcomes of a run in the order of their starts, without samples: all, or those of `cases`."""
    outcome = tables.OutcomeRow
    query = _outcome_columns(
        run_id,
        cases,
        outcome.replicate,
        outcome.status,
        outcome.reason,
        outcome.phase,
        outcome.started_at,
        outcome.wall_seconds,
        outcome.metrics,
        outcome.facts,
        outcome.log_tail,
    ).order_by(outcome.started_at, tables.BenchmarkCaseRow.key, outcome.replicate, tables.EnvironmentRow.id)
    with database.reading() as connection:
        return [Outcome(*row) for row in connection.execute(query).all()]


def _outcome_columns(
    run_id: str, cases: Collection[str] | None, *columns: InstrumentedAttribute[Any]
) -> AnySelect:
    """Case, environment and these columns of the outcomes of a run: of all cases, or only of `cases`."""
    outcome, case, environment = tables.OutcomeRow, tables.BenchmarkCaseRow, tables.EnvironmentRow
    query = (
        select(case.key, environment.fingerprint, *columns)
        .join(tables.RunRow, tables.RunRow.number == outcome.run_number)
        .join(case, case.id == outcome.case_id)
        .join(environment, environment.id == outcome.environment_id)
        .where(tables.RunRow.id == run_id)
    )
    return query if cases is None else query.where(case.key.in_(set(cases)))


def samples(
    database: Database, run_id: str, case: str, environment: str, replicate: int
) -> tuple[tuple[int, ...], ...] | None:
    """The samples of one outcome in nanoseconds, block by block; None without samples.

    `environment` is a fingerprint.
    """
    table = tables.SamplesRow
    query = of_outcome(select(table.codec, table.blob), table, run_id, case, environment, replicate)
    with database.reading() as connection:
        found = connection.execute(query).first()
    return sample_codec.decode(found.codec, found.blob) if found else None


def measurements_of_run(
    database: Database, run_id: str, *, cases: Collection[str] | None = None
) -> list[Measurement]:
    """The measurements of a run, by case, environment and metric: all, or of `cases`."""
    measurement, series, case = tables.MeasurementRow, tables.SeriesRow, tables.BenchmarkCaseRow
    environment = tables.EnvironmentRow
    query = (
        select(
            case.key.label("case"),
            environment.fingerprint.label("environment"),
            series.metric,
            *measured_values(),
        )
        .join(tables.RunRow, tables.RunRow.number == measurement.run_number)
        .join(series, series.id == measurement.series_id)
        .join(case, case.id == series.case_id)
        .join(environment, environment.id == measurement.environment_id)
        .where(tables.RunRow.id == run_id)
        .order_by(case.key, environment.id, series.metric)
    )
    if cases is not None:
        query = query.where(case.key.in_(set(cases)))
    with database.reading() as connection:
        return [Measurement(*row) for row in connection.execute(query).all()]


def _those(only: RunsOnly | None) -> list[ColumnElement[bool]]:
    run, machine = tables.RunRow, tables.MachineRow
    if only is None:
        return []
    named = select(machine.id).where(machine.name == only.machine)
    conditions: list[tuple[str, ColumnElement[bool]]] = [
        (only.suite, run.suite == only.suite),
        (only.machine, run.machine_id.in_(named)),
        (only.state, run.state == only.state),
    ]
    clauses = [condition for value, condition in conditions if value]
    clauses += map(_has_word, only.text.split()[:_WORDS])
    return [*clauses, *(_of_category(RunCategory(only.category)) if only.category else ())]


def _has_word(word: str) -> ColumnElement[bool]:
    """The condition that the id of a run, its suite, machine, hardware or a PyTorch version contains a
    word.
    """
    run, machine, hardware = tables.RunRow, tables.MachineRow, tables.HardwareRow
    own, environment = tables.RunEnvironmentRow, tables.EnvironmentRow
    machines = select(machine.id).where(machine.name.icontains(word, autoescape=True))
    places = select(hardware.id).where(hardware.label.icontains(word, autoescape=True))
    builds = (
        select(own.run_number)
        .join(environment, environment.id == own.environment_id)
        .where(environment.torch_version.icontains(word, autoescape=True))
    )
    return or_(
        run.id.icontains(word, autoescape=True),
        run.suite.icontains(word, autoescape=True),
        run.machine_id.in_(machines),
        run.hardware_id.in_(places),
        run.number.in_(builds),
    )


def _of_category(category: RunCategory) -> list[ColumnElement[bool]]:
    run, task, attempt = tables.RunRow, queue_tables.TaskRow, queue_tables.AttemptRow
    if category in (RunCategory.IMPORTED, RunCategory.SUBMITTED):
        return [run.source == category]
    own = run.source == RunSource.MEASURED
    if category not in (RunCategory.NIGHTLY, RunCategory.MANUAL):
        return [own, run.kind == category]
    # A lost task is measured again in another run; its earlier run is not a manual one either.
    scheduled = or_(exists().where(task.run_id == run.id), exists().where(attempt.run_id == run.id))
    return [own, run.kind == RunKind.RUN, scheduled if category == RunCategory.NIGHTLY else ~scheduled]


def _after(place: Place | None) -> list[ColumnElement[bool]]:
    return later_in_list(place, tables.RunRow.started_at, tables.RunRow.number)


def _newest_run_first() -> tuple[UnaryExpression[Any], UnaryExpression[Any]]:
    return tables.RunRow.started_at.desc(), tables.RunRow.number.desc()


def _summaries() -> AnySelect:
    run, machine, hardware, preset = tables.RunRow, tables.MachineRow, tables.HardwareRow, tables.PresetRow
    return (
        select(
            run.number,
            run.id,
            run.suite,
            run.started_at,
            run.ended_at,
            run.state,
            machine.name.label("machine"),
            hardware.label.label("hardware"),
            preset.name.label("preset"),
            run.planned,
            run.counts,
            run.kind,
            run.source,
            run.source_format,
        )
        .join(machine, machine.id == run.machine_id)
        .join(hardware, hardware.id == run.hardware_id)
        .join(preset, preset.id == run.preset_id)
    )


def _run_summaries(connection: Connection, query: AnySelect) -> list[RunSummary]:
    rows = [dict(row) for row in connection.execute(query).mappings()]
    table, link = tables.EnvironmentRow, tables.RunEnvironmentRow
    used = (
        select(link.run_number, table.torch_version)
        .join(table, table.id == link.environment_id)
        .where(table.torch_version != "")
        .order_by(link.position)
    )
    versions: dict[int, dict[str, None]] = defaultdict(dict)
    for number, version in rows_among(connection, used, link.run_number, [row["number"] for row in rows]):
        versions[number][version] = None
    named = [tuple(versions[row.pop("number")]) for row in rows]
    return [RunSummary(**row, torch_versions=each) for row, each in zip(rows, named, strict=True)]


def _environments(connection: Connection, run: int) -> list[Environment]:
    """The environments of the run of a number, in the order in which they were given."""
    table, link = tables.EnvironmentRow, tables.RunEnvironmentRow
    query = (
        select(
            table.fingerprint,
            table.name,
            table.torch_version,
            table.python_version,
            table.facts,
            table.kind,
        )
        .join(link, link.environment_id == table.id)
        .where(link.run_number == run)
        .order_by(link.position)
    )
    return [Environment(*row) for row in connection.execute(query)]


def replicates_of_run(
    database: Database, run_id: str, *, cases: Collection[str] | None = None
) -> list[Replicate]:
    """The metrics of every outcome of a run that is `ok`, by case, environment and replicate.

    Of all cases, or only of `cases`.
    """
    outcome = tables.OutcomeRow
    query = (
        _outcome_columns(run_id, cases, outcome.metrics)
        .where(outcome.status == OutcomeStatus.OK)
        .order_by(tables.BenchmarkCaseRow.key, tables.EnvironmentRow.id, outcome.replicate)
    )
    with database.reading() as connection:
        return [Replicate(*row) for row in connection.execute(query)]


def stored_outcomes(database: Database) -> dict[str, int]:
    """The number of planned outcomes that each run has, by run id; STILL_RUNNING for a run without an end."""
    run = tables.RunRow
    with database.reading() as connection:
        rows = connection.execute(select(run.id, run.state, run.counts))
        return {
            row.id: STILL_RUNNING if row.state == RunState.RUNNING else sum(row.counts.values())
            for row in rows
        }


def endings(
    database: Database, run_ids: Sequence[str], *, only: Mapping[str, str] | None = None
) -> dict[str, list[OutcomeCount]]:
    """The outcomes of each of these runs counted by case and status, without the canary.

    `only`: for each run the environment (a fingerprint) to count; runs without an entry have none.
    """
    outcome, run, case = tables.OutcomeRow, tables.RunRow, tables.BenchmarkCaseRow
    environment = tables.EnvironmentRow
    found: list[OutcomeCount] = []
    with database.reading() as connection:
        for some in in_batches(sorted(set(run_ids))):
            query = (
                select(run.id, case.key, outcome.status, func.count(), func.max(outcome.reason))
                .join(run, run.number == outcome.run_number)
                .join(case, case.id == outcome.case_id)
                .join(environment, environment.id == outcome.environment_id)
                .where(run.id.in_(some), environment.kind != EnvironmentKind.CANARY)
                .group_by(run.id, case.key, outcome.status)
            )
            if only is not None:
                sides = [(each, only[each]) for each in some if each in only]
                query = query.where(tuple_(run.id, environment.fingerprint).in_(sides))
            found += [OutcomeCount(*row) for row in connection.execute(query)]
    by_run: dict[str, list[OutcomeCount]] = {run_id: [] for run_id in run_ids}
    # Not sorted by the database: each has its own order of texts.
    for ending in sorted(found, key=lambda ending: (ending.case, ending.status)):
        by_run[ending.run].append(ending)
    return by_run


def of_outcome(
    query: Select[*tuple[Any, ...]],
    table: type[tables.SamplesRow] | type[tables.TelemetryRow],
    run: str,
    case: str,
    environment: str,
    replicate: int,
) -> Select[*tuple[Any, ...]]:
    """The query's rows of `table` that belong to one outcome; `environment` is a fingerprint."""
    return (
        query.join(tables.RunRow, tables.RunRow.number == table.run_number)
        .join(tables.BenchmarkCaseRow, tables.BenchmarkCaseRow.id == table.case_id)
        .join(tables.EnvironmentRow, tables.EnvironmentRow.id == table.environment_id)
        .where(
            tables.RunRow.id == run,
            tables.BenchmarkCaseRow.key == case,
            tables.EnvironmentRow.fingerprint == environment,
            table.replicate == replicate,
        )
    )


def comparison_runs(database: Database, runs: Collection[str]) -> frozenset[str]:
    """The runs among these that compare several PyTorch builds."""
    run, link, environment = tables.RunRow, tables.RunEnvironmentRow, tables.EnvironmentRow
    query = (
        select(run.id)
        .join(link, link.run_number == run.number)
        .join(environment, environment.id == link.environment_id)
        .where(run.id.in_(set(runs)), environment.kind != EnvironmentKind.CANARY)
        .group_by(run.id)
        .having(func.count() > 1)
    )
    with database.reading() as connection:
        return frozenset(connection.execute(query).scalars())


def runs_before(database: Database, run: Run, newest: int) -> list[str]:
    """The ids of earlier runs without a comparison, newest first, at most as many as given.

    They have the same machine, hardware, preset and harness.
    """
    table, hardware, preset = tables.RunRow, tables.HardwareRow, tables.PresetRow
    named = select(tables.MachineRow.id).where(tables.MachineRow.name == run.machine.name)
    like = select(hardware.id).where(hardware.fingerprint == run.machine.hardware.fingerprint)
    under = select(preset.id).where(preset.fingerprint == run.preset.fingerprint)
    query = (
        select(table.id)
        .where(table.machine_id.in_(named), table.hardware_id.in_(like), table.preset_id.in_(under))
        .where(table.harness == run.harness, table.kind == RunKind.RUN, table.started_at < run.started_at)
        .order_by(*_newest_run_first())
        .limit(newest)
    )
    with database.reading() as connection:
        return list(connection.execute(query).scalars())


def upgrade_runs(
    database: Database,
    kind: RunKind = RunKind.UPGRADE,
    *,
    newest: int = 100,
    offset: int = 0,
    after: Place | None = None,
) -> list[UpgradeRun]:
    """The newest runs of a kind that measures two environments in turns, newest first, after `offset`.

    `after`: as in `recent_runs`.
    """
    run, machine, hardware, preset = tables.RunRow, tables.MachineRow, tables.HardwareRow, tables.PresetRow
    query = (
        select(
            run.number,
            run.id,
            run.suite,
            run.started_at,
            run.state,
            machine.name.label("machine"),
            hardware.fingerprint.label("hardware"),
            hardware.label.label("hardware_label"),
            preset.name.label("preset"),
            run.facts,
            run.kind,
            run.source,
        )
        .join(machine, machine.id == run.machine_id)
        .join(hardware, hardware.id == run.hardware_id)
        .join(preset, preset.id == run.preset_id)
        .where(run.kind == kind, *_after(after))
        .order_by(*_newest_run_first())
        .limit(newest)
        .offset(offset)
    )
    with database.reading() as connection:
        rows = [dict(row) for row in connection.execute(query).mappings()]
        numbers = [row.pop("number") for row in rows]
        environments = _compared_environments(connection, numbers)
    return [
        UpgradeRun(**row, environments=tuple(environments[number]))
        for number, row in zip(numbers, rows, strict=True)
    ]


def _compared_environments(
    connection: Connection, runs: Collection[int]
) -> dict[int, list[NamedEnvironment]]:
    """By run number the environments without that of the canary."""
    table, link = tables.EnvironmentRow, tables.RunEnvironmentRow
    query = (
        select(link.run_number, table.fingerprint, table.name, table.torch_version)
        .join(table, table.id == link.environment_id)
        .where(link.run_number.in_(runs), table.kind != EnvironmentKind.CANARY)
        .order_by(link.run_number, link.position)
    )
    found: dict[int, list[NamedEnvironment]] = defaultdict(list)
    for number, fingerprint, name, version in connection.execute(query):
        found[number].append(NamedEnvironment(fingerprint, name, version))
    return found
