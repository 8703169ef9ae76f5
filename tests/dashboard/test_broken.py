"""What people see when something is broken: a sentence and a way on, from a real server in a real browser."""

import re
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from db.admin import delete_run
from db.connection.engine import open_database
from db.schema import version as schema
from support.servers.browser import KnownBrowser, Visitor, settle
from support.sqlite_files import sqlite_copy, sqlite_file

pytestmark = pytest.mark.browser

RUNS = re.compile(r"\d+ runs")
#: What no page may ever show.
TRACES = ("Traceback", "sqlalchemy", "sqlite3.", "Error:", 'File "')


@pytest.fixture
def file(full_copy: str) -> Path:
    """A database of this test's own, to break."""
    return sqlite_file(full_copy)


@pytest.fixture(scope="module")
def lasting(full_url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of this module's own, for tests that leave its dashboard as it was."""
    return sqlite_file(sqlite_copy(full_url, tmp_path_factory.mktemp("lasting")))


@pytest.fixture(scope="module")
def its_dashboard(serve: Any, lasting: Path) -> Any:
    """A dashboard on that one."""
    return serve(f"sqlite:///{lasting}")


@pytest.fixture
def visit(chromium: Browser, known: KnownBrowser) -> Iterator[Callable[[Any], Visitor]]:
    """A visitor of a dashboard; the pages are closed at the end."""
    visitors: list[Visitor] = []

    def visitor(served: Any) -> Visitor:
        visitors.append(Visitor(chromium, served.url, known))
        return visitors[-1]

    yield visitor
    for each in visitors:
        each.leave()


def said(page: Page) -> str:
    """All that can be read; no page of a broken database is anything like a traceback."""
    settle(page)
    text = page.locator("body").inner_text()
    assert [trace for trace in TRACES if trace in text] == []
    return text


def unreadable(page: Page) -> str:
    """What the page says that nothing can be read from."""
    expect(page.get_by_role("heading", name="The database cannot be read")).to_be_visible()
    return said(page)


def test_a_database_that_goes_away_is_missed_and_welcomed_back(
    its_dashboard: Any, lasting: Path, visit: Callable[[Any], Visitor]
) -> None:
    page = visit(its_dashboard).open("/runs")
    expect(page.get_by_role("heading", name=RUNS)).to_be_visible()
    away = lasting.with_suffix(".away")
    lasting.rename(away)
    page.goto(f"{its_dashboard.url}/runs?run=run-3")
    assert str(lasting) in unreadable(page)
    away.rename(lasting)
    page.reload()
    expect(page.get_by_role("heading", name="Measurements")).to_be_visible()
    assert "Traceback" not in its_dashboard.log


def test_a_newer_database_says_what_to_do_and_a_locked_one_is_called_locked(
    serve: Any, file: Path, visit: Callable[[Any], Visitor]
) -> None:
    set_version = f"UPDATE {schema.VERSION_TABLE} SET version_num = ?"
    with closing(sqlite3.connect(file)) as connection, connection:
        (ours,) = connection.execute(f"SELECT version_num FROM {schema.VERSION_TABLE}").fetchone()
        connection.execute(set_version, ["9999"])
    dashboard = serve(f"sqlite:///{file}")
    page = visit(dashboard).open("/explore?view=history")
    assert "newer" in unreadable(page)
    # It is not opened yet: the same server meets the next trouble as one that has just been started.
    with closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute(set_version, [ours])
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        page.goto(dashboard.url)
        assert "locked" in unreadable(page)
        holder.execute("COMMIT")
    page.reload()
    expect(page.get_by_role("heading", name="Today")).to_be_attached()
    assert "cannot be read" not in said(page)


def test_a_run_that_was_forgotten_is_gone_and_the_list_stays(
    its_dashboard: Any, lasting: Path, visit: Callable[[Any], Visitor]
) -> None:
    page = visit(its_dashboard).open("/runs")
    with open_database(f"sqlite:///{lasting}") as database:
        assert delete_run.forget_run(database, "run-4") is not None
    # The list is some seconds old, and leads to it still.
    page.get_by_role("link", name="run-4", exact=True).click()
    expect(page.get_by_text("There is no run 'run-4' in this database")).to_be_visible()
    assert RUNS.search(said(page))


def test_a_page_that_there_is_not_is_said_and_the_first_one_shown(
    its_dashboard: Any, visit: Callable[[Any], Visitor]
) -> None:
    page = visit(its_dashboard).open("/no-such-page")
    expect(page.get_by_role("dialog")).to_contain_text("does not seem to exist")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.locator("body")).to_contain_text("Last night")
    assert "Last night" in said(page)


def test_a_server_that_comes_back_has_its_readers_again(
    serve: Any, its_dashboard: Any, lasting: Path, visit: Callable[[Any], Visitor]
) -> None:
    page = visit(its_dashboard).open("/runs")
    port = int(its_dashboard.url.rpartition(":")[2])
    # The last test of this module: its dashboard is another process afterwards.
    its_dashboard.stop(signal.SIGKILL)
    gone = page.get_by_role("dialog", name="Connection error")
    expect(gone).to_be_visible()
    # What was read stays to be read.
    assert RUNS.search(page.locator("body").inner_text())
    assert serve(f"sqlite:///{lasting}", port=port).url
    expect(gone).to_be_hidden()
    page.get_by_role("link", name="run-3", exact=True).click()
    expect(page.get_by_role("heading", name="Measurements")).to_be_visible()
