"""Fixtures: a database to test with, as SQLite or in a real Postgres server of our own.

All tests of `db` that ask for one run on both, and elsewhere those marked `on_both`: where connections race,
or what is stored is compared whole.
"""

import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from db.connection.engine import Database, open_database
from support.servers.postgres import PostgresServer, postgres_binaries
from support.site import unavailable
from support.sqlite_files import sqlite_with_tables

BOTH = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
on_both = pytest.mark.parametrize("url", BOTH, indirect=True)


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


@pytest.fixture(params=BOTH)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without tables; of SQLite's, not even the file is there."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/pyrometer.db"
    else:
        yield from _new_in_postgres(request, "template0")


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without rows, with today's tables: SQLite's, if a test says nothing else."""
    yield from with_tables(getattr(request, "param", "sqlite"), request, tmp_path)


def with_tables(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """For fixtures: the URL of a new database of that kind."""
    if kind == "sqlite":
        yield sqlite_with_tables(folder / "pyrometer.db")
    else:
        yield from _new_in_postgres(request, "postgres")


def _new_in_postgres(request: pytest.FixtureRequest, template: str) -> Iterator[str]:
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.new_database(template)
    yield url
    server.drop_database(url)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    with open_database(url, timeout=30) as opened:
        yield opened
