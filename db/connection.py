"""How SQLite and Postgres are reached, and how their complaints become one sentence each."""

import os
import re
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, QueuePool, create_engine, event, exc, make_url

from .errors import BadDatabaseUrl, DatabaseError, DatabaseUnavailable

#: Execution option of a connection whose transactions take the write lock at once. On SQLite a
#: transaction that begins with a read and writes later can fail without waiting; this one waits.
WRITES = {"writes": True}

#: Errors that say something about what was asked, not about the state of the database.
_OUR_MISTAKES = (exc.IntegrityError, exc.ProgrammingError, exc.DataError, exc.NotSupportedError)


def parse_url(text: str) -> URL:
    """The URL in `text`, with the driver we use; raises BadDatabaseUrl with a way out."""
    try:
        url = make_url(text)
    except (exc.ArgumentError, ValueError) as error:
        without_password = re.sub("//.*@", "//***@", text)
        raise BadDatabaseUrl(
            f"{without_password!r} is no database URL; try sqlite:///pyrometer.db "
            "or postgresql://user:password@host/database."
        ) from error
    backend = url.drivername.partition("+")[0]
    if backend in ("postgres", "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise BadDatabaseUrl(
            f"{shown(url)} names {backend}, but only sqlite:/// and postgresql:// are understood."
        )
    if not url.database or url.database == ":memory:" or url.host:
        raise BadDatabaseUrl(f"{shown(url)} names no file; try sqlite:///pyrometer.db.")
    return url.set(drivername="sqlite+pysqlite")


def shown(url: URL) -> str:
    """`url` for people: without the password and our choice of driver."""
    plain = url.set(drivername=url.drivername.partition("+")[0])
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


def _sqlite_engine(path: Path, timeout: float, foreign_keys: bool) -> Engine:
    # mode=rw: a file that was taken away must be missed, not made anew without tables.
    uri = f"file:{quote(str(path))}?mode=rw"

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
        return connection

    engine = create_engine("sqlite+pysqlite://", creator=connect, poolclass=QueuePool)

    def remember_file(_connection: Any, record: Any) -> None:
        record.info["file"] = _identity(path)

    def miss_file(_connection: Any, record: Any, _proxy: Any) -> None:
        # An open connection happily goes on writing to a deleted file.
        if record.info["file"] != _identity(path):
            raise exc.DisconnectionError("the database file was removed or replaced")

    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    event.listen(engine, "connect", remember_file)
    event.listen(engine, "checkout", miss_file)
    event.listen(engine, "begin", begin)
    return engine


def _postgres_engine(url: URL, timeout: float) -> Engine:
    patience = {} if "connect_timeout" in url.query else {"connect_timeout": max(2, round(timeout))}
    try:
        engine = create_engine(url, pool_pre_ping=True, connect_args=patience)
    except ImportError as error:
        raise BadDatabaseUrl(
            f"{shown(url)} needs the extra `postgres`: install pyrometer[postgres]."
        ) from error

    def limit_waiting(connection: Any, _record: Any) -> None:
        connection.execute(f"SET lock_timeout = {round(timeout * 1000)}")
        connection.commit()

    event.listen(engine, "connect", limit_waiting)
    return engine


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
        if isinstance(error, _OUR_MISTAKES):
            raise DatabaseError(f"The database {name} refused a statement: {cause}.") from error
        if isinstance(error, exc.DBAPIError | exc.TimeoutError | sqlite3.Error | OSError):
            raise DatabaseUnavailable(f"The database {name} cannot be used now: {cause}.") from error
        raise DatabaseError(f"The database {name} could not be used: {cause}.") from error
