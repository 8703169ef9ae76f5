"""The page of what the nights found: the list and its filters, one finding opened, and triage."""

import math
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from analysis.comparison.verdict import Verdict
from dashboard.components import markup, parts
from dashboard.regressions import findings as page
from dashboard.regressions import load
from dashboard.today import load as today
from db.connection.engine import Database
from db.findings import store as findings
from records.evidence import Confirmation, Continuation, Evidence, RelatedFinding, RelatedVerdict
from records.findings import FindingGroup
from scheduled_jobs.detection.evidence import pair_verdict
from support.builders.detection_nights import Nights, a_finding, a_regression
from support.builders.run_records import RESNET, RESNET_COMPILED, a_night
from support.pages import REGRESSIONS, Open, html, own_buttons, save_button, text
from support.sqlite_files import open_with_tables


@pytest.fixture(scope="module")
def with_findings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a regression, an improvement that is a candidate, and one that was refuted."""
    file = tmp_path_factory.mktemp("findings") / "pyrometer.db"
    with open_with_tables(f"sqlite:///{file}") as database:
        Nights(database).add(range(4))
        a_regression(database)
        a_finding(database, RESNET, direction="better")
        refuted = a_finding(database, RESNET, night=3)
        findings.decide(database, refuted.id, "refuted", 0.0, -0.01, 0.01, Confirmation(), a_night(4))
    return file


@pytest.fixture
def url(tmp_path: Path, with_findings: Path) -> str:
    """A copy of that database."""
    return f"sqlite:///{shutil.copy(with_findings, tmp_path / 'pyrometer.db')}"


def chips(page: AppTest) -> list[str]:
    """What each row of the list is."""
    words = [part.partition("</span>")[0] for part in html(page).split('class="py-chip')[1:]]
    return [each.rpartition(" ")[2] for each in words]


def test_a_list_has_the_open_regressions_and_counts_the_others(open_page: Open, url: str) -> None:
    page = open_page(url, REGRESSIONS)
    assert chips(page) == ["regression"] and page.header[0].value.startswith("1 ")
    (line,) = [each for each in html(page).split("<p") if "state=waiting" in each]
    assert "1 candidate" in line


def test_one_that_goes_on_says_so_and_leads_to_the_others(
    open_page: Open, url: str, database: Database
) -> None:
    night = Continuation(0.2, "2026-09-20T02:00:00+00:00", "2026", "r", finding=2)
    findings.revise_evidence(database, {1: lambda known: replace(known, goes_on=night, began_as=3)})
    shown = html(open_page(url, REGRESSIONS, finding="1"))
    assert "Goes on" in shown and "+22.1 % since the night of 2026-09-20, measured again: finding 2" in shown
    assert "Continued as finding 2" in shown and "Continues finding 3" in shown


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"state": "all"}, ["refuted", "candidate", "regression"]),
        ({"state": "refuted"}, ["refuted"]),
        ({"state": "waiting", "direction": "better"}, ["candidate"]),
        ({"direction": "better"}, []),
        ({"schedule": "alone", "direction": "worse"}, ["regression"]),
    ],
)
def test_filters_live_in_the_address(
    open_page: Open, url: str, query: dict[str, Any], expected: list[str]
) -> None:
    page = open_page(url, REGRESSIONS, **query)
    assert chips(page) == expected and not page.warning
    page.selectbox(key="choose-state").select("machine").run()
    assert page.query_params["state"] == "machine" and chips(page) == []


def test_what_was_found_since_and_is_of_another_kind_takes_no_room(
    open_page: Open, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.regressions.load.MOST_FINDINGS", 2)
    page = open_page(url, REGRESSIONS)
    assert chips(page) == ["regression"] and page.header[0].value.startswith("1 ")
    assert "Older ones" not in text(page)


def test_where_there_is_more_than_is_listed_it_is_said(
    open_page: Open, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.regressions.load.MOST_FINDINGS", 1)
    page = open_page(url, REGRESSIONS, state="all")
    assert len(chips(page)) == 1 and page.header[0].value == "The newest 1 finding"
    assert "Older ones: `pyrometer regressions list --all`" in text(page)
    page = open_page(url, REGRESSIONS, direction="worse", schedule="alone", triage="open")
    assert chips(page) == ["regression"] and page.header[0].value.startswith("1 ")


def test_those_that_people_know_are_not_open(open_page: Open, url: str, database: Database) -> None:
    findings.triage(database, 1, "acknowledge", "ada", "", None, a_night(5))
    findings.triage(database, 2, "mute", "ada", "", datetime(2100, 1, 1, tzinfo=UTC), a_night(5))
    assert chips(open_page(url, REGRESSIONS)) == []
    assert chips(open_page(url, REGRESSIONS, state="known")) == ["candidate", "regression"]
    assert chips(open_page(url, REGRESSIONS, state="waiting")) == []
    assert chips(open_page(url, REGRESSIONS, triage="open", state="all")) == ["refuted"]
    findings.triage(database, 2, "mute", "ada", "", datetime(2026, 1, 1, tzinfo=UTC), a_night(5))
    st.cache_resource.clear()
    assert chips(open_page(url, REGRESSIONS, state="waiting")) == ["candidate"]


def test_unknown_values_in_the_address_are_said(open_page: Open, url: str) -> None:
    page = open_page(url, REGRESSIONS, state="confirmd")
    assert 'did you mean "confirmed"' in page.warning[0].value and chips(page)
    for number in ("77", "x", "9" * 30):
        page = open_page(url, REGRESSIONS, finding=number)
        assert "There is no finding" in page.warning[0].value and "regression" in chips(page)


def test_texts_of_a_finding_are_no_markup(open_page: Open, url: str) -> None:
    shown = html(open_page(url, REGRESSIONS, finding="1"))
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown and "<script" not in shown


@pytest.mark.parametrize(
    ("metric", "right", "wrong"), [("rss_peak", "worse", "slower"), ("latency_floor", "slower", "worse")]
)
def test_a_verdict_is_called_slower_only_where_it_is_about_a_time(
    database: Database, metric: str, right: str, wrong: str
) -> None:
    verdict = pair_verdict(Verdict(metric, "slower", old=512.0, new=640.0, change=0.22))
    (one,) = findings.findings(database, states=["confirmed"])
    for shown in (
        page.verdict(replace(one, evidence=Evidence(confirmation=Confirmation(verdict=verdict)))),
        page.related_cases([RelatedVerdict(RESNET, verdict)]),
    ):
        assert right in shown and wrong not in shown
    assert verdict.word == "slower"


@pytest.mark.parametrize(("direction", "word"), [("worse", "regression"), ("better", "improvement")])
def test_an_operator_that_moved_too_is_called_as_on_its_own_page(direction: str, word: str) -> None:
    row = RelatedFinding(2, RESNET, "latency_floor", direction, 0.1, "confirmed")
    shown = page.moved_with([row])
    assert markup.chip(word) in shown and "confirmed" not in shown
    assert markup.chip("candidate") in page.moved_with([replace(row, state="candidate")])


def test_the_reason_why_a_candidate_waits_is_shown_only_while_it_is_one(database: Database) -> None:
    why = "the environment could not be built: no space left"
    (one,) = findings.findings(database, states=["candidate"])
    findings.defer(database, [one.id], why)

    def shown() -> str:
        found = findings.finding(database, one.id)
        assert found is not None
        return page.cards(found, a_night(4))

    assert why in shown()
    for state in ("confirming", "no longer"):
        findings.set_state(database, [one.id], state)
        assert why not in shown()
    (confirmed,) = findings.findings(database, states=["confirmed"])
    assert "the session shows the change too" in page.cards(confirmed, a_night(4))


@pytest.mark.parametrize(
    ("address", "link"), [("https://example.org/7", True), ("javascript:alert(1)", False)]
)
def test_a_link_is_one_only_where_a_browser_may_follow_it(
    open_page: Open, url: str, database: Database, address: str, link: bool
) -> None:
    findings.triage(database, 1, "link", "ada", address, None, a_night(5))
    shown = html(open_page(url, REGRESSIONS, finding="1"))
    assert (f'href="{address}"' in shown) == link and address in shown


def test_no_text_of_a_csv_file_starts_a_formula(database: Database) -> None:
    findings.triage(database, 1, "link", "ada", "=1+1", None, a_night(5))
    found = findings.findings(database)
    header, *rows = parts.csv(page.frame(found)).decode().splitlines()
    assert len(rows) == 3 and header.startswith("id,what,case,")
    assert [row for row in rows if row.endswith(",'=1+1")] and ",=1+1" not in "".join(rows)


def test_a_csv_file_holds_new_through_old_and_says_so(database: Database) -> None:
    shown = page.frame(findings.findings(database)).set_index("id")
    for one in findings.findings(database):
        ends = shown.loc[one.id, ["ratio", "ratio_low", "ratio_high"]].tolist()
        kept = [math.nan if each is None else math.exp(each) for each in (one.change, one.low, one.high)]
        assert ends == pytest.approx(kept, nan_ok=True)
    assert not {"change", "low", "high"} & {*shown.columns}


def test_triage_is_written_with_who_and_why(open_page: Open, url: str, database: Database) -> None:
    page = open_page(url, REGRESSIONS, finding="1")
    save_button(page).click().run()
    assert "Enter a name" in page.warning[0].value and findings.triage_log(database, 1) == []
    assert not page.date_input
    page.selectbox(key="triage-action").select("mute").run()
    # A day that has begun is no end of a silence.
    assert page.date_input(key="triage-until").min > datetime.now(UTC).date()
    page.text_input(key="triage-who").input("ada <b>")
    page.text_input(key="triage-text").input("until the next nightly <script>")
    save_button(page).click().run()
    one = findings.finding(database, 1)
    assert one is not None and one.muted_until is not None
    (entry,) = findings.triage_log(database, 1)
    assert (entry.who, entry.action) == ("ada <b>", "mute")
    assert "ada &lt;b&gt;" in html(page) and "muted until" in html(page) and "<script" not in html(page)
    page.selectbox(key="triage-action").select("fixed").run()
    save_button(page).click().run()
    one = findings.finding(database, 1)
    assert one is not None and one.triage == "fixed"


def test_a_finding_is_acknowledged_by_a_button(open_page: Open, url: str, database: Database) -> None:
    other = a_regression(database, RESNET_COMPILED)
    page = open_page(url, REGRESSIONS, finding="1")
    nameless = page.button(key="FormSubmitter:triage-acknowledge-Acknowledge").click().run()
    assert "Enter a name" in nameless.warning[0].value and findings.triage_log(database, 1) == []
    page.text_input(key="triage-acknowledge-who").input("ada")
    page.button(key="FormSubmitter:triage-acknowledge-Acknowledge").click().run()
    assert [(each.who, each.action) for each in findings.triage_log(database, 1)] == [("ada", "acknowledge")]
    # What is left of the cause: the name is known by now. What is acknowledged has no button.
    page.button(key="triage-cause-acknowledge").click().run()
    assert [each.who for each in findings.triage_log(database, other.id)] == ["ada"]
    assert len(findings.triage_log(database, 1)) == 1
    assert not any("cknowledge" in button.label for button in own_buttons(page))


def test_a_finding_begins_with_its_nights(open_page: Open, url: str) -> None:
    page = open_page(url, REGRESSIONS, finding="1")
    assert len([*page.get("arrow_vega_lite_chart"), *page.get("vega_lite_chart")]) == 1
    assert "Same cause" not in html(page)


def test_a_cause_is_triaged_as_a_whole(open_page: Open, url: str, database: Database) -> None:
    other = a_regression(database, RESNET_COMPILED)
    assert html(open_page(url, REGRESSIONS)).count('class="py-chip') == 1, "one row for both"
    page = open_page(url, REGRESSIONS, finding="1")
    assert "Same cause" in html(page)
    page.text_input(key="triage-cause-who").input("ada")
    page.button(key="FormSubmitter:triage-cause-Save").click().run()
    for number in (1, other.id):
        one = findings.finding(database, number)
        assert one is not None and one.triage == "acknowledged"


@pytest.mark.parametrize(("hours", "found"), [(1, ["regression"]), (30, [])])
def test_new_is_what_was_decided_within_a_day(
    open_page: Open, url: str, database: Database, hours: int, found: list[str]
) -> None:
    one = a_finding(database, RESNET_COMPILED)
    moment = datetime.now(UTC) - timedelta(hours=hours)
    findings.decide(database, one.id, "confirmed", 0.1, 0.09, 0.11, Confirmation(), moment)
    assert chips(open_page(url, REGRESSIONS, state="new")) == found


def test_the_first_page_knows_at_once_what_was_said(open_page: Open, url: str) -> None:
    def triage_by_id() -> dict[int, str]:
        return {one.id: one.triage for each in today.recent_findings(url, 9999)[:2] for one in each}

    page = open_page(url, REGRESSIONS, finding="1")
    assert triage_by_id()[1] == "open"
    page.text_input(key="triage-who").input("ada")
    save_button(page).click().run()
    assert triage_by_id()[1] == "acknowledged"


def test_a_read_only_page_says_so(open_page: Open, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(url: str) -> str:
        return "It may only be read."

    monkeypatch.setattr("dashboard.regressions.load.triage_refusal", refused)
    page = open_page(url, REGRESSIONS, finding="1")
    assert "Triage is not possible from this page. It may only be read." in text(page)
    assert not own_buttons(page)


def test_an_empty_database_says_what_finds_something(open_page: Open, empty_url: str) -> None:
    assert "Nothing found" in text(open_page(empty_url, REGRESSIONS))


def test_a_view_holds_what_it_says(database: Database) -> None:
    view, complaints = load.chosen({}, findings.schedules_with_findings(database))
    assert (view.state, view.schedule, complaints) == (FindingGroup.OPEN, "all", [])
    findings.triage(database, 1, "expected", "ada", "", None, a_night(5))
    known = findings.finding(database, 1)
    assert known is not None and not view.holds(known)
