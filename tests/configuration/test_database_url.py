"""Where a SQLite URL's file lies, held against what SQLAlchemy makes of the same URL."""

from pathlib import Path

import pytest
from sqlalchemy import make_url

from configuration.database_url import anchor_url, sqlite_file, usable

FOLDER = Path("/some/folder")


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:///pyrometer.db", "/some/folder/pyrometer.db"),
        ("sqlite:///../up.db", "/some/up.db"),
        ("sqlite:////absolute/x.db", "/absolute/x.db"),
        ("sqlite+pysqlite:///a/b.db", "/some/folder/a/b.db"),
        ("sqlite:///a b.db?timeout=3", "/some/folder/a b.db"),
    ],
)
def test_sqlite_paths_become_absolute(url: str, file: str) -> None:
    result = anchor_url(url, FOLDER)
    assert sqlite_file(result) == Path(file)
    assert make_url(result).database == file
    assert make_url(result).query == make_url(url).query
    assert make_url(result).drivername == make_url(url).drivername


def test_the_home_folder_is_spelled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert sqlite_file(anchor_url("sqlite:///~/x.db", FOLDER)) == Path("/home/someone/x.db")


@pytest.mark.parametrize(
    "url", ["postgresql://user:word@host/name?x=1", "postgres:///name", "sqlite:///file:x.db?uri=true"]
)
def test_other_urls_stay_as_they_are_and_have_no_file(url: str) -> None:
    assert usable(url) == url
    assert anchor_url(url, FOLDER) == url
    assert sqlite_file(url) is None


@pytest.mark.parametrize("url", ["", "pyrometer.db", "://x", "sqlite://", "sqlite:///", "sqlite:///:memory:"])
def test_what_cannot_keep_anything_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"not a URL|in memory is lost"):
        usable(url)
