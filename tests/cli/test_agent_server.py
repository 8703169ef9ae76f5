"""`pyrometer mcp`, by a client of the protocol's SDK: the database's answers, and sentences that refuse."""

import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from starlette.testclient import TestClient

from dashboard.api.api import create_api
from db.connection.engine import open_database
from db.findings import store
from db.runs import queries
from records.kinds import RunSource
from runner import journal
from support.builders import full_database
from support.builders.run_records import MLP, a_run, an_outcome
from support.builders.stored_run import store_run
from support.site import COMMAND, PATIENCE_SECONDS, Site, wait_until_gone
from support.sqlite_files import open_with_tables
from support.waiting import until

pytestmark = pytest.mark.slow

Call = tuple[str, dict[str, Any]]


#: Of each call its values, or its refusal; before them the names of the tools.
Ask = Callable[[list[Call]], list[Any]]


@contextmanager
def agent(
    folder: Path,
    *options: str,
    env: dict[str, str] | None = None,
    before: tuple[str, ...] = (),
) -> Iterator[Ask]:
    """A client of a server that is started in `folder`, `before` being a command that starts it."""
    # Here: they take a second, and every process of the tests imports this file.
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    variables = env or {"PATH": os.environ["PATH"], "HOME": str(folder)}
    program, *words = (*before, str(COMMAND), "mcp", *options)
    server = StdioServerParameters(command=program, args=words, cwd=str(folder), env=variables)

    @asynccontextmanager
    async def session() -> AsyncIterator[ClientSession]:
        async with stdio_client(server) as (read, write), ClientSession(read, write) as client:
            await client.initialize()
            yield client

    async def called(client: ClientSession, calls: list[Call]) -> list[Any]:
        found: list[Any] = [[tool.name for tool in (await client.list_tools()).tools]]
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)
            text = result.content[0].text if result.content else ""
            found.append(text if result.is_error else result.structured_content)
        return found

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(session()) as client:
        yield lambda calls: portal.call(called, client, calls)


