"""A night through the store, and the same rows by the driver alone."""

from operator import attrgetter
from typing import Any

from sqlalchemy import Connection

from db.connection.engine import Database, one_transaction
from db.runs import sample_codec, store
from db.schema import core_tables as tables
from records.outcomes import Measurement, Outcome
from records.runs import Run

from .filling import Names, Rows, Values, run_row
from .history import REPLICATES, History, Night

_NUMBERS = attrgetter("point", "low", "high", "smallest", "largest", "spread", "n")

Records = tuple[Run, list[Outcome], list[Measurement]]


def store_night(database: Database, history: History, night: Night, records: Records | None = None) -> None:
    """What ingesting a journal comes to once it is read."""
    run, outcomes, measurements = records or (
        history.run(night),
        history.outcomes_of(night),
        history.measurements_of(night),
    )
    with one_transaction(database) as one:
        store.save_run(one, run)
        store.save_outcomes(one, run.id, outcomes)
        store.save_measurements(one, run.id, measurements)


def checkpoint(database: Database) -> None:
    """Empty SQLite's log, so that no night pays for the pages of the one before it."""
    if database.engine.dialect.name == "sqlite":
        with database.engine.connect() as connection:
            driver: Any = connection.connection.dbapi_connection
            driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")


class BareNight:
    """Nights as rows that are ready for the driver, stored by nothing but its executemany."""

    def __init__(self, database: Database, history: History) -> None:
        self._database = database
        self._values = Values(database, history)
        with database.writing() as connection:
            self._names = Names(connection, history)
        self._number = 1_000_000_000

    def rows(self, night: Night, records: Records) -> Rows:
        """The rows of the records, encoded as the store does it, of a run that the store will not number."""
        # SQLite counts on from the highest number there is.
        self._number += 1000
        _, outcomes, measurements = records
        document, moment = self._values.document, self._values.moment
        at, used = moment(night.started_at), self._names.environments[night.release]
        numbered = Night(self._number, night.run, night.machine, night.release, night.started_at)
        series = self._names.series[night.machine]
        keys = [
            (self._number, self._names.cases[place // REPLICATES], used, each.replicate)
            for place, each in enumerate(outcomes)
        ]
        return {
            tables.RunRow: [run_row(self._names, self._values, numbered, "nightly")],
            tables.RunEnvironmentRow: [(self._number, used, 0)],
            tables.OutcomeRow: [
                (
                    *key,
                    each.status,
                    each.reason,
                    each.phase,
                    moment(each.started_at),
                    each.wall_seconds,
                    document(each.metrics),
                    document(each.facts),
                    each.log_tail,
                )
                for key, each in zip(keys, outcomes, strict=True)
            ],
            tables.SamplesRow: [
                (*key, *sample_codec.encode(each.blocks))
                for key, each in zip(keys, outcomes, strict=True)
                if each.blocks
            ],
            tables.MeasurementRow: [
                (number, at, self._number, used, *_NUMBERS(each))
                for number, each in zip(series, measurements, strict=True)
            ],
        }

    def store(self, rows: Rows) -> None:
        """One transaction."""
        with self._database.writing() as connection:
            driver = _driver(connection)
            mark = "?" if connection.dialect.name == "sqlite" else "%s"
            for table, new in rows.items():
                driver.executemany(_insert(table, mark), new)


def _driver(connection: Connection) -> Any:
    return connection.connection.cursor()


def _insert(table: type[tables.Base], mark: str) -> str:
    columns = [f'"{column.name}"' for column in table.__table__.columns]
    places = ", ".join([mark] * len(columns))
    return f"INSERT INTO {table.__tablename__} ({', '.join(columns)}) VALUES ({places})"
