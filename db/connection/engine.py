"""Opens a database, checks its schema, and provides transactions."""

import sqlite3
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from sqlalchemy import URL, Connection, Engine

from common.atomic_file import replace_atomically

from ..errors import DatabaseUnavailable, SchemaTooOld
from ..schema import version as schema
from .connection import READS, WRITES, at_rest, format_url, in_a_sentence, make_engine, parse_url, sqlite_path


@dataclass(frozen=True, slots=True)
class Database:
    """An open database, safe to share between threads; `name` is its URL without the password."""

    name: str
    engine: Engine

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """A connection whose statements all see the same snapshot of the database."""
        options = READS if self.engine.dialect.name == "postgresql" else {}
        with (
            in_a_sentence(self.name),
            self.engine.connect().execution_options(**options) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def writing(self) -> Generator[Connection]:
        """A transaction: all its changes are committed, or none if an exception is raised."""
        with (
            in_a_sentence(self.name),
            self.engine.connect().execution_options(**WRITES) as connection,
            connection.begin(),
        ):
            yield connection

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def __enter__(self) -> "Database":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _InTransaction(Database):
    """A database whose reads and writes all run in one open transaction."""

    connection: Connection

    @contextmanager
    def reading(self) -> Generator[Connection]:
        yield self.connection

    @contextmanager
    def writing(self) -> Generator[Connection]:
        yield self.connection


@contextmanager
def one_transaction(database: Database) -> Generator[Database]:
    """The same database, with every call in one transaction: an exception rolls all of them back.

    Other writers of the same run wait meanwhile; on SQLite, all other writers.
    """
    with database.writing() as connection:
        yield _InTransaction(database.name, database.engine, connection)


@dataclass(frozen=True, slots=True)
class SchemaUpgrade:
    """The result of an upgrade: the revision before (None for an empty database) and after, and the copy of
    the file.
    """

    before: str | None
    after: str
    backup: Path | None


def open_database(url: str, *, create: bool = True, timeout: float = 5.0) -> Database:
    """The database at `url`, ready to use.

    An SQLite file is made if it is missing and `create` is true, and brought to this program's schema after a
    copy was saved next to it. In a Postgres database tables are created only if it is empty and `create` is
    true. `timeout` is how many seconds to wait for the lock of another process.

    Raises BadDatabaseUrl, DatabaseUnavailable, SchemaTooNew and, for Postgres only, SchemaTooOld.
    """
    parsed = parse_url(url)
    name = format_url(parsed)
    with in_a_sentence(name):
        _find_file(parsed, create)
        database = Database(name, make_engine(parsed, timeout=timeout))
        try:
            _fit(database, parsed, create, timeout)
            _use_write_ahead_log(parsed, timeout)
        except BaseException:
            database.close()
            raise
    return database


def upgrade(url: str, *, timeout: float = 5.0) -> SchemaUpgrade:
    """Bring the database at `url` to this program's schema; raises what `open_database` does."""
    parsed = parse_url(url)
    with in_a_sentence(format_url(parsed)):
        _find_file(parsed, create=True)
        return _migrate(parsed, timeout)


def check_fits(database: Database) -> None:
    """Raise SchemaTooNew if a newer program has upgraded the database since it was opened."""
    with database.reading() as connection:
        schema.revision_of(connection, database.name)


def _find_file(url: URL, create: bool) -> None:
    path = sqlite_path(url)
    if path is None or path.exists():
        return
    if not create:
        raise DatabaseUnavailable(f"There is no database {format_url(url)}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def _fit(database: Database, url: URL, create: bool, timeout: float) -> None:
    """Create or migrate the schema where that is allowed; otherwise raise the reason."""
    with database.reading() as connection:
        revision = schema.revision_of(connection, database.name)
    if revision == schema.head():
        return
    if revision is None and not create:
        raise DatabaseUnavailable(f"The database {database.name} is empty.")
    if revision is not None and sqlite_path(url) is None:
        raise SchemaTooOld(
            f"{database.name} has schema {revision}, this Pyrometer needs {schema.head()}: "
            "run `pyrometer db upgrade`."
        )
    _migrate(url, timeout)


def _migrate(url: URL, timeout: float) -> SchemaUpgrade:
    path = sqlite_path(url)
    after = schema.head()
    engine = make_engine(url, timeout=timeout, foreign_keys=False)
    try:
        with engine.connect().execution_options(**WRITES) as connection, connection.begin():
            schema.lock(connection)
            # Read again under the lock: another process may have migrated it meanwhile.
            before = schema.revision_of(connection, format_url(url))
            backup = None
            if before != after:
                backup = _back_up(path, after) if path is not None and before is not None else None
                schema.migrate(connection)
    finally:
        engine.dispose()
    return SchemaUpgrade(before, after, backup)


def _use_write_ahead_log(url: URL, timeout: float) -> None:
    """Set WAL mode, in which SQLite's readers and its writer work concurrently; the file stores the mode."""
    path = sqlite_path(url)
    if path is None or at_rest(path):
        return
    deadline = time.monotonic() + timeout
    with closing(sqlite3.connect(path, timeout=timeout)) as connection:
        while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            # SQLite does not always wait for a lock when the mode changes; therefore retry here.
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


def _back_up(path: Path, revision: str) -> Path:
    """Copy the database to `NAME.before-REVISION`; the copy appears whole or not at all."""
    backup = path.with_name(f"{path.name}.before-{revision}")
    with (
        replace_atomically(backup) as part,
        closing(sqlite3.connect(path)) as source,
        closing(sqlite3.connect(part)) as copy,
    ):
        source.backup(copy)
    return backup
