"""Our jobs in Slurm's queue and their states, from one cached query for all jobs."""

import hashlib
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from scheduled_jobs.jobs.context import ChildExit
from scheduled_jobs.scheduler.child_process import PATIENCE_SECONDS, last_sentence
from scheduled_jobs.scheduler.process_identity import Owner, dead_process

from ..engine import NodeRefused
from .commands import JobRow, NodeRow, Slurm, SlurmAway
from .job import Job, JobFolder

T = TypeVar("T")

#: How long an answer of Slurm is reused: its controller serves all users.
JOBS_SECONDS, NODES_SECONDS = 5.0, 15.0
#: How often abandoned jobs are searched for, and after how long without a poll a job is one.
SWEEP_SECONDS, ABANDONED_SECONDS = 60.0, 120.0
#: How long Slurm's controller may be away while no file of a job grows: nodes continue without it.
AWAY_SECONDS = 600.0
#: How long a file that a node wrote may be invisible to the head: shared file systems cache absence.
UNSEEN_SECONDS = 60.0
#: From SIGTERM to the cancellation of a job.
STOP_SECONDS = PATIENCE_SECONDS + 30.0
_TOKEN = re.compile(r"[0-9a-f]{32}")
#: The states of squeue before and while a job runs.
_WAITS = frozenset(("PENDING", "REQUEUE_FED", "RESV_DEL_HOLD"))
_RUNS = frozenset(
    ("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED")
)
#: An order runs once: a job that is back in the queue would start and end at once.
_BACK_IN_THE_QUEUE = frozenset(("REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"))
#: Reasons with which a job waits until the cluster or the job is configured differently.
_NEVER = frozenset(
    (
        *("BadConstraints", "PartitionTimeLimit", "PartitionNodeLimit", "InvalidAccount", "InvalidQOS"),
        *("QOSNotAllowed", "AccountNotAllowed", "AssocMaxWallDurationPerJobLimit"),
        "QOSMaxWallDurationPerJobLimit",
    )
)
#: The state of a node that has not reported to its controller since that was started.
_UNREGISTERED = "unknown"
#: The reason of a job that Slurm has not considered yet.
_NO_REASON = frozenset(("None", ""))
#: The meanings of the other states.
_BECAUSE = {
    "BOOT_FAIL": "its node did not start",
    "CANCELLED": "it was cancelled from outside",
    "DEADLINE": "its deadline came",
    "NODE_FAIL": "Slurm lost its node",
    "OUT_OF_MEMORY": "its node ran out of memory",
    "PREEMPTED": "another job preempted it",
    "REVOKED": "another cluster took it",
    **{state: "it was put back into the queue" for state in _BACK_IN_THE_QUEUE},
}


@dataclass(slots=True)
class _PolledJob:
    """A job that this process polls: when it did so last.

    `missing_since` is since when its state is unknown or over without an exit, `stopped_at` when it got
    SIGTERM.
    """

    folder: JobFolder
    polled_at: float
    missing_since: float | None = None
    stopped_at: float | None = None


class CachedAnswer(Generic[T]):
    """The answer of a query, which is repeated when it is old; an error is an answer too.

    One thread queries for all, while the others use the former answer: to notice that a controller is away
    takes seconds.
    """

    def __init__(self, query: Callable[[], T], seconds: float) -> None:
        self._query, self._seconds = query, seconds
        self._lock = threading.Lock()
        self._fetched_at: float | None = None
        self._answer: T | SlurmAway = SlurmAway("Slurm was not queried yet")

    def get(self, *, fresh: bool = False) -> T:
        """The answer; with `fresh` the query is made now. Raises SlurmAway."""
        if not self._lock.acquire(blocking=fresh or self._fetched_at is None):
            return self.last()
        try:
            if fresh or self._fetched_at is None or time.monotonic() - self._fetched_at >= self._seconds:
                try:
                    self._answer = self._query()
                except SlurmAway as error:
                    self._answer = error
                self._fetched_at = time.monotonic()
            return self.last()
        finally:
            self._lock.release()

    def last(self) -> T:
        """The last answer, of any age; never waits. Raises SlurmAway."""
        answer = self._answer
        if isinstance(answer, SlurmAway):
            raise SlurmAway(str(answer))
        return answer


