"""Everything that is read: one function per question, records for answers."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    ScalarSelect,
    Select,
    SQLColumnExpression,
    UnaryExpression,
    func,
    select,
    union_all,
)
from sqlalchemy.orm import InstrumentedAttribute, aliased

from . import codec, tables
from .beside import beside
from .engine import Database
from .records import (
    Environment,
    Hardware,
    Headline,
    Machine,
    Measurement,
    Outcome,
    Profile,
    Run,
    RunSummary,
    SeriesKey,
    SeriesPoint,
)

# Columns are read by name; their types are those of the records that they end in.
AnySelect = Select[*tuple[Any, ...]]
AnyRow = Row[*tuple[Any, ...]]


def recent_runs(database: Database, *, limit: int = 50, offset: int = 0) -> list[RunSummary]:
    """The newest runs first, by when they started."""
    with database.reading() as connection:
        page = _summaries().order_by(*_newest_run_first()).limit(limit).offset(offset)
        return _run_summaries(connection, page)


def count_runs(database: Database) -> int:
    """How many runs there are."""
    with database.reading() as connection:
        return connection.execute(select(func.count()).select_from(tables.Run)).scalar_one()


def run_summary(database: Database, run_id: str) -> RunSummary | None:
    """One run as in a list; None if there is none of that id."""
    with database.reading() as connection:
        found = _run_summaries(connection, _summaries().where(tables.Run.id == run_id))
    return found[0] if found else None


def run_ids(database: Database) -> frozenset[str]:
    """The ids of all runs."""
    with database.reading() as connection:
        return frozenset(connection.execute(select(tables.Run.id)).scalars())


def latest_run_id(database: Database) -> str | None:
    """The id of the run that started last; None for an empty database."""
    with database.reading() as connection:
        return connection.execute(select(tables.Run.id).order_by(*_newest_run_first()).limit(1)).scalar()


def run_record(database: Database, run_id: str) -> Run | None:
    """Everything about one run but its outcomes; None if there is none of that id."""
    run, machine, hardware, profile = tables.Run, tables.Machine, tables.Hardware, tables.Profile
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
                profile.fingerprint.label("profile_fingerprint"),
                profile.name.label("profile_name"),
                profile.settings,
            )
            .join(machine, machine.id == run.machine_id)
            .join(hardware, hardware.id == machine.hardware_id)
            .join(profile, profile.id == run.profile_id)
            .where(run.id == run_id)
        ).first()
        if row is None:
            return None
        environments = tuple(_environments(connection, [row.number])[row.number])
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
        profile=Profile(row.profile_fingerprint, row.profile_name, row.settings),
        harness=row.harness,
        planned=row.planned,
        command=row.command,
        notes=tuple(row.notes),
        facts=row.facts,
    )


def outcomes_of_run(database: Database, run_id: str) -> list[Outcome]:
    """All outcomes of a run in the order in which they started, without their samples."""
    outcome, case, environment = tables.Outcome, tables.BenchmarkCase, tables.Environment
    query = (
        select(
            case.key.label("case"),
            environment.fingerprint.label("environment"),
            outcome.replicate,
            outcome.status,
            outcome.reason,
            outcome.phase,
            outcome.started_at,
            outcome.wall_seconds,
            outcome.metrics,
            outcome.facts,
            outcome.log_tail,
        )
        .join(tables.Run, tables.Run.number == outcome.run_number)
        .join(case, case.id == outcome.case_id)
        .join(environment, environment.id == outcome.environment_id)
        .where(tables.Run.id == run_id)
        .order_by(outcome.started_at, case.key, outcome.replicate)
    )
    with database.reading() as connection:
        return [Outcome(**row) for row in connection.execute(query).mappings()]


def samples(
    database: Database, run_id: str, case: str, environment: str, replicate: int
) -> tuple[tuple[int, ...], ...] | None:
    """The samples of one outcome in nanoseconds, block by block; None if it has none.

    `environment` is a fingerprint.
    """
    table = tables.Samples
    query = beside(select(table.codec, table.blob), table, run_id, case, environment, replicate)
    with database.reading() as connection:
        found = connection.execute(query).first()
    return codec.decode(found.codec, found.blob) if found else None


def measurements_of_run(database: Database, run_id: str) -> list[Measurement]:
    """All measurements of a run, by case, environment and metric."""
    measurement, series, case = tables.Measurement, tables.Series, tables.BenchmarkCase
    environment = tables.Environment
    query = (
        select(
            case.key.label("case"),
            environment.fingerprint.label("environment"),
            series.metric,
            *_values(),
        )
        .join(tables.Run, tables.Run.number == measurement.run_number)
        .join(series, series.id == measurement.series_id)
        .join(case, case.id == series.case_id)
        .join(environment, environment.id == measurement.environment_id)
        .where(tables.Run.id == run_id)
        .order_by(case.key, environment.id, series.metric)
    )
    with database.reading() as connection:
        return [Measurement(**row) for row in connection.execute(query).mappings()]


def series_keys(database: Database) -> list[SeriesKey]:
    """Every series there is, by case, metric, hardware and profile."""
    with database.reading() as connection:
        rows = connection.execute(_keys()).all()
    return sorted((_key(row) for row in rows), key=_by_name)


def series(database: Database, keys: Sequence[SeriesKey]) -> list[SeriesPoint]:
    """All points of the series named by `keys`, by case and then by when their run started."""
    identities = {_identity(key) for key in keys}
    case, metric = tables.BenchmarkCase.key, tables.Series.metric
    query = _keys().where(case.in_({key.case for key in keys}), metric.in_({key.metric for key in keys}))
    with database.reading() as connection:
        ids = [row.id for row in connection.execute(query) if _identity(_key(row)) in identities]
        points = _points().where(tables.Measurement.series_id.in_(ids))
        rows = connection.execute(points.order_by(case, *_oldest_point_first())).all()
    return [_point(row) for row in rows]


def headlines(database: Database, metric: str) -> list[Headline]:
    """Of each series of `metric` the newest point and the newest of the runs before it, by case.

    Of a run that measured several environments the one given last speaks: it is the candidate.
    """
    table, point = tables.Series, tables.Measurement
    latest = select(table.id, _newest_run(table.id).label("run")).where(table.metric == metric).cte("latest")
    previous = select(latest.c.id, _newest_run(latest.c.id, other_than=latest.c.run))
    # A row for each: with both in one row, Postgres looks for them anew for every point a series ever had.
    ends = union_all(select(latest), previous).cte("ends")
    query = (
        _points()
        .join(ends, (ends.c.id == point.series_id) & (ends.c.run == point.run_number))
        .order_by(*_oldest_point_first())
    )
    points: dict[int, dict[str, SeriesPoint]] = defaultdict(dict)
    with database.reading() as connection:
        keys = {row.id: _key(row) for row in connection.execute(_keys().where(table.metric == metric))}
        for row in connection.execute(query):
            points[row.series_id][row.run] = _point(row)
    found: list[Headline] = []
    for series_id, by_run in points.items():
        *earlier, newest = by_run.values()
        found.append(Headline(keys[series_id], newest, earlier[-1] if earlier else None))
    return sorted(found, key=lambda headline: _by_name(headline.key))


def _newest_run(
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


def _newest_run_first() -> tuple[UnaryExpression[Any], UnaryExpression[Any]]:
    return tables.Run.started_at.desc(), tables.Run.number.desc()


def _summaries() -> AnySelect:
    run, machine, hardware, profile = tables.Run, tables.Machine, tables.Hardware, tables.Profile
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
            profile.name.label("profile"),
            run.planned,
            run.counts,
        )
        .join(machine, machine.id == run.machine_id)
        .join(hardware, hardware.id == machine.hardware_id)
        .join(profile, profile.id == run.profile_id)
    )


def _run_summaries(connection: Connection, query: AnySelect) -> list[RunSummary]:
    rows = [dict(row) for row in connection.execute(query).mappings()]
    environments = _environments(connection, [row["number"] for row in rows])
    summaries: list[RunSummary] = []
    for row in rows:
        here = environments[row.pop("number")]
        versions = dict.fromkeys(each.torch_version for each in here if each.torch_version)
        summaries.append(RunSummary(**row, torch_versions=tuple(versions)))
    return summaries


def _environments(connection: Connection, runs: Sequence[int]) -> dict[int, list[Environment]]:
    """The environments of each run by its number, in the order in which they were given."""
    table, link = tables.Environment, tables.RunEnvironment
    query = (
        select(
            link.run_number,
            table.fingerprint,
            table.name,
            table.torch_version,
            table.python_version,
            table.facts,
        )
        .join(link, link.environment_id == table.id)
        .where(link.run_number.in_(runs))
        .order_by(link.position)
    )
    found: dict[int, list[Environment]] = defaultdict(list)
    for row in connection.execute(query):
        found[row.run_number].append(
            Environment(row.fingerprint, row.name, row.torch_version, row.python_version, row.facts)
        )
    return found


def _keys() -> AnySelect:
    """The series, each with its id and the columns of its key."""
    table, case, hardware, profile = tables.Series, tables.BenchmarkCase, tables.Hardware, tables.Profile
    return (
        select(
            table.id,
            case.key.label("case"),
            table.metric,
            hardware.fingerprint.label("hardware"),
            hardware.label.label("hardware_label"),
            profile.fingerprint.label("profile"),
            profile.name.label("profile_name"),
        )
        .join(case, case.id == table.case_id)
        .join(hardware, hardware.id == table.hardware_id)
        .join(profile, profile.id == table.profile_id)
    )


def _key(row: AnyRow) -> SeriesKey:
    _, *values = row
    return SeriesKey(*values)


def _identity(key: SeriesKey) -> tuple[str, str, str, str]:
    """A key without its labels, which may have been written differently."""
    return key.case, key.metric, key.hardware, key.profile


def _by_name(key: SeriesKey) -> tuple[str, ...]:
    return key.case, key.metric, key.hardware_label, key.profile_name, key.hardware, key.profile


def _values() -> tuple[InstrumentedAttribute[Any], ...]:
    """The numbers of a measurement, in the order in which both records that hold them name them."""
    table = tables.Measurement
    return table.point, table.low, table.high, table.smallest, table.largest, table.spread, table.n


def _points() -> AnySelect:
    """Measurements as the columns of a SeriesPoint after the id of their series."""
    table, run, link = tables.Measurement, tables.Run, tables.RunEnvironment
    environment = tables.Environment
    return (
        select(
            table.series_id,
            tables.BenchmarkCase.key.label("case"),
            run.id.label("run"),
            run.started_at,
            environment.fingerprint.label("environment"),
            environment.torch_version,
            tables.Machine.name.label("machine"),
            run.harness,
            *_values(),
        )
        .join(tables.Series, tables.Series.id == table.series_id)
        .join(tables.BenchmarkCase, tables.BenchmarkCase.id == tables.Series.case_id)
        # The time is part of the clustered key: with it a point is found, without it searched for.
        .join(run, (run.number == table.run_number) & (run.started_at == table.started_at))
        .join(tables.Machine, tables.Machine.id == run.machine_id)
        .join(link, (link.run_number == run.number) & (link.environment_id == table.environment_id))
        .join(environment, environment.id == table.environment_id)
    )


def _point(row: AnyRow) -> SeriesPoint:
    _, *values = row
    return SeriesPoint(*values)


def _oldest_point_first() -> tuple[ColumnElement[Any], ...]:
    run, link = tables.Run, tables.RunEnvironment
    return run.started_at.asc(), run.number.asc(), link.position.asc()
