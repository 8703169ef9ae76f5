"""The service: enqueues due runs, runs tasks, and recovers from errors. APScheduler provides the timing."""

import logging
import os
import select
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from configuration.schedules import zone
from configuration.settings import Settings
from db.connection.engine import Database, check_fits
from db.errors import DatabaseError, DatabaseUnavailable
from db.queue import commands
from db.queue.commands import beat_all, claim, finish, lose, plan_run, release, set_run
from db.queue.queries import machines_with_partial_runs, running_tasks, waiting_for
from records.tasks import Task, TaskState
from workflows.fleet_status import MEASURING

from ..jobs.context import ChildExit, FollowUp, JobContext, JobResult, JobStopped, OnEvent, ignore_event
from .child_process import OURSELVES, PATIENCE_SECONDS, logs_of
from .hosts import HostProvider, LocalHost
from .log import Log
from .planner import FOLLOW_UP, Planner, advertised_facts, plan_now
from .process_identity import Owner, this_process
from .reaper import Reaper
from .timetable import MISSED, CronTrigger, EveryTrigger, next_fire_times
from .worker_pool import (
    LostAttempt,
    PoolWorker,
    Registry,
    ReleasedAttempt,
    RunningTask,
    WorkerPool,
    WorkerSlot,
)

#: How often the queue and the settings are read, and how often the heartbeat is written.
TICK_SECONDS = 1.0
BEAT_SECONDS = 5.0
#: The interval at which the announced fire times are computed again.
_ADVERTISE_SECONDS = 60.0
#: If the wall clock differs from the monotonic clock by more than this, it was set or the machine slept.
_CLOCK_JUMP_SECONDS = 1.0
#: Prefix of the ids of the jobs of schedules; the jobs that go on while the service stops.
_SCHEDULE, _UNTIL_THE_END = "schedule:", ("claim", "heartbeat", "reap")
#: Time limits at the end: for a child that stores its results, and for a job without a child.
_CHILD_PATIENCE_SECONDS = PATIENCE_SECONDS + 20.0
_THOUGHT_PATIENCE_SECONDS = 10.0
#: The most attempts at a task after losses by the infrastructure: the second follows at once, the others
#: after 4, 8 and 16 minutes.
_MOST_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """The configuration of a service. `settings` and `now` are called repeatedly; `now` is aware, in UTC.

    `labels` are those of the machine, including its name. `command` is how this program is started as a
    child.
    """

    settings: Callable[[], Settings]
    data_dir: Path
    open_database: Callable[[], Database]
    machine: str
    labels: tuple[str, ...]
    jobs: Registry
    log: Log
    now: Callable[[], datetime]
    version: str
    command: Sequence[str] = OURSELVES


