"""A database locked, deleted or stopped in mid-run: the journal keeps it, the next command stores it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from db.connection.engine import open_database
from db.runs import queries
from runner import journal
from support.command_line import typed
from support.servers.databases import postgres_server
from support.servers.postgres import PostgresServer
from support.site import Done, Site, of_the_plan

pytestmark = pytest.mark.torch

ONCE = ("--replicates", "1")
HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Another process holds SQLite's write lock."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "locked\n"
        yield


def each_once(url: str, site: Site, run: str) -> None:
    """Journal and database hold the same outcomes, each once."""
    kept = journal.read_contents(site.journal(run)).outcomes
    with open_database(url, create=False) as database:
        stored = of_the_plan(queries.outcomes_of_run(database, run))
    assert sorted((o.case, o.replicate, o.status) for o in stored) == sorted(
        (o.case, o.replicate, o.status) for o in kept
    )
    assert len(stored) == 2


def went_on(done: Done, stored: bool) -> None:
    """The run measured everything and said what was wrong with the database."""
    assert done.code == 0, done
    assert done.events[-1]["state"] == "complete" and done.events[-1]["stored"] is stored
    notes = [event["text"] for event in done.events if event["event"] == "note"]
    assert [n for n in notes if n.endswith("Everything is in the journal; the next command stores it.")], (
        notes
    )


def the_next_command_stores(site: Site, run: str, **places: str) -> None:
    done = typed(site, "run", "--resume", run, **places)
    assert f"of run {run} from its journal" in done.err


def test_locked_for_the_whole_run(site: Site) -> None:
    with locked(site.folder / "pyrometer.db"):
        done = site.run("quick", *ONCE, "--json")
    went_on(done, stored=False)
    assert sum(event["event"] == "note" for event in done.events) == 1, "reported once, not at each session"
    the_next_command_stores(site, done.run)
    each_once(site.url, site, done.run)


def test_deleted_in_mid_run(site: Site) -> None:
    running = site.start_suite("quick", *ONCE)
    running.until("outcome")
    running.until("phase", phase="measure")
    for file in site.folder.glob("pyrometer.db*"):
        file.unlink()
    done = running.end()
    went_on(done, stored=True)
    each_once(site.url, site, done.run)


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.mark.postgres
def test_a_postgres_that_stops_in_mid_run(site: Site, server: PostgresServer) -> None:
    url = server.new_database()
    running = site.start_suite("quick", *ONCE, PYROMETER_DATABASE_URL=url)
    running.until("outcome")
    running.until("phase", phase="measure")
    server.stop()
    done = running.end()
    server.start()
    went_on(done, stored=False)
    the_next_command_stores(site, done.run, PYROMETER_DATABASE_URL=url)
    each_once(url, site, done.run)
