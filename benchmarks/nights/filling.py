"""The bulk way into a database: the real schema, filled night by night with what the driver does fastest."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Connection, func, select

from db.connection.connection import WRITES
from db.connection.engine import Database
from db.runs.upserts import case_ids, environment_ids, hardware_id, machine_id, preset_id, series_ids
from db.schema import core_tables as tables

from .history import (
    CASES,
    MACHINES,
    METRICS,
    NIGHTS_A_TRACE,
    PRESET,
    REPLICATES,
    History,
    Night,
    Row,
    case,
    environment,
    machine,
)

#: Runs whose rows are held in memory at once.
_AT_ONCE = 40

Rows = dict[type[tables.Base], list[Row]]


def fill(database: Database, history: History) -> None:
    """Fill an empty database, as if every night had been stored on its own: SQLite's pages are as full."""
    with database.writing() as connection:
        names = Names(connection, history)
    write = _into_sqlite if database.engine.dialect.name == "sqlite" else _into_postgres
    write(database, _parts(history, names, database))
    if database.engine.dialect.name == "postgresql":
        _vacuum(database)


class Names:
    """The ids of everything that rows refer to."""

    def __init__(self, connection: Connection, history: History) -> None:
        machines = [machine(each) for each in range(MACHINES)]
        self.machines = [machine_id(connection, each) for each in machines]
        self.hardware = [hardware_id(connection, each.hardware) for each in machines]
        self.preset = preset_id(connection, PRESET)
        releases = [environment(each) for each in range(history.releases)]
        found = environment_ids(connection, releases)
        self.environments = [found[each.fingerprint] for each in releases]
        keys = case_ids(connection, [case(each) for each in range(CASES)])
        self.cases = [keys[case(each)] for each in range(CASES)]
        pairs = [(each, metric) for each in self.cases for metric in METRICS]
        self.series: list[list[int]] = []
        for each in self.hardware:
            ids = series_ids(connection, each, self.preset, pairs)
            self.series.append([ids[pair] for pair in pairs])


class Values:
    """Values as this database's driver takes them."""

    def __init__(self, database: Database, history: History) -> None:
        dialect = database.engine.dialect
        self._moment = tables.UtcTime().dialect_impl(dialect).bind_processor(dialect)
        self._document = tables.Json().dialect_impl(dialect).bind_processor(dialect)
        self.outcomes = [
            (status, reason, phase, wall, self.document(metrics), self.document(facts), log)
            for status, reason, phase, wall, metrics, facts, log in history.outcomes
        ]

    def moment(self, value: datetime) -> Any:
        """A time."""
        return self._moment(value) if self._moment else value

    def document(self, value: object) -> Any:
        """A JSON document."""
        return self._document(value) if self._document else value


def _parts(history: History, names: Names, database: Database) -> Iterator[Rows]:
    bound = Values(database, history)
    rows: Rows = {}
    for place, night in enumerate(history.nights()):
        if place % _AT_ONCE == 0 and rows:
            yield rows
            rows = {}
        for table, new in rows_of(history, names, bound, night).items():
            rows.setdefault(table, []).extend(new)
    yield rows
    yield _traces(history, names, bound)


def run_row(names: Names, bound: Values, night: Night, suite: str) -> Row:
    """The row of a night's run."""
    started, ended = bound.moment(night.started_at), bound.moment(night.started_at + timedelta(minutes=50))
    owners, hardware = (names.machines[night.machine], names.preset), names.hardware[night.machine]
    counts = bound.document({"ok": CASES * REPLICATES - 4, "crashed": 4})
    texts = "harness-1f3a", CASES * REPLICATES, "pyrometer run --suite nightly"
    empty = bound.document([]), bound.document({"load_average": 0.2})
    hardware = names.hardware[night.machine]
    return (
        night.number,
        night.run,
        suite,
        started,
        ended,
        "complete",
        *owners,
        *texts,
        *empty,
        counts,
        hardware,
        *("trace" if suite == "profile" else "run", "measured", ""),
    )


