"""A service with real children, in real processes: what is killed, stopped, lost, away; and what is left."""

import os
import signal
import sqlite3
import sys
import threading
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from db.connection.engine import Database
from db.queue import queries as queue_queries
from db.queue.commands import cancel, lose
from db.queue.queries import attempts, scheduled_runs, schedulers, tasks
from db.runs import queries
from records.tasks import NewTask, Task
from scheduled_jobs.jobs.context import ChildLost, FollowUp, JobContext, JobResult, JobStopped
from scheduled_jobs.scheduler import child_process as children
from scheduled_jobs.scheduler.child_process import Logs, logs_of, run_child
from scheduled_jobs.scheduler.log import Log
from scheduled_jobs.scheduler.planner import trigger_schedule
from support.fakes.pyrometer_run import CASES
from support.servers.databases import on_both
from support.servers.schedulers import (
    Installation,
    a_service,
    executions,
    executions_of,
    scheduler,
    settings_of,
    wait_until_midway,
)
from support.waiting import until

TOML = """
[schedules.night]
cron = "0 0 1 1 *"
environments = ["{kind}"]
[schedules.tidy]
cron = "0 0 1 1 *"
job = "prune"
"""


class Night(Installation):
    """An installation whose schedule `night` measures, and whose schedule `tidy` prunes."""

    def trigger(self, kind: str = "quick", schedule: str = "night") -> Task:
        """Have a schedule done; answers its one task."""
        settings = settings_of(TOML.format(kind=kind), self.data_dir)
        moment = trigger_schedule(self.database, settings, schedule, datetime.now(UTC))
        (enqueued,) = [each for each in tasks(self.database, schedule=schedule) if each.due_at == moment]
        return enqueued

    def ends(self, enqueued: Task) -> list[str]:
        """How the attempts at a task ended."""
        return [each.ended for each in attempts(self.database, enqueued.id)]

    def whole(self, enqueued: Task) -> None:
        """The task's one run is whole, and each of its cases was carried out once."""
        done = self.over(enqueued)
        assert (done.state, done.error) == ("done", "")
        assert done.result["statuses"] == {"ok": len(CASES)}
        assert done.result["run"] == done.run_id
        assert executions(self.data_dir) == executions_of(done.run_id)
        stored = queries.run_record(self.database, str(done.run_id))
        assert stored is not None
        assert stored.state == "complete"

    def children(self) -> list[psutil.Process]:
        """The running stand-ins for `pyrometer` of this installation, and their supervisors."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter(["cmdline"]):
            line: list[str] = process.info["cmdline"] or []
            if str(self.data_dir) in line and any(part.endswith("pyrometer_run.py") for part in line):
                found.append(process)
        return found


@pytest.fixture
def installation(tmp_path: Path, url: str, database: Database) -> Night:
    return Night(tmp_path, url, database)


def test_a_task_is_measured_and_its_history_looked_at(installation: Night) -> None:
    enqueued = installation.trigger()
    with scheduler(installation.url, installation.data_dir) as alive:
        installation.whole(enqueued)
        (look,) = until(
            lambda: scheduled_runs(installation.database, "detect:night"), "a look at the history"
        )
        assert look.kind == "follow-up"
        installation.over(look.tasks[0])
        assert installation.now(look.tasks[0]).spec == {
            "schedule": "night",
            "track": "quick",
            "label": "",
        }
        (worker,) = schedulers(installation.database)
        assert worker.machine == "here" and worker.facts["measures"] is True
        assert {"night", "tidy"} <= {each["schedule"] for each in worker.facts["schedules"]}
        assert alive.end() == 0
    assert schedulers(installation.database) == []
    assert [e["event"] for e in alive.said if e.get("task") == enqueued.id] == ["claimed", "began", "ended"]
    assert installation.ends(enqueued) == ["done"]


def test_once_does_what_is_due_and_ends(installation: Night) -> None:
    first, tidied = installation.trigger(), installation.trigger(schedule="tidy")
    with scheduler(installation.url, installation.data_dir, "once") as alive:
        assert alive.wait() == 0
    installation.whole(first)
    assert installation.now(tidied).result["summary"] == "nothing is old enough"
    assert {each.state for each in tasks(installation.database)} == {"done"}


def test_a_run_that_cannot_begin_fails_with_its_last_sentence(installation: Night) -> None:
    errors = {"unknown": "there is no such environment", "raises": "RuntimeError: a defect"}
    enqueued = {kind: installation.trigger(kind) for kind in errors}
    with scheduler(installation.url, installation.data_dir):
        for kind, error in errors.items():
            failed = installation.over(enqueued[kind])
            assert (failed.state, failed.error, failed.attempts) == ("failed", error, 1)
            assert error in logs_of(installation.data_dir, failed.id, 1).log.read_text()
    assert scheduled_runs(installation.database, "detect:night") == []


def test_a_task_that_waits_for_another_run_says_so_until_it_goes_on(
    installation: Night,
) -> None:
    enqueued, database = installation.trigger("waiting"), installation.database
    with scheduler(installation.url, installation.data_dir) as alive:
        said = until(lambda: queue_queries.wait_reasons(database, [enqueued.id]), "it says what it waits for")
        assert said == {enqueued.id: "another run measures this machine"}
        assert alive.wait_for("note")["text"] == "another run measures this machine"
        installation.go_on()
        installation.whole(enqueued)
    (over,) = attempts(database, enqueued.id)
    assert (over.ended, over.detail) == ("done", "")


@on_both
def test_a_scheduler_that_is_killed_takes_its_child_along_and_the_next_one_goes_on(
    installation: Night,
) -> None:
    enqueued = installation.trigger("patient")
    with scheduler(installation.url, installation.data_dir) as killed:
        wait_until_midway(installation.data_dir)
        killed.end(signal.SIGKILL)
        until(lambda: not installation.children(), "the child is gone")
        assert installation.now(enqueued).state == "running"
    installation.go_on()
    with scheduler(installation.url, installation.data_dir) as alive:
        installation.whole(enqueued)
        assert "its scheduler died" in alive.wait_for("lost")["text"]
    assert installation.ends(enqueued) == ["lost", "done"]
    assert len({each.run_id for each in attempts(installation.database, enqueued.id)}) == 1
    assert [each.owner for each in schedulers(installation.database)] == [alive.events("started")[0]["owner"]]


def test_on_another_machine_the_run_begins_anew(installation: Night) -> None:
    enqueued = installation.trigger("patient")
    with scheduler(installation.url, installation.data_dir) as first:
        wait_until_midway(installation.data_dir)
        assert first.end() == 0
    installation.go_on()
    with scheduler(installation.url, installation.data_dir, machine="elsewhere"):
        done = installation.over(enqueued)
    before, after = attempts(installation.database, enqueued.id)
    assert (before.ended, after.ended, done.attempts) == ("released", "done", 1)
    assert before.run_id != after.run_id == done.run_id == done.result["run"]
    assert done.result["statuses"] == {"ok": len(CASES)}


def test_stopped_in_the_midst_it_keeps_what_it_has_and_gives_the_task_back(
    installation: Night,
) -> None:
    enqueued = installation.trigger("patient")
    with scheduler(installation.url, installation.data_dir) as stopped:
        wait_until_midway(installation.data_dir)
        assert stopped.end() == 0
    assert installation.children() == []
    assert installation.now(enqueued).state == "waiting"
    assert installation.now(enqueued).attempts == 0
    installation.go_on()
    with scheduler(installation.url, installation.data_dir):
        installation.whole(enqueued)
    assert installation.ends(enqueued) == ["released", "done"]


def test_a_child_that_is_killed_is_tried_again_with_its_run(installation: Night) -> None:
    enqueued = installation.trigger("suicidal")
    with scheduler(installation.url, installation.data_dir) as alive:
        installation.whole(enqueued)
        assert "killed by signal 9" in alive.wait_for("lost")["text"]
    assert installation.ends(enqueued) == ["lost", "done"]


def test_a_child_dies_with_its_guard(installation: Night) -> None:
    enqueued = installation.trigger("patient")
    with scheduler(installation.url, installation.data_dir):
        wait_until_midway(installation.data_dir)
        found = installation.children()
        (guard,) = [each for each in found if any(other.ppid() == each.pid for other in found)]
        guard.kill()
        # On a busy machine a child that is not gone yet would carry the case out once more.
        assert not psutil.wait_procs(found, timeout=60)[1]
        installation.go_on()
        installation.whole(enqueued)
    assert installation.ends(enqueued) == ["lost", "done"]


def test_a_task_that_is_cancelled_is_let_go(installation: Night) -> None:
    enqueued = installation.trigger("patient")
    with scheduler(installation.url, installation.data_dir) as alive:
        wait_until_midway(installation.data_dir)
        assert cancel(installation.database, enqueued.id, datetime.now(UTC))
        alive.wait_for("taken away", task=enqueued.id)
        until(lambda: not installation.children(), "the child is gone")
        installation.go_on()
        after = installation.trigger("quick")
        assert installation.over(after).state == "done"
    assert installation.now(enqueued).state == "cancelled"
    assert installation.ends(enqueued) == ["cancelled"]


def test_a_zombie_that_comes_back_changes_nothing(installation: Night) -> None:
    enqueued = installation.trigger("patient")
    with scheduler(installation.url, installation.data_dir) as frozen:
        wait_until_midway(installation.data_dir)
        frozen.send(signal.SIGSTOP)
        # What another machine's reaper does after a minute of silence.
        current = installation.now(enqueued)
        assert current.token is not None
        assert lose(installation.database, current.token, "silent", datetime.now(UTC), 5) == "waiting"
        installation.go_on()
        with scheduler(installation.url, installation.data_dir, machine="elsewhere"):
            done = installation.over(enqueued)
        frozen.send(signal.SIGCONT)
        frozen.wait_for("stale", task=enqueued.id)
    assert installation.now(enqueued) == done
    assert installation.ends(enqueued) == ["stale", "done"]


@on_both
def test_two_schedulers_share_what_is_to_be_done(installation: Night) -> None:
    enqueued = [installation.trigger() for _ in range(4)]
    with (
        scheduler(installation.url, installation.data_dir) as one,
        scheduler(installation.url, installation.data_dir) as other,
    ):
        ended = [installation.over(each) for each in enqueued]
        names = {each.wait_for("started")["owner"] for each in (one, other)}
    assert [each.state for each in ended] == ["done"] * 4
    assert {each.owner for each in ended} <= names
    assert (
        len(executions(installation.data_dir))
        == 4 * len(CASES)
        == len(set(executions(installation.data_dir)))
    )


def test_what_follows_and_is_refused_fails_its_task_and_not_the_service(
    installation: Night, tmp_path: Path
) -> None:
    def twice(task: Task, context: JobContext) -> JobResult:
        return JobResult(
            follow_ups=(FollowUp("after", (NewTask("same", "prune", {}), NewTask("same", "prune", {}))),)
        )

    enqueued = installation.trigger(schedule="tidy")
    settings = settings_of(TOML.format(kind="quick"), installation.data_dir)
    log = Log("json", lambda: datetime.now(UTC))
    a_service(installation.url, installation.data_dir, settings, log, jobs={"prune": twice}).run(
        lambda: False, once=True
    )
    failed = installation.now(enqueued)
    assert failed.state == "failed" and failed.error.startswith("its follow-up tasks cannot be enqueued: ")
    assert tasks(installation.database, schedule="after") == []


def test_a_database_that_is_away_is_waited_for(installation: Night) -> None:
    enqueued = installation.trigger("patient")
    with scheduler(installation.url, installation.data_dir) as alive:
        wait_until_midway(installation.data_dir)
        path = Path(installation.url.removeprefix("sqlite:///"))
        with closing(sqlite3.connect(path, isolation_level=None)) as greedy:
            greedy.execute("BEGIN EXCLUSIVE")
            away = alive.wait_for("database away")
            assert "locked" in away["text"]
            # It ends while the database is away.
            installation.go_on()
            until(lambda: not installation.children(), "the child has ended")
            greedy.execute("ROLLBACK")
        alive.wait_for("database back")
        installation.whole(enqueued)
        assert len(alive.events("database away")) == len(alive.events("database back"))
    assert installation.ends(enqueued) == ["done"]


def test_what_a_newer_program_has_upgraded_is_left_to_newer_schedulers(
    installation: Night,
) -> None:
    first = installation.trigger()
    with closing(sqlite3.connect(installation.url.removeprefix("sqlite:///"))) as other:
        ((ours,),) = other.execute("SELECT version_num FROM pyrometer_schema")
        with scheduler(installation.url, installation.data_dir) as process:
            installation.over(first)
            with other:
                other.execute("UPDATE pyrometer_schema SET version_num = '9999'")
            enqueued = installation.trigger()
            event = process.wait_for("database away")
            assert "written by a newer Pyrometer" in str(event["text"])
            assert (installation.now(enqueued).state, installation.ends(enqueued)) == (
                "waiting",
                [],
            )
            with other:
                other.execute("UPDATE pyrometer_schema SET version_num = ?", (ours,))
            assert installation.over(enqueued).state == "done"


def test_a_database_that_is_away_at_first_is_waited_for(installation: Night, tmp_path: Path) -> None:
    enqueued = installation.trigger()
    installation.database.close()
    path, away = tmp_path / "pyrometer.db", tmp_path / "away"
    path.rename(away)
    path.mkdir()
    with scheduler(installation.url, installation.data_dir) as alive:
        alive.wait_for("database away")
        path.rmdir()
        away.rename(path)
        alive.wait_for("database back")
        installation.whole(enqueued)


#: Starts another in a session of its own, says that it is up, and hears no wish to end.
_DEAF = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]], start_new_session=True)
print('{"event": "up"}', flush=True)
time.sleep(600)
"""