class SlurmQueue:
    """Our jobs, by the tokens of their orders. May be used from any thread.

    `shared` is a folder that head and nodes see, `owner` this process.
    """

    def __init__(self, slurm: Slurm, shared: Path, owner: Owner) -> None:
        self._slurm, self._shared, self._owner = slurm, shared, owner
        # Several heads of one user may have jobs in one queue.
        self._prefix = f"pyrometer-{hashlib.sha256(str(shared).encode()).hexdigest()[:8]}-"
        self._jobs = CachedAnswer(self._query, JOBS_SECONDS)
        self.nodes = CachedAnswer(slurm.nodes, NODES_SECONDS)
        self._lock = threading.Lock()
        self._polled: dict[str, _PolledJob] = {}
        self._jobs_by_token: dict[str, Job] = {}
        #: The nodes that jobs of ours had or waited for at the last query.
        self.nodes_of_ours: frozenset[str] = frozenset()
        self._swept_at = float("-inf")

    def name(self, token: str) -> str:
        """The name of the job of an order in the queue."""
        return self._prefix + token

    def poll(self, token: str) -> JobFolder:
        """The folder of the job of an order, which counts as polled from now on."""
        folder, now = self.folder(token), time.monotonic()
        with self._lock:
            self._polled.setdefault(token, _PolledJob(folder, now)).polled_at = now
        return folder

    def job(self, token: str) -> Job | None:
        """The job of an order; None where there is none. Raises OSError.

        It is read once: it never changes, and a failing file system must not end what runs.
        """
        job = self._jobs_by_token.get(token) or self.folder(token).job
        if job is not None:
            with self._lock:
                self._jobs_by_token[token] = job
        return job

    def find(self, token: str) -> JobRow | None:
        """The job of an order in the queue, by a new query; None where there is none. Raises SlurmAway."""
        return self._row(token, fresh=True)

    def stop(self, token: str) -> None:
        """Have a job store its results and end; one that waits is cancelled. Raises SlurmAway."""
        folder, polled = self.poll(token), self._polled[token]
        polled.stopped_at = polled.stopped_at or time.monotonic()
        if self.job(token) is not None:
            # A job that starts at this moment finds this file.
            folder.stop.touch()
            if number := self._number(token):
                self._slurm.terminate(number)

    def note_growth(self, token: str) -> None:
        """Note that a file of a job has grown: it was alive a moment ago, whatever Slurm reports."""
        self._polled[token].missing_since = None

    def status(self, token: str, job: Job) -> tuple[str, str]:
        """Two sentences, or empty ones, on a job that has not ended: why it is lost, and why it waits."""
        polled, now = self._polled[token], time.monotonic()
        try:
            row, nodes = self._row(token), self.nodes.get()
            self._cancel_late(token, polled, now)
            if row is not None and row.state in _WAITS:
                polled.missing_since = None
                return self._wait_reason(row, next((node for node in nodes if node.name == job.node), None))
            if row is not None and row.state in _BACK_IN_THE_QUEUE:
                self._slurm.cancel(row.number)
        except SlurmAway as error:
            why, patience = f"Slurm was away for {AWAY_SECONDS / 60:g} minutes: {error}", AWAY_SECONDS
        else:
            if row is not None and row.state in _RUNS:
                polled.missing_since = None
                return "", ""
            why = _reason(polled.folder, row, job)
            # A job without a node never started: no file of it can appear later.
            patience = UNSEEN_SECONDS if row is None or row.node else 0.0
        polled.missing_since = now if polled.missing_since is None else polled.missing_since
        return why if now - polled.missing_since >= patience else "", ""

    def exit(self, token: str, job: Job, end: Mapping[str, Any]) -> ChildExit | None:
        """The exit of a job that wrote its `end`; None until Slurm reports why it got SIGTERM."""
        sentence = str(end["sentence"])
        if end["asked"] and not self._polled[token].folder.stop.exists():
            sentence = self._reason_to_end(token, job, float(end["seconds"]))
            if not sentence:
                return None
        return ChildExit(end["code"], end["signal"], sentence)

    def _reason_to_end(self, token: str, job: Job, seconds: float) -> str:
        """Why a job got SIGTERM after so many seconds, not from this head; empty while it is ending."""
        polled, now = self._polled[token], time.monotonic()
        polled.missing_since = now if polled.missing_since is None else polled.missing_since
        row = None
        with suppress(SlurmAway):
            row = self._row(token)
            if row is not None and row.state in _RUNS and now - polled.missing_since < STOP_SECONDS:
                return ""
        if row is not None and row.state in _BECAUSE:
            return _reason(polled.folder, row, job)
        # The warning may come a minute early.
        limited = seconds > job.limit_seconds - job.warning_seconds - 60.0
        return too_long(job.limit_seconds) if limited else "its job in Slurm was terminated from outside"

    def active_runs(self) -> frozenset[str]:
        """The runs of jobs of ours that run or wait, other heads included; raises SlurmAway and OSError."""
        alive = self._alive(self._jobs.get())
        return frozenset(job.run for row, job in alive if self.folder(self._token(row)).end is None)

    def sweep(self) -> None:
        """Cancel the jobs of dead heads, and those that this head abandoned, if a sweep is due.

        Raises SlurmAway and OSError.
        """
        now = time.monotonic()
        if now - self._swept_at < SWEEP_SECONDS:
            return
        alive = self._alive(self._jobs.get())
        for row, job in alive:
            if self._is_abandoned(self._token(row), job, now):
                self._slurm.cancel(row.number)
        self._swept_at = now
        with self._lock:
            old = now - 10 * ABANDONED_SECONDS
            self._polled = {key: each for key, each in self._polled.items() if each.polled_at > old}
            tokens = self._polled.keys() | {self._token(row) for row, _ in alive}
            self._jobs_by_token = {key: each for key, each in self._jobs_by_token.items() if key in tokens}

    def _is_abandoned(self, token: str, job: Job, now: float) -> bool:
        owner, polled = Owner.parse(job.owner), self._polled.get(token)
        if owner is None or owner.machine != self._owner.machine:
            return False
        if owner == self._owner:
            return polled is None or now - polled.polled_at > ABANDONED_SECONDS
        # Processes of this machine before its last boot are dead as well.
        return owner.boot != self._owner.boot or dead_process(job.owner, self._owner) is not None

    def _query(self) -> list[JobRow]:
        rows = self._slurm.jobs()
        # What cannot be read now is read at the next query.
        with suppress(OSError):
            self.nodes_of_ours = frozenset(job.node for _, job in self._alive(rows))
        return rows

    def _alive(self, rows: Sequence[JobRow]) -> list[tuple[JobRow, Job]]:
        found: list[tuple[JobRow, Job]] = []
        for row in rows:
            if row.state in _WAITS | _RUNS and (token := self._token(row)):
                job = self.job(token)
                found += [] if job is None else [(row, job)]
        return found

    def folder(self, token: str) -> JobFolder:
        """The folder of the job of an order; raises NodeRefused for what is not a token."""
        if not _TOKEN.fullmatch(token):
            raise NodeRefused(f"{token!r} is not the token of an order")
        return JobFolder(self._shared / "jobs" / token)

    def _token(self, row: JobRow) -> str:
        """The token of a job of ours; empty for any other."""
        token = row.name.removeprefix(self._prefix)
        return token if token != row.name and _TOKEN.fullmatch(token) else ""

    def _row(self, token: str, *, fresh: bool = False) -> JobRow | None:
        """The job of an order; if it was submitted twice, the one that is alive."""
        rows = [row for row in self._jobs.get(fresh=fresh) if row.name == self.name(token)]
        return min(rows, key=lambda row: row.state not in _WAITS | _RUNS, default=None)

    def _number(self, token: str) -> str:
        """Slurm's number of a job, also if the output of sbatch was lost; empty where there is none."""
        if number := self._polled[token].folder.number:
            return number
        row = self._row(token, fresh=True)
        return "" if row is None else row.number

    def _cancel_late(self, token: str, polled: _PolledJob, now: float) -> None:
        """Cancel a job that got SIGTERM and does not end."""
        if polled.stopped_at is not None and now - polled.stopped_at >= STOP_SECONDS:
            polled.stopped_at = now
            if number := self._number(token):
                self._slurm.cancel(number)

    def _wait_reason(self, row: JobRow, node: NodeRow | None) -> tuple[str, str]:
        """Why a job would wait for ever, which cancels it; or why it waits."""
        if node is None:
            why = "Slurm does not know it any more"
        elif node.state.lower().startswith(_UNREGISTERED):
            # It comes up or is declared down (SlurmdTimeout).
            return "", f"waits until {node.name} reports to Slurm's controller, which was started anew"
        elif not node.is_online:
            why = f"in Slurm it is {node.state} ({node.reason})"
        elif row.reason in _NEVER:
            why = f"Slurm will never begin job {row.number} ({row.reason}): look at [slurm] in pyrometer.toml"
        else:
            # A job that Slurm has not considered yet has no reason.
            has_reason = row.reason not in _NO_REASON
            return "", f"waits in Slurm's queue as job {row.number}: {row.reason}" if has_reason else ""
        self._slurm.cancel(row.number)
        return why, ""


def too_long(seconds: float) -> str:
    """Why a job ended at its time limit."""
    return f"its time limit in Slurm, {seconds / 3600:g} h, was over: raise [slurm] time_limit_hours"


def _reason(folder: JobFolder, row: JobRow | None, job: Job) -> str:
    """Why a job ended without writing its exit, in a sentence; `row` is None if Slurm no longer knows it."""
    if row is None:
        return f"Slurm does not know its job {folder.number} any more, and that did not report how it ended"
    if row.state == "TIMEOUT":
        return f"job {row.number}: {too_long(job.limit_seconds)}"
    if because := _BECAUSE.get(row.state):
        return f"its job {row.number} is {row.state}: {because}"
    last = last_sentence(folder.output) or "it wrote nothing"
    return f"its job {row.number} is {row.state}, and did not report how it ended: {last}"
