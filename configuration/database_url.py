"""The parts of a database URL that settings need: whether it is SQLite's, and the path of its file."""

import os
from pathlib import Path


def usable(url: str) -> str:
    """The URL unchanged; raises ValueError for a text that is not a URL and for SQLite databases in
    memory.
    """
    scheme, separator, _ = url.partition("://")
    if not (scheme and separator):
        raise ValueError("not a URL")
    if _is_sqlite(url) and _database(url) in ("", ":memory:"):
        raise ValueError("a database in memory is lost when the process ends")
    return url


def anchor_url(url: str, folder: Path) -> str:
    """The URL with a relative SQLite path made absolute against `folder`; any other URL is unchanged."""
    file = _database(url)
    if not _is_sqlite(url) or _is_uri(file):
        return url
    scheme = url.partition("://")[0]
    _, mark, query = url.partition("?")
    return f"{scheme}:///{absolute(file, folder)}{mark}{query}"


def sqlite_file(url: str) -> Path | None:
    """The file of an SQLite URL with an absolute path; None for any other database."""
    file = _database(url)
    return Path(file) if _is_sqlite(url) and not _is_uri(file) else None


def absolute(path: str | Path, folder: Path) -> Path:
    """`path` against `folder`, `~` expanded, links kept: a virtual environment's python is one."""
    return Path(os.path.abspath(folder / os.path.expanduser(path)))


def _is_sqlite(url: str) -> bool:
    return url.partition(":")[0].partition("+")[0] == "sqlite"


def _is_uri(file: str) -> bool:
    # SQLite's URI form `file:...?uri=true`: SQLite resolves the path itself.
    return file.startswith("file:")


def _database(url: str) -> str:
    """The part between `sqlite:///` and `?`; a fourth slash belongs to the path."""
    return url.partition("://")[2].partition("?")[0].removeprefix("/")
