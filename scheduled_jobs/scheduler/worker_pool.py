"""The workers of a scheduler: the slots of this machine, and one for each host of its fleet."""

import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from common.text import os_reason
from configuration.errors import ConfigurationError
from db.connection.engine import Database
from db.errors import DatabaseError, DatabaseUnavailable, SchemaTooNew
from db.queue.commands import gone_all, seen_all
from db.queue.queries import schedulers, shared_time
from records.tasks import SchedulerSeen, Task, TaskState
from runner.errors import RunnerError
from workflows.errors import JobError
from workflows.fleet_status import MEASURING

from ..jobs.context import ChildLost, Job, JobContext, JobResult, JobStopped
from .hosts import Host, HostProvider, HostStatus
from .log import Log
from .process_identity import Owner, dead_process


@dataclass(frozen=True, slots=True)
class LostAttempt:
    """An attempt that failed for reasons outside the task; the task is tried again."""

    detail: str


@dataclass(frozen=True, slots=True)
class ReleasedAttempt:
    """An attempt that was stopped and is returned to the queue."""


#: The function of each job, by name.
Registry = Mapping[str, Job]

#: How an attempt ended.
Ending = JobResult | LostAttempt | ReleasedAttempt


@dataclass(slots=True)
class RunningTask:
    """An attempt at a task on a host while it runs. `ending` is None until it has ended.

    Setting `stop` requests that the job ends. `fenced`: the task was lost or cancelled meanwhile, and the
    result is discarded. `enqueued` counts the follow-ups that are in the database.
    """

    task: Task
    token: str
    host: Host
    stop: threading.Event = field(default_factory=threading.Event)
    ending: Ending | None = None
    fenced: bool = False
    enqueued: int = 0


class WorkerSlot:
    """Runs at most one attempt at a time, of tasks with one of these `jobs`."""

    def __init__(self, name: str, jobs: Collection[str]) -> None:
        self.name = name
        self.jobs = frozenset(jobs)
        self.work: RunningTask | None = None
        #: The token of a claim without an answer: a repetition with it gets the same answer.
        self.claiming: str | None = None

    def begin(self, work: RunningTask, job: Job, context: JobContext, ended: Callable[[], None]) -> None:
        """Start an attempt; `ended` is called, from another thread, when it has ended."""
        self.work = work

        def attempt() -> None:
            try:
                work.ending = _run_job(job, work.task, context)
            finally:
                ended()

        # A daemon thread, so that a stuck job does not prevent the end of the process.
        threading.Thread(target=attempt, name=self.name, daemon=True).start()


def _run_job(job: Job, task: Task, context: JobContext) -> Ending:
    try:
        return job(task, context)
    except JobStopped:
        return ReleasedAttempt()
    except (ChildLost, DatabaseUnavailable, SchemaTooNew) as error:
        return LostAttempt(str(error))
    except (ConfigurationError, DatabaseError, JobError, RunnerError) as error:
        return JobResult(TaskState.FAILED, error=str(error))
    except OSError as error:
        return JobResult(TaskState.FAILED, error=os_reason(error))
    except Exception as error:
        # A defect in one job must not end the service, and must be reported.
        context.say(traceback.format_exc())
        return JobResult(TaskState.FAILED, error=f"a defect in Pyrometer: {type(error).__name__}: {error}")


#: A host without changes is reported at every n-th heartbeat, because there may be a thousand hosts.
_REPORT_EVERY = 6
#: The pause of a host after a lost task. It doubles with each further loss, up to the longest: a host that
#: loses every task must not use up the attempts at all waiting tasks.
REST_SECONDS, _LONGEST_REST_SECONDS = 10.0, 600.0
#: A scheduler of this machine that was not seen for this time no longer exists.
_FORGOTTEN = timedelta(days=1)
#: The most sentences about unused hosts that are reported with each heartbeat.
_MOST_PROBLEMS = 20
_NAMESAKE = (
    "a host has the name of this machine and is not used: only the slot of this machine itself measures"
)


