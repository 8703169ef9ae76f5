"""Hundreds of hosts in one service: what they cost the database, and which of them claims a task."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import count, pairwise
from pathlib import Path

import pytest
from sqlalchemy import event

from analysis.staleness import alive
from db.connection.engine import Database, open_database
from db.queue import queries as queue_queries
from db.queue.commands import plan_run
from records.tasks import NewTask, Task, machine_of
from scheduled_jobs.jobs.context import ChildExit, ChildLost, JobContext, JobResult, OnEvent
from scheduled_jobs.scheduler import scheduler
from scheduled_jobs.scheduler.child_process import Logs
from scheduled_jobs.scheduler.hosts import HostStatus
from scheduled_jobs.scheduler.log import Log
from scheduled_jobs.scheduler.process_identity import this_process
from scheduled_jobs.scheduler.worker_pool import (
    LostAttempt,
    PoolWorker,
    ReleasedAttempt,
    RunningTask,
    WorkerPool,
)
from support.servers import schedulers
from support.servers.databases import BOTH
from support.sqlite_files import open_with_tables, sqlite_with_tables
from support.waiting import PATIENCE_SECONDS

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Idle:
    """A host on which nothing is started."""

    machine: str
    labels: tuple[str, ...]

    def run(
        self,
        arguments: Sequence[str],
        logs: Logs,
        stop: threading.Event,
        on_event: OnEvent,
        run: str,
        nodes: int = 1,
    ) -> ChildExit:
        raise AssertionError(f"{arguments} on {self.machine}")


@dataclass
class Always:
    """Hosts that are online at every look; the first one is hidden for the first `hidden` looks."""

    seen: Sequence[HostStatus]
    hidden: int = 0
    closed: bool = False
    on_look: Callable[[], None] = lambda: None

    def look(self) -> Sequence[HostStatus]:
        self.on_look()
        self.hidden = max(0, self.hidden - 1)
        return self.seen[1 if self.hidden else 0 :]

    def problems(self) -> Sequence[str]:
        return ()

    def close(self) -> None:
        self.closed = True


def many(count: int) -> Always:
    """Hosts with the label `gpu`, and their own name as another."""
    names = [f"node-{each:03d}" for each in range(count)]
    return Always([HostStatus(Idle(name, (name, "gpu")), {"machine": name}) for name in names])


@dataclass
class Head:
    """A service with these hosts whose jobs wait for `over`; it reports at each look."""

    folder: Path
    hosts: Always
    statements: list[str] = field(default_factory=list[str])
    over: threading.Event = field(default_factory=threading.Event)
    away: list[tuple[str, bool]] = field(default_factory=list[tuple[str, bool]])
    labels: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder}/pyrometer.db"

    def measure(self, task: Task, context: JobContext) -> JobResult:
        self.away.append((context.machine, context.away))
        self.labels[context.machine] = task.label
        # Rarely: hundreds of threads wait so.
        while not self.over.wait(0.1):
            context.check_stopped()
        return JobResult()

    def live(self, looks: int, enough: Callable[[], bool] = lambda: True) -> list[int]:
        """Look so many times, and until it is enough; returns the statements between any two looks."""
        self.folder.mkdir(exist_ok=True)
        settings = schedulers.settings_of("", self.folder)
        log = Log("json", lambda: NOW, stream=StringIO())
        opened = open_with_tables(self.url)
        event.listen(opened.engine, "before_cursor_execute", self._note)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(schedulers, "open_database", lambda *_, **__: opened)
            service = schedulers.a_service(
                self.url,
                self.folder,
                settings,
                log,
                jobs={"measure": self.measure},
                now=lambda: NOW,
                hosts=self.hosts,
            )
        counts: list[int] = []
        self.hosts.on_look = lambda: counts.append(len(self.statements))
        service.run(lambda: len(counts) > looks and enough())
        return [after - before for before, after in pairwise(counts)]

    def _note(self, connection: object, cursor: object, statement: str, *_: object) -> None:
        self.statements.append(statement)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are as many beats as looks, more or less."""
    monkeypatch.setattr(scheduler, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(scheduler, "BEAT_SECONDS", 0.02)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with open_database(sqlite_with_tables(tmp_path / "many/pyrometer.db")) as opened:
        yield opened


@pytest.mark.parametrize("url", BOTH[1:], indirect=True)
def test_a_machine_whose_clock_is_behind_is_seen(url: str) -> None:
    local = PoolWorker(Idle("here", ("here",)), this_process("here"), (), NOW, ("here",))

    def behind() -> datetime:
        return datetime.now(UTC) - timedelta(minutes=3)

    pool = WorkerPool(local, None, Log("json", behind, stream=StringIO()), behind)
    with open_database(url, timeout=30) as database:
        pool.report(database, {}, "test")
        now = queue_queries.shared_time(database, datetime.now(UTC))
        (seen,) = alive(queue_queries.schedulers(database), now, 2)
    assert seen.machine == "here"


def trigger(database: Database, *labels: str) -> None:
    new = [NewTask(str(at), "measure", {"track": ""}, label) for at, label in enumerate(labels)]
    plan_run(database, "night", NOW, "by hand", new, NOW)


def test_places_that_do_nothing_cost_no_statements(tmp_path: Path, database: Database) -> None:
    few = Head(tmp_path / "few", many(3)).live(14)
    hundreds = Head(tmp_path / "many", many(300))
    # The first look also enqueues what is seen for the first time; beats come between looks as they like.
    assert max(few[1:]) < 20 and max(hundreds.live(14)[1:]) < 20
    assert hundreds.hosts.closed and queue_queries.schedulers(database) == []


def test_places_that_work_cost_no_statements_while_they_do(tmp_path: Path, database: Database) -> None:
    trigger(database, *(f"node-{each:03d}" for each in range(300)))
    head = Head(tmp_path / "many", many(300))
    first, *later = head.live(6)
    assert first > 300 and max(later) < 20
    assert sorted(head.away) == [(f"node-{each:03d}", True) for each in range(300)]
    # Stopped, all of it was given back.
    assert {each.state for each in queue_queries.tasks(database, newest=300)} == {"waiting"}


def test_what_waits_for_many_is_claimed_by_as_many_as_it_takes(tmp_path: Path, database: Database) -> None:
    trigger(database, "gpu", "gpu", "nowhere")
    head = Head(tmp_path / "many", many(300))
    first, *_ = head.live(3)
    claims = sum(statement.startswith("SELECT attempt.task_id") for statement in head.statements)
    # Two that find something, and one that finds that nothing is left for any of them.
    assert claims == 3 and first < 60
    assert len(head.away) == 2


def test_a_place_that_loses_everything_does_not_use_up_what_waits(tmp_path: Path, database: Database) -> None:
    trigger(database, "gpu", "gpu", "gpu", "node-000")
    hosts = many(2)
    head = Head(tmp_path / "many", hosts)
    tried: list[tuple[str, str]] = []

    def measure(task: Task, context: JobContext) -> JobResult:
        tried.append((context.machine, task.label))
        if context.machine == "node-000":
            # Gone for a moment as well: that it is back says nothing good of it.
            hosts.hidden = 3
            raise ChildLost("it always is")
        return JobResult()

    head.measure = measure  # pyright: ignore[reportAttributeAccessIssue]
    head.live(20, lambda: tried.count(("node-001", "gpu")) == 3)
    assert [each for each in tried if each[0] == "node-000"] == [("node-000", "gpu")]
    states = {each.label: each.state for each in queue_queries.tasks(database)}
    assert states == {"gpu": "done", "node-000": "waiting"}


def test_a_task_that_every_attempt_loses_is_given_up_after_five(tmp_path: Path, database: Database) -> None:
    trigger(database, "")
    attempts: list[int] = []

    def lose(task: Task, context: JobContext) -> JobResult:
        attempts.append(task.attempts)
        raise ChildLost("the run was killed by signal 9")

    # Each look at the clock is an hour after the last one: no rest of a task is waited for.
    hours = count()
    service = schedulers.a_service(
        f"sqlite:///{tmp_path}/many/pyrometer.db",
        tmp_path,
        schedulers.settings_of("", tmp_path),
        Log("json", lambda: NOW, stream=StringIO()),
        jobs={"measure": lose},
        now=lambda: NOW + timedelta(hours=next(hours)),
    )
    give_up = time.monotonic() + 20.0

    def lost() -> Task:
        (task,) = queue_queries.tasks(database, schedule="night")
        return task

    service.run(lambda: lost().state == "lost" or time.monotonic() > give_up)
    assert (lost().state, attempts) == ("lost", [1, 2, 3, 4, 5])


def test_a_drained_host_claims_nothing_until_it_is_no_longer_drained() -> None:
    local = PoolWorker(Idle("here", ("here",)), this_process("here"), (), NOW, ("here",))
    hosts = many(2)
    first, second = hosts.seen
    pool = WorkerPool(local, hosts, Log("json", lambda: NOW, stream=StringIO()), lambda: NOW)

    def claiming(*seen: HostStatus) -> list[str]:
        hosts.seen = seen
        pool.look()
        return [worker.host.machine for worker, _ in pool.idle()]

    assert claiming(replace(first, drained=True), second) == ["node-001"]
    assert claiming(first, replace(second, drained=True)) == ["node-000"]


def test_a_place_takes_only_tasks_for_its_name_while_it_is_drained(
    tmp_path: Path, database: Database
) -> None:
    trigger(database, "gpu", "node-000")
    hosts = many(1)
    hosts.seen = [replace(hosts.seen[0], only_labels=("node-000",))]
    head = Head(tmp_path / "many", hosts)

    def measure(task: Task, context: JobContext) -> JobResult:
        # Then it goes down without a notice.
        hosts.hidden = 1000
        return JobResult()

    head.measure = measure  # pyright: ignore[reportAttributeAccessIssue]
    head.live(20, lambda: hosts.hidden > 0)
    states = {each.label: each.state for each in queue_queries.tasks(database)}
    assert states == {"gpu": "waiting", "node-000": "done"}
    (missed,) = queue_queries.schedulers(database)
    assert (missed.machine, missed.labels) == ("node-000", ("node-000", "gpu"))
    assert missed.facts["measures"] is True


def test_what_asks_for_no_machine_is_taken_by_places_that_take_it_all(
    tmp_path: Path, database: Database
) -> None:
    trigger(database, "", "", "node-000")
    hosts = many(2)
    hosts.seen = [replace(hosts.seen[0], only_labels=("node-000",)), hosts.seen[1]]
    head = Head(tmp_path / "many", hosts)
    head.live(6)
    assert sorted(machine for machine, _ in head.away) == ["here", "node-000", "node-001"]
    assert head.labels["node-000"] == "node-000"


def test_a_place_rests_longer_after_each_loss_and_no_more_after_it_has_done_something() -> None:
    host = Idle("a", ("a",))
    worker = PoolWorker(host, this_process("here"), (), NOW, ("a",))
    work = RunningTask(Task(1, "", NOW, "", "measure", {}, "", "running", 1), "token", host)
    rests: list[float] = []
    for ending in [
        *[LostAttempt("gone")] * 8,
        ReleasedAttempt(),
        LostAttempt("gone"),
        JobResult(),
        LostAttempt("gone"),
    ]:
        work.ending, began = ending, time.monotonic()
        worker.rests_until = began
        worker.note_result(work)
        rests.append(round(worker.rests_until - began))
    assert rests == [10, 20, 40, 80, 160, 320, 600, 600, 0, 600, 0, 10]


def test_each_place_is_announced_at_once_and_then_periodically(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[list[str]] = []

    def listen(database: Database, said: Sequence[object]) -> None:
        reported.append([machine_of(getattr(each, "owner", "")) for each in said])

    monkeypatch.setattr("scheduled_jobs.scheduler.worker_pool.seen_all", listen)
    hosts = many(2)
    Head(tmp_path / "many", hosts).live(8, lambda: len(reported) > 8)
    everybody = ["here", "node-000", "node-001"]
    assert reported[0] == everybody
    assert reported[1:9] == [everybody if each == everybody else ["here"] for each in reported[1:9]]
    assert reported[1:9].count(everybody) == 1


def test_a_timetable_that_falls_due_during_a_stop_does_not_hold_it(
    tmp_path: Path, database: Database
) -> None:
    looking, may_look = threading.Event(), threading.Event()

    def look() -> None:
        looking.set()
        may_look.wait(PATIENCE_SECONDS)

    hosts = many(1)
    hosts.on_look = look
    service = schedulers.a_service(
        database.name,
        tmp_path,
        # Each time they are others, so that the timetable is planned anew: it reads the timer's jobs.
        lambda: schedulers.settings_of("", tmp_path),
        Log("json", lambda: NOW, stream=StringIO()),
        hosts=hosts,
    )
    stop_requested = threading.Event()
    thread = threading.Thread(target=service.run, args=(stop_requested.is_set,), daemon=True)
    thread.start()
    assert looking.wait(PATIENCE_SECONDS)
    # The timetable falls due and waits behind the look, as the stop does.
    time.sleep(0.2)
    stop_requested.set()
    service.wake()
    time.sleep(0.2)
    may_look.set()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
