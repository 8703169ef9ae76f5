"""Looking at a database that is not the folder's own stores nothing in it."""

from pathlib import Path

import pytest

from cli.output.reporter import TerminalReporter
from configuration.data_dirs import resolve_places
from configuration.settings import load_settings
from db.connection.engine import open_database
from db.runs import queries
from support.builders.journals import write_journal
from support.sqlite_files import sqlite_with_tables
from workflows.app_context import AppContext
from workflows.ingest import runs_with_journal, store_pending, store_then_read


def looks(folder: Path, **variables: str) -> set[str]:
    """Look as `pyrometer dashboard` does; answers the runs that the database holds then."""
    settings = load_settings(cwd=folder, environ=variables)
    app_context = AppContext(settings, resolve_places(settings, reading=True), TerminalReporter(), "")
    store_then_read(app_context)
    with app_context.open_database() as database:
        return set(queries.run_ids(database))


def test_a_database_outside_the_folder_is_only_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = write_journal(tmp_path / ".pyrometer", "run-1").with_name("stored")
    copy = sqlite_with_tables(tmp_path / "copy.db")
    assert looks(tmp_path, PYROMETER_DATABASE_URL=copy) == set() and not mark.exists()
    said = capsys.readouterr().err
    assert (
        said.startswith("note: 1 run of ")
        and "commands that only read do not store it: `pyrometer run`" in said
    )
    # The folder's own has what the folder has; then the mark is there, and the copy is as it was.
    assert looks(tmp_path) == {"run-1"} and mark.exists()
    assert looks(tmp_path, PYROMETER_DATABASE_URL=copy) == set()


def test_a_folder_that_is_named_with_its_database_is_its_own(tmp_path: Path) -> None:
    write_journal(tmp_path / "data", "run-1")
    both = {"PYROMETER_DATABASE_URL": f"sqlite:///{tmp_path}/one.db", "PYROMETER_DATA_DIR": "data"}
    assert looks(tmp_path, **both) == {"run-1"}


def test_a_journal_protects_its_run_in_whatever_database_is_named(tmp_path: Path) -> None:
    """A container's database is named by a variable, and its data folder by none."""
    write_journal(tmp_path / ".pyrometer", "run-1")
    settings = load_settings(cwd=tmp_path, environ={"PYROMETER_DATABASE_URL": "sqlite:///other.db"})
    app_context = AppContext(settings, resolve_places(settings), TerminalReporter(), "")
    assert runs_with_journal(app_context) == {"run-1"}


def test_who_measures_means_the_database_that_is_named(tmp_path: Path) -> None:
    write_journal(tmp_path / ".pyrometer", "run-1")
    url = sqlite_with_tables(tmp_path / "other.db")
    settings = load_settings(cwd=tmp_path, environ={"PYROMETER_DATABASE_URL": url})
    store_pending(AppContext(settings, resolve_places(settings), TerminalReporter(), ""))
    with open_database(url) as database:
        assert queries.run_ids(database) == {"run-1"}
