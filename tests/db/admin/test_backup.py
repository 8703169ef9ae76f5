"""A backup is whole or not there, made while others write, and can be put in place of what was lost."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from db.admin import backup
from db.admin.backup import back_up
from db.connection.connection import format_url
from db.connection.engine import Database, open_database
from db.errors import BackupFailed, DatabaseUnavailable
from db.runs import queries, store
from support.builders.run_records import a_run, an_outcome
from support.builders.stored_run import store_run
from support.servers.postgres import PostgresServer
from support.site import ROOT
from support.waiting import until


@pytest.fixture(autouse=True)
def programs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs of the server's own version on PATH, where a test uses a server."""
    if "postgres" in request.node.nodeid:
        server: PostgresServer = request.getfixturevalue("postgres")
        monkeypatch.setenv("PATH", f"{server.binaries}{os.pathsep}{os.environ['PATH']}")


def fill(database: Database, runs: int = 3) -> None:
    for number in range(runs):
        outcomes = [an_outcome(replicate=replicate, latency=2 + replicate / 7) for replicate in range(3)]
        store_run(database, a_run(f"run-{number}"), outcomes)


def restored(url: str, copy: Path, folder: Path, postgres: Callable[[], PostgresServer]) -> str:
    """The URL of a new database with what a backup holds, as the help says."""
    if url.startswith("sqlite"):
        shutil.copy(copy, folder / "restored.db")
        return f"sqlite:///{folder}/restored.db"
    server = postgres()
    new = server.new_database()
    address = new.replace("postgresql+psycopg", "postgresql")
    subprocess.run(["pg_restore", "--no-owner", f"--dbname={address}", copy], check=True)
    return new


def contents(url: str) -> list[Any]:
    with open_database(url, create=False) as database:
        runs = sorted(queries.run_ids(database))
        return [
            ask(database, run)
            for run in runs
            for ask in (queries.run_record, queries.outcomes_of_run, queries.measurements_of_run)
        ]


