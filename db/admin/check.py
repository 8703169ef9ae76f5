"""The integrity check of a database, whole and run by run: everything is read and nothing written."""

import math
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, event, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute

from common.text import plural
from records.kinds import EnvironmentKind, RunSource, RunState
from records.outcomes import Measurement, Replicate
from records.runs import RunSummary
from records.tasks import TaskState

from ..connection.connection import format_url, in_a_sentence, make_engine, parse_url, sqlite_path
from ..connection.engine import Database
from ..connection.statements import AnyRow, AnySelect
from ..errors import BadDatabaseUrl, DatabaseError, DatabaseUnavailable, SchemaTooNew
from ..runs import queries, sample_codec
from ..runs.queries import replicates_of_run
from ..schema import core_tables as tables
from ..schema import queue_tables
from ..schema import version as schema
from ..telemetry import codec as telemetry_codec

#: What reading damaged rows may end in: SQLite and JSON notice only some of it themselves.
NOT_UNDERSTOOD = (DatabaseError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
#: So many problems of a damaged file are listed.
_COMPLAINTS = 100
#: How long the lock of another process is waited for.
_LOCK_SECONDS = 5.0

RESTORE = (
    "Put the last backup in its place (`pyrometer db backup --help` says how), or name a new database: "
    "the next command fills it from the journals."
)
STORE_AGAIN = (
    "If its journal is in this data folder, `pyrometer db check --repair` stores the run again from it. A "
    "run from a file: `pyrometer db forget RUN --yes`, and import its own file again. Else restore a backup."
)
KEEP_STORED = (
    "The database holds all that was measured, and `--repair` leaves this run alone: its journal is damaged "
    "or cut off. For a second copy of the outcomes, `pyrometer export` this run to a file."
)
IMPORT_AGAIN = (
    "Import the file again that it came from: nothing is stored twice, and the definition is stored with it. "
    "Without the file, submit a value of it in the very unit it was measured in; what a newer Pyrometer "
    "measured, a newer Pyrometer knows."
)

NAME_ANEW = (
    "Pages show all its values in the unit of Pyrometer's own: `pyrometer db forget RUN --yes` for each run "
    "that brought it, and import or submit those again under another name."
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A defect of the database and how to repair it, one sentence each."""

    sentence: str
    mend: str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check: how much was checked, the problems found, and notes."""

    name: str
    count: int
    unit: str
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


@contextmanager
def open_read_only(url: str) -> Generator[Database]:
    """Open the database at `url` read-only, without creating or migrating its schema.

    Raises BadDatabaseUrl and DatabaseUnavailable.
    """
    parsed = parse_url(url)
    path = sqlite_path(parsed)
    if path is not None and not path.exists():
        raise DatabaseUnavailable(f"There is no database {format_url(parsed)}.")
    with in_a_sentence(format_url(parsed)):
        engine = make_engine(parsed, timeout=_LOCK_SECONDS)
    if path is not None:
        event.listen(engine, "connect", _never_write)
    else:
        engine = engine.execution_options(postgresql_readonly=True, isolation_level="REPEATABLE READ")
    with Database(format_url(parsed), engine) as database:
        yield database


def run_check(name: str, unit: str, look: Callable[[], CheckResult]) -> CheckResult:
    """The result of a check; damage that stops the check is reported as a problem.

    Raises DatabaseError where the database cannot be reached or has another schema.
    """
    try:
        return look()
    except NOT_UNDERSTOOD as error:
        return CheckResult(name, 0, unit, (Problem(damage(error), RESTORE),))


def damage(error: Exception) -> str:
    """A sentence about one of `NOT_UNDERSTOOD`; re-raises an error that says nothing about stored rows."""
    if isinstance(error, SchemaTooNew | BadDatabaseUrl):
        raise error
    if isinstance(error, DatabaseUnavailable) and not _is_damage(error.__cause__):
        raise error
    if isinstance(error, DatabaseError):
        return str(error)
    return f"What is stored cannot be understood: {type(error).__name__}: {error}."


def _is_damage(cause: BaseException | None) -> bool:
    driver = getattr(cause, "orig", cause)
    if isinstance(driver, sqlite3.Error):
        # The lowest byte is the kind of error, the others say more about it.
        code = getattr(driver, "sqlite_errorcode", 0) & 0xFF
        return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    # Postgres' class of internal errors, where index and page corruption are.
    return str(getattr(driver, "sqlstate", "")).startswith("XX")


def _never_write(connection: sqlite3.Connection, _record: Any) -> None:
    connection.execute("PRAGMA query_only = ON")


def schema_check(database: Database) -> CheckResult:
    """Whether the tables are those of this Pyrometer; nothing else can be checked where they are not."""
    with database.reading() as connection:
        revision = schema.revision_of(connection, database.name)
    if revision is None:
        mend = "Nothing was stored here yet: `pyrometer run` does."
        return CheckResult(
            "schema", 0, "revisions", (Problem(f"The database {database.name} is empty.", mend),)
        )
    if revision != schema.head():
        sentence = f"The database has schema {revision}, this Pyrometer needs {schema.head()}."
        return CheckResult("schema", 1, "revision", (Problem(sentence, "Run `pyrometer db upgrade`."),))
    return CheckResult("schema", 1, "revision", notes=(revision,))


def file_check(database: Database) -> CheckResult:
    """Whether every page of an SQLite file is as it was written; a Postgres server looks after its own."""
    with database.reading() as connection:
        if connection.dialect.name != "sqlite":
            return CheckResult("file", 0, "pages", notes=("a Postgres server checks its own",))
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        report = connection.exec_driver_sql(f"PRAGMA integrity_check({_COMPLAINTS})").scalars().all()
    problems = (
        [] if report == ["ok"] else [Problem(f"The file is damaged: {one}.", RESTORE) for one in report]
    )
    return CheckResult("file", pages, "pages", tuple(problems))


def reference_check(database: Database) -> CheckResult:
    """Whether every row that another one names is there."""
    problems: list[Problem] = []
    with database.reading() as connection:
        if connection.dialect.name == "sqlite":
            missing: dict[tuple[str, str], int] = defaultdict(int)
            for table, _, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check"):
                missing[table, parent] += 1
            problems += [
                Problem(f"{count} rows of table {table} name rows of {parent} that are not there.", RESTORE)
                for (table, parent), count in missing.items()
            ]
        for table in (tables.OutcomeRow, tables.MeasurementRow):
            for row in connection.execute(_strays(table)):
                sentence = (
                    f"Run {row.id} has {row.strays} {table.__tablename__}s of environments not its own."
                )
                problems.append(Problem(sentence, STORE_AGAIN))
        names = len(tables.Base.metadata.tables)
    return CheckResult("references", names, "tables", tuple(problems))


def count_check(database: Database) -> CheckResult:
    """Whether the counts on each run are those of its outcomes, and a complete run has all of them."""
    run = tables.RunRow
    with database.reading() as connection:
        outcomes = _planned_outcomes(connection)
        query = select(run.number, run.id, run.state, run.planned, run.counts)
        runs = connection.execute(query.order_by(run.number)).all()
    problems: list[Problem] = []
    for row in runs:
        found = outcomes.get(row.number, {})
        if {status: n for status, n in row.counts.items() if n} != found:
            sentence = f"Run {row.id} counts {_in_words(row.counts)}, and has {_in_words(found)}."
            problems.append(Problem(sentence, RESTORE))
        elif row.state == RunState.COMPLETE and sum(found.values()) != row.planned:
            sentence = f"Run {row.id} is complete with {sum(found.values())} of {row.planned} outcomes."
            problems.append(Problem(sentence, STORE_AGAIN))
    return CheckResult("counts", len(runs), "runs", tuple(problems))


def point_check(database: Database) -> CheckResult:
    """Whether each measurement stands at its run's time and on its hardware, and its numbers in order."""
    point, run, series = tables.MeasurementRow, tables.RunRow, tables.SeriesRow
    misplaced = point.started_at != run.started_at
    elsewhere = or_(series.hardware_id != run.hardware_id, series.preset_id != run.preset_id)
    disordered = or_(
        point.n < 1,
        point.smallest > point.point,
        point.point > point.largest,
        point.low > point.point,
        point.point > point.high,
    )
    query = (
        select(run.id, func.count().label("points"))
        .select_from(point)
        .join(run, run.number == point.run_number)
        .join(series, series.id == point.series_id)
    )
    faults = (
        (misplaced, "stand at another time"),
        (elsewhere, "stand under another hardware or preset"),
        (disordered, "contradict themselves"),
    )
    problems: list[Problem] = []
    with database.reading() as connection:
        count = connection.execute(select(func.count()).select_from(point)).scalar_one()
        for condition, what in faults:
            for row in connection.execute(query.where(condition).group_by(run.id)):
                problems.append(Problem(f"{row.points} measurements of run {row.id} {what}.", RESTORE))
    return CheckResult("points", count, "measurements", tuple(problems))


def metric_check(database: Database, catalogue: Mapping[str, str]) -> CheckResult:
    """Whether each metric that has a series has one known unit: of our own `catalogue`, or as stored.

    `catalogue` is unit by name. One that came from outside may have a name that became our own later.
    """
    series, metric = tables.SeriesRow, tables.MetricRow
    query = select(series.metric, func.count().label("series")).group_by(series.metric)
    with database.reading() as connection:
        counts = connection.execute(query.order_by(series.metric)).all()
        defined = {row.name: row.unit for row in connection.execute(select(metric.name, metric.unit))}
    problems: list[Problem] = []
    for name, many in counts:
        own, stored = catalogue.get(name), defined.get(name)
        if own is None and stored is None:
            problems.append(
                Problem(f"Metric {name} has {many} series, and nothing says its unit.", IMPORT_AGAIN)
            )
        elif own is not None and stored is not None and own != stored:
            both = f'in "{stored}", and Pyrometer\'s own of that name is in "{own}"'
            problems.append(Problem(f"Metric {name} came from outside {both}.", NAME_ANEW))
    return CheckResult("metrics", len(counts), "metrics", tuple(problems))


def queue_check(database: Database) -> CheckResult:
    """Whether each task that runs has one attempt under way, its own, and no other task has any."""
    task, attempt = queue_tables.TaskRow, queue_tables.AttemptRow
    under_way = (attempt.task_id == task.id) & (attempt.ended == "")
    columns = (task.id, task.schedule, task.state, task.token)
    query = (
        select(*columns, func.count(attempt.token).label("under_way"), func.max(attempt.token).label("fence"))
        .join(attempt, under_way, isouter=True)
        .group_by(*columns)
        .order_by(task.id)
    )
    with database.reading() as connection:
        rows = connection.execute(query).all()
    problems = [
        Problem(
            f"Task {row.id} of {row.schedule} is {row.state} under {'a' if row.token else 'no'} token, with "
            f"attempts under way: {row.under_way}.",
            f"`pyrometer tasks cancel {row.id}` ends it." if row.state == TaskState.RUNNING else RESTORE,
        )
        for row in rows
        if not (_held(row) if row.state == TaskState.RUNNING else _free(row))
    ]
    return CheckResult("queue", len(rows), "tasks", tuple(problems))


def _held(task: AnyRow) -> bool:
    return task.token is not None and (task.under_way, task.fence) == (1, task.token)


def _free(task: AnyRow) -> bool:
    return task.token is None and task.under_way == 0


#: The checks of a whole database: name, unit of the count, function. The schema is checked before them.
WHOLE: tuple[tuple[str, str, Callable[[Database], CheckResult]], ...] = (
    ("file", "pages", file_check),
    ("references", "tables", reference_check),
    ("counts", "runs", count_check),
    ("points", "measurements", point_check),
    ("queue", "tasks", queue_check),
)


def _strays(table: type[tables.OutcomeRow] | type[tables.MeasurementRow]) -> AnySelect:
    link, run = tables.RunEnvironmentRow, tables.RunRow
    own = (link.run_number == table.run_number) & (link.environment_id == table.environment_id)
    return (
        select(run.id, func.count().label("strays"))
        .select_from(table)
        .join(run, run.number == table.run_number)
        .join(link, own, isouter=True)
        .where(link.run_number.is_(None))
        .group_by(run.id)
    )


def _planned_outcomes(connection: Connection) -> dict[int, dict[str, int]]:
    """By the number of a run, how many outcomes of each status it has, the canary's left out."""
    outcome, environment = tables.OutcomeRow, tables.EnvironmentRow
    query = (
        select(outcome.run_number, outcome.status, func.count().label("outcomes"))
        .join(environment, environment.id == outcome.environment_id)
        .where(environment.kind != EnvironmentKind.CANARY)
        .group_by(outcome.run_number, outcome.status)
    )
    found: dict[int, dict[str, int]] = defaultdict(dict)
    for row in connection.execute(query):
        found[row.run_number][row.status] = row.outcomes
    return found


def _in_words(counts: Any) -> str:
    return ", ".join(f"{n} {status}" for status, n in sorted(counts.items())) or "no outcome"


#: Computes the measurements of a run from its replicates.
Measure = Callable[[Iterable[Replicate]], Sequence[Measurement]]
#: Receives the name of a check, how many items are done, and how many there are.
Progress = Callable[[str, int, int], None]

#: A process that is storing a run has stored the rest of it after so long.
_MOMENT_SECONDS = 0.5
#: Relative difference that another version of the mathematical library may cause.
_ROUNDING = 1e-9

_RAW_STAYS = (
    "Its metrics are untouched; the run's journal has the rows still, and a new database that is filled from "
    "the journals holds them again."
)


def unseen(what: str, count: int, total: int) -> None:
    """Progress that is not shown."""


def measurement_check(
    database: Database,
    measure: Measure,
    *,
    unfinished: Collection[str] = (),
    newest: int | None = None,
    progress: Progress = unseen,
) -> CheckResult:
    """Whether the measurements of each run equal what `measure` computes from its outcomes.

    Checks the `newest` runs, all for None. Not compared are foreign runs, whose files state their numbers,
    and runs that are still running or `unfinished`.
    """
    runs, notes = _runs(database, newest)
    count = elsewhere = open_runs = 0
    problems: list[Problem] = []
    for run in _with_progress(runs, "measurements", progress):
        if run.source != RunSource.MEASURED:
            elsewhere += 1
        elif run.state == RunState.RUNNING or run.id in unfinished:
            open_runs += 1
        else:
            wrong, stored = _compare_run(database, run.id, measure)
            if wrong:
                # Outcomes are stored before measurements: another process may be storing this run.
                time.sleep(_MOMENT_SECONDS)
                wrong, stored = _compare_run(database, run.id, measure)
            count += stored
            problems += [Problem(wrong, STORE_AGAIN)] if wrong else []
    if elsewhere:
        notes += (f"{plural(elsewhere, 'run is', 'runs are')} imported, and taken as it came",)
    if open_runs:
        notes += (f"{plural(open_runs, 'run is', 'runs are')} not stored to its end, and not compared",)
    return CheckResult("measurements", count, "measurements", tuple(problems), notes)


def sample_check(
    database: Database, *, newest: int | None = None, progress: Progress = unseen
) -> CheckResult:
    """Whether the samples of each outcome that has any can be read back, as many as they say."""
    return _blob_check(database, "samples", "outcomes", _SAMPLES, _read_samples, newest, progress)


def telemetry_check(
    database: Database, *, newest: int | None = None, progress: Progress = unseen
) -> CheckResult:
    """Whether each recording can be read back, with as many rows and seconds as its columns say."""
    return _blob_check(database, "telemetry", "recordings", _RECORDINGS, _read_rows, newest, progress)


def _runs(database: Database, newest: int | None) -> tuple[list[RunSummary], tuple[str, ...]]:
    """The newest runs, and a note where these are not all."""
    there = queries.count_runs(database)
    runs = queries.recent_runs(database, limit=there if newest is None else newest)
    return runs, (f"of the newest {len(runs)} of {there} runs",) if len(runs) < there else ()


def _with_progress(runs: Sequence[RunSummary], what: str, progress: Progress) -> Iterator[RunSummary]:
    for done, run in enumerate(runs):
        progress(what, done, len(runs))
        yield run
    progress(what, len(runs), len(runs))


def _compare_run(database: Database, run: str, measure: Measure) -> tuple[str, int]:
    """The problems of a run's measurements, and the number of its measurements."""
    try:
        return _difference(database, run, measure)
    except NOT_UNDERSTOOD as error:
        return f"Run {run}: {damage(error)}", 0


def _difference(database: Database, run: str, measure: Measure) -> tuple[str, int]:
    stored = {each.key: each for each in queries.measurements_of_run(database, run)}
    expected = {each.key: each for each in measure(replicates_of_run(database, run))}
    wrong = [
        name for name, each in expected.items() if name not in stored or not same_numbers(each, stored[name])
    ]
    wrong += stored.keys() - expected.keys()
    if not wrong:
        return "", len(stored)
    case, _, metric = min(wrong)
    sentence = f"{len(wrong)} of {len(expected)} measurements of run {run} are not what its outcomes say"
    return f"{sentence}: {metric} of {case} is one.", len(stored)


def same_numbers(one: Measurement, other: Measurement) -> bool:
    """Whether two measurements have the same numbers, but for rounding."""
    pairs = zip(_numbers(one), _numbers(other), strict=True)
    return all(
        a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=_ROUNDING))
        for a, b in pairs
    )