class Service:
    """One scheduler of one machine.

    APScheduler runs its jobs one after the other in a thread of their own: one for each schedule at its fire
    times, the others at intervals. The thread of `run` waits for signals and watches the clock.

    `slots` are those of this machine. `hosts` provides other machines, with one slot each.
    """

    def __init__(
        self, around: SchedulerConfig, slots: Sequence[WorkerSlot], hosts: HostProvider | None = None
    ) -> None:
        self._around = around
        self._log = around.log
        self.owner: Owner = this_process(around.machine)
        local = LocalHost(around.machine, around.labels, around.command)
        worker = PoolWorker(local, self.owner, tuple(slots), around.now(), around.labels)
        self._pool = WorkerPool(worker, hosts, around.log, around.now)
        self._planner = Planner(around.data_dir / "scheduler" / "switched-off")
        self._reaper = Reaper(self.owner)
        self._measures = any(slot.jobs & MEASURING for slot in slots)
        self._facts: dict[str, Any] = {}
        self._database: Database | None = None
        self._lock = threading.Lock()
        self._timer = _timer()
        #: The settings for which the timetable was planned, and whether it has to be planned again.
        self._planned_for: Settings | None = None
        self._plan_again = False
        #: Jobs that found the database unavailable, and the first exception that ends the service.
        self._away: set[str] = set()
        self._failure: Exception | None = None
        self._once = self._finished = self._stopping = False
        self._offset = self._clock_offset()
        self._awake, self.waker = os.pipe()
        os.set_blocking(self._awake, False)
        os.set_blocking(self.waker, False)

    def wake(self) -> None:
        """Make the service read the queue now; from any thread. A byte written to `waker` does the same."""
        with suppress(BlockingIOError):
            os.write(self.waker, b".")

    def run(self, stop_requested: Callable[[], bool], *, once: bool = False) -> None:
        """Work until `stop_requested` returns True; with `once`, until the queue is empty.

        At the end running tasks store their results and are returned to the queue. An unavailable database is
        waited for; with `once` DatabaseError is raised.
        """
        self._log("started", about={"labels": ",".join(self._around.labels), "owner": str(self.owner)})
        self._once = once
        self._start_jobs()
        try:
            while not stop_requested() and not self._finished:
                self._raise_failure()
                if self._wait(TICK_SECONDS):
                    self._run_now("claim")
                self._watch_clock()
            self._raise_failure()
            self._stop()
        finally:
            self._pool.close()
            if self._timer.running:
                self._timer.shutdown(wait=False)

    def _start_jobs(self) -> None:
        self._advertise()
        jobs: tuple[tuple[str, Callable[[], None], float], ...] = (
            ("timetable", self._follow_timetable, TICK_SECONDS),
            ("claim", self._take_tasks, TICK_SECONDS),
            ("heartbeat", self._beat, BEAT_SECONDS),
            ("reap", self._reap, BEAT_SECONDS),
            ("advertise", self._advertise, _ADVERTISE_SECONDS),
        )
        for name, step, seconds in jobs:
            self._timer.add_job(self._do, EveryTrigger(seconds), (name, step), id=name)
        self._timer.start()

    def _run_now(self, name: str) -> None:
        self._timer.modify_job(name, next_run_time=datetime.now(UTC))

    def _do(self, name: str, step: Callable[[], None]) -> None:
        """Run a job; an error that a later attempt cannot correct is raised by `run`."""
        with self._lock:
            # The timer may have started it before `_stop` removed it. `shutdown` waits for running jobs while
            # it holds the lock of the timer's jobs: a job that needs the lock then would deadlock.
            if self._stopping and name not in _UNTIL_THE_END:
                return
            try:
                step()
            except DatabaseError as error:
                if self._once and not self._stopping:
                    self._fail(error)
                elif not self._away:
                    self._log("database away", str(error), level="warning")
                self._away.add(name)
            except Exception as error:
                self._fail(error)
            else:
                was_away = bool(self._away)
                self._away.discard(name)
                if was_away and not self._away:
                    self._log("database back")

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self.wake()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _open_database(self) -> Database:
        if self._database is None:
            self._database = self._around.open_database()
        return self._database

    def _clock_offset(self) -> float:
        return self._around.now().timestamp() - time.monotonic()

    def _watch_clock(self) -> None:
        """After the wall clock was set, plan again and run the interval jobs, which may be hours late."""
        offset = self._clock_offset()
        if abs(offset - self._offset) <= _CLOCK_JUMP_SECONDS:
            return
        self._offset = offset
        with self._lock:
            self._plan_again = True
            for job in self._timer.get_jobs():
                if not job.id.startswith(_SCHEDULE):
                    self._run_now(job.id)

    def _follow_timetable(self) -> None:
        """Plan due runs, and set a job for each schedule, if the settings or the clock have changed."""
        settings, now = self._around.settings(), self._around.now()
        if settings is self._planned_for and not self._plan_again:
            self._planner.advance(now)
            return
        self._plan(settings, now)
        for job in self._timer.get_jobs():
            if job.id.startswith(_SCHEDULE):
                job.remove()
        local_zone = zone(settings.timezone)
        for name, schedule in settings.schedules.items():
            moment = (
                next(iter(next_fire_times(schedule.cron, local_zone, now)), None)
                if schedule.enabled
                else None
            )
            if moment is not None:
                self._timer.add_job(
                    self._do,
                    CronTrigger(schedule.cron, local_zone),
                    ("timetable", self._plan_due),
                    id=_SCHEDULE + name,
                    # Counted from the planning, so that a moment that has passed since is included.
                    next_run_time=datetime.now(UTC) + (moment - now),
                )
        self._planned_for = settings
        self._advertise()

    def _plan_due(self) -> None:
        self._plan(self._around.settings(), self._around.now())
        self.wake()

    def _plan(self, settings: Settings, now: datetime) -> None:
        # It stays due until it has succeeded.
        self._plan_again = True
        for each in self._planner.plan(self._open_database(), settings, now):
            event = "missed" if each.due.kind == MISSED else "planned"
            named = _run_details(each.schedule, each.due.moment, each.due.kind, each.tasks)
            self._log(event, about=named | {"instead_of": each.instead_of or None})
        self._plan_again = False

    def _take_tasks(self) -> None:
        """Record ended attempts and claim waiting tasks; while the service stops, only the former."""
        database = self._open_database()
        self._record_ended(database)
        if self._stopping:
            return
        # Before claiming: a lost host must not claim the task that it has just lost.
        self._pool.look()
        if self._pool.unreported:
            self._beat()
        self._claim(database)
        if self._once and self._planned_for is not None and not self._pool.works():
            self._finished = True
            self.wake()

    def _advertise(self) -> None:
        self._facts = advertised_facts(self._around.settings(), self._around.now(), measures=self._measures)

    def _beat(self) -> None:
        """Write the heartbeats of workers and attempts, and stop attempts that this scheduler lost."""
        database = self._open_database()
        self._pool.report(database, self._facts, self._around.version)
        alive = [work for work in self._pool.works() if not work.fenced and work.ending is None]
        own_tokens = beat_all(database, [work.token for work in alive])
        for work in alive:
            if work.token not in own_tokens:
                self._fence(work)

    def _reap(self) -> None:
        """Give up attempts whose scheduler is dead."""
        database, now = self._open_database(), self._around.now()
        own_tokens = {work.token for work in self._pool.works()}
        own_tokens |= {slot.claiming for slot in self._pool.slots() if slot.claiming is not None}
        for dead in self._reaper.look(running_tasks(database), own_tokens, time.monotonic()):
            _give_up(database, dead.task, dead.token, dead.detail, now, self._log)

    def _fence(self, work: RunningTask) -> None:
        self._log("taken away", "cancelled, or given up as lost", _task_details(work.task), "warning")
        work.fenced = True
        work.stop.set()

    def _record_ended(self, database: Database) -> None:
        """Store the ends of attempts; if the database fails, it is tried again."""
        for work in self._pool.collect_endings():
            _record_result(database, work, self._around.now(), self._log)

    def _claim(self, database: Database) -> None:
        """Claim waiting tasks for idle slots; checked without a lock first, because usually none waits."""
        idle = self._pool.idle()
        waiting = set(waiting_for(database, self._around.now())) if idle else set[tuple[str, str]]()
        idle = [each for each in idle if each[1].claiming or not waiting.isdisjoint(self._slot_jobs(*each))]
        if not idle:
            return
        # An outdated scheduler must not claim tasks that it cannot run.
        check_fits(database)
        homes = machines_with_partial_runs(database)
        # Restricted hosts claim last, so that tasks without a label go to the others first.
        in_order = sorted(
            idle, key=lambda each: (bool(each[0].only_labels), each[0].host.machine not in homes)
        )
        for worker, slot in in_order:
            own = self._slot_jobs(worker, slot)
            if not slot.claiming and waiting.isdisjoint(own):
                continue
            slot.claiming = slot.claiming or uuid.uuid4().hex
            task = claim(
                database,
                owner=str(worker.owner),
                labels=worker.takes,
                jobs=slot.jobs & self._around.jobs.keys(),
                token=slot.claiming,
                now=self._around.now(),
            )
            token, slot.claiming = slot.claiming, None
            if task is None:
                # Nor is there a task for other slots with the same jobs and labels.
                waiting -= own
            else:
                self._begin(slot, RunningTask(task, token, worker.host))

    def _slot_jobs(self, worker: PoolWorker, slot: WorkerSlot) -> set[tuple[str, str]]:
        """The jobs and labels of the tasks that a slot takes."""
        jobs = slot.jobs & self._around.jobs.keys()
        return {(job, label) for job in jobs for label in worker.takes}

    def _begin(self, slot: WorkerSlot, work: RunningTask) -> None:
        task = work.task
        machine = work.host.machine if self._is_away(work) else None
        self._log("claimed", about=_task_details(task) | {"attempt": task.attempts, "machine": machine})
        slot.begin(work, self._around.jobs[task.job], self._job_context(work), self.wake)

    def _job_context(self, work: RunningTask) -> JobContext:
        around, task, host = self._around, work.task, work.host
        logs = logs_of(around.data_dir, task.id, task.attempts)

        def set_our_run(run: str) -> None:
            with around.open_database() as database:
                if not set_run(database, work.token, run):
                    raise JobStopped
            self._log("began", about=_task_details(task) | {"run": run})

        def report_wait(sentence: str) -> None:
            # The reason is only informative; the next wait reports it again.
            with suppress(DatabaseError), around.open_database() as database:
                commands.set_wait_reason(database, work.token, sentence)

        def child(
            arguments: Sequence[str], on_event: OnEvent = ignore_event, run: str = "", nodes: int = 1
        ) -> ChildExit:
            return host.run(arguments, logs, work.stop, on_event, run, nodes)

        return JobContext(
            settings=around.settings(),
            data_dir=around.data_dir,
            machine=host.machine,
            open_database=around.open_database,
            now=around.now,
            stop=work.stop,
            child=child,
            set_run=set_our_run,
            say=lambda sentence: self._log("note", sentence, _task_details(task)),
            away=self._is_away(work),
            waits=report_wait,
        )

    def _is_away(self, work: RunningTask) -> bool:
        return work.host.machine != self._around.machine

    def _wait(self, seconds: float) -> bool:
        """Wait for a wake-up, at most the given time; returns whether there was one."""
        if not select.select([self._awake], [], [], seconds)[0]:
            return False
        with suppress(BlockingIOError):
            while os.read(self._awake, 4096):
                pass
        return True

    def _stop(self) -> None:
        """Stop the running tasks, return them to the queue, and unregister.

        Heartbeats continue meanwhile, because other schedulers give up a silent one sooner than this one
        gives up a child.
        """
        self._log("stopping")
        began = time.monotonic()
        with self._lock:
            self._stopping = True
            for job in self._timer.get_jobs():
                if job.id not in _UNTIL_THE_END:
                    job.remove()
            self._away &= set(_UNTIL_THE_END)
            for work in self._pool.works():
                work.stop.set()
        while any(self._still_waited_for(work, time.monotonic() - began) for work in self._pool.works()):
            if self._wait(TICK_SECONDS):
                self._run_now("claim")
            self._watch_clock()
            self._raise_failure()
        self._timer.shutdown(wait=True)
        for work in self._pool.works():
            work.ending = work.ending or ReleasedAttempt()
        try:
            database = self._open_database()
            self._record_ended(database)
            self._pool.unregister(database)
            database.close()
        except DatabaseError as error:
            # The next scheduler on this machine sees that this process is dead, and takes over.
            self._log("database away", str(error), level="warning")
        self._log("stopped")

    def _still_waited_for(self, work: RunningTask, waited: float) -> bool:
        patience = _CHILD_PATIENCE_SECONDS if work.task.job in MEASURING else _THOUGHT_PATIENCE_SECONDS
        return work.ending is None and waited < patience


