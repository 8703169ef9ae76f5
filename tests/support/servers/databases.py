"""Fixtures: a database to test with, as SQLite or in a real Postgres server of our own.

All tests of `db` that ask for one run on both, and elsewhere those marked `on_both`: where connections race,
or what is stored is compared whole.
"""

import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from db.connection.engine import Database, open_database
from db.schema.version import VERSION_TABLE
from support.servers.postgres import PostgresServer, postgres_binaries
from support.site import unavailable
from support.sqlite_files import sqlite_with_tables

BOTH = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
on_both = pytest.mark.parametrize("url", BOTH, indirect=True)

_OURS = "'public'::regnamespace"
#: What a test may change besides rows: tables, columns, constraints, functions, rights, settings, revision.
_SHAPE = f"""
SELECT array_agg(what ORDER BY what) FROM (
    SELECT format('%s %s %s %s', oid, relname, relacl, relhastriggers) FROM pg_class
    WHERE relnamespace = {_OURS}
    UNION ALL
    SELECT format('%s %s %s %s', attrelid, attname, atttypid, attacl) FROM pg_attribute
    WHERE attnum > 0 AND attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = {_OURS})
    UNION ALL SELECT format('%s %s', oid, conname) FROM pg_constraint WHERE connamespace = {_OURS}
    UNION ALL SELECT format('%s %s', oid, proacl) FROM pg_proc WHERE pronamespace = {_OURS}
    UNION ALL SELECT format('%s %s', nspname, nspacl) FROM pg_namespace WHERE nspname !~ '^pg_'
    UNION ALL SELECT format('%s', defaclacl) FROM pg_default_acl
    UNION ALL SELECT format('%s', datacl) FROM pg_database WHERE datname = current_database()
    UNION ALL SELECT format('%s', setconfig) FROM pg_db_role_setting JOIN pg_database ON oid = setdatabase
    WHERE datname = current_database()
    UNION ALL SELECT format('%s', version_num) FROM {VERSION_TABLE}
) AS found (what)
"""
_THROW_OUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_EMPTY = f"""
DO $$ DECLARE used text; BEGIN
    SELECT string_agg(format('%I', relname), ', ') INTO used FROM pg_class
    WHERE relnamespace = {_OURS} AND relkind = 'r' AND relname <> '{VERSION_TABLE}'
    AND pg_relation_size(oid) > 0;
    IF used IS NOT NULL THEN EXECUTE format('TRUNCATE %s RESTART IDENTITY CASCADE', used); END IF;
END $$
"""


class EmptyDatabases:
    """Databases of a server with today's tables and no rows; to empty one is quicker than to copy another."""

    def __init__(self, server: PostgresServer) -> None:
        self._server, self._unused = server, list[str]()
        with psycopg.connect(server.url("postgres")) as connection:
            self._shape = connection.execute(_SHAPE.encode()).fetchall()

    def take(self) -> str:
        """The URL of one that nothing else uses."""
        return self._unused.pop() if self._unused else self._server.new_database("postgres")

    def give_back(self, url: str) -> None:
        """Empty it for the next one; drop it if more than its rows was changed."""
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_THROW_OUT.encode())
            connection.execute("SET lock_timeout = '30s'")
            if connection.execute(_SHAPE.encode()).fetchall() == self._shape:
                connection.execute(_EMPTY.encode())
                self._unused.append(url)
                return
        self._server.drop_database(url)


@contextmanager
def postgres_server() -> Generator[PostgresServer]:
    """A server of Postgres that runs within; without Postgres the test is skipped."""
    binaries = postgres_binaries()
    if binaries is None:
        unavailable("no Postgres server is installed: no initdb under /usr/lib/postgresql or on PATH")
        return
    # Not under pytest's folder: that one is closed to the user that Postgres runs as, and the path of a
    # socket must be short.
    with tempfile.TemporaryDirectory(prefix="pyrometer-") as folder:
        server = PostgresServer(binaries, Path(folder))
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        open_database(server.url("postgres")).close()
        yield server


@pytest.fixture(scope="session")
def empty_databases(postgres: PostgresServer) -> EmptyDatabases:
    return EmptyDatabases(postgres)


@pytest.fixture(params=BOTH)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without tables; of SQLite's, not even the file is there."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/pyrometer.db"
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.new_database()
        yield url
        server.drop_database(url)


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without rows, with today's tables: SQLite's, if a test says nothing else."""
    yield from with_tables(getattr(request, "param", "sqlite"), request, tmp_path)


def with_tables(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """For fixtures: the URL of a new database of that kind."""
    if kind == "sqlite":
        yield sqlite_with_tables(folder / "pyrometer.db")
    else:
        databases: EmptyDatabases = request.getfixturevalue("empty_databases")
        url = databases.take()
        yield url
        databases.give_back(url)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    with open_database(url, timeout=30) as opened:
        yield opened
