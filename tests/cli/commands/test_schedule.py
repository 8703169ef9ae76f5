"""`pyrometer schedule`: the timetable, firing by hand, tasks and their ends; a scheduler's settings."""

import io
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.commands.schedule import LOOK_SECONDS, Reread
from cli.context import command_line
from cli.registry import app
from configuration.settings import load_settings
from db.connection.engine import Database, open_database
from db.queue import commands
from db.queue.commands import claim, finish, lose, plan_run, seen_all, set_run
from db.queue.queries import task
from db.queue.queries import tasks as stored_tasks
from records.tasks import NewTask, SchedulerSeen
from scheduled_jobs.scheduler.log import Log
from scheduled_jobs.scheduler.process_identity import machine_name, this_process
from support.golden import Golden
from support.sqlite_files import sqlite_with_tables

TOML = """
timezone = "Europe/Berlin"
[schedules.nightly]
cron = "30 2 * * *"
environments = ["2.13.0", "nightly"]
machines = ["h200"]
"""


@pytest.fixture
def place(bare_folder: Path) -> Path:
    (bare_folder / "pyrometer.toml").write_text(TOML)
    sqlite_with_tables(bare_folder / "pyrometer.db")
    return bare_folder


def schedule(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["schedule", *arguments])


def tasks(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["tasks", *arguments])


