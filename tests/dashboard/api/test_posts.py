"""What programs write over the API: who may, what is stored of it, and that nothing is stored by halves."""

import json
import subprocess
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any, get_args

import psycopg
import pytest
from fastapi import FastAPI
from sqlalchemy import make_url
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.testclient import TestClient

from configuration.settings import load_settings
from dashboard.api.api import PREFIX, create_api
from dashboard.api.posts import MAX_RESULTS, Trigger
from dashboard.auth.middleware import AccessGate
from dashboard.auth.policy import AccessRules, Role
from dashboard.server.asgi import OwnNames
from dashboard.server.database import database_at
from db.connection.engine import Database
from db.errors import ReadOnly
from db.queue import commands
from db.queue import queries as queue
from db.runs import queries
from records.tasks import TaskState
from scheduled_jobs.scheduler import planner
from support.servers.postgres import PostgresServer
from support.site import COMMAND, ROOT

ROLES: tuple[Role, ...] = get_args(Role)
RULES = AccessRules(
    login="proxy",
    triagers=("ada",),
    user_header=b"x-user",
    proxies=(ip_network("10.0.0.5"),),
    api_token="read it",
    triage_token="triage it",
    submit_token="submit it",
    trigger_token="trigger it",
)
PLACE = {"machine": "gpu-07", "hardware": "8 x H200"}
RESULT: dict[str, Any] = {
    "suite": "training",
    "case": "my_model/train/batch=8",
    "started_at": "2026-11-21T20:15:00+00:00",
    "torch": "2.13.0",
    "metrics": {"tokens_per_second": {"value": 51300, "unit": "tokens/s", "better": "higher"}},
}
SETTINGS = """
[schedules.weekly]
cron = "0 3 * * 1"
environments = ["2.13.0", "2.14.0"]
suite = "smoke"
"""


def bearer(role: Role) -> dict[str, str]:
    return {"authorization": f"Bearer {role} it"}


