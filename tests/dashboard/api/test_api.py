"""The API for programs: the rows are those of the database, in JSON and CSV, page by page."""

import csv
import io
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from sqlalchemy import delete, insert, select, update
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from analysis.decision.comparison import DECIDED
from cli.commands.regressions import finding_body
from dashboard.api.api import create_api
from dashboard.auth.middleware import ROLES
from dashboard.server.database import database_at, served_database
from db.connection.engine import Database
from db.findings import store
from db.queue import queries as queue
from db.runs import queries, series_queries
from db.runs.store import save_run
from db.schema.core_tables import MeasurementRow, OutcomeRow, RunRow, SamplesRow, TelemetryRow
from db.schema.finding_tables import FindingRow
from records.kinds import RunKind
from support.builders.run_records import RESNET, a_run, an_environment, an_outcome
from support.builders.stored_run import store_run

CSV = {"accept": "text/csv"}


@pytest.fixture
def api(full_url: str, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """The API over a database with something of everything."""
    monkeypatch.setenv("PYROMETER_DATABASE_URL", full_url)
    return TestClient(create_api())


@pytest.fixture
def copy_api(full_copy: str, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """The API over a copy of that database, which a test changes."""
    monkeypatch.setenv("PYROMETER_DATABASE_URL", full_copy)
    return TestClient(create_api())


def answer_of(api: TestClient, path: str, **query: object) -> Any:
    answer = api.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def pages_from(api: TestClient, address: str) -> Iterator[list[dict[str, Any]]]:
    """The rows at an address, then those of each next page that an answer names."""
    while address:
        answer = api.get(address)
        yield answer.json()
        address = answer.links.get("next", {}).get("url", "")


def test_pages_of_runs_follow_each_other_to_the_last(api: TestClient, full_url: str) -> None:
    ids = [row["id"] for page in pages_from(api, "/runs?limit=5") for row in page]
    every = queries.recent_runs(database_at(full_url), limit=1000)
    assert ids == [run.id for run in every] and len(ids) > 10
    first = answer_of(api, "/runs", limit=1)[0]
    assert (first["state"], first["kind"]) == (str(every[0].state), str(every[0].kind))
    suites = {run.suite for run in every}
    assert {row["suite"] for row in answer_of(api, "/runs", suite=min(suites))} == {min(suites)}


@pytest.mark.parametrize("path", ["/findings", "/verdicts"])
def test_findings_and_verdicts_follow_each_other_to_the_last(
    copy_api: TestClient, full_copy: str, path: str
) -> None:
    environments = [an_environment("2.13.0+cpu"), an_environment("2.14.0+cpu")]
    for name in ("upgrade-1", "upgrade-2"):
        save_run(
            database_at(full_copy), replace(a_run(name, environments=environments), kind=RunKind.UPGRADE)
        )
    every = [row["id"] for row in answer_of(copy_api, path)]
    assert len(every) > 1
    assert [row["id"] for page in pages_from(copy_api, f"{path}?limit=1") for row in page] == every


@pytest.mark.parametrize("path", ["/runs", "/findings", "/verdicts"])
def test_rows_that_come_between_two_pages_repeat_none(
    copy_api: TestClient, full_copy: str, path: str
) -> None:
    """Also where the next page is asked for among rows of one moment."""
    for number in range(3):
        store_newer(database_at(full_copy), number, day=0)
    before = [row["id"] for row in answer_of(copy_api, path, limit=1000)]
    ids: list[Any] = []
    for number, page in enumerate(pages_from(copy_api, f"{path}?limit=2"), start=3):
        ids += [row["id"] for row in page]
        store_newer(database_at(full_copy), number, day=number)
    assert ids == before and len(ids) > 3
    assert [row["id"] for row in answer_of(copy_api, path, limit=2, after=before[0])] == before[1:3]


def store_newer(database: Database, number: int, day: int) -> None:
    """An upgrade and a finding that are newer than all others, by so many days."""
    at = datetime(2099, 1, 1, tzinfo=UTC) + timedelta(days=day)
    environments = [an_environment("2.13.0+cpu"), an_environment("2.14.0+cpu")]
    run = a_run(f"newer-{number}", environments=environments, started_at=at)
    save_run(database, replace(run, kind=RunKind.UPGRADE))
    with database.engine.begin() as connection:
        known = connection.execute(select(FindingRow.__table__)).mappings().all()[0]
        others = {name: value for name, value in known.items() if name != "id"}
        connection.execute(insert(FindingRow), {**others, "schedule": f"newer-{number}", "found_at": at})


def test_a_run_has_its_measurements_with_units_and_its_outcomes(api: TestClient, full_url: str) -> None:
    assert answer_of(api, "/runs/run-11")["counts"] == {"ok": 10, "crashed": 2}
    rows = answer_of(api, "/runs/run-11/measurements")
    stored = queries.measurements_of_run(database_at(full_url), "run-11")
    assert [(row["case"], row["metric"], row["point"], row["low"], row["n"]) for row in rows] == [
        (one.case, one.metric, one.point, one.low, one.n) for one in stored
    ]
    assert {row["unit"] for row in rows if row["metric"] == "latency"} == {"ms"}
    crashed = [row for row in answer_of(api, "/runs/run-11/outcomes") if row["status"] == "crashed"]
    assert len(crashed) == 2 and "SIGILL" in crashed[0]["reason"]


def test_points_of_a_series_are_those_of_its_chart(api: TestClient, full_url: str) -> None:
    (key,) = answer_of(api, "/series", case=RESNET, metric="latency", limit=1)
    query = {name: key[name] for name in ("case", "metric", "hardware", "preset")}
    found = answer_of(api, "/series/points", **query)
    (same,) = [
        one
        for one in series_queries.series_keys(database_at(full_url))
        if (one.case, one.metric, one.hardware, one.preset) == tuple(query.values())
    ]
    points = series_queries.series(database_at(full_url), [same])
    assert [(row["run"], row["point"]) for row in found] == [(one.run, one.point) for one in points]
    assert len(found) > 2
    assert [row["run"] for row in answer_of(api, "/series/points", **query, newest=2)] == [
        one.run for one in points[-2:]
    ]
    pages = list(pages_from(api, f"/series/points?{urlencode({**query, 'limit': 2})}"))
    assert [row["run"] for page in pages for row in page] == [one.run for one in points]
    assert max(map(len, pages)) == 2
    assert answer_of(api, "/series/points", **query, offset=2**63 - 1) == []


def test_no_point_is_skipped_where_one_comes_between_two_pages(
    url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYROMETER_DATABASE_URL", url)
    for night in range(6):
        store_night(database, night)
    api = TestClient(create_api())
    (key,) = answer_of(api, "/series", metric="latency")
    query = {name: key[name] for name in ("case", "metric", "hardware", "preset")}
    runs: list[str] = []
    address = f"/series/points?{urlencode({**query, 'newest': 4, 'limit': 2})}"
    for night, page in enumerate(pages_from(api, address), start=6):
        runs += [row["run"] for row in page]
        store_night(database, night)
    assert runs == [f"night-{number}" for number in range(2, 8)]


def store_night(database: Database, number: int) -> None:
    """A run of one case, a day after the one of the number before."""
    run = a_run(f"night-{number}", started_at=datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=number))
    store_run(database, run, [an_outcome(latency=2.0 + number)])


def test_series_are_narrowed_and_come_page_by_page(api: TestClient) -> None:
    every = answer_of(api, "/series")
    assert len(every) > 4
    for name in ("case", "metric", "hardware", "preset"):
        value = every[-1][name]
        assert answer_of(api, "/series", **{name: value}) == [row for row in every if row[name] == value]
    assert {(row["metric"], row["unit"]) for row in every} >= {("latency", "ms"), ("latency_floor", "ms")}
    first = api.get("/series?limit=3")
    assert first.json() + api.get(first.links["next"]["url"]).json() == every[:6]


def test_cases_are_those_of_the_series_and_come_page_by_page(api: TestClient) -> None:
    series = answer_of(api, "/series")
    rows = answer_of(api, "/cases")
    assert [row["case"] for row in rows] == sorted({row["case"] for row in series}) and len(rows) > 2
    for row in rows:
        own = [each for each in series if each["case"] == row["case"]]
        assert row["metrics"] == sorted({each["metric"] for each in own})
        assert row["hardware_labels"] == sorted({each["hardware_label"] for each in own})
    hardware = series[-1]["hardware"]
    assert [row["case"] for row in answer_of(api, "/cases", hardware=hardware, metric="latency")] == sorted(
        {row["case"] for row in series if (row["hardware"], row["metric"]) == (hardware, "latency")}
    )
    first = api.get("/cases?limit=1")
    assert first.json() + api.get(first.links["next"]["url"]).json() == rows[:2]


def test_findings_are_listed_by_state_and_shown_alone(api: TestClient, full_url: str) -> None:
    stored = store.findings(database_at(full_url))
    rows = answer_of(api, "/findings")
    assert [row["id"] for row in rows] == [one.id for one in stored] and rows
    assert rows[0] == answer_of(api, f"/findings/{rows[0]['id']}")
    for row, one in zip(rows, stored, strict=True):
        body = json.loads(json.dumps(finding_body(one)))
        assert (row["case"], row["ratio"]) == (one.key.case, math.exp(one.change))
        same = (
            "id",
            "metric",
            "direction",
            "ratio",
            "ratio_low",
            "ratio_high",
            "state",
            "before_run",
            "link",
        )
        assert [row[name] for name in same] == [body[name] for name in same], "as the command's JSON"
    confirmed = answer_of(api, "/findings", state="confirmed")
    assert [row["id"] for row in confirmed] == [one.id for one in stored if one.state == "confirmed"]


def test_a_verdict_has_the_decision_of_the_report(api: TestClient, full_url: str) -> None:
    rows = answer_of(api, "/verdicts")
    runs = {run.id: run for run in queries.upgrade_runs(database_at(full_url))}
    assert rows and {row["id"] for row in rows} <= runs.keys()
    for row in rows:
        whole = answer_of(api, f"/verdicts/{row['id']}")
        assert whole["schema"] == "pyrometer.upgrade/1"
        stored = runs[row["id"]].facts.get(DECIDED) or {}
        assert row["decision"] == stored.get("decision", "")
        assert whole["decision"] in ("go", "no-go", "unclear")


def test_machines_and_schedules(api: TestClient, full_url: str) -> None:
    assert [row["machine"] for row in answer_of(api, "/machines")] == [
        one.machine for one in queue.schedulers(database_at(full_url))
    ]
    assert {row["schedule"] for row in answer_of(api, "/schedules")} == {
        one.schedule for one in queue.last_scheduled_runs(database_at(full_url))
    }


def test_csv_has_the_same_rows_and_no_formula(api: TestClient) -> None:
    for path in ("/runs", "/runs/run-11/measurements", "/findings", "/cases", "/series", "/machines"):
        rows = answer_of(api, path)
        answer = api.get(path, headers=CSV)
        assert answer.headers["content-type"].startswith("text/csv")
        table = list(csv.DictReader(io.StringIO(answer.text)))
        assert len(table) == len(rows)
        assert not rows or list(table[0]) == list(rows[0])
        assert all(not text.startswith(("=", "@", "+")) for row in table for text in row.values())
    measured = answer_of(api, "/runs/run-11/measurements")
    table = csv.DictReader(io.StringIO(api.get("/runs/run-11/measurements", headers=CSV).text))
    assert [float(row["point"]) for row in table] == [row["point"] for row in measured]


def test_what_a_client_has_is_not_sent_again(api: TestClient) -> None:
    first = api.get("/runs")
    again = api.get("/runs", headers={"if-none-match": f'"other", {first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert api.get("/runs", headers={**CSV, "if-none-match": first.headers["etag"]}).status_code == 200


def test_head_is_answered_as_get_without_the_content(api: TestClient) -> None:
    for path in (
        "/runs?limit=1",
        "/runs/run-11",
        "/runs/nothing",
        "/series?limti=1",
        "/submit",
        "/openapi.json",
    ):
        whole, head = api.get(path), api.head(path)
        assert (head.status_code, head.content) == (whole.status_code, b""), path
        assert dict(head.headers) == dict(whole.headers), path
    known = {"if-none-match": api.get("/runs").headers["etag"]}
    assert api.head("/runs", headers=known).status_code == 304


def test_a_page_that_was_the_last_one_is_sent_again_with_the_next(
    copy_api: TestClient, full_copy: str
) -> None:
    count = queries.count_runs(database_at(full_copy))
    first = copy_api.get(f"/runs?limit={count}")
    condition = {"if-none-match": first.headers["etag"]}
    assert "link" not in first.headers and len(first.json()) == count
    older = replace(a_run("before-all"), started_at=datetime(2001, 1, 1, tzinfo=UTC))
    save_run(database_at(full_copy), older)
    again = copy_api.get(f"/runs?limit={count}", headers=condition)
    assert again.status_code == 200 and again.json() == first.json() and again.links["next"]


def test_a_series_that_is_listed_has_points_or_none(copy_api: TestClient, full_copy: str) -> None:
    """Where its last run is deleted while another writer holds it, a series stays without points."""
    one = answer_of(copy_api, "/series", limit=1)[0]
    key = {name: one[name] for name in ("case", "metric", "hardware", "preset")}
    assert answer_of(copy_api, "/series/points", **key)
    with database_at(full_copy).engine.begin() as connection:
        connection.execute(delete(MeasurementRow))
    assert one in answer_of(copy_api, "/series")
    assert answer_of(copy_api, "/series/points", **key) == []


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/runs/nothing", 404, "no run is named nothing"),
        ("/runs/nothing/outcomes", 404, "no run is named nothing"),
        ("/findings/99999", 404, "there is no finding 99999"),
        ("/verdicts/run-11", 404, "run run-11 compares no environments"),
        ("/tasks/99999", 404, "there is no task 99999"),
        ("/findings?state=good", 422, "confirmed"),
        ("/runs?state=completed", 422, "interrupted"),
        ("/runs?after=nothing", 404, "no run is named nothing"),
        ("/verdicts?after=nothing", 404, "no run is named nothing"),
        ("/findings?after=99999", 404, "there is no finding 99999"),
        (f"/findings?after={10**30}", 422, "less than or equal"),
        (f"/runs?offset={10**30}", 422, "less than or equal"),
        ("/runs?limit=0", 422, "greater than or equal to 1"),
        ("/series/points?case=a", 422, "metric"),
        ("/series/points?case=a&metric=b&hardware=c&preset=d", 404, "there is no such series"),
        ("/runs/%00", 422, "pattern"),
        ("/runs?suite=a%00", 422, "pattern"),
        ("/runs?limti=3", 422, "limti"),
        ("/findings?hardware=a", 422, "hardware"),
        ("/runs/run-11?metric=latency", 422, "metric"),
        ("/runs?suite=a&suite=b", 422, "2 times"),
        ("/runs?suite='%22%3B--&machine=%F0%9F%92%A9", 200, "[]"),
    ],
)
def test_bad_input_is_answered_in_words(api: TestClient, path: str, status: int, said: str) -> None:
    answer = api.get(path)
    assert answer.status_code == status and said in answer.text


TRIAGE = "/findings/{number}/triage"


def test_no_route_writes_but_those_of_a_role(api: TestClient) -> None:
    paths = answer_of(api, "/openapi.json")["paths"]
    for write in (TRIAGE, "/submit", "/schedules/{schedule}/trigger"):
        assert list(paths.pop(write)) == ["post"]
    for path in paths.values():
        assert list(path) == ["get"]
    assert api.post("/runs").status_code == 405


@pytest.fixture
def triager(full_copy: str, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """The API for a program that may triage, over a database of its own."""
    monkeypatch.setenv("PYROMETER_DATABASE_URL", full_copy)
    api = create_api()

    async def admitted(scope: Scope, receive: Receive, send: Send) -> None:
        await api({**scope, ROLES: frozenset({"triage"})}, receive, send)

    return TestClient(admitted)


def test_a_verdict_follows_the_outcomes_of_its_run(triager: TestClient) -> None:
    number = answer_of(triager, "/verdicts")[0]["id"]
    before = answer_of(triager, f"/verdicts/{number}")
    assert answer_of(triager, f"/verdicts/{number}") == before and before["cases"]
    with served_database().engine.begin() as connection:
        run = select(RunRow.number).where(RunRow.id == number).scalar_subquery()
        for table in (SamplesRow, TelemetryRow, OutcomeRow):
            connection.execute(delete(table).where(table.run_number == run, table.replicate > 1))
        connection.execute(update(RunRow).where(RunRow.id == number).values(counts={"ok": 4}))
    after = answer_of(triager, f"/verdicts/{number}")
    assert {one["case"] for one in after["cases"]} == {one["case"] for one in before["cases"]}
    assert after != before, "what was kept is the verdict on other outcomes"
    with served_database().engine.begin() as connection:
        run = select(RunRow.number).where(RunRow.id == number).scalar_subquery()
        connection.execute(
            update(OutcomeRow).where(OutcomeRow.run_number == run).values(status="crashed", metrics={})
        )
        connection.execute(update(RunRow).where(RunRow.id == number).values(counts={"crashed": 4}))
    assert answer_of(triager, f"/verdicts/{number}") != after, "as many, but all of them crashed"


def test_a_program_with_the_token_triages(triager: TestClient, full_copy: str) -> None:
    number = answer_of(triager, "/findings", state="confirmed")[0]["id"]
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    entries = (
        {"action": "expected", "by": "nightly bot", "text": "new cuDNN"},
        {"action": "link", "by": "nightly bot", "text": "https://example.com/issues/7"},
        {"action": "mute", "by": "nightly bot", "until": until.isoformat()},
    )
    for entry in entries:
        answer = triager.post(TRIAGE.format(number=number), json=entry)
        assert answer.status_code == 200, answer.text
    row = answer.json()
    assert (row["triage"], row["link"]) == ("expected", "https://example.com/issues/7")
    assert datetime.fromisoformat(row["muted_until"]) == until
    log = store.triage_log(database_at(full_copy), number)[-3:]
    assert [(one.action, one.who) for one in log] == [(one["action"], one["by"]) for one in entries]


@pytest.mark.parametrize(
    ("number", "entry", "status", "said"),
    [
        (99999, {"action": "fixed"}, 404, "there is no finding 99999"),
        (10**30, {"action": "fixed"}, 422, "less than or equal"),
        (1, {"action": "delete"}, 422, "acknowledge"),
        (1, {"action": "note"}, 422, "A note says something"),
        (1, {"action": "link", "text": "javascript:alert(1)"}, 422, "begins with http"),
        (1, {"action": "fixed", "by": "  "}, 422, "Enter a name"),
        (1, {"action": "fixed", "text": "a\0b"}, 422, "pattern"),
        (1, {"action": "mute", "until": "2020-01-01T00:00:00Z"}, 422, "a moment to come"),
        (1, {"action": "mute", "until": "2120-01-01T00:00:00"}, 422, "timezone"),
        (1, {"action": "mute", "until": "9999-12-31T23:59:59-12:00"}, 422, "before the year 9999"),
        (1, {"action": "mute", "until": "9999-12-31T23:59:59Z"}, 422, "before the year 9999"),
        (1, {"action": "fixed", "state": "refuted"}, 422, "Extra inputs"),
        # JSON of Python holds them, and no answer does.
        (1, {"action": "fixed", "by": math.nan}, 422, "valid string"),
        (1, {"action": "fixed", "text": "\ud800"}, 422, "valid string"),
        (1, {"action": "fixed", "\ud800": ""}, 422, "valid string"),
    ],
)
def test_what_is_no_triage_changes_nothing(
    triager: TestClient, number: int, entry: dict[str, Any], status: int, said: str
) -> None:
    before = answer_of(triager, "/findings")
    content, headers = json.dumps({"by": "bot", **entry}), {"content-type": "application/json"}
    answer = triager.post(TRIAGE.format(number=number), content=content, headers=headers)
    assert answer.status_code == status and said in answer.text
    assert answer_of(triager, "/findings") == before


@pytest.mark.parametrize("sent", ["application/x-www-form-urlencoded", ""])
def test_a_body_that_is_not_called_json_is_answered_with_how_to_call_it(
    triager: TestClient, sent: str
) -> None:
    """As `curl --data` sends it."""
    headers = {"content-type": sent} if sent else {}
    entry = json.dumps({"action": "note", "by": "bot", "text": "seen"})
    answer = triager.post(TRIAGE.format(number=1), content=entry, headers=headers)
    assert answer.status_code == 422 and "application/json, not" in answer.json()["detail"][0]["msg"]


def test_without_the_token_nothing_is_triaged(api: TestClient) -> None:
    answer = api.post(TRIAGE.format(number=1), json={"action": "fixed", "by": "bot"})
    assert answer.status_code == 401 and "triage_token" in answer.text
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_database_that_is_away_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyrometer.db").write_text("no database at all, whatever its name says")
    monkeypatch.setenv("PYROMETER_DATABASE_URL", f"sqlite:///{tmp_path}/pyrometer.db")
    answer = TestClient(create_api()).get("/runs")
    assert answer.status_code == 503 and answer.json()["detail"]