def answers(folder: Path, calls: list[Call], *options: str, **how: Any) -> list[Any]:
    """What a server answers that is started for these calls."""
    with agent(folder, *options, **how) as ask:
        return ask(calls)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with nights, a finding and an upgrade."""
    place = tmp_path_factory.mktemp("project")
    full_database.add(f"sqlite:///{place}/pyrometer.db", place)
    (place / "pyrometer.toml").write_text('[environments.default]\npython = "/no/python"\n')
    return place


@pytest.fixture(scope="module")
def ask(folder: Path) -> Iterator[Ask]:
    """A client of one server in that project: a server takes seconds to start."""
    with agent(folder) as made:
        yield made


def test_answers_carry_interval_n_and_the_command(folder: Path, ask: Ask) -> None:
    with open_database(f"sqlite:///{folder}/pyrometer.db") as database:
        runs = queries.recent_runs(database, limit=1000)
        (upgrade,) = queries.upgrade_runs(database)
        confirmed = store.findings(database, states=["confirmed"])
        newest = next(run for run in runs if queries.measurements_of_run(database, run.id))
        stored = [
            one for one in queries.measurements_of_run(database, newest.id) if one.metric == "latency_floor"
        ]
    workload = stored[0].case.partition("/")[0]
    tools, listed, measured, some, both, verdict, findings, finding = ask(
        [
            ("runs", {"newest": 3}),
            ("measurements", {"run": newest.id, "metric": "latency_floor"}),
            ("measurements", {"run": newest.id, "metric": "latency_floor", "case": workload}),
            ("measurements", {"run": upgrade.id, "metric": "latency_floor"}),
            ("compare", {"run": upgrade.id}),
            ("findings", {"every": True}),
            ("finding", {"number": confirmed[0].id}),
        ],
    )
    assert "start_upgrade" in tools and "triage" not in tools
    assert [one["run"] for one in listed["runs"]] == [run.id for run in runs[:3]]
    assert [(one["case"], one["point"], one["low"], one["n"]) for one in measured["measurements"]] == [
        (one.case, one.point, one.low, one.n) for one in stored
    ]
    of_workload = [one for one in measured["measurements"] if one["case"].startswith(f"{workload}/")]
    assert some["measurements"] == of_workload and 0 < len(of_workload) < len(stored)
    # Of an upgrade each row says of which side it is.
    sides = {(one.name, one.torch_version) for one in upgrade.environments if one.torch_version}
    rows = [(one["case"], one["environment"], one["torch"]) for one in both["measurements"]]
    assert {row[1:] for row in rows} == sides and len(sides) == 2 and len(set(rows)) == len(rows)
    assert measured["unit"] == both["unit"] == "ms"
    assert measured["measurements"][0]["reproduce"].startswith(f"pyrometer reproduce {newest.id}:")
    assert verdict["decision"] in ("go", "no-go", "unclear") and verdict["run"] == upgrade.id
    assert verdict["reasons"] and verdict["total"] == len(verdict["moved"])
    assert 0 < verdict["all_cases"]["cases"] <= len({row[0] for row in rows})
    for case in verdict["moved"]:
        assert case["reproduce"].startswith("pyrometer upgrade ")
        assert case["n"] is None or case["ratio_low"] <= case["ratio"] <= case["ratio_high"]
    assert {one["id"] for one in findings["findings"]} >= {one.id for one in confirmed}
    assert finding["id"] == confirmed[0].id and finding["evidence"]
    (listed_one,) = [one for one in findings["findings"] if one["id"] == confirmed[0].id]
    session = confirmed[0].evidence.confirmation
    assert (listed_one["n"], listed_one["reproduce"]) == (
        session.verdict and session.verdict.pairs,
        session.reproduce,
    )
    assert listed_one["ratio"] == finding["ratio"] and "evidence" not in listed_one


def test_runs_are_the_rows_of_the_api(folder: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYROMETER_DATABASE_URL", f"sqlite:///{folder}/pyrometer.db")
    rows = TestClient(create_api()).get("/runs", params={"limit": 5}).json()
    _, listed = ask([("runs", {"newest": 5})])
    assert listed["runs"] == [{"run": row.pop("id"), **row} for row in rows] and len(rows) == 5
    with open_database(f"sqlite:///{folder}/pyrometer.db") as database:
        assert listed["total"] == queries.count_runs(database) > 5


def test_what_others_measured_has_no_command_that_measures_it_again(tmp_path: Path) -> None:
    (tmp_path / "pyrometer.toml").touch()
    with open_with_tables(f"sqlite:///{tmp_path}/pyrometer.db") as database:
        store_run(database, replace(a_run("theirs"), source=RunSource.SUBMITTED), [an_outcome(MLP)])
    _, found, refusal = answers(
        tmp_path, [("measurements", {"run": "theirs"}), ("reproduce", {"run": "theirs"})]
    )
    assert [one["reproduce"] for one in found["measurements"]] == [""]
    assert "does not know how it was measured" in refusal


def test_a_folder_that_cannot_be_written_has_the_answers_of_its_own_database(
    folder: Path, ask: Ask, tmp_path: Path
) -> None:
    place = tmp_path / "project"
    place.mkdir()
    for name in ("pyrometer.db", "pyrometer.toml"):
        shutil.copy(folder / name, place)
        (place / name).chmod(0o444)
    place.chmod(0o555)
    # Root may write wherever it likes, unless it gives that up (PR_CAPBSET_DROP of CAP_DAC_OVERRIDE).
    drop = (
        "import ctypes, os, sys; ctypes.CDLL(None).prctl(24, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    try:
        _, there = answers(place, [("runs", {})], env=env, before=(sys.executable, "-c", drop))
    finally:
        place.chmod(0o755)
    assert there == ask([("runs", {})])[1] and there["total"]


def test_latest_is_the_newest_run_and_for_a_verdict_the_newest_upgrade(folder: Path, ask: Ask) -> None:
    with open_database(f"sqlite:///{folder}/pyrometer.db") as database:
        newest = queries.latest_run_id(database)
        (upgrade,) = queries.upgrade_runs(database)
    assert newest is not None and newest != upgrade.id
    _, verdict, progress, named, latest = ask(
        [
            ("compare", {}),
            ("progress", {"run": "latest"}),
            ("measurements", {"run": newest, "metric": "latency_floor"}),
            ("measurements", {"run": "latest", "metric": "latency_floor"}),
        ]
    )
    assert verdict["run"] == upgrade.id and progress["run"] == newest and latest == named


def test_a_refusal_is_a_sentence_and_no_argument_is_an_option(ask: Ask) -> None:
    calls: list[Call] = [
        ("measurements", {"run": "nothing"}),
        ("compare", {"run": "--help"}),
        ("reproduce", {"run": "--run"}),
        ("finding", {"number": 99999}),
        ("progress", {"run": "../../etc/passwd"}),
        ("runs", {"newst": 1}),
        ("findings", {"state": "confirmed"}),
        ("triage", {"number": 1, "action": "expected", "text": "no"}),
    ]
    _, *refusals = ask(calls)
    for refusal, words in zip(
        refusals,
        (
            *("no run is named nothing", "unknown run", "unknown run", "there is no finding", "run"),
            *('did you mean "newest"', 'unknown argument "state"', "triage"),
        ),
        strict=True,
    ):
        assert isinstance(refusal, str) and words in refusal and "Traceback" not in refusal


def test_what_is_no_upgrade_is_refused_before_it_begins(folder: Path, ask: Ask) -> None:
    """Begun, it would have a run that `progress` knows nothing of but a line of a log."""
    environments = {"old": "default", "new": "default"}
    wrong = ({"suite": "smok"}, {"pairs": 5}, {"pairs": -4}, {"new": "nigthly"})
    _, *refusals = ask([("start_upgrade", {**environments, **each}) for each in wrong])
    words = ('did you mean "smoke"', "even number", "even number", "unknown environment")
    for refusal, word in zip(refusals, words, strict=True):
        assert isinstance(refusal, str) and word in refusal
    assert not (folder / ".pyrometer/agents").exists()


def test_no_password_comes_to_a_command_line(folder: Path, ask: Ask) -> None:
    wheel = "https://ada:hunter2@example.com/torch-2.13.0-cp311-cp311-linux_x86_64.whl"
    calls: list[Call] = [
        ("start_upgrade", {"old": "default", "new": wheel}),
        ("start_upgrade", {"old": wheel, "new": "default"}),
        ("start_upgrade", {"old": "default", "new": "default", "suite": wheel}),
        ("start_upgrade", {"old": "default", "new": "default", "cases": [wheel]}),
        ("start_upgrade", {"old": "default", "new": "nigthly"}),
        ("fingerprint_difference", {"old": "default", "new": wheel, "case": "mlp"}),
        ("compare", {"run": wheel}),
        ("reproduce", {"run": wheel}),
    ]
    _, *refusals = ask(calls)
    for (_, given), refusal in zip(calls, refusals, strict=True):
        word = "unknown environment" if "nigthly" in given.values() else "without user and password"
        assert isinstance(refusal, str) and word in refusal and "hunter2" not in refusal
    # Nothing was begun.
    assert not (folder / ".pyrometer/agents").exists()


def test_a_database_that_is_away_is_a_sentence(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    env["PYROMETER_DATABASE_URL"] = "postgresql://127.0.0.1:1/nothing"
    (tmp_path / "pyrometer.toml").touch()
    _, refusal = answers(tmp_path, [("runs", {})], env=env)
    assert isinstance(refusal, str) and "127.0.0.1:1" in refusal


def test_triage_takes_the_flag_and_is_signed(folder: Path) -> None:
    with open_database(f"sqlite:///{folder}/pyrometer.db") as database:
        number = store.findings(database, states=["confirmed"])[0].id
    tools, said = answers(
        folder, [("triage", {"number": number, "action": "note", "text": "seen"})], "--triage"
    )
    assert "triage" in tools and isinstance(said, dict)
    with open_database(f"sqlite:///{folder}/pyrometer.db") as database:
        entry = store.triage_log(database, number)[-1]
    assert (entry.who, entry.action, entry.text) == ("agent", "note", "seen")


def has_ended(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0 and journal.read_contents(path).ended is not None


@pytest.mark.torch
def test_an_upgrade_goes_on_after_the_agent_has_left(site: Site) -> None:
    env = site.environ({"PATH": os.environ["PATH"]})
    settings = site.folder / "pyrometer.toml"
    # A case that a CPU refuses, with no baseline that it would measure: one pair of processes says so.
    case = "peer_copy/infer/mebibytes=1/eager"
    settings.write_text(settings.read_text() + f'[suites.one]\ncases = ["{case}"]\n')
    _, begun = answers(
        site.folder,
        [("start_upgrade", {"old": "default", "new": "default", "suite": "one", "pairs": 4})],
        env=env,
    )
    run = begun["run"]
    until(lambda: has_ended(site.journal(run)), "the journal has its end", 2 * PATIENCE_SECONDS)
    wait_until_gone(run)
    # What four pairs decide is chance; an agent that comes back reads what was stored.
    _, found, compared = answers(
        site.folder, [("progress", {"run": run}), ("compare", {"run": run})], env=env
    )
    assert found["state"] == "complete", (found, Path(begun["log"]).read_text())
    assert compared["decision"] in ("go", "no-go", "unclear")
    assert (found["decision_so_far"], found["ended"]) == (compared["decision"], found["planned"])
