"""Locked, full, gone, out of reach: one sentence each time, and nothing half done."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from db.connection.engine import open_database
from db.errors import DatabaseUnavailable
from db.runs import queries, store
from support.builders.run_records import a_run, an_outcome
from support.servers.postgres import PostgresServer
from support.small_disk import small_disk_at

HOLD_SQLITE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""

HOLD_POSTGRES = """
import psycopg, sys
with psycopg.connect(sys.argv[1]) as connection:
    connection.execute("SELECT * FROM run FOR UPDATE")
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextmanager
def _locked(url: str) -> Iterator[None]:
    """Another process holds the lock that a writer needs."""
    sqlite_file = url.removeprefix("sqlite:///")
    code, target = (HOLD_POSTGRES, url) if sqlite_file == url else (HOLD_SQLITE, sqlite_file)
    with subprocess.Popen(
        [sys.executable, "-c", code, target], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        yield


def _one_sentence(error: pytest.ExceptionInfo[DatabaseUnavailable]) -> bool:
    text = str(error.value)
    return "\n" not in text and text.endswith(".") and "sqlalche" not in text and "Traceback" not in text


def _outcomes_stored(url: str) -> int:
    with open_database(url, create=False) as database:
        return len(queries.outcomes_of_run(database, "run-1"))


def test_a_lock_that_stays_is_said_in_a_sentence(url: str) -> None:
    with open_database(url, timeout=0.2) as database:
        store.save_run(database, a_run())
        with _locked(url):
            with pytest.raises(DatabaseUnavailable, match="lock") as caught:
                store.save_outcomes(database, "run-1", [an_outcome()])
            assert _one_sentence(caught)
            assert queries.latest_run_id(database) == "run-1", "readers need not wait for a writer"
        assert store.save_outcomes(database, "run-1", [an_outcome()]) == 1


def test_a_locked_new_file_cannot_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "pyrometer.db"
    with _locked(f"sqlite:///{path}"), pytest.raises(DatabaseUnavailable, match="locked"):
        open_database(f"sqlite:///{path}", timeout=0.2)
    open_database(f"sqlite:///{path}").close()


@pytest.mark.parametrize("take_away", [Path.unlink, lambda path: path.rename(path.with_name("moved"))])
def test_a_file_that_is_taken_away_is_missed(tmp_path: Path, take_away: Callable[[Path], object]) -> None:
    path = tmp_path / "pyrometer.db"
    with open_database(f"sqlite:///{path}") as database:
        store.save_run(database, a_run())
        take_away(path)
        for attempt in (
            lambda: store.save_outcomes(database, "run-1", [an_outcome()]),
            lambda: queries.latest_run_id(database),
        ):
            with pytest.raises(DatabaseUnavailable, match="unable to open") as caught:
                attempt()
            assert _one_sentence(caught)
        assert not path.exists()


def test_a_file_that_comes_back_is_used_again(tmp_path: Path) -> None:
    path = tmp_path / "pyrometer.db"
    with open_database(f"sqlite:///{path}") as database:
        store.save_run(database, a_run())
        shutil.move(path, tmp_path / "away")
        with pytest.raises(DatabaseUnavailable):
            queries.latest_run_id(database)
        shutil.move(tmp_path / "away", path)
        assert queries.latest_run_id(database) == "run-1"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 600 KiB."""
    with small_disk_at(tmp_path / "disk", "size=600k") as folder:
        yield folder


def test_a_full_disk_is_said_in_a_sentence_and_harms_nothing(small_disk: Path) -> None:
    url = f"sqlite:///{small_disk}/pyrometer.db"
    stored = 0
    with open_database(url) as database:
        store.save_run(database, a_run())
        with pytest.raises(DatabaseUnavailable, match="disk is full") as caught:
            for replicate in range(1000):
                outcome = an_outcome(replicate=replicate, log_tail=os.urandom(4000).hex())
                stored += store.save_outcomes(database, "run-1", [outcome])
        assert _one_sentence(caught)
        assert len(queries.outcomes_of_run(database, "run-1")) == stored
    assert 0 < stored < 1000
    with closing(sqlite3.connect(small_disk / "pyrometer.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT json_extract(counts, '$.ok') FROM run").fetchone() == (stored,)
    assert _outcomes_stored(url) == stored


def test_a_writer_that_is_killed_leaves_whole_transactions(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/pyrometer.db"
    code = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from support.builders.run_records import an_outcome\n"
        "from db.runs import store\n"
        "from db.connection.engine import open_database\n"
        "database = open_database(sys.argv[1])\n"
        "for replicate in range(100_000):\n"
        "    store.save_outcomes(database, 'run-1', [an_outcome(replicate=replicate)])\n"
        "    print(replicate, flush=True)\n"
    )
    with open_database(url) as database:
        store.save_run(database, a_run())
        command = [sys.executable, "-c", code, url, str(Path(__file__).parents[1])]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(20):
                said = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
            said += sum(1 for _ in writer.stdout)
        outcomes = queries.outcomes_of_run(database, "run-1")
        summary = queries.run_summary(database, "run-1")
        assert summary is not None
        assert summary.counts == {"ok": len(outcomes)}
        assert len(outcomes) - (said + 1) in (0, 1), (
            "at most the one that was being stored is not accounted for"
        )
        assert all(
            queries.samples(database, "run-1", each.case, each.environment, each.replicate)
            for each in outcomes
        )


@pytest.mark.postgres
def test_a_server_out_of_reach_is_said_in_a_sentence() -> None:
    with pytest.raises(DatabaseUnavailable, match="cannot be used now") as caught:
        open_database("postgresql://me:secret@127.0.0.1:1/pyrometer", timeout=2)
    assert _one_sentence(caught)
    assert "secret" not in str(caught.value)


@pytest.mark.postgres
def test_a_server_that_stops_is_missed_and_one_that_comes_back_is_used(postgres: PostgresServer) -> None:
    url = postgres.new_database(template="postgres")
    with open_database(url) as database:
        store.save_run(database, a_run())
        postgres.stop()
        try:
            with pytest.raises(DatabaseUnavailable) as caught:
                store.save_outcomes(database, "run-1", [an_outcome()])
            assert _one_sentence(caught)
        finally:
            postgres.start()
        assert store.save_outcomes(database, "run-1", [an_outcome()]) == 1
