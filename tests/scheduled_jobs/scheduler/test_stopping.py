"""A service that stops and waits for what still runs: it is no dead one meanwhile."""

import json
import sqlite3
import threading
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from db.connection.engine import Database, open_database
from db.queue.commands import cancel, plan_run
from db.queue.queries import attempts, schedulers, task, tasks
from records.tasks import NewTask, Task
from scheduled_jobs.jobs.context import JobContext, JobResult, JobStopped
from scheduled_jobs.scheduler import scheduler
from scheduled_jobs.scheduler.log import Log
from support.servers.schedulers import a_service, settings_of
from support.sqlite_files import sqlite_with_tables
from support.waiting import PATIENCE_SECONDS, until

NOW = datetime(2026, 6, 1, tzinfo=UTC)


class Stopping:
    """A service that is stopped while it does two tasks: `quick` and `slow` release their tasks on request.

    The quick one is given back, the slow one comes to its end.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / "pyrometer.db"
        self.url = sqlite_with_tables(self.file)
        self.database: Database = open_database(self.url)
        parts = [NewTask("quick", "measure", {}), NewTask("slow", "prune", {})]
        plan_run(self.database, "night", NOW, "timetable", parts, NOW)
        self.quick, self.slow = sorted(tasks(self.database, schedule="night"), key=lambda each: each.part)
        self.may_go = {"quick": threading.Event(), "slow": threading.Event()}
        self._stop_requested, self._output = threading.Event(), StringIO()
        self._service = a_service(
            self.url,
            folder,
            settings_of("", folder),
            Log("json", lambda: datetime.now(UTC), self._output),
            jobs={"measure": self._let_go, "prune": self._end},
        )
        self._thread = threading.Thread(target=self._service.run, args=(self._stop_requested.is_set,))

    def begin(self) -> None:
        """Have both begin, and ask for the end."""
        self._thread.start()
        until(lambda: len(self.events("claimed")) == 2, "both have begun")
        self._stop_requested.set()
        self._service.wake()
        until(lambda: self.events("stopping"), "it stops")

    def end(self) -> None:
        """Let go of everything."""
        for each in self.may_go.values():
            each.set()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def events(self, name: str) -> list[Mapping[str, Any]]:
        """The events of that name so far."""
        said = [json.loads(line) for line in self._output.getvalue().splitlines()]
        return [each for each in said if each["event"] == name]

    def now(self, one: Task) -> Task:
        """The task as it stands."""
        found = task(self.database, one.id)
        assert found is not None
        return found

    def _let_go(self, one: Task, context: JobContext) -> JobResult:
        context.stop.wait()
        self.may_go["quick"].wait()
        raise JobStopped

    def _end(self, one: Task, context: JobContext) -> JobResult:
        self.may_go["slow"].wait()
        return JobResult(result={"summary": "all done"})


@pytest.fixture
def stopping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Stopping]:
    monkeypatch.setattr(scheduler, "TICK_SECONDS", 0.05)
    monkeypatch.setattr(scheduler, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(scheduler, "_THOUGHT_PATIENCE_SECONDS", 60.0)
    made = Stopping(tmp_path)
    made.begin()
    try:
        yield made
    finally:
        made.end()
        made.database.close()


@contextmanager
def locked(file: Path) -> Generator[None]:
    """Within the block no process can write to the database."""
    with closing(sqlite3.connect(file, isolation_level=None, timeout=30)) as greedy:
        greedy.execute("BEGIN EXCLUSIVE")
        yield
        greedy.execute("ROLLBACK")


def test_what_ends_first_is_given_back_at_once_and_the_rest_is_seen_to_live(stopping: Stopping) -> None:
    stopping.may_go["quick"].set()
    until(lambda: stopping.now(stopping.quick).state == "waiting", "it is given back")
    beats = stopping.now(stopping.slow).beats
    until(lambda: stopping.now(stopping.slow).beats > beats + 2, "the other one is shown to live")
    assert stopping.now(stopping.slow).state == "running" and len(schedulers(stopping.database)) == 1
    # Its slot is free, and claims nothing more.
    assert stopping.now(stopping.quick).state == "waiting" and len(stopping.events("claimed")) == 2
    stopping.end()
    done = stopping.now(stopping.slow)
    assert (done.state, done.result) == ("done", {"summary": "all done"})
    assert schedulers(stopping.database) == [], "who has said goodbye is not there again"
    assert [each["part"] for each in stopping.events("released")] == ["quick"]
    assert [each.ended for each in attempts(stopping.database, stopping.quick.id)] == ["released"]
    assert stopping.events("lost") == [] and stopping.now(stopping.quick).attempts == 0


def test_what_was_cancelled_meanwhile_is_not_said_to_be_given_back(stopping: Stopping) -> None:
    assert cancel(stopping.database, stopping.quick.id, NOW)
    until(lambda: stopping.events("taken away"), "it hears of it")
    stopping.end()
    assert stopping.events("released") == []
    assert stopping.now(stopping.quick).state == "cancelled"


def test_a_database_that_is_away_meanwhile_is_put_up_with(stopping: Stopping) -> None:
    with locked(stopping.file):
        stopping.may_go["quick"].set()
        until(lambda: stopping.events("database away"), "it was missed")
    until(lambda: stopping.now(stopping.quick).state == "waiting", "it is given back")
    until(lambda: stopping.events("database back"), "it is back")
    stopping.end()
    assert stopping.now(stopping.slow).state == "done"
    assert len(stopping.events("database away")) == len(stopping.events("database back")) == 1


def test_what_was_given_up_in_the_moment_it_let_go_is_not_said_to_be_given_back(
    stopping: Stopping, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No heartbeat reported it.
    monkeypatch.setattr(scheduler, "BEAT_SECONDS", 600.0)
    assert cancel(stopping.database, stopping.quick.id, NOW)
    stopping.end()
    assert stopping.events("released") == []
    assert stopping.now(stopping.quick).state == "cancelled"