@dataclass(slots=True)
class PoolWorker:
    """A host with its worker slots, registered in the database as a separate scheduler.

    `labels` and `facts` are as of the last poll. `there`: seen in that poll. `drained`: takes no new tasks.
    `only_labels`: takes only tasks with one of these labels for now; empty for no limit. `changed`: a change
    of these is not reported yet. `losses` counts consecutive lost tasks; the host pauses until `rests_until`,
    in seconds of the monotonic clock.
    """

    host: Host
    owner: Owner
    slots: tuple[WorkerSlot, ...]
    started_at: datetime
    labels: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    there: bool = True
    drained: bool = False
    only_labels: tuple[str, ...] = ()
    changed: bool = True
    beats: int = 0
    losses: int = 0
    rests_until: float = 0.0

    @property
    def takes(self) -> tuple[str, ...]:
        """The labels of the tasks that it claims now; the empty one is that of tasks for any machine."""
        return self.only_labels or ("", *self.labels)

    @property
    def busy(self) -> bool:
        """Whether any of its slots runs a task."""
        return any(slot.work is not None for slot in self.slots)

    @property
    def is_remembered(self) -> bool:
        """Whether its losses still count, which leaving and joining again must not reset."""
        return self.losses > 0 and time.monotonic() < self.rests_until + _LONGEST_REST_SECONDS

    def note_result(self, work: RunningTask) -> None:
        """Record the end of an attempt; the host pauses after a loss."""
        if isinstance(work.ending, LostAttempt):
            rest = min(REST_SECONDS * 2 ** min(self.losses, 30), _LONGEST_REST_SECONDS)
            self.losses, self.rests_until = self.losses + 1, time.monotonic() + rest
        elif isinstance(work.ending, JobResult):
            self.losses = 0

    def stop_claiming(self) -> None:
        """Claim nothing more; the reaper handles a claim without an answer."""
        for slot in self.slots:
            slot.claiming = None