def as_json(*arguments: str) -> Any:
    done = schedule(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def stored(place: Path) -> Database:
    return open_database(f"sqlite:///{place}/pyrometer.db")


def a_scheduler(place: Path, *labels: str, machine: str = "", facts: Mapping[str, Any] | None = None) -> None:
    """Say that this very process is a scheduler, or of another machine that one is there."""
    now, machine = datetime.now(UTC), machine or machine_name()
    with stored(place) as database:
        me = str(this_process(machine))
        one = SchedulerSeen(me, machine, (machine, *labels), now, now, 1, "test", dict(facts or {}))
        seen_all(database, [one])


def undated(text: str) -> str:
    """The text without the next fire times, and without the columns that are as wide as they are."""
    return re.sub(r"  +", "  ", re.sub(r"\w{3} \d{4}-\d\d-\d\d \d\d:\d\d CES?T", "NEXT", text))


def test_the_whole_reports(place: Path, golden: Golden) -> None:
    due = datetime(2026, 6, 1, tzinfo=UTC)
    with stored(place) as database:
        asked = [NewTask("2.13.0@h200", "measure", {"suite": "cpu"}, "h200"), NewTask("", "prune", {})]
        plan_run(database, "nightly", due, "by hand", asked, due)
        for token, hours in (("t", 0), ("u", 3)):
            began = due + timedelta(hours=hours)
            claim(database, owner="box/boot/1/2", labels=["h200"], jobs=["measure"], token=token, now=began)
            set_run(database, token, "20260601-003000-abcdef01")
            if token == "t":
                lose(database, token, "killed", began + timedelta(minutes=20), 5)
        finish(database, "u", "failed", {}, "no [such] wheel", began + timedelta(minutes=40))
        claim(database, owner="box/boot/1/2", labels=[], jobs=["prune"], token="v", now=due)
        assert commands.set_wait_reason(database, "v", "another run measures this machine")
    golden.check_terminal(
        "schedules.md",
        {
            "Schedules": undated(schedule("list").output),
            "Tasks": tasks("list").output,
            "A task that failed": tasks("show", "1").output,
            "A task that runs": tasks("show", "2").output,
        },
    )


def test_every_schedule_is_listed_with_its_next_moments(place: Path) -> None:
    rows = {row["schedule"]: row for row in as_json("list")}
    assert list(rows) == ["nightly", "digest", "discover", "check", "prune", "detect:nightly"]
    nightly = rows["nightly"]
    assert (nightly["job"], nightly["cron"], nightly["built_in"]) == ("measure", "30 2 * * *", False)
    moments = [datetime.fromisoformat(text) for text in nightly["next_utc"]]
    assert len(moments) == 3
    assert datetime.now(UTC) < moments[0] <= datetime.now(UTC) + timedelta(hours=26)
    assert all(" 02:30 CE" in text for text in nightly["next"])
    assert rows["digest"]["built_in"]
    assert rows["detect:nightly"]["cron"] == "after nightly"
    assert tasks("list").output == "no tasks\n"


def test_triggered_manually_its_tasks_wait_and_missing_machines_are_named(place: Path) -> None:
    done = schedule("trigger", "nightly")
    assert done.exit_code == 0
    assert "task 1: measure 2.13.0@h200 waits" in done.output
    assert "no scheduler is running" in done.output
    a_scheduler(place)
    assert 'label "h200"' in schedule("trigger", "nightly").output
    # One that does not measure carries out nothing of it, whatever labels it has.
    a_scheduler(place, "h200", facts={"measures": False})
    assert 'label "h200"' in schedule("trigger", "nightly").output
    assert "note:" not in schedule("trigger", "digest").output
    a_scheduler(place, "h200")
    assert "no scheduler" not in schedule("trigger", "nightly").output
    assert next(row["open"] for row in as_json("list")) == {"waiting": 8}


def test_every_task_of_a_large_fleet_is_listed_when_it_is_triggered(place: Path) -> None:
    machines = [f"box-{number}" for number in range(30)]
    (place / "pyrometer.toml").write_text(TOML.replace('["h200"]', json.dumps(machines)))
    triggered = as_json("trigger", "nightly")["tasks"]
    parts = {f"{torch}@{machine}" for torch in ("2.13.0", "nightly") for machine in machines}
    assert len(triggered) == 60 and {each["part"] for each in triggered} == parts


def test_triggered_by_hand_a_machine_that_its_head_misses_is_not_there_to_do_it(place: Path) -> None:
    a_scheduler(place, facts={"missing": ["gpu-1"]})
    a_scheduler(place, "h200", machine="gpu-1", facts={"head": "another"})
    assert "no scheduler" not in schedule("trigger", "nightly").output
    a_scheduler(place, "h200", machine="gpu-1", facts={"head": machine_name()})
    assert 'label "h200"' in schedule("trigger", "nightly").output


def test_everything_that_waits_is_counted(place: Path) -> None:
    now = datetime.now(UTC)
    with stored(place) as database:
        plan_run(
            database,
            "nightly",
            now,
            "by hand",
            [NewTask(f"part {at}", "measure", {}) for at in range(1001)],
            now,
        )
    assert as_json("list")[0]["open"] == {"waiting": 1001}


def test_a_schedule_that_is_not_there_is_one_sentence(place: Path) -> None:
    done = schedule("trigger", "nihgtly")
    assert done.exit_code == 2
    assert 'unknown schedule "nihgtly": did you mean "nightly"?' in done.output


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('suite = "smok"', 'schedule nightly: unknown suite "smok": did you mean "smoke"?'),
        ('preset = "quite"', 'schedule nightly: unknown preset "quite": did you mean "quiet"?'),
        (
            'watch = ["rss_peek"]',
            'schedule nightly watches an unknown metric "rss_peek": did you mean "rss_peak',
        ),
        (
            'watch = ["rss_peak", "power"]',
            "watches power, which is neither better nor worse: no change of it",
        ),
        ("replicates = 3", None),
    ],
)
def test_what_a_schedule_names_must_be_there(place: Path, line: str, sentence: str | None) -> None:
    (place / "pyrometer.toml").write_text(TOML + line)
    for command in (["schedule", "list"], ["scheduler", "--once", "--no-measuring"]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == (2 if sentence else 0), done.output
        assert (sentence or "") in done.output


def test_an_environment_that_means_nothing_is_named(place: Path) -> None:
    (place / "pyrometer.toml").write_text(TOML.replace("2.13.0", "nihgtly"))
    assert 'schedule nightly: unknown environment "nihgtly"' in schedule("list").output


def test_a_task_is_shown_with_its_attempts_and_its_error(place: Path) -> None:
    schedule("trigger", "nightly")
    now = datetime.now(UTC)
    with stored(place) as database:
        claim(database, owner="box/boot/1/2", labels=["h200"], jobs=["measure"], token="t", now=now)
        set_run(database, "t", "20260601-003000-abcdef01")
        finish(database, "t", "failed", {}, "no [such] wheel", now)
    log = place / ".pyrometer/tasks/1/attempt-1.log"
    log.parent.mkdir(parents=True)
    log.touch()
    assert str(log) in tasks("show", "1").output
    (attempt,) = json.loads(tasks("show", "1", "--json").stdout)["attempted"]
    assert (attempt["ended"], attempt["detail"]) == ("failed", "no [such] wheel")
    assert "no [such] wheel" in tasks("list", "--state", "failed").output
    assert 'unknown task "9"' in tasks("show", "9").output


def test_a_task_took_as_long_as_all_attempts_at_it(place: Path) -> None:
    schedule("trigger", "nightly")
    began = datetime(2026, 6, 1, tzinfo=UTC)
    with stored(place) as database:
        claim(database, owner="box/boot/1/2", labels=["h200"], jobs=["measure"], token="t", now=began)
        lose(database, "t", "killed", began + timedelta(minutes=20), 5)
        again = began + timedelta(hours=3)
        claim(database, owner="box/boot/1/2", labels=["h200"], jobs=["measure"], token="u", now=again)
        finish(database, "u", "done", {}, "", again + timedelta(minutes=40))
    assert "1:00:00 in 2 attempts" in tasks("list").output
    over, waits = (json.loads(line) for line in reversed(tasks("list", "--json").stdout.splitlines()))
    assert (over["took_seconds"], over["attempts_over"]) == (3600.0, 2)
    assert (waits["took_seconds"], waits["attempts_over"]) == (None, 0)


def test_what_a_task_waits_for_is_listed_until_it_goes_on(place: Path) -> None:
    schedule("trigger", "nightly")
    with stored(place) as database:
        claim(database, owner="b/o/1/2", labels=["h200"], jobs=["measure"], token="t", now=datetime.now(UTC))
        assert commands.set_wait_reason(database, "t", "another run measures this machine")
        for listed in (schedule("list"), tasks("list"), tasks("show", "1")):
            assert "another run measures" in " ".join(listed.output.split())
        assert as_json("list")[0]["waits_for"] == ["another run measures this machine"]
        assert commands.set_wait_reason(database, "t", "")
        assert as_json("list")[0]["waits_for"] == []
        finish(database, "t", "done", {}, "", datetime.now(UTC))
        # A task that is over waits for nothing, also after a late report of its child.
        assert not commands.set_wait_reason(database, "t", "another run measures this machine")


def test_what_a_child_said_last_steers_no_terminal(place: Path) -> None:
    schedule("trigger", "nightly")
    now = datetime.now(UTC)
    with stored(place) as database:
        claim(database, owner="box/boot/1/2", labels=["h200"], jobs=["measure"], token="t", now=now)
        finish(database, "t", "failed", {}, "no\x1b[2J wheel", now)
    for listed in (tasks("show", "1"), tasks("list")):
        assert "no [2J wheel" in listed.output and "\x1b" not in listed.output


def test_what_no_database_can_hold_is_refused_in_a_sentence(place: Path) -> None:
    huge = "99999999999999999999"
    calls = (("show", huge), ("cancel", huge), ("list", "--newest", huge), ("list", "--state", "over"))
    for done in (tasks(*call) for call in calls):
        assert done.exit_code == 2 and "Traceback" not in done.output


def test_a_task_is_cancelled_once(place: Path) -> None:
    schedule("trigger", "nightly")
    assert "task 2 is cancelled" in tasks("cancel", "2").output
    again = tasks("cancel", "2")
    assert (again.exit_code, "has already ended: cancelled" in again.output) == (1, True)
    with stored(place) as database:
        cancelled = task(database, 2)
        assert cancelled is not None
        assert cancelled.state == "cancelled"


def test_once_does_what_thinks_and_leaves_what_measures(place: Path) -> None:
    schedule("trigger", "prune")
    schedule("trigger", "nightly")
    done = CliRunner().invoke(app, ["scheduler", "--once", "--no-measuring", "--log", "json"])
    assert done.exit_code == 0, done.output
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["event"] for each in events if each.get("schedule") == "prune"] == ["claimed", "ended"]
    with stored(place) as database:
        assert {each.state for each in stored_tasks(database, job="measure")} == {"waiting"}


