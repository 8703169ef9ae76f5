"""A file or a folder that may not be written is read all the same, and never half old and half new."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from configuration.data_dirs import resolve_places
from configuration.errors import UnwritablePlace
from configuration.settings import load_settings
from db.connection.connection import at_rest
from db.connection.engine import open_database
from db.errors import DatabaseUnavailable
from db.runs import queries, store
from support.builders.run_records import a_run

pytestmark = pytest.mark.slow

#: Reads as a user who owns nothing here, then tries to write. Imports come first: they may be out of reach.
STRANGER = """
import os, sys
sys.path.insert(0, sys.argv[2])
from support.builders.run_records import a_run
from db.runs import queries, store
from db.admin.check import open_read_only, schema_check
from db.connection.engine import open_database
from db.errors import ReadOnly
os.setgroups([]); os.setgid(65534); os.setuid(65534)
url = sys.argv[1]
for create in (True, False):
    with open_database(url, create=create) as database:
        print(*sorted(queries.run_ids(database)))
        try:
            store.save_run(database, a_run("mine"))
        except ReadOnly as error:
            print(error)
with open_read_only(url) as database:
    print(schema_check(database).problems)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may enter, and only its owner write to."""
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    # Not under pytest's folder: that one is closed to others.
    with TemporaryDirectory(prefix="pyrometer-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def seen_by_a_stranger(path: Path) -> list[str]:
    command = [
        sys.executable,
        "-W",
        "error",
        "-c",
        STRANGER,
        f"sqlite:///{path}",
        str(Path(__file__).parents[1]),
    ]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def expected(path: Path, *runs: str) -> list[str]:
    name = f"The database sqlite:///{path}"
    refused = f"{name} may only be read by this account: attempt to write a readonly database."
    return [" ".join(runs), refused, " ".join(runs), refused, "()"]


def test_in_a_folder_of_others_what_is_open_elsewhere_is_read_as_it_grows(folder: Path) -> None:
    path = folder / "pyrometer.db"
    with open_database(f"sqlite:///{path}") as database:
        store.save_run(database, a_run("run-1"))
        assert seen_by_a_stranger(path) == expected(path, "run-1")
        store.save_run(database, a_run("run-2"))
        assert seen_by_a_stranger(path) == expected(path, "run-1", "run-2")


def test_in_a_folder_of_others_what_is_at_rest_is_read(folder: Path) -> None:
    path = folder / "pyrometer.db"
    with open_database(f"sqlite:///{path}") as database:
        store.save_run(database, a_run("run-1"))
    assert seen_by_a_stranger(path) == expected(path, "run-1")
    assert [each.name for each in folder.iterdir()] == ["pyrometer.db"]


def test_a_file_of_others_in_a_folder_for_all_is_read(folder: Path) -> None:
    path = folder / "pyrometer.db"
    with open_database(f"sqlite:///{path}") as database:
        store.save_run(database, a_run("run-1"))
    os.chmod(folder, 0o777)
    assert seen_by_a_stranger(path) == expected(path, "run-1")


def suite_becomes(path: Path, suite: str) -> sqlite3.Connection:
    """Another process changes the run, and keeps the file open."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE run SET suite = ?", (suite,))
    return connection


def test_what_changes_while_it_is_read_as_unchanging_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pyrometer.db"
    with open_database(f"sqlite:///{path}") as database:
        store.save_run(database, a_run("run-1", suite="smoke"))
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and allowed(path, mode))
    assert at_rest(path)
    with open_database(f"sqlite:///{path}", create=False) as reader:

        def seen() -> str:
            (run,) = queries.recent_runs(reader)
            return run.suite

        assert seen() == "smoke"
        changed = pytest.raises(DatabaseUnavailable, match="written while it was read; repeat the query")
        with changed, reader.reading() as connection:
            assert connection.exec_driver_sql("SELECT suite FROM run").scalar() == "smoke"
            suite_becomes(path, "cpu").close()
        assert at_rest(path) and seen() == "cpu", "asked again, it is read anew"
        writer = suite_becomes(path, "gpu")
        assert not at_rest(path) and seen() == "gpu", "read with the log of the writer"
        writer.close()
        assert at_rest(path) and seen() == "gpu"


def test_a_chosen_file_is_opened_unchanged_for_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pyrometer.db"
    open_database(f"sqlite:///{path}").close()
    environ = {"PYROMETER_DATABASE_URL": f"sqlite:///{path}", "PYROMETER_DATA_DIR": str(tmp_path / "data")}
    settings = load_settings(cwd=tmp_path, environ=environ)
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and allowed(path, mode))
    with pytest.raises(UnwritablePlace):
        resolve_places(settings)
    places = resolve_places(settings, reading=True)
    assert (places.database_url, places.notes) == (f"sqlite:///{path}", ())