def _timer() -> BackgroundScheduler:
    """Runs one job at a time; a late job runs once, however late."""
    # It logs a warning for each job that is due while it still runs; errors reach `Service.run`.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    return BackgroundScheduler(
        timezone=UTC,
        executors={"default": ThreadPoolExecutor(max_workers=1)},
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
    )


def _record_result(database: Database, work: RunningTask, now: datetime, log: Log) -> None:
    """Store the result of an attempt; after DatabaseError it may be called again."""
    if isinstance(work.ending, JobResult):
        _close(database, work, work.ending, now, log)
    elif isinstance(work.ending, LostAttempt) and not work.fenced:
        _give_up(database, work.task, work.token, work.ending.detail, now, log)
    elif (
        isinstance(work.ending, ReleasedAttempt)
        and not work.fenced
        # An attempt that was given up meanwhile cannot be returned.
        and release(database, work.token, "the service was stopped", now)
    ):
        log("released", about=_task_details(work.task))


def _give_up(database: Database, task: Task, token: str, detail: str, now: datetime, log: Log) -> None:
    """Give up a lost attempt, so that another one follows, unless that has been done."""
    state = lose(database, token, detail, now, _MOST_ATTEMPTS)
    if state is not None:
        log("lost", detail, _task_details(task) | {"state": state}, "warning")