def test_settings_are_read_again_and_a_mistake_leaves_the_old_ones(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = [0.0]
    monkeypatch.setattr("cli.commands.schedule.time.monotonic", lambda: passed[0])
    out = io.StringIO()
    settings = Reread(load_settings(), Log("json", lambda: datetime.now(UTC), out))

    def after(text: str) -> str:
        (place / "pyrometer.toml").write_text(text)
        passed[0] += LOOK_SECONDS
        return settings().schedules["nightly"].cron

    assert after(TOML.replace("30 2", "45 3")) == "45 3 * * *"
    assert after(TOML.replace("30 2", "61 2")) == "45 3 * * *"
    assert after(TOML.replace("30 2", "61 2")) == "45 3 * * *"
    assert after(TOML + 'suite = "smok"') == "45 3 * * *"
    assert after(TOML) == "30 2 * * *"
    events = [json.loads(line)["event"] for line in out.getvalue().splitlines()]
    assert events[0] == events[-1] == "settings read again"
    assert set(events[1:-1]) == {"settings refused"}


def test_the_name_of_a_run_is_the_schedulers_own_affair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["-c", "run", "--suite", "cpu", "--run-id", "a-run", "--json"])
    assert command_line() == "pyrometer run --suite cpu --json"
    runner = CliRunner()
    assert "--run-id" not in runner.invoke(app, ["run", "--help"]).output
    done = runner.invoke(app, ["run", "--run-id", "../elsewhere"])
    assert (done.exit_code, "cannot be the name of a run" in done.output) == (2, True)


def test_an_event_is_a_line_for_people_or_for_machines() -> None:
    moment = datetime(2026, 6, 1, 2, 30, tzinfo=UTC)
    plain, lines = io.StringIO(), io.StringIO()
    about = {"schedule": "nightly", "task": 3, "run": None}
    Log("plain", lambda: moment, plain)("ended", "no such wheel", about, "error")
    Log("json", lambda: moment, lines)("ended", "no such wheel", about, "error")
    assert plain.getvalue().endswith("error: ended schedule=nightly task=3: no such wheel\n")
    assert json.loads(lines.getvalue()) == {
        "time": "2026-06-01T02:30:00+00:00",
        "level": "error",
        "event": "ended",
        "schedule": "nightly",
        "task": 3,
        "text": "no such wheel",
    }
