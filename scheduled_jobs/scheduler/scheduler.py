"""The service: looks at clock and queue every second, has tasks done, and outlives what goes wrong."""

import os
import select
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from configuration.settings import Settings
from db.connection.engine import Database, check_fits
from db.errors import DatabaseError
from db.queue import task_attempts
from db.queue.commands import beat_all, claim, set_run
from db.queue.queries import begun_on, running, waiting_for
from workflows.fleet_status import MEASURING

from ..jobs.context import Ended, Hands, OnEvent, Stopped, unheard
from .advertised_schedules import Serving
from .child_process import OURSELVES, PATIENCE_SECONDS, logs_of
from .hosts import Here, Places
from .log import Log
from .planner import Planner
from .process_identity import Owner, myself
from .reaper import Reaper
from .task_results import about, fired, give_up, settle
from .timetable import MISSED
from .worker_pool import Crew, Post
from .worker_slot import Lane, LetGo, Registry, Work

#: How often is looked at the clock and the queue, and how often whoever lives shows it.
TICK_SECONDS = 1.0
BEAT_SECONDS = 5.0
#: At the end: how long a child may take to keep what it has, and how long whatever only thinks.
_CHILD_PATIENCE_SECONDS = PATIENCE_SECONDS + 20.0
_THOUGHT_PATIENCE_SECONDS = 10.0


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
    """One scheduler of one machine. `run` is its life; all of it but `wake` belongs to one thread.

    `lanes` are this machine's own. `places` is where more of them come from and go to: a lane each.
    """

    def __init__(self, around: Surroundings, lanes: Sequence[Lane], places: Places | None = None) -> None:
        self._around = around
        self._log = around.log
        self.owner: Owner = myself(around.machine)
        here = Here(around.machine, around.labels, around.command)
        post = Post(here, self.owner, tuple(lanes), around.now(), around.labels)
        self._crew = Crew(post, places, around.log, around.now)
        self._planner = Planner(around.data_dir / "scheduler" / "switched-off")
        self._reaper = Reaper(self.owner)
        self._serving = Serving(measures=any(lane.jobs & MEASURING for lane in lanes))
        self._database: Database | None = None
        self._away = ""
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
        try:
            while not asked():
                try:
                    self._step()
                except DatabaseError as error:
                    if once:
                        raise
                    self._missed(error)
                else:
                    self._found()
                    if once and not self._crew.works():
                        break
                self._wait(TICK_SECONDS)
            self._stop()
        finally:
            self._crew.close()

    def _step(self) -> None:
        database = self._opened()
        for each in self._planner.plan(database, self._around.settings(), self._around.now()):
            event = "missed" if each.due.how == MISSED else "fire"
            named = fired(each.schedule, each.due.moment, each.due.how, each.tasks)
            self._log(event, about=named | {"instead_of": each.instead_of or None})
        self._settle(database)
        # Every time before anything is claimed: a place that is lost must not take up what it has just lost.
        self._crew.look()
        if self._is_due() or self._crew.newcomers:
            self._beat(database)
        self._claim(database)

    def _opened(self) -> Database:
        if self._database is None:
            self._database = self._around.open_database()
        return self._database

    def _is_due(self) -> bool:
        return self._beaten is None or time.monotonic() - self._beaten >= BEAT_SECONDS

    def _missed(self, error: DatabaseError) -> None:
        if not self._away:
            self._log("database away", str(error), level="warning")
        self._away = str(error)

    def _found(self) -> None:
        if self._away:
            self._log("database back")
        self._away = ""

    def _beat(self, database: Database) -> None:
        """Show who is there and what lives, hear what is no longer ours, and bury the dead."""
        now, around = self._around.now(), self._around
        self._crew.tell(database, self._serving.facts(around.settings(), now), around.version)
        alive = [work for work in self._crew.works() if not work.fenced and work.ending is None]
        ours = beat_all(database, [work.token for work in alive])
        for work in alive:
            if work.token not in ours:
                self._fence(work)
        mine = {work.token for work in self._crew.works()}
        mine |= {lane.claiming for lane in self._crew.lanes() if lane.claiming is not None}
        for dead in self._reaper.look(running(database), mine, time.monotonic()):
            give_up(database, dead.task, dead.token, dead.detail, now, self._log)
        self._beaten = time.monotonic()

    def _fence(self, work: Work) -> None:
        self._log("taken away", "cancelled, or given up as lost", about(work.task), "warning")
        work.fenced = True
        work.stop.set()

    def _settle(self, database: Database) -> None:
        """Write down how attempts ended; where the database refuses, it is tried again."""
        for work in self._crew.ended():
            settle(database, work, self._around.now(), self._log)

    def _claim(self, database: Database) -> None:
        """Have idle lanes take up what waits; asked without a lock first, for mostly nothing does."""
        idle = self._crew.idle()
        waiting = set(waiting_for(database, self._around.now())) if idle else set[tuple[str, str]]()
        idle = [each for each in idle if each[1].claiming or not waiting.isdisjoint(self._wanted(*each))]
        if not idle:
            return
        # Whoever is older than the database would only fail what a newer scheduler can do.
        check_fits(database)
        homes = begun_on(database)
        # Whoever takes little just now comes last: what asks for no machine is found by the others before.
        in_order = sorted(idle, key=lambda each: (bool(each[0].only_by), each[0].place.machine not in homes))
        for post, lane in in_order:
            wanted = self._wanted(post, lane)
            if not lane.claiming and waiting.isdisjoint(wanted):
                continue
            lane.claiming = lane.claiming or uuid.uuid4().hex
            task = claim(
                database,
                owner=str(post.owner),
                labels=post.takes,
                jobs=lane.jobs & self._around.jobs.keys(),
                token=lane.claiming,
                now=self._around.now(),
            )
            token, lane.claiming = lane.claiming, None
            if task is None:
                # Nor is there any of it for others who are asked by the same.
                waiting -= wanted
            else:
                self._begin(lane, Work(task, token, post.place))

    def _wanted(self, post: Post, lane: Lane) -> set[tuple[str, str]]:
        """The jobs and labels of what a lane takes."""
        jobs = lane.jobs & self._around.jobs.keys()
        return {(job, label) for job in jobs for label in post.takes}

    def _begin(self, lane: Lane, work: Work) -> None:
        task = work.task
        machine = work.place.machine if self._is_away(work) else None
        self._log("claimed", about=about(task) | {"attempt": task.attempts, "machine": machine})
        lane.begin(work, self._around.jobs[task.job], self._hands(work), self.wake)

    def _hands(self, work: Work) -> Hands:
        around, task, place = self._around, work.task, work.place
        logs = logs_of(around.data_dir, task.id, task.attempts)

        def set_our_run(run: str) -> None:
            with around.open_database() as database:
                if not set_run(database, work.token, run):
                    raise Stopped
            self._log("began", about=about(task) | {"run": run})

        def waits(sentence: str) -> None:
            # People would like to know; it changes nothing, and the next one that waits says it again.
            with suppress(DatabaseError), around.open_database() as database:
                task_attempts.say(database, work.token, sentence)

        def child(arguments: Sequence[str], on_event: OnEvent = unheard, run: str = "") -> Ended:
            return place.run(arguments, logs, work.stop, on_event, run)

        return Hands(
            settings=around.settings(),
            data_dir=around.data_dir,
            machine=place.machine,
            open_database=around.open_database,
            now=around.now,
            stop=work.stop,
            child=child,
            set_run=set_our_run,
            say=lambda sentence: self._log("note", sentence, about(task)),
            away=self._is_away(work),
            waits=waits,
        )

    def _is_away(self, work: Work) -> bool:
        return work.place.machine != self._around.machine

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
        for work in self._crew.works():
            work.stop.set()
        while any(self._still_waited_for(work, time.monotonic() - began) for work in self._crew.works()):
            self._wait(TICK_SECONDS)
            self._live_on()
        for work in self._crew.works():
            work.ending = work.ending or LetGo()
        try:
            database = self._opened()
            self._settle(database)
            self._crew.say_goodbye(database)
            database.close()
        except DatabaseError as error:
            # Whoever is next on this machine sees that we are dead, and takes over.
            self._log("database away", str(error), level="warning")
        self._log("stopped")

    def _live_on(self) -> None:
        """While what still runs is waited for: write down what has ended, and show that the rest lives.

        Others wait less long for a sign of life than we for a child; nothing is planned or claimed any more.
        """
        try:
            database = self._opened()
            self._settle(database)
            if self._is_due():
                self._beat(database)
        except DatabaseError as error:
            self._missed(error)
        else:
            self._found()

    def _still_waited_for(self, work: Work, waited: float) -> bool:
        patience = _CHILD_PATIENCE_SECONDS if work.task.job in MEASURING else _THOUGHT_PATIENCE_SECONDS
        return work.ending is None and waited < patience