def _numbers(m: Measurement) -> tuple[float | None, ...]:
    return m.point, m.low, m.high, m.smallest, m.largest, m.spread, m.n


def _blob_check(
    database: Database,
    name: str,
    unit: str,
    blobs: AnySelect,
    read: Callable[[AnyRow], str],
    newest: int | None,
    progress: Progress,
) -> CheckResult:
    runs, notes = _runs(database, newest)
    count = 0
    problems: list[Problem] = []
    for run in _with_progress(runs, name, progress):
        with database.reading() as connection:
            rows = connection.execute(blobs.where(tables.RunRow.id == run.id)).all()
        count += len(rows)
        for row in rows:
            if wrong := _wrong(read, row):
                sentence = f"{row.replicate} of {row.key} in run {run.id}: {wrong}"
                problems.append(Problem(f"Replicate {sentence}", _RAW_STAYS))
    return CheckResult(name, count, unit, tuple(problems), notes)


def _wrong(read: Callable[[AnyRow], str], row: AnyRow) -> str:
    try:
        return read(row)
    except DatabaseError as error:
        return str(error)
    except NOT_UNDERSTOOD as error:
        return damage(error)


def _read_samples(row: AnyRow) -> str:
    blocks = sample_codec.decode(row.codec, row.blob)
    return "" if any(blocks) else "It has samples, and there are none."