def test_a_backup_holds_everything_and_can_be_restored(
    url: str, database: Database, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    fill(database)
    copy = tmp_path / "copies" / "night.backup"
    copy.parent.mkdir()
    assert back_up(url, copy) == copy.stat().st_size > 10_000
    assert list(copy.parent.iterdir()) == [copy], "nothing is left beside it"
    there = restored(url, copy, tmp_path, lambda: request.getfixturevalue("postgres"))
    assert contents(there) == contents(url) and len(contents(url)) == 9


def test_an_existing_database_is_replaced_only_on_request(
    url: str, database: Database, tmp_path: Path
) -> None:
    copy = tmp_path / "night.backup"
    copy.write_text("years of work")
    with pytest.raises(BackupFailed, match=r"exists already: .* --force"):
        back_up(url, copy)
    assert copy.read_text() == "years of work"
    back_up(url, copy, force=True)
    assert copy.read_bytes().startswith((b"SQLite format 3", b"PGDMP"))


def test_a_place_that_cannot_be_is_one_sentence_and_leaves_nothing(
    url: str, database: Database, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    places = {
        "folder": "is a folder",
        "nowhere/night.backup": "is not a folder",
        "pipe": "is not a regular file",
    }
    for place, complaint in places.items():
        with pytest.raises(BackupFailed, match=complaint) as caught:
            back_up(url, tmp_path / place, force=place == "pipe")
        assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
    assert not list(tmp_path.glob("**/*.part*"))


KILLED = """
import os, signal, sys
from pathlib import Path
from common.atomic_file import replace_atomically
with replace_atomically(Path(sys.argv[1])) as part:
    part.write_text("half a backup")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_backup_left_is_removed_by_the_next_one(
    url: str, database: Database, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()
    for name in ("monday.backup", "tuesday.backup"):
        done = subprocess.run([sys.executable, "-c", KILLED, folder / name], cwd=ROOT)
        assert done.returncode == -signal.SIGKILL
        record_property("kills", 1)
    monday, tuesday = sorted(folder.iterdir())
    long_ago = time.time() - 2 * 3600
    others = folder / ".tool.3.11"
    others.touch()
    for file in (monday, others):
        os.utime(file, (long_ago, long_ago))
    copy = folder / "wednesday.backup"
    back_up(url, copy)
    assert sorted(folder.iterdir()) == sorted([others, tuesday, copy]), "one may still be written"


BACK_UP = """
import sys
from pathlib import Path
from db.admin.backup import back_up
back_up(sys.argv[1], Path(sys.argv[2]))
"""


@pytest.mark.postgres
@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_a_dump_that_is_killed_is_no_backup(url: str, database: Database, tmp_path: Path) -> None:
    fill(database)
    copy = tmp_path / "night.backup"
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = "
    waiting += "(SELECT oid FROM pg_database WHERE datname = current_database())"
    with (
        psycopg.connect(url.replace("postgresql+psycopg", "postgresql")) as holder,
        psycopg.connect(url.replace("postgresql+psycopg", "postgresql"), autocommit=True) as watcher,
    ):
        # pg_dump waits for it, in the middle of its work.
        holder.execute("LOCK TABLE run IN ACCESS EXCLUSIVE MODE")
        dumping = subprocess.Popen(
            [sys.executable, "-c", BACK_UP, url, copy], cwd=ROOT, start_new_session=True
        )
        until(lambda: watcher.execute(waiting.encode()).fetchone() == (1,), "pg_dump waits")
        os.killpg(dumping.pid, signal.SIGKILL)
        assert dumping.wait() == -signal.SIGKILL
        holder.rollback()
    assert not copy.exists()
    assert back_up(url, copy) == copy.stat().st_size > 10_000


def test_the_database_itself_is_no_place_for_its_copy(tmp_path: Path) -> None:
    path = tmp_path / "pyrometer.db"
    url = f"sqlite:///{path}"
    with pytest.raises(DatabaseUnavailable, match="There is no database"):
        back_up(url, tmp_path / "copy")
    with open_database(url) as database:
        fill(database)
        with pytest.raises(BackupFailed, match="is the database itself"):
            back_up(url, path, force=True)
        back_up(url, tmp_path / "copy")
    with open_database(f"sqlite:///{tmp_path}/copy") as other:
        fill(other, 1)
        with pytest.raises(BackupFailed, match="is a database that is in use"):
            back_up(url, tmp_path / "copy", force=True)
    assert len(contents(url)) == 9


def test_a_backup_is_one_moment_of_a_database_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "_PAGES_AT_ONCE", 1)
    url = f"sqlite:///{tmp_path}/pyrometer.db"
    with open_database(url, timeout=60) as database:
        fill(database)
        stop, written = threading.Event(), threading.Event()

        def write() -> None:
            replicate = 100
            while not stop.is_set():
                store.save_outcomes(database, "run-1", [an_outcome(replicate=replicate)])
                replicate += 1
                written.set()

        writer = threading.Thread(target=write)
        writer.start()
        try:
            assert written.wait(60)
            before = len(queries.outcomes_of_run(database, "run-1"))
            for number in range(3):
                back_up(url, tmp_path / f"copy-{number}")
            after = len(queries.outcomes_of_run(database, "run-1"))
        finally:
            stop.set()
            writer.join()
    assert after > before, "no process wrote meanwhile"
    for number in range(3):
        with closing(sqlite3.connect(tmp_path / f"copy-{number}")) as connection:
            counted = connection.execute(
                "SELECT json_extract(counts, '$.ok') FROM run WHERE number = 2"
            ).fetchone()
            there = connection.execute("SELECT count(*) FROM outcome WHERE run_number = 2").fetchone()
            assert counted == there and before <= there[0] <= after
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_damaged_database_makes_no_backup(tmp_path: Path) -> None:
    path = tmp_path / "pyrometer.db"
    with open_database(f"sqlite:///{path}") as database:
        fill(database)
    content = bytearray(path.read_bytes())
    # The page of a table with rows: its cells now point elsewhere.
    page = content.index(b"pyrometer run --suite smoke") // 4096 * 4096
    content[page + 8 : page + 64] = b"\xa5" * 56
    path.write_bytes(content)
    with pytest.raises(BackupFailed, match="is damaged, as the database is"):
        back_up(f"sqlite:///{path}", tmp_path / "copy")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.postgres
@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_a_password_is_on_no_command_line_and_in_no_sentence(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pg_dump that writes down how it was called, and fails."""
    program = tmp_path / "bin" / "pg_dump"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/called\necho "$PGPASSWORD" > {tmp_path}/secret\n'
        "echo 'connection refused' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    # No part of it may stand in a random name of a database or a folder by chance.
    address = make_url(url).set(password="Sesam 'öffne")
    in_options = make_url(url).update_query_dict({"password": "Sesam 'öffne"})
    for each in (address, in_options):
        with pytest.raises(BackupFailed, match=r"pg_dump could not copy .*: connection refused") as caught:
            back_up(each.render_as_string(hide_password=False), tmp_path / "copy")
        assert "Sesam" not in str(caught.value) + (tmp_path / "called").read_text() + format_url(each)
        assert (tmp_path / "secret").read_text() == "Sesam 'öffne\n"
    assert not (tmp_path / "copy").exists()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackupFailed, match="There is no pg_dump on PATH") as caught:
        back_up(address.render_as_string(hide_password=False), tmp_path / "copy")
    assert "Sesam" not in str(caught.value) and "pg_dump --format=custom" in str(caught.value)
