"""Our jobs in Slurm's queue: asked about seldom and all at once, and what becomes of them."""

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

#: How long an answer of Slurm is good enough: its controller serves everybody.
JOBS_SECONDS, NODES_SECONDS = 5.0, 15.0
#: How often jobs are looked for that no process watches any more, and after how long one is given up.
SWEEP_SECONDS, FORGOTTEN_SECONDS = 60.0, 120.0
#: How long Slurm's controller may be away while no file of a job grows: nodes go on without it.
AWAY_SECONDS = 600.0
#: How long what a node has written may be unseen on the head: file systems remember what is not there.
UNSEEN_SECONDS = 60.0
#: From asking a job to end until it is ended.
STOP_SECONDS = PATIENCE_SECONDS + 30.0
_TOKEN = re.compile(r"[0-9a-f]{32}")
#: The states of squeue in which something may still come of a job.
_WAITS = frozenset(("PENDING", "REQUEUE_FED", "RESV_DEL_HOLD"))
_RUNS = frozenset(
    ("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED")
)
#: An order is carried out once: what is back in the queue would begin and end at once.
_BACK_IN_THE_QUEUE = frozenset(("REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"))
#: A job with one of these reasons waits until the cluster or the job is set up in another way.
_NEVER = frozenset(
    (
        *("BadConstraints", "PartitionTimeLimit", "PartitionNodeLimit", "InvalidAccount", "InvalidQOS"),
        *("QOSNotAllowed", "AccountNotAllowed", "AssocMaxWallDurationPerJobLimit"),
        "QOSMaxWallDurationPerJobLimit",
    )
)
#: Why a job waits that Slurm has not looked at yet.
_NO_REASON = frozenset(("None", ""))
#: What the other states mean.
_BECAUSE = {
    "BOOT_FAIL": "its node did not start",
    "CANCELLED": "it was cancelled from outside",
    "DEADLINE": "its deadline came",
    "NODE_FAIL": "Slurm lost its node",
    "OUT_OF_MEMORY": "its node ran out of memory",
    "PREEMPTED": "another job took its place",
    "REVOKED": "another cluster took it",
    **{state: "it was put back into the queue" for state in _BACK_IN_THE_QUEUE},
}


@dataclass(slots=True)
class _Watched:
    """What this process knows of a job: when it was looked at.

    `strange_at` is since when it is not known what becomes of it, `stopped_at` when it was asked to end.
    """

    folder: JobFolder
    looked_at: float
    strange_at: float | None = None
    stopped_at: float | None = None


class CachedAnswer(Generic[T]):
    """An answer that is asked for again when it is old; an error is an answer too.

    One thread asks for all: the others do with what was known before, for a controller that is away takes
    seconds to be found so.
    """

    def __init__(self, ask: Callable[[], T], seconds: float) -> None:
        self._ask, self._seconds = ask, seconds
        self._lock = threading.Lock()
        self._fetched_at: float | None = None
        self._answer: T | SlurmAway = SlurmAway("Slurm was not asked yet")

    def get(self, *, fresh: bool = False) -> T:
        """The answer; a `fresh` one is asked for now. Raises SlurmAway."""
        if not self._lock.acquire(blocking=fresh or self._fetched_at is None):
            return self.last()
        try:
            if fresh or self._fetched_at is None or time.monotonic() - self._fetched_at >= self._seconds:
                try:
                    self._answer = self._ask()
                except SlurmAway as error:
                    self._answer = error
                self._fetched_at = time.monotonic()
            return self.last()
        finally:
            self._lock.release()

    def last(self) -> T:
        """The last answer, however old; never waits. Raises SlurmAway."""
        answer = self._answer
        if isinstance(answer, SlurmAway):
            raise SlurmAway(str(answer))
        return answer


