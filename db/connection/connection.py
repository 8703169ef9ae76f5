"""Connections to SQLite and Postgres, and their errors as sentences."""

import os
import re
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, NullPool, QueuePool, create_engine, event, exc, make_url

from ..errors import BadDatabaseUrl, DatabaseError, DatabaseUnavailable, ReadOnly

#: Execution option of a connection whose transactions take the write lock at once. On SQLite a
#: transaction that begins with a read and writes later can fail without waiting; this one waits.
WRITES = {"writes": True}

#: Execution option for Postgres, whose statements of one transaction each see the newest state otherwise.
READS = {"isolation_level": "REPEATABLE READ"}

#: Errors caused by the statement, not by the state of the database.
_OUR_MISTAKES = (exc.IntegrityError, exc.ProgrammingError, exc.DataError, exc.NotSupportedError)


def parse_url(text: str) -> URL:
    """The URL in `text`, with the driver we use; raises BadDatabaseUrl with a remedy."""
    try:
        url = make_url(text)
    except (exc.ArgumentError, ValueError) as error:
        without_password = re.sub("//.*@", "//***@", text)
        raise BadDatabaseUrl(
            f"{without_password!r} is not a database URL; try sqlite:///pyrometer.db "
            "or postgresql://user:password@host/database."
        ) from error
    backend = url.drivername.partition("+")[0]
    if backend in ("postgres", "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise BadDatabaseUrl(
            f"{format_url(url)} names {backend}, but only sqlite:/// and postgresql:// are supported."
        )
    if not url.database or url.database == ":memory:" or url.host:
        raise BadDatabaseUrl(f"{format_url(url)} names no file; try sqlite:///pyrometer.db.")
    return url.set(drivername="sqlite+pysqlite")


def format_url(url: URL) -> str:
    """`url` as it is printed: without the password and without our choice of driver."""
    # A password may also be among the options, where SQLAlchemy does not hide it.
    options = {name: "hidden" if "password" in name else value for name, value in url.query.items()}
    plain = url.set(drivername=url.drivername.partition("+")[0], query=options)
    return plain.render_as_string(hide_password=True)


def sqlite_path(url: URL) -> Path | None:
    """The file of an SQLite URL, None for another database."""
    if url.get_backend_name() != "sqlite" or url.database is None:
        return None
    return Path(url.database).absolute()


def make_engine(url: URL, *, timeout: float, foreign_keys: bool = True) -> Engine:
    """An engine that waits at most `timeout` seconds for a lock; nothing is connected yet."""
    path = sqlite_path(url)
    return _postgres_engine(url, timeout) if path is None else _sqlite_engine(path, timeout, foreign_keys)


def at_rest(path: Path) -> bool:
    """Whether an SQLite file is open nowhere and this process cannot create log files next to it.

    Such a file can only be read as immutable. A writer creates its log file first.
    """
    return not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists()


class _AtRest(sqlite3.Connection):
    """A connection to an immutable file; `found` is the state of the file then, None for any other
    connection.
    """

    found: tuple[int, ...] | None = None


def _sqlite_engine(path: Path, timeout: float, foreign_keys: bool) -> Engine:
    # mode=rw: a file that was removed must be an error, not created again without tables.
    uri = f"file:{quote(str(path))}?mode=rw"

    def connect() -> sqlite3.Connection:
        found = _state(path) if at_rest(path) else None
        connection = sqlite3.connect(
            f"{uri}&immutable=1" if found else uri,
            uri=True,
            timeout=timeout,
            isolation_level=None,
            check_same_thread=False,
            factory=_AtRest,
        )
        connection.found = found
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
        return connection

    # Pages of an immutable file are cached, and out of date as soon as a process writes.
    pool = QueuePool if os.access(path.parent, os.W_OK) else NullPool
    engine = create_engine("sqlite+pysqlite://", creator=connect, poolclass=pool)

    def remember_file(_connection: Any, record: Any) -> None:
        record.info["file"] = _identity(path)

    def miss_file(_connection: Any, record: Any, _proxy: Any) -> None:
        # An open connection would continue to write to a deleted file.
        if record.info["file"] != _identity(path):
            raise exc.DisconnectionError("the database file was removed or replaced")

    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    event.listen(engine, "connect", remember_file)
    event.listen(engine, "checkout", miss_file)

    def distrust(connection: Connection) -> None:
        found = getattr(connection.connection.dbapi_connection, "found", None)
        if found is not None and found != _state(path):
            raise sqlite3.OperationalError("it was written while it was read; repeat the query")

    event.listen(engine, "begin", begin)
    event.listen(engine, "commit", distrust)
    return engine


def _postgres_engine(url: URL, timeout: float) -> Engine:
    patience = {} if "connect_timeout" in url.query else {"connect_timeout": max(2, round(timeout))}
    try:
        engine = create_engine(url, pool_pre_ping=True, connect_args=patience)
    except ImportError as error:
        raise BadDatabaseUrl(
            f"{format_url(url)} needs the extra `postgres`: install pyrometer[postgres]."
        ) from error

    def prepare(connection: Any, _record: Any) -> None:
        connection.execute(f"SET lock_timeout = {round(timeout * 1000)}")
        # Pages read few rows by their keys. With its default costs, which are those of a spinning disk,
        # Postgres would read whole tables instead; and JIT compilation may take longer than the query.
        connection.execute("SET random_page_cost = 1.1")
        connection.execute("SET jit = off")
        connection.commit()

    event.listen(engine, "connect", prepare)
    return engine


def _state(path: Path) -> tuple[int, ...] | None:
    """Properties of a file that change with a write."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def in_a_sentence(name: str) -> Generator[None]:
    """Turn what the driver, SQLAlchemy or the file system raises into a DatabaseError about `name`."""
    try:
        yield
    except (exc.SQLAlchemyError, sqlite3.Error, OSError) as error:
        cause = str(getattr(error, "orig", None) or error).strip().partition("\n")[0].rstrip(".")
        if _is_forbidden(error):
            raise ReadOnly(f"The database {name} may only be read by this account: {cause}.") from error
        if isinstance(error, _OUR_MISTAKES):
            raise DatabaseError(f"The database {name} refused a statement: {cause}.") from error
        if isinstance(error, exc.DBAPIError | exc.TimeoutError | sqlite3.Error | OSError):
            raise DatabaseUnavailable(f"The database {name} cannot be used now: {cause}.") from error
        raise DatabaseError(f"The database {name} could not be used: {cause}.") from error


def _is_forbidden(error: Exception) -> bool:
    """Whether the database exists and this account may not write to it."""
    driver = getattr(error, "orig", error)
    if isinstance(driver, sqlite3.Error):
        # The lowest byte is the kind of error, the others say more about it.
        return getattr(driver, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY
    # Postgres: insufficient privilege, and a transaction or a server that only reads.
    return getattr(driver, "sqlstate", "") in ("42501", "25006")
