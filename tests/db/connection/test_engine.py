"""Opening a database: every URL that people write, and the first moment of a new one."""

import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, Connection, create_engine, text

from db.connection import engine
from db.connection.engine import open_database
from db.errors import BadDatabaseUrl, DatabaseError, DatabaseUnavailable
from db.runs import queries, store
from db.schema import version as schema
from support.builders.run_records import a_run
from support.servers.postgres import PostgresServer

OPEN = (
    "import sys; from db.connection.engine import open_database; "
    "open_database(sys.argv[1], timeout=60).close()"
)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("", "not a database URL"),
        ("pyrometer.db", "not a database URL; try sqlite:///pyrometer.db"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite://pyrometer.db", "names no file"),
        ("mysql://root:secret@host/pyrometer", "names mysql"),
        ("postgresql//me:secret@host/pyrometer", "not a database URL"),
        ("postgresql://me:secret@host:port/pyrometer", "not a database URL"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused_without_its_password(url: str, complaint: str) -> None:
    with pytest.raises(BadDatabaseUrl, match=complaint) as caught:
        open_database(url)
    assert "secret" not in str(caught.value)


@pytest.mark.postgres
@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg", "postgresql+psycopg2"])
def test_every_spelling_of_postgres_is_understood(postgres: PostgresServer, scheme: str) -> None:
    url = postgres.new_database().replace("postgresql", scheme, 1)
    with open_database(url) as database:
        assert queries.count_runs(database) == 0
        assert database.name.startswith(("postgres:", "postgresql:"))


def test_a_new_file_is_made_in_folders_that_do_not_exist_yet(tmp_path: Path) -> None:
    path = tmp_path / "some where" / "50 %#?" / "pyrometer.db"
    with open_database(URL.create("sqlite", database=str(path)).render_as_string()) as database:
        store.save_run(database, a_run())
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT id FROM run").fetchall() == [("run-1",)]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_relative_path_stays_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_database("sqlite:///pyrometer.db") as database:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.chdir(elsewhere)
        store.save_run(database, a_run())
    assert list(elsewhere.iterdir()) == []
    with open_database(f"sqlite:///{tmp_path}/pyrometer.db") as database:
        assert queries.latest_run_id(database) == "run-1"


def test_nothing_is_made_unless_requested(empty_url: str, tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match=r"no database|is empty"):
        open_database(empty_url, create=False)
    assert list(tmp_path.iterdir()) == []
    open_database(empty_url).close()
    open_database(empty_url, create=False).close()


@pytest.mark.slow
def test_processes_that_open_a_new_database_at_once_all_succeed(empty_url: str) -> None:
    command = [sys.executable, "-W", "error", "-c", OPEN, empty_url]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    complaints = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, complaints
    with open_database(empty_url, create=False) as database:
        assert queries.count_runs(database) == 0


def test_two_that_both_found_no_tables_make_them_once(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2, timeout=60)
    migrate = engine._migrate

    def migrate_at_once(*arguments: Any) -> engine.SchemaUpgrade:
        both.wait()
        return migrate(*arguments)

    def open_and_write(number: int) -> None:
        with open_database(empty_url, timeout=60) as database:
            store.save_run(database, a_run(f"run-{number}"))

    monkeypatch.setattr(engine, "_migrate", migrate_at_once)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(open_and_write, range(2)))
    with open_database(empty_url, create=False) as database:
        assert queries.count_runs(database) == 2


@pytest.mark.postgres
@pytest.mark.parametrize("empty_url", ["postgres"], indirect=True)
def test_tables_that_appear_while_one_looks_are_not_mistaken_for_strangers(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = schema.inspect

    def look_too_late(connection: Connection) -> Any:
        monkeypatch.undo()
        open_database(empty_url).close()
        return look(connection)

    monkeypatch.setattr(schema, "inspect", look_too_late)
    open_database(empty_url).close()
    assert schema.inspect is look, "no process made tables meanwhile"


def test_a_database_of_another_program_is_left_alone(empty_url: str, tmp_path: Path) -> None:
    theirs = create_engine(empty_url.replace("postgresql:", "postgresql+psycopg:"))
    with theirs.begin() as connection:
        connection.execute(text("CREATE TABLE recipes (name TEXT)"))
    theirs.dispose()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(BadDatabaseUrl, match=r"contains other tables \(recipes"):
        open_database(empty_url)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("milk, eggs, flour, and a line long enough to be mistaken for a header\n" * 20)
    before = path.read_bytes()
    with pytest.raises(DatabaseUnavailable, match="not a database"):
        open_database(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_folder_instead_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="unable to open"):
        open_database(f"sqlite:///{tmp_path}")


def test_a_file_where_a_folder_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(DatabaseUnavailable):
        open_database(f"sqlite:///{tmp_path}/taken/pyrometer.db")


def test_an_exception_takes_the_whole_transaction_back(url: str) -> None:
    with open_database(url) as database:
        with pytest.raises(KeyError), database.writing() as connection:
            connection.exec_driver_sql(
                "INSERT INTO hardware (fingerprint, label, facts) VALUES ('a', 'b', '{}')"
            )
            raise KeyError
        with database.reading() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM hardware").scalar_one() == 0


def test_a_row_without_what_it_refers_to_is_refused(url: str) -> None:
    orphan = "INSERT INTO run_environment (run_number, environment_id, position) VALUES (99, 99, 0)"
    refused = pytest.raises(DatabaseError, match="refused")
    with open_database(url) as database, refused, database.writing() as connection:
        connection.exec_driver_sql(orphan)


def test_all_that_one_reading_sees_is_of_one_moment(url: str) -> None:
    with open_database(url) as database:
        with database.reading() as connection:
            before = connection.execute(text("SELECT count(*) FROM run")).scalar()
            store.save_run(database, a_run())
            after = connection.execute(text("SELECT count(*) FROM run")).scalar()
        assert (before, after, queries.count_runs(database)) == (0, 0, 1)
