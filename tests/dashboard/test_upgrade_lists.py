"""The lists of the upgrade page: what has room in them, and what is said where they end."""

from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.exports.page_recorder import CsvSource, frame_of
from support.builders.upgrade_journals import BEGUN, RUN, Story, store_upgrades
from support.pages import UPGRADE, Open, html, text


@pytest.fixture
def many_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An upgrade, and three newer sessions about findings where lists and tables hold two."""
    for name in ("load.UPGRADES", "load.SESSIONS"):
        monkeypatch.setattr(f"dashboard.upgrades.{name}", 2)
    sessions = [
        Story(f"202611{22 + day}-080000-bbbb", begun=BEGUN + timedelta(days=day + 1), confirms=True)
        for day in range(3)
    ]
    return store_upgrades(tmp_path, Story(), *sessions)


def test_however_many_sessions_there_are_the_upgrades_stay(open_page: Open, many_sessions: str) -> None:
    page = open_page(many_sessions, UPGRADE, **{"from": "2.13.0", "to": "2.15.0"})
    assert not page.warning and page.selectbox(key="choose-run").value == RUN
    assert [each.value for each in page.header][-2:] == ["Upgrades", "Sessions about findings"]
    assert "These are the newest 2 sessions; Runs has" in text(page)
    assert "newest 2 upgrades" not in text(page)
    page = open_page(many_sessions, UPGRADE, **{"from": "2.13.0", "to": "2.14.0"})
    assert "were never measured together" in page.warning[0].value


def test_never_is_not_said_where_older_upgrades_were_not_looked_at(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.upgrades.load.UPGRADES", 1)
    old, new = Story().sides
    later = Story("20261122-080000-aaaa", begun=BEGUN + timedelta(days=1), sides=(new, old))
    url = store_upgrades(tmp_path, Story(), later)
    for query, said in (
        (
            {"from": "2.13.0", "to": "2.15.0"},
            "2.13.0 and 2.15.0 were not measured together, among the newest 1 upgrades, and numbers",
        ),
        ({"from": "2.13.0"}, "No upgrade from 2.13.0 was measured, among the newest 1 upgrades"),
    ):
        page = open_page(url, UPGRADE, **query)
        assert page.warning[0].value.startswith(said)
        assert "These are the newest 1 upgrades; Runs has the older ones." in text(page)


def test_a_list_that_is_cut_says_so_and_its_file_has_the_rest(
    open_page: Open, many_sessions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: dict[str, CsvSource] = {}
    monkeypatch.setattr("dashboard.upgrades.page._SESSIONS", 1)

    def heading(title: str, csv_of: CsvSource, file_name: str = "", about: str = "") -> None:
        files[file_name] = csv_of

    monkeypatch.setattr("dashboard.components.parts.heading", heading)
    shown = html(open_page(many_sessions, UPGRADE))
    assert "and 1 more sessions: the CSV file has them." in shown and "more upgrades" not in shown
    assert list(frame_of(files["sessions.csv"])["run"]) == ["20261124-080000-bbbb", "20261123-080000-bbbb"]


def test_sessions_alone_are_no_upgrade_and_the_page_says_what_measures_one(
    open_page: Open, tmp_path: Path
) -> None:
    page = open_page(store_upgrades(tmp_path, Story(confirms=True)), UPGRADE)
    assert "No upgrade measured yet" in html(page) and "pyrometer upgrade OLD NEW" in html(page)
    assert [each.value for each in page.header] == ["Sessions about findings"]