def _read_rows(row: AnyRow) -> str:
    rows = telemetry_codec.decode(row.codec, row.blob)
    lengths = {len(rows.started_ns), len(rows.ended_ns), *map(len, rows.values.values())}
    if lengths != {row.rows}:
        return (
            f"The recording of {row.device} has {len(rows.started_ns)} rows, and its column says {row.rows}."
        )
    seconds = (rows.ended_ns[-1] - rows.started_ns[0]) / 1e9 if rows.started_ns else 0.0
    if not math.isclose(seconds, row.seconds, rel_tol=_ROUNDING):
        return f"The recording of {row.device} goes over {seconds} s, and its column says {row.seconds} s."
    return ""


def _stored_by_replicate(
    table: type[tables.SamplesRow] | type[tables.TelemetryRow], *more: InstrumentedAttribute[Any]
) -> AnySelect:
    case = tables.BenchmarkCaseRow
    return (
        select(case.key, table.replicate, table.codec, table.blob, *more)
        .join(tables.RunRow, tables.RunRow.number == table.run_number)
        .join(case, case.id == table.case_id)
    )


_SAMPLES = _stored_by_replicate(tables.SamplesRow)
_RECORDINGS = _stored_by_replicate(
    tables.TelemetryRow, tables.TelemetryRow.device, tables.TelemetryRow.rows, tables.TelemetryRow.seconds
)
