"""The service: looks at clock and queue every second, has tasks done, and outlives what goes wrong."""

import os
import select
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from configuration.settings import Settings
from db.engine import Database, check_fits
from db.errors import DatabaseError, DatabaseUnavailable
from db.queue import beat, claim, finish, gone, lose, plan_fire, release, seen, set_run
from db.queue_queries import running, schedulers, tasks
from db.queue_records import SchedulerSeen, Task

from .child import OURSELVES, PATIENCE_SECONDS, logs_of, run_child
from .identity import Owner, dead_process, myself
from .jobs import MEASURING, Done, Ended, FollowUp, Hands, OnEvent, Stopped, unheard
from .lane import Lane, LetGo, Lost, Registry, Work
from .log import Log
from .planning import FOLLOW_UP, Planner
from .reaper import Reaper
from .serving import Serving
from .timetable import MISSED

#: An attempt that infrastructure lost is followed by another, until a task had so many.
MOST_ATTEMPTS = 5
#: How often is looked at the clock and the queue, and how often whoever lives shows it.
TICK_SECONDS = 1.0
BEAT_SECONDS = 5.0
#: Of what waits so many are looked at before a claim; where there are more, the claim itself looks.
_LOOKED_AT = 100
#: At the end: how long a child may take to keep what it has, and how long whatever only thinks.
_CHILD_PATIENCE_SECONDS = PATIENCE_SECONDS + 20.0
_THOUGHT_PATIENCE_SECONDS = 10.0
#: A scheduler of this machine that was not seen for so long is none any more.
_FORGOTTEN = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a service works in. `settings` and `now` are asked again and again; `now` is aware, in UTC.

    `labels` are what the machine is asked by, its name included. `command` is how this program is started as
    a child.
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
    """One scheduler of one machine. `run` is its life; all of it but `wake` belongs to one thread."""

    def __init__(self, around: Surroundings, lanes: Sequence[Lane]) -> None:
        self._around = around
        self._log = around.log
        self._lanes = tuple(lanes)
        self.owner: Owner = myself(around.machine)
        self._planner = Planner()
        self._reaper = Reaper(self.owner)
        self._serving = Serving(measures=any(lane.jobs & MEASURING for lane in lanes))
        self._database: Database | None = None
        self._away = ""
        self._started_at = around.now()
        self._beats = 0
        self._beaten: float | None = None
        self._awake, self.waker = os.pipe()
        os.set_blocking(self._awake, False)
        os.set_blocking(self.waker, False)

    def wake(self) -> None:
        """Have the service look now; from any thread. A byte written to `waker` does the same."""
        with suppress(BlockingIOError):
            os.write(self.waker, b".")

    def run(self, asked: Callable[[], bool], *, once: bool = False) -> None:
        """Work until `asked` says that somebody asked for the end; with `once`, until nothing is left to do.

        What runs then is asked to keep what it has, and given back. A database that is away is waited for;
        with `once` DatabaseError passes.
        """
        self._log("started", about={"labels": ",".join(self._around.labels), "owner": str(self.owner)})
        while not asked():
            try:
                self._step()
            except DatabaseError as error:
                if once:
                    raise
                self._missed(error)
            else:
                self._found()
                if once and all(lane.work is None for lane in self._lanes):
                    break
            self._wait(TICK_SECONDS)
        self._stop()

    def _step(self) -> None:
        if self._database is None:
            self._database = self._around.open_database()
        database = self._database
        for fired in self._planner.plan(database, self._around.settings(), self._around.now()):
            event = "missed" if fired.due.how == MISSED else "fire"
            about = _fired(fired.schedule, fired.due.moment, fired.due.how, fired.tasks)
            self._log(event, about=about | {"instead_of": fired.instead_of or None})
        for lane in self._lanes:
            self._settle(database, lane)
        if self._beaten is None or time.monotonic() - self._beaten >= BEAT_SECONDS:
            self._beat(database)
            self._beaten = time.monotonic()
        self._claim(database)

    def _missed(self, error: DatabaseError) -> None:
        if not self._away:
            self._log("database away", str(error), level="warning")
        self._away = str(error)

    def _found(self) -> None:
        if self._away:
            self._log("database back")
        self._away = ""

    def _beat(self, database: Database) -> None:
        """Show that we live, hear what is no longer ours, and bury the dead."""
        now, around = self._around.now(), self._around
        if self._beats == 0:
            self._forget_the_dead(database, now)
        self._beats += 1
        seen(
            database,
            SchedulerSeen(
                owner=str(self.owner),
                machine=around.machine,
                labels=around.labels,
                started_at=self._started_at,
                seen_at=now,
                beats=self._beats,
                version=around.version,
                facts=self._serving.facts(around.settings(), now),
            ),
        )
        for work in self._works():
            if not work.fenced and work.ending is None and not beat(database, work.token):
                self._fence(work)
        mine = {work.token for work in self._works()} | {lane.claiming for lane in self._lanes}
        for dead in self._reaper.look(
            running(database), {token for token in mine if token}, time.monotonic()
        ):
            state = lose(database, dead.token, dead.detail, now, MOST_ATTEMPTS)
            if state is not None:
                self._log("lost", dead.detail, _about(dead.task) | {"state": state}, "warning")

    def _forget_the_dead(self, database: Database, now: datetime) -> None:
        """Take back what schedulers said that were killed on this machine and can say nothing any more."""
        for other in schedulers(database):
            silent = other.machine == self.owner.machine and now - other.seen_at > _FORGOTTEN
            if silent or dead_process(other.owner, self.owner) is not None:
                gone(database, other.owner)

    def _fence(self, work: Work) -> None:
        self._log("taken away", "cancelled, or given up as lost", _about(work.task), "warning")
        work.fenced = True
        work.stop.set()

    def _works(self) -> list[Work]:
        return [lane.work for lane in self._lanes if lane.work is not None]

    def _settle(self, database: Database, lane: Lane) -> None:
        """Write down how an attempt ended; where the database refuses, it is tried again."""
        work = lane.work
        if work is None or work.ending is None:
            return
        now = self._around.now()
        if isinstance(work.ending, Done):
            self._close(database, work, work.ending, now)
        elif isinstance(work.ending, Lost) and not work.fenced:
            state = lose(database, work.token, work.ending.detail, now, MOST_ATTEMPTS)
            self._log("lost", work.ending.detail, _about(work.task) | {"state": state}, "warning")
        elif isinstance(work.ending, LetGo) and not work.fenced:
            release(database, work.token, "the service was stopped", now)
            self._log("released", about=_about(work.task))
        lane.work = None

    def _close(self, database: Database, work: Work, done: Done, now: datetime) -> None:
        # Asked before anything is planted: what a zombie would have follow is nobody's business.
        if work.fenced or not beat(database, work.token):
            finish(database, work.token, done.state, done.result, done.error, now)
            self._log("stale", "it was given up before it came back", _about(work.task), "warning")
            return
        try:
            for follow_up in done.follow_ups[work.planted :]:
                self._plant(database, follow_up, now)
                work.planted += 1
        except DatabaseUnavailable:
            raise
        except DatabaseError as error:
            # Refused once, it is refused for ever: the lane must not wait for it.
            done = Done("failed", done.result, f"what follows from it cannot be planted: {error}")
        kept = finish(database, work.token, done.state, done.result, done.error, now)
        level = "info" if done.state == "done" else "error"
        told = done.error or str(done.result.get("summary", ""))
        about = _about(work.task) | {"state": done.state, "run": done.result.get("run")}
        self._log("ended" if kept else "stale", told, about, level)

    def _plant(self, database: Database, follow_up: FollowUp, now: datetime) -> None:
        moment, name = follow_up.due_at or now, follow_up.schedule
        planted = plan_fire(database, name, moment, FOLLOW_UP, follow_up.tasks, now)
        while not planted and follow_up.due_at is None:
            # Two tasks ended in one moment; neither may swallow what follows from the other.
            moment += timedelta(microseconds=1)
            planted = plan_fire(database, name, moment, FOLLOW_UP, follow_up.tasks, now)
        if planted:
            self._log("fire", about=_fired(name, moment, FOLLOW_UP, len(follow_up.tasks)))

    def _claim(self, database: Database) -> None:
        idle = [lane for lane in self._lanes if lane.work is None]
        # Asked without a lock first: mostly nothing waits for us, and others write.
        waiting = tasks(database, state="waiting", newest=_LOOKED_AT) if idle else []
        idle = [lane for lane in idle if lane.claiming or self._may_claim(lane, waiting)]
        if not idle:
            return
        # Whoever is older than the database would only fail what a newer scheduler can do.
        check_fits(database)
        for lane in idle:
            lane.claiming = lane.claiming or uuid.uuid4().hex
            task = claim(
                database,
                owner=str(self.owner),
                labels=self._around.labels,
                jobs=lane.jobs & self._around.jobs.keys(),
                token=lane.claiming,
                now=self._around.now(),
            )
            token, lane.claiming = lane.claiming, None
            if task is not None:
                self._begin(lane, Work(task, token))

    def _may_claim(self, lane: Lane, waiting: Sequence[Task]) -> bool:
        """Whether some of what waits may be for a lane here, as far as a look at so many can tell."""
        ours = {"", *self._around.labels}
        return len(waiting) == _LOOKED_AT or any(
            task.job in lane.jobs and task.label in ours for task in waiting
        )

    def _begin(self, lane: Lane, work: Work) -> None:
        task = work.task
        self._log("claimed", about=_about(task) | {"attempt": task.attempts})
        lane.begin(work, self._around.jobs[task.job], self._hands(work), self.wake)

    def _hands(self, work: Work) -> Hands:
        around, task = self._around, work.task
        logs = logs_of(around.data_dir, task.id, task.attempts)

        def set_our_run(run: str) -> None:
            with around.open_database() as database:
                if not set_run(database, work.token, run):
                    raise Stopped
            self._log("began", about=_about(task) | {"run": run})

        def child(arguments: Sequence[str], on_event: OnEvent = unheard) -> Ended:
            return run_child([*around.command, *arguments], logs, work.stop, on_event)

        return Hands(
            settings=around.settings(),
            data_dir=around.data_dir,
            machine=around.machine,
            open_database=around.open_database,
            now=around.now,
            stop=work.stop,
            child=child,
            set_run=set_our_run,
            say=lambda sentence: self._log("note", sentence, _about(task)),
        )

    def _wait(self, seconds: float) -> None:
        """Wait, but not longer than until somebody wakes us."""
        if select.select([self._awake], [], [], seconds)[0]:
            with suppress(BlockingIOError):
                while os.read(self._awake, 4096):
                    pass

    def _stop(self) -> None:
        """Have what runs keep what it has, give it back, and say goodbye."""
        self._log("stopping")
        began = time.monotonic()
        for work in self._works():
            work.stop.set()
        while any(self._still_waited_for(work, time.monotonic() - began) for work in self._works()):
            self._wait(TICK_SECONDS)
        for work in self._works():
            work.ending = work.ending or LetGo()
        try:
            database = self._database or self._around.open_database()
            for lane in self._lanes:
                self._settle(database, lane)
            gone(database, str(self.owner))
            database.close()
        except DatabaseError as error:
            # Whoever is next on this machine sees that we are dead, and takes over.
            self._log("database away", str(error), level="warning")
        self._log("stopped")

    def _still_waited_for(self, work: Work, waited: float) -> bool:
        patience = _CHILD_PATIENCE_SECONDS if work.task.job in MEASURING else _THOUGHT_PATIENCE_SECONDS
        return work.ending is None and waited < patience


def _about(task: Task) -> dict[str, object]:
    return {
        "schedule": task.schedule,
        "task": task.id,
        "part": task.part,
        "job": task.job,
        "run": task.run_id,
    }


def _fired(schedule: str, due_at: datetime, how: str, count: int) -> dict[str, object]:
    return {"schedule": schedule, "due_at": due_at.isoformat(), "how": how, "tasks": count}
