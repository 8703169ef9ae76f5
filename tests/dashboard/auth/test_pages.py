"""What a page knows of its reader: who may triage, under which name, and that a login ends."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.auth import reader
from dashboard.auth.policy import AccessRules
from dashboard.server.errors import NotAllowed
from db.connection.engine import Database, open_database
from db.findings import store as findings
from support.builders.detection_nights import Nights, a_regression
from support.pages import APP, html, own_buttons, save_button, text
from support.sqlite_files import sqlite_with_tables

PAGE = "app_pages/regressions.py"
RULES = AccessRules(login="proxy", ask="<perf>@example.com", logout="/oauth2/sign_out?rd=%2F&x=1")

#: Opens the finding's page for a reader of that name, who may triage or not, until then.
Read = Callable[..., AppTest]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A database with one finding."""
    with open_database(sqlite_with_tables(tmp_path / "pyrometer.db")) as opened:
        Nights(opened).add(range(4))
        a_regression(opened)
        yield opened


@pytest.fixture
def read(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Read]:
    monkeypatch.setenv("PYROMETER_DATABASE_URL", f"sqlite:///{tmp_path / 'pyrometer.db'}")
    reader.hold(RULES)

    def open_it(name: str, may_triage: bool, until: float | None = None) -> AppTest:
        at = AppTest.from_file(APP, default_timeout=60)
        stamp(monkeypatch, json.dumps({"name": name, "may_triage": may_triage, "until": until}))
        at.run()
        at.query_params["finding"] = "1"
        return at.switch_page(PAGE).run()

    yield open_it
    reader.hold(AccessRules())


def stamp(monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    """Let the gate say this of the reader: pages under test are opened without it."""
    monkeypatch.setattr(reader, "stamp", lambda: text)


def noted(database: Database) -> list[tuple[str, str]]:
    return [(entry.who, entry.action) for entry in findings.triage_log(database, 1)]


def test_what_a_triager_says_stands_under_the_name_of_the_login(read: Read, database: Database) -> None:
    page = read("ada@<b>example.com", True)
    assert "ada@&lt;b&gt;example.com · may triage" in html(page)
    assert 'href="/oauth2/sign_out?rd=%2F&amp;x=1"' in html(page)
    # There is nothing to type a name into.
    assert [field.key for field in page.text_input] == ["triage-text"]
    save_button(page).click().run()
    assert noted(database) == [("ada@<b>example.com", "acknowledge")]
    assert not page.warning


def test_a_viewer_looks_and_hears_whom_to_ask(read: Read, database: Database) -> None:
    page = read("bob@example.com", False)
    assert "bob@example.com · may look" in html(page) and "Latency (min-based) rose" in text(page)
    assert not own_buttons(page) and not page.text_input
    captions = " ".join(each.value for each in page.caption)
    assert "may read but not triage" in captions and "\\<perf\\>" in captions
    assert noted(database) == []


@pytest.mark.parametrize("offered", [False, True])
def test_rights_are_checked_again_when_something_is_written(
    read: Read, database: Database, monkeypatch: pytest.MonkeyPatch, offered: bool
) -> None:
    page = read("ada@example.com", True)
    # Between the form and the button: as a server that was started again with other rules.
    stamp(monkeypatch, json.dumps({"name": "ada@example.com", "may_triage": False, "until": None}))
    if offered:
        monkeypatch.setattr("dashboard.regressions.triage.reader.triage_refused", str)
    save_button(page).click().run()
    assert noted(database) == []
    notes = page.warning if offered else page.caption
    assert any("may read but not triage" in each.value for each in notes)


def test_nothing_is_noted_for_whom_the_gate_has_not_seen(
    read: Read, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = read("ada@example.com", True)
    stamp(monkeypatch, None)
    save_button(page).click().run()
    assert "Your login has ended" in text(page) and noted(database) == []


def test_a_login_that_ends_takes_the_page_with_it(read: Read, database: Database) -> None:
    assert "may triage" in html(read("ada@example.com", True, time.time() + 3600))
    page = read("ada@example.com", True, time.time() - 1)
    assert "Your login has ended" in html(page) and ">Log in again</a>" in html(page)
    assert "Latency (min-based)" not in text(page) and not own_buttons(page)


def test_without_a_login_a_name_is_typed(read: Read, database: Database) -> None:
    reader.hold(AccessRules())
    page = read("ada@example.com", False)
    assert "ada@example.com" not in html(page)
    page.text_input(key="triage-who").input("bob")
    save_button(page).click().run()
    assert noted(database) == [("bob", "acknowledge")]
    assert reader.signature("typed") == "typed" and reader.triage_refused() == ""


def test_a_signature_is_never_what_was_typed_where_people_log_in(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    for given, name in (
        ({"name": "ada", "may_triage": True, "until": None}, "ada"),
        ({"name": "ada", "may_triage": True, "until": time.time() + 60}, "ada"),
        ({"name": "ada", "may_triage": True, "until": time.time() - 60}, None),
        ({"name": "ada", "may_triage": False, "until": None}, None),
    ):
        stamp(monkeypatch, json.dumps(given))
        if name is None:
            with pytest.raises(NotAllowed):
                reader.signature("eve")
        else:
            assert reader.signature("eve") == name
    stamp(monkeypatch, None)
    with pytest.raises(NotAllowed, match="Your login has ended"):
        reader.signature("eve")