def rows_of(history: History, names: Names, bound: Values, night: Night) -> Rows:
    """The rows of a night by table, those with telemetry only of the newest outcomes of the history."""
    whole = history.count * MACHINES * CASES * REPLICATES
    at, used = bound.moment(night.started_at), names.environments[night.release]
    rows: Rows = {
        tables.RunRow: [run_row(names, bound, night, "nightly")],
        tables.RunEnvironmentRow: [(night.number, used, 0)],
        tables.MeasurementRow: [
            (series, at, night.number, used, *values, REPLICATES)
            for series, values in zip(names.series[night.machine], history.points(), strict=True)
        ],
        tables.OutcomeRow: [],
        tables.SamplesRow: [],
        tables.TelemetryRow: [],
    }
    for number in range(CASES * REPLICATES):
        key = night.number, names.cases[number // REPLICATES], used, number % REPLICATES
        which = (night.number + number) % len(bound.outcomes)
        status, reason, phase, *others = bound.outcomes[which]
        rows[tables.OutcomeRow].append((*key, status, reason, phase, at, *others))
        if status == "ok":
            rows[tables.SamplesRow].append((*key, *history.encoded_blocks[which]))
        place = (night.number - 1) * CASES * REPLICATES + number
        if whole - history.windows <= place < whole:
            recording = history.recordings[place % len(history.recordings)]
            rows[tables.TelemetryRow].append((*key, *recording.values()))
    return rows


def _traces(history: History, names: Names, bound: Values) -> Rows:
    """The runs of those who looked where the time goes."""
    rows: Rows = {tables.RunRow: [], tables.RunEnvironmentRow: [], tables.OutcomeRow: []}
    first, facts = history.count * MACHINES + 1, history.operators()
    for place, number in enumerate(range(0, history.count, NIGHTS_A_TRACE)):
        night = history.night(number, 0)
        at = night.started_at + timedelta(hours=8)
        night = Night(first + place, f"{night.run}-trace", 0, night.release, at)
        used = names.environments[night.release]
        rows[tables.RunRow].append(run_row(names, bound, night, "profile"))
        rows[tables.RunEnvironmentRow].append((night.number, used, 0))
        key = night.number, names.cases[place % CASES], used, 0
        values = "ok", "", "", bound.moment(at), 60.0, bound.document({}), facts, ""
        rows[tables.OutcomeRow].append((*key, *values))
    return rows


def _into_sqlite(database: Database, parts: Iterator[Rows]) -> None:
    file = Path(database.name.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for setting in ("synchronous = OFF", "foreign_keys = OFF", "cache_size = -2000000"):
            connection.execute(f"PRAGMA {setting}")
        for rows in parts:
            connection.execute("BEGIN IMMEDIATE")
            for table, new in rows.items():
                if new:
                    places = ", ".join("?" * len(new[0]))
                    connection.executemany(f"INSERT INTO {table.__tablename__} VALUES ({places})", new)
            connection.execute("COMMIT")


def _into_postgres(database: Database, parts: Iterator[Rows]) -> None:
    url = database.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url) as connection:
        # Like SQLite's foreign_keys = OFF: not asked row by row for what is known to be there.
        connection.execute("SET session_replication_role = replica")
        for rows in parts:
            for table, new in rows.items():
                columns = ", ".join(f'"{each.name}"' for each in table.__table__.columns)
                copying = f"COPY {table.__tablename__} ({columns}) FROM STDIN"
                with connection.cursor() as cursor, cursor.copy(copying) as copy:
                    for row in new:
                        copy.write_row(row)
            connection.commit()


def _vacuum(database: Database) -> None:
    """What a server does by itself in a quiet hour, and that the next run gets the next number."""
    with database.writing() as connection:
        sequence = func.pg_get_serial_sequence("run", "number")
        last = select(func.max(tables.RunRow.number)).scalar_subquery()
        connection.execute(select(func.setval(sequence, last)))
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")


def size(database: Database) -> int:
    """Bytes on the disk."""
    with database.engine.connect().execution_options(**WRITES) as connection:
        if connection.dialect.name == "postgresql":
            return connection.execute(select(func.pg_database_size(func.current_database()))).scalar_one()
        pages, page = (
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("page_count", "page_size")
        )
        return pages * page