def _task_details(task: Task) -> dict[str, object]:
    """The fields of an event about a task."""
    return {
        "schedule": task.schedule,
        "task": task.id,
        "part": task.part,
        "job": task.job,
        "run": task.run_id,
    }


def _run_details(schedule: str, due_at: datetime, kind: str, count: int) -> dict[str, object]:
    """The fields of an event about a scheduled run."""
    return {"schedule": schedule, "due_at": due_at.isoformat(), "kind": kind, "tasks": count}


def _close(database: Database, work: RunningTask, done: JobResult, now: datetime, log: Log) -> None:
    # Checked before anything is enqueued: a lost attempt must not enqueue follow-ups.
    if work.fenced or work.token not in beat_all(database, [work.token]):
        finish(database, work.token, done.state, done.result, done.error, now)
        log("stale", "it was given up before it ended", _task_details(work.task), "warning")
        return
    try:
        for follow_up in done.follow_ups[work.enqueued :]:
            _enqueue(database, follow_up, now, log)
            work.enqueued += 1
    except DatabaseUnavailable:
        raise
    except DatabaseError as error:
        # It would always be refused: the slot must not wait for it.
        done = JobResult(TaskState.FAILED, done.result, f"its follow-up tasks cannot be enqueued: {error}")
    is_stored = finish(database, work.token, done.state, done.result, done.error, now)
    level = "info" if done.state == TaskState.DONE else "error"
    text = done.error or str(done.result.get("summary", ""))
    named = _task_details(work.task) | {"state": done.state, "run": done.result.get("run")}
    log("ended" if is_stored else "stale", text, named, level)


def _enqueue(database: Database, follow_up: FollowUp, now: datetime, log: Log) -> None:
    moment, name = follow_up.due_at, follow_up.schedule
    if moment is None:
        # Two tasks can end at the same moment; each must keep its follow-ups.
        moment = plan_now(database, name, FOLLOW_UP, follow_up.tasks, now)
    elif not plan_run(database, name, moment, FOLLOW_UP, follow_up.tasks, now):
        return
    log("planned", about=_run_details(name, moment, FOLLOW_UP, len(follow_up.tasks)))
