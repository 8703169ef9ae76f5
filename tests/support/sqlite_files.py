"""New SQLite files with today's tables: to migrate one, or to fill one, takes longer than most tests."""

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from db.connection.engine import Database, open_database


@cache
def _tables() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "pyrometer.db")
        open_database(f"sqlite:///{file}").close()
        return file.read_bytes()


def sqlite_with_tables(file: Path) -> str:
    """The URL of a new SQLite file without rows; its folder is made where there is none."""
    return laid(file, _tables())


def laid(file: Path, content: bytes) -> str:
    """The URL of a new SQLite file with this content; its folder is made where there is none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("xb") as new:
        new.write(content)
    return f"sqlite:///{file}"


def sqlite_file(url: str) -> Path:
    """The file of an SQLite database."""
    return Path(url.removeprefix("sqlite:///"))


def sqlite_copy(url: str, folder: Path) -> str:
    """The URL of a copy in a folder, for tests that change it."""
    return laid(folder / "pyrometer.db", sqlite_file(url).read_bytes())


def filled_file(fill: Callable[[Database, Path], object]) -> bytes:
    """The file of a database as `fill` leaves it, which gets a folder with the file in `database/`."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "database/pyrometer.db")
        with open_database(sqlite_with_tables(file)) as database:
            fill(database, Path(name))
        return file.read_bytes()


def open_with_tables(url: str) -> Database:
    """An open database; an SQLite file that is not there yet is laid there with its tables."""
    file = sqlite_file(url)
    if not file.exists():
        sqlite_with_tables(file)
    return open_database(url)