class WorkerPool:
    """The workers of a service: that of this machine, and those of hosts, which join and leave.

    A host has one slot, for jobs that measure. It is known by its machine's name; one with the name of this
    machine is not used.
    """

    def __init__(
        self, local: PoolWorker, hosts: HostProvider | None, log: Log, now: Callable[[], datetime]
    ) -> None:
        self._local, self._hosts = local, hosts
        self._log, self._now = log, now
        self._workers: dict[str, PoolWorker] = {}
        self._beats = 0
        #: Owners of workers that left in order, to be unregistered.
        self._left: set[str] = set()
        self._missing: set[str] = set()
        #: By machine the owners of earlier services of this machine there.
        self._former: dict[str, list[str]] = {}
        self._namesake = self._namesake_reported = False

    @property
    def workers(self) -> list[PoolWorker]:
        """All workers, that of this machine first; including absent ones with running attempts."""
        return [self._local, *self._workers.values()]

    def slots(self) -> Iterator[WorkerSlot]:
        """The slots of all workers."""
        return (slot for worker in self.workers for slot in worker.slots)

    def collect_endings(self) -> Iterator[RunningTask]:
        """The ended attempts; each is released when the next one is read."""
        for worker in self.workers:
            for slot in worker.slots:
                if slot.work is not None and slot.work.ending is not None:
                    yield slot.work
                    worker.note_result(slot.work)
                    slot.work = None

    @property
    def unreported(self) -> bool:
        """Whether a worker is not registered yet, which it must be before it takes a task."""
        return any(worker.there and worker.beats == 0 for worker in self.workers)

    def works(self) -> list[RunningTask]:
        """The attempts that are running."""
        return [slot.work for slot in self.slots() if slot.work is not None]

    def idle(self) -> list[tuple[PoolWorker, WorkerSlot]]:
        """The slots that may claim a task, each with its worker."""
        now = time.monotonic()
        ready = [
            worker
            for worker in self.workers
            if worker is self._local or (worker.there and not worker.drained and now >= worker.rests_until)
        ]
        return [(worker, slot) for worker in ready for slot in worker.slots if slot.work is None]

    def look(self) -> None:
        """Add new hosts, and remove absent hosts without a task."""
        if self._hosts is None:
            return
        there: dict[str, HostStatus] = {}
        for each in self._hosts.look():
            there.setdefault(each.host.machine, each)
        self._namesake = there.pop(self._local.host.machine, None) is not None
        if self._namesake:
            self._report_namesake()
        for machine, each in there.items():
            self._take(machine, each)
        for machine in sorted(self._workers.keys() - there.keys()):
            self._miss(machine, self._workers[machine])

    def report(self, database: Database, served: Mapping[str, Any], version: str) -> None:
        """Report the workers, and unregister those that left; `served` are the facts of this service."""
        now = shared_time(database, self._now())
        if self._beats == 0:
            self._forget_the_dead(database, now)
        self._beats += 1
        reported = [worker for worker in self.workers if worker.there and self._is_due(worker)]
        seen_all(database, [self._describe_scheduler(worker, served, version, now) for worker in reported])
        for worker in reported:
            worker.changed, worker.beats = False, worker.beats + 1
        # A returned host is reported by this process; the report of an earlier one is outdated.
        back = [worker.host.machine for worker in reported if worker.host.machine in self._former]
        if over := self._left.union(*(self._former[machine] for machine in back)):
            gone_all(database, over)
            self._left.clear()
            for machine in back:
                del self._former[machine]

    def unregister(self, database: Database) -> None:
        """Unregister all online workers; a host that disappeared before stays missing."""
        gone_all(database, {str(worker.owner) for worker in self.workers if worker.there} | self._left)

    def close(self) -> None:
        """Stop polling."""
        if self._hosts is not None:
            self._hosts.close()

    def _take(self, machine: str, each: HostStatus) -> None:
        worker = self._workers.get(machine)
        self._missing.discard(machine)
        about = {"machine": machine, "labels": ",".join(each.host.labels)}
        if worker is None:
            owner = replace(self._local.owner, machine=machine)
            slot = WorkerSlot(f"measuring on {machine}", MEASURING)
            worker = PoolWorker(each.host, owner, (slot,), self._now(), each.host.labels)
            self._workers[machine] = worker
            self._left.discard(str(owner))
            self._log("host came", about=about)
        elif not worker.there:
            self._log("host came back", about=about)
        if each.drained and not worker.drained:
            worker.stop_claiming()
            self._log("host drained", "it takes nothing new", {"machine": machine})
        before = (worker.there, worker.labels, worker.drained, worker.facts)
        worker.changed |= before != (True, each.host.labels, each.drained, each.facts)
        worker.host, worker.labels, worker.facts = each.host, each.host.labels, each.facts
        worker.drained, worker.only_labels, worker.there = each.drained, each.only_labels, True

    def _miss(self, machine: str, worker: PoolWorker) -> None:
        if worker.there:
            worker.there = False
            worker.stop_claiming()
            if worker.drained:
                self._log("host left", about={"machine": machine})
            else:
                self._missing.add(machine)
                self._log("host vanished", "it was not drained before", {"machine": machine}, "warning")
        if worker.drained and not worker.busy:
            self._left.add(str(worker.owner))
        if not worker.busy and (worker.drained or not worker.is_remembered):
            del self._workers[machine]

    def _report_namesake(self) -> None:
        if not self._namesake_reported:
            self._namesake_reported = True
            self._log("host refused", _NAMESAKE, {"machine": self._local.host.machine}, "warning")

    def _is_due(self, worker: PoolWorker) -> bool:
        return worker is self._local or worker.changed or self._beats % _REPORT_EVERY == 0

    def _describe_scheduler(
        self, worker: PoolWorker, served: Mapping[str, Any], version: str, now: datetime
    ) -> SchedulerSeen:
        if worker is not self._local:
            version = str(worker.facts.get("version") or version)
        return SchedulerSeen(
            owner=str(worker.owner),
            machine=worker.host.machine,
            labels=worker.labels,
            started_at=worker.started_at,
            seen_at=now,
            beats=worker.beats + 1,
            version=version,
            facts=self._own(served) if worker is self._local else self._facts(worker, served),
        )

    def _own(self, served: Mapping[str, Any]) -> Mapping[str, Any]:
        """The facts of this scheduler, with unusable and missing hosts."""
        if self._hosts is None:
            return served
        found = [*self._hosts.problems(), *([_NAMESAKE] if self._namesake else [])]
        reported = {"problems": found[:_MOST_PROBLEMS], "missing": sorted(self._missing)}
        return {**served, **{name: each for name, each in reported.items() if each}}

    def _facts(self, worker: PoolWorker, served: Mapping[str, Any]) -> dict[str, Any]:
        """The facts of a host: it plans nothing, so the timetable is left out."""
        usual = {name: value for name, value in served.items() if name != "schedules"}
        own = {"measures": not worker.drained, "head": self._local.host.machine, "node": dict(worker.facts)}
        return usual | own

    def _forget_the_dead(self, database: Database, now: datetime) -> None:
        """Unregister what killed services of this machine had registered.

        A host that one of them registered stays until this service sees it, because it may have disappeared
        meanwhile.
        """
        machine, over = self._local.host.machine, list[str]()
        former: dict[str, list[str]] = defaultdict(list)
        for other in schedulers(database):
            is_own = machine in (other.machine, other.facts.get("head"))
            silent = is_own and now - other.seen_at > _FORGOTTEN
            if silent or dead_process(other.owner, self._local.owner) is not None:
                stays = self._hosts is not None and other.machine != machine
                (former[other.machine] if stays else over).append(other.owner)
        if over:
            gone_all(database, over)
        self._former = former
