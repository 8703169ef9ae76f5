"""A finished run's journal to store again and again, whole or damaged; a database to store into."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from db.connection.engine import Database, open_database
from runner import journal
from support.site import Done, Site
from support.sqlite_files import sqlite_with_tables


@pytest.fixture
def data_dir(tmp_path: Path, measured_once: tuple[Site, Done]) -> Path:
    """A data folder that holds a copy of the run's journal, not marked as stored."""
    site, done = measured_once
    folder = tmp_path / "data" / "runs" / done.run
    folder.mkdir(parents=True)
    shutil.copy(site.journal(done.run), folder / journal.FILE)
    return tmp_path / "data"


@pytest.fixture
def the_journal(data_dir: Path) -> Path:
    """The journal in the data folder."""
    return next(data_dir.glob(f"runs/*/{journal.FILE}"))


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    """A database for what does not depend on which one it is."""
    with open_database(sqlite_with_tables(tmp_path / "database/pyrometer.db")) as opened:
        yield opened