def test_nothing_is_left_of_a_child_that_does_not_end(tmp_path: Path) -> None:
    stop, mark = threading.Event(), str(tmp_path)
    logs, command = Logs(tmp_path / "tasks" / "1", 1), [sys.executable, "-c", _DEAF, mark]
    with pytest.raises(JobStopped):
        run_child(command, logs, stop, lambda event: stop.set(), patience_seconds=0.2)
    left = [each for each in psutil.process_iter(["cmdline"]) if mark in (each.info["cmdline"] or [])]
    assert left == []


def test_a_child_that_cannot_be_started_now_is_tried_again_later(tmp_path: Path) -> None:
    """As where the disk of its log is full: that says nothing about what it was to measure."""
    (tmp_path / "tasks").touch()
    with pytest.raises(ChildLost, match="cannot be started now"):
        run_child([sys.executable, "-c", ""], logs_of(tmp_path, 1, 1), threading.Event())


def test_room_is_made_where_nothing_changed_for_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "_MOST_LOGS", 3)
    now = time.time()
    for days in range(1, 9):
        folder = logs_of(tmp_path, days, 1).folder
        folder.mkdir(parents=True)
        (folder / "attempt-1.log").touch()
        for each in (folder / "attempt-1.log", folder):
            os.utime(each, (now, now - days * 86_400))
    # It runs for a week, and still says something.
    os.utime(logs_of(tmp_path, 7, 1).log, (now, now - 3600))
    children.make_room(logs_of(tmp_path, 9, 1).folder)
    assert sorted(int(each.name) for each in (tmp_path / "tasks").iterdir()) == [1, 2, 7, 9]