class SlurmQueue:
    """Our jobs, by the tokens of the orders that they carry out. May be used from any thread.

    `shared` is where head and nodes meet, `owner` this process.
    """

    def __init__(self, slurm: Slurm, shared: Path, owner: Owner) -> None:
        self._slurm, self._shared, self._owner = slurm, shared, owner
        # Several heads of one user may have jobs in one queue.
        self._prefix = f"pyrometer-{hashlib.sha256(str(shared).encode()).hexdigest()[:8]}-"
        self._jobs = CachedAnswer(self._ask, JOBS_SECONDS)
        self.nodes = CachedAnswer(slurm.nodes, NODES_SECONDS)
        self._lock = threading.Lock()
        self._watched: dict[str, _Watched] = {}
        self._jobs_by_token: dict[str, Job] = {}
        #: The nodes that jobs of ours had or waited for when squeue was asked last.
        self.nodes_of_ours: frozenset[str] = frozenset()
        self._swept_at = float("-inf")

    def name(self, token: str) -> str:
        """The name of the job of an order in the queue."""
        return self._prefix + token

    def watch(self, token: str) -> JobFolder:
        """The folder of the job of an order; it is not given up for a while from now on."""
        folder, now = self.folder(token), time.monotonic()
        with self._lock:
            self._watched.setdefault(token, _Watched(folder, now)).looked_at = now
        return folder

    def job(self, token: str) -> Job | None:
        """The job of an order; None where there is none. Raises OSError.

        It is read once: it does not change, and a file system that is away must not cost what runs.
        """
        job = self._jobs_by_token.get(token) or self.folder(token).job
        if job is not None:
            with self._lock:
                self._jobs_by_token[token] = job
        return job

    def find(self, token: str) -> JobRow | None:
        """The job of an order in the queue, asked for now; None where there is none. Raises SlurmAway."""
        return self._row(token, fresh=True)

    def stop(self, token: str) -> None:
        """Ask a job to keep what it has and end; one that waits is taken out. Raises SlurmAway."""
        folder, watched = self.watch(token), self._watched[token]
        watched.stopped_at = watched.stopped_at or time.monotonic()
        if self.job(token) is not None:
            # What waits may begin at this moment: then the node finds it here.
            folder.stop.touch()
            if number := self._number(token):
                self._slurm.ask_to_end(number)

    def alive(self, token: str) -> None:
        """A file of a job has grown: whatever Slurm says, it lived a moment ago."""
        self._watched[token].strange_at = None

    def status(self, token: str, job: Job) -> tuple[str, str]:
        """Two sentences on a job without an end, or empty ones: why none will come, and why it waits."""
        watched, now = self._watched[token], time.monotonic()
        try:
            row, nodes = self._row(token), self.nodes.get()
            self._cancel_late(token, watched, now)
            if row is not None and row.state in _WAITS:
                watched.strange_at = None
                return self._waiting(row, next((node for node in nodes if node.name == job.node), None))
            if row is not None and row.state in _BACK_IN_THE_QUEUE:
                self._slurm.cancel(row.number)
        except SlurmAway as error:
            why, patience = f"Slurm was away for {AWAY_SECONDS / 60:g} minutes: {error}", AWAY_SECONDS
        else:
            if row is not None and row.state in _RUNS:
                watched.strange_at = None
                return "", ""
            why = _reason(watched.folder, row, job)
            # One that has no node never began: nothing of it can be seen later.
            patience = UNSEEN_SECONDS if row is None or row.node else 0.0
        watched.strange_at = now if watched.strange_at is None else watched.strange_at
        return why if now - watched.strange_at >= patience else "", ""

    def exit(self, token: str, job: Job, end: Mapping[str, Any]) -> ChildExit | None:
        """The end that a job wrote; None while Slurm is about to say why it was asked to end."""
        sentence = str(end["sentence"])
        if end["asked"] and not self._watched[token].folder.stop.exists():
            sentence = self._reason_to_end(token, job, float(end["seconds"]))
            if not sentence:
                return None
        return ChildExit(end["code"], end["signal"], sentence)

    def _reason_to_end(self, token: str, job: Job, seconds: float) -> str:
        """Why a job was asked to end, after so many seconds and not by us; empty while it still ends."""
        watched, now = self._watched[token], time.monotonic()
        watched.strange_at = now if watched.strange_at is None else watched.strange_at
        row = None
        with suppress(SlurmAway):
            row = self._row(token)
            if row is not None and row.state in _RUNS and now - watched.strange_at < UNSEEN_SECONDS:
                return ""
        if row is not None and row.state in _BECAUSE:
            return _reason(watched.folder, row, job)
        # The warning may come a minute early.
        limited = seconds > job.limit_seconds - job.warning_seconds - 60.0
        return too_long(job.limit_seconds) if limited else "its job in Slurm was asked to end from outside"

    def measured(self) -> frozenset[str]:
        """The runs that jobs of ours measure or will, also of other heads; raises SlurmAway and OSError."""
        alive = self._alive(self._jobs.get())
        return frozenset(job.run for row, job in alive if self.folder(self._token(row)).end is None)

    def sweep(self) -> None:
        """Now and then cancel the jobs of dead heads, and those this one has given up.

        Raises SlurmAway and OSError.
        """
        now = time.monotonic()
        if now - self._swept_at < SWEEP_SECONDS:
            return
        alive = self._alive(self._jobs.get())
        for row, job in alive:
            if self._given_up(self._token(row), job, now):
                self._slurm.cancel(row.number)
        self._swept_at = now
        with self._lock:
            old = now - 10 * FORGOTTEN_SECONDS
            self._watched = {key: each for key, each in self._watched.items() if each.looked_at > old}
            kept = self._watched.keys() | {self._token(row) for row, _ in alive}
            self._jobs_by_token = {key: each for key, each in self._jobs_by_token.items() if key in kept}

    def _given_up(self, token: str, job: Job, now: float) -> bool:
        owner, watched = Owner.parse(job.owner), self._watched.get(token)
        if owner is None or owner.machine != self._owner.machine:
            return False
        if owner == self._owner:
            return watched is None or now - watched.looked_at > FORGOTTEN_SECONDS
        # What ran on this machine before it was booted anew is dead as well.
        return owner.boot != self._owner.boot or dead_process(job.owner, self._owner) is not None

    def _ask(self) -> list[JobRow]:
        rows = self._slurm.jobs()
        # What cannot be read now is known by the next answer.
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
        """The token of a job of ours; empty for another's."""
        token = row.name.removeprefix(self._prefix)
        return token if token != row.name and _TOKEN.fullmatch(token) else ""

    def _row(self, token: str, *, fresh: bool = False) -> JobRow | None:
        """The job of an order; of two that were submitted for it the one that lives."""
        rows = [row for row in self._jobs.get(fresh=fresh) if row.name == self.name(token)]
        return min(rows, key=lambda row: row.state not in _WAITS | _RUNS, default=None)

    def _number(self, token: str) -> str:
        """Slurm's number of a job, also where sbatch's answer was lost; empty where there is none."""
        if number := self._watched[token].folder.number:
            return number
        row = self._row(token, fresh=True)
        return "" if row is None else row.number

    def _cancel_late(self, token: str, watched: _Watched, now: float) -> None:
        """Cancel what was asked to end and does not."""
        if watched.stopped_at is not None and now - watched.stopped_at >= STOP_SECONDS:
            watched.stopped_at = now
            if number := self._number(token):
                self._slurm.cancel(number)

    def _waiting(self, row: JobRow, node: NodeRow | None) -> tuple[str, str]:
        """Why a job would wait for ever, and then it is cancelled; or what it waits for."""
        if node is None:
            why = "Slurm does not know it any more"
        elif not node.there:
            why = f"in Slurm it is {node.state} ({node.reason})"
        elif row.reason in _NEVER:
            why = f"Slurm will never begin job {row.number} ({row.reason}): look at [slurm] in pyrometer.toml"
        else:
            # One that Slurm has not looked at yet has no reason.
            known = row.reason not in _NO_REASON
            return "", f"waits in Slurm's queue as job {row.number}: {row.reason}" if known else ""
        self._slurm.cancel(row.number)
        return why, ""


def too_long(seconds: float) -> str:
    """Why a job ended that its time limit has ended."""
    return f"its time limit in Slurm, {seconds / 3600:g} h, was over: raise [slurm] time_limit_hours"


def _reason(folder: JobFolder, row: JobRow | None, job: Job) -> str:
    """Why a job is over that wrote no end, in a sentence; None is one that Slurm does not know any more."""
    if row is None:
        return f"Slurm does not know its job {folder.number} any more, and that did not report how it ended"
    if row.state == "TIMEOUT":
        return f"job {row.number}: {too_long(job.limit_seconds)}"
    if because := _BECAUSE.get(row.state):
        return f"its job {row.number} is {row.state}: {because}"
    last = last_sentence(folder.output) or "it wrote nothing"
    return f"its job {row.number} is {row.state}, and did not report how it ended: {last}"