@pytest.fixture
def database(full_copy: str, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database with something of everything that a test may write to."""
    monkeypatch.setenv("PYROMETER_DATABASE_URL", full_copy)
    return database_at(full_copy)


@pytest.fixture
def trigger(tmp_path: Path) -> Trigger:
    """What enqueues the schedules of `SETTINGS`."""
    (tmp_path / "pyrometer.toml").write_text(SETTINGS)
    settings = load_settings(cwd=tmp_path, environ={})
    return lambda database, name: planner.trigger_schedule(database, settings, name, datetime.now(UTC))


@pytest.fixture
def api(database: Database, trigger: Trigger) -> TestClient:
    """The API behind its gate, where people log in by a proxy and programs bring tokens."""
    return behind_the_gate(create_api(trigger))


def behind_the_gate(api: FastAPI, rules: AccessRules = RULES, peer: str = "127.0.0.1") -> TestClient:
    doors = [Middleware(OwnNames), Middleware(AccessGate, rules)]
    served = Starlette(routes=[Mount(PREFIX, api)], middleware=doors)
    return TestClient(served, client=(peer, 50_000))


def test_each_token_opens_every_route_of_its_role_and_no_other(
    api: TestClient, database: Database, trigger: Trigger
) -> None:
    paths = api.get(f"{PREFIX}/openapi.json", headers=bearer("read")).json()["paths"]
    series = api.get(f"{PREFIX}/series?limit=1", headers=bearer("read")).json()[0]
    known: dict[str, dict[str, Any]] = {
        "/series/points": {name: series[name] for name in ("case", "metric", "hardware", "preset")},
        "/submit": PLACE,
    }
    bodies = {"triage": {"action": "note", "by": "bot", "text": "seen"}, "submit": RESULT}
    upgrade = queries.upgrade_runs(database, newest=1)[0].id
    none: dict[str, str] = {}
    senders = {role: (api, bearer(role)) for role in ROLES} | {
        "no token": (api, none),
        "wrong token": (api, {"authorization": "Bearer read"}),
        # A person who may triage on the pages does not over the API.
        "person": (behind_the_gate(create_api(trigger), peer="10.0.0.5"), {"x-user": "ada"}),
    }
    seen: dict[str, dict[str, int]] = {}
    for path, methods in paths.items():
        (method,) = methods
        named = path.replace("{run}", upgrade).replace("{number}", "1").replace("{schedule}", "weekly")
        body = bodies.get(path.rpartition("/")[2])
        sent = {"json": body} if method == "post" and body else {}
        for name, (client, headers) in senders.items():
            answer = client.request(
                method, PREFIX + named, headers=headers, params=known.get(path, {}), **sent
            )
            seen.setdefault(f"{method} {path}", {})[name] = answer.status_code
    writes = {"post /findings/{number}/triage": "triage", "post /submit": "submit"}
    writes["post /schedules/{schedule}/trigger"] = "trigger"
    assert {one for one in seen if one.startswith("post")} == writes.keys() and len(seen) > 12
    for route, statuses in seen.items():
        for sender, status in statuses.items():
            allowed = sender == writes[route] if route in writes else not sender.endswith("token")
            refused = 403 if sender in ROLES else 401
            assert (status in (200, 202)) == allowed and (allowed or status == refused), (
                route,
                sender,
                status,
            )


def test_a_token_of_another_role_is_refused_with_the_right_one(api: TestClient, database: Database) -> None:
    before = queries.count_runs(database)
    for path in ("submit", "schedules/weekly/trigger"):
        answer = api.post(f"{PREFIX}/{path}", headers=bearer("triage"), json=RESULT)
        role = path.rpartition("/")[2]
        assert answer.status_code == 403 and f"{role}_token" in answer.json()["detail"]
    assert queries.count_runs(database) == before
    assert queue.tasks(database, schedule="weekly") == []


def test_two_roles_may_share_a_token(database: Database) -> None:
    api = behind_the_gate(create_api(), AccessRules(submit_token="both", triage_token="both"))
    headers = {"authorization": "Bearer both"}
    assert api.post(f"{PREFIX}/submit", headers=headers, params=PLACE, json=RESULT).status_code == 200
    entry = {"action": "note", "by": "bot", "text": "seen"}
    assert api.post(f"{PREFIX}/findings/1/triage", headers=headers, json=entry).status_code == 200


def test_results_are_stored_as_the_command_stores_them(
    api: TestClient, database: Database, tmp_path: Path
) -> None:
    answer = submitted(api, [RESULT, {**RESULT, "case": "my_model/infer"}])
    assert answer.status_code == 200
    (run,) = answer.json()["runs"]
    assert answer.json()["new"] == {"runs": 1, "outcomes": 2, "measurements": 2}
    again = submitted(api, RESULT)
    assert again.json() == {
        "runs": [run],
        "new": {"runs": 0, "outcomes": 0, "measurements": 0},
        "set_aside": [],
    }
    (tmp_path / "results.json").write_text(json.dumps(RESULT))
    options = ["--machine", PLACE["machine"], "--hardware", PLACE["hardware"], "--json"]
    said = subprocess.run(
        [COMMAND, "submit", "results.json", *options], cwd=tmp_path, capture_output=True, check=True
    )
    assert json.loads(said.stdout)["runs"] == [run] and json.loads(said.stdout)["new"]["runs"] == 0
    stored = queries.run_record(database, run)
    assert stored and (stored.machine.name, stored.machine.hardware.label) == ("gpu-07", "8 x H200")
    blank = {name: f" {label}\n" for name, label in PLACE.items()}
    answer = api.post(f"{PREFIX}/submit", headers=bearer("submit"), params=blank, json=RESULT)
    assert (answer.json()["runs"], answer.json()["new"]["runs"]) == ([run], 0)


def test_a_contradiction_is_answered_with_what_stays(api: TestClient, database: Database) -> None:
    (run,) = submitted(api, RESULT).json()["runs"]
    before = queries.measurements_of_run(database, run)
    metrics = {"tokens_per_second": {**RESULT["metrics"]["tokens_per_second"], "value": 9}}
    answer = submitted(api, {**RESULT, "metrics": metrics})
    assert answer.status_code == 409 and "51300" in answer.json()["set_aside"][0]
    assert queries.measurements_of_run(database, run) == before


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is no JSON"),
        (b"{", "is no JSON"),
        (b"[]", "holds no result"),
        (b"\xff\xfe", "no UTF-8"),
        (b"\x1f\x8b\x08\x00", "no UTF-8"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"suite": 1' + b"0" * 10_000 + b"}", "digits"),
        (b'{"suite": "a", "suite": "b"}', "twice"),
        (json.dumps({**RESULT, "suite": "a\0b"}).encode(), "left out"),
        (json.dumps({**RESULT, "suite": "\ud800"}).encode(), "left out"),
        # A client that is newer, and one that is older.
        (json.dumps({**RESULT, "cluster": "b"}).encode(), "body, cluster: is no field"),
        (json.dumps({**RESULT, "case": "my_model"}).encode(), "case"),
        (json.dumps([RESULT, {**RESULT, "started_at": None}]).encode(), "started_at"),
        (json.dumps({**RESULT, "started_at": "2126-01-01T00:00:00+00:00"}).encode(), "future"),
        (json.dumps({**RESULT, "metrics": {"latency": {"value": -1}}}).encode(), "latency"),
        (json.dumps({**RESULT, "metrics": {"latency": {"value": float("nan")}}}).encode(), "latency"),
    ],
)
def test_what_are_no_results_stores_nothing(
    api: TestClient, database: Database, content: bytes, said: str
) -> None:
    before = queries.count_runs(database)
    answer = submitted(api, content)
    assert answer.status_code == 422 and said in answer.json()["detail"]
    assert answer.json()["detail"].endswith("nothing was stored")
    assert queries.count_runs(database) == before


@pytest.mark.parametrize("name", ["machine", "hardware"])
@pytest.mark.parametrize("value", [None, "", "  ", "a" * 201, "a\0b"])
def test_results_come_with_their_machine_and_hardware(
    api: TestClient, database: Database, name: str, value: str | None
) -> None:
    place = {key: text for key, text in {**PLACE, name: value}.items() if text is not None}
    answer = api.post(f"{PREFIX}/submit", headers=bearer("submit"), params=place, json=RESULT)
    assert answer.status_code == 422 and name in answer.text


def test_a_long_body_is_refused_before_it_is_read(api: TestClient) -> None:
    headers = {**bearer("triage"), "content-type": "application/json"}
    for path, most in (("submit", MAX_RESULTS), ("findings/1/triage", 64 << 10)):
        for size, status in ((most, 403 if path == "submit" else 422), (most + 1, 413), (4 * most, 413)):
            answer = api.post(f"{PREFIX}/{path}", headers=headers, params=PLACE, content=b" " * size)
            assert answer.status_code == status, (path, size)
        endless = api.post(f"{PREFIX}/{path}", headers=headers, content=iter([b" "]))
        assert endless.status_code == 413 and "Content-Length" in endless.text


def test_a_schedule_is_triggered_once_while_it_waits(api: TestClient, database: Database) -> None:
    address = f"{PREFIX}/schedules/weekly/trigger"
    answer = api.post(address, headers=bearer("trigger"))
    assert (answer.status_code, answer.json()["queued"]) == (202, True)
    tasks = {task.id: task for task in queue.tasks(database, schedule="weekly")}
    assert {row["id"]: row["part"] for row in answer.json()["tasks"]} == {
        number: task.part for number, task in tasks.items()
    }
    assert {task.part for task in tasks.values()} == {"2.13.0", "2.14.0"}
    again = api.post(address, headers=bearer("trigger"))
    assert (again.status_code, again.json()["queued"]) == (200, False)
    assert {row["id"] for row in again.json()["tasks"]} == tasks.keys()
    number = min(tasks)
    row = api.get(f"{PREFIX}/tasks/{number}", headers=bearer("read")).json()
    assert (row["id"], row["job"], row["state"]) == (number, "measure", "waiting")
    for each in tasks:
        commands.cancel(database, each, datetime.now(UTC))
    assert api.post(address, headers=bearer("trigger")).status_code == 202
    assert len(queue.tasks(database, schedule="weekly", state=TaskState.WAITING)) == 2


@pytest.mark.parametrize(
    ("name", "status"), [("nigthly", 404), ("a%2Fb", 405), ("%00", 422), ("'; DROP TABLE task", 404)]
)
def test_what_is_no_schedule_is_not_triggered(
    api: TestClient, database: Database, name: str, status: int
) -> None:
    before = queue.tasks(database, newest=1)
    answer = api.post(f"{PREFIX}/schedules/{name}/trigger", headers=bearer("trigger"))
    assert answer.status_code == status and answer.text
    assert queue.tasks(database, newest=1) == before


def test_a_server_without_schedules_triggers_none(database: Database) -> None:
    answer = behind_the_gate(create_api()).post(
        f"{PREFIX}/schedules/weekly/trigger", headers=bearer("trigger")
    )
    assert answer.status_code == 404 and "no schedules" in answer.text


def test_an_account_that_may_only_read_is_said(database: Database) -> None:
    def refused(database: Database, name: str) -> datetime:
        raise ReadOnly("This account may not write.")

    answer = behind_the_gate(create_api(refused)).post(
        f"{PREFIX}/schedules/weekly/trigger", headers=bearer("trigger")
    )
    said = answer.json()["detail"]
    assert answer.status_code == 409 and said.startswith("This account may not write. ")
    assert "PYROMETER_DASHBOARD_ACCOUNT=writer" in said


@pytest.mark.postgres
@pytest.mark.parametrize(("account", "refused"), [("reader", True), ("writer", False)])
def test_programs_post_where_the_account_of_the_dashboard_writes(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, trigger: Trigger, account: str, refused: bool
) -> None:
    url = postgres.new_database("postgres")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute((ROOT / "deploy/roles.sql").read_bytes())
    served = make_url(url).set(username=f"pyrometer_{account}").render_as_string()
    monkeypatch.setenv("PYROMETER_DATABASE_URL", served)
    api = behind_the_gate(create_api(trigger))
    stored = submitted(api, RESULT)
    enqueued = api.post(f"{PREFIX}/schedules/weekly/trigger", headers=bearer("trigger"))
    assert (stored.status_code, enqueued.status_code) == ((409, 409) if refused else (200, 202)), stored.text
    assert len(api.get(f"{PREFIX}/runs", headers=bearer("read")).json()) == (0 if refused else 1)
    database_at(served).close()
    postgres.drop_database(url)


def submitted(api: TestClient, results: Any) -> Any:
    content = results if isinstance(results, bytes) else json.dumps(results).encode()
    return api.post(f"{PREFIX}/submit", headers=bearer("submit"), params=PLACE, content=content)
