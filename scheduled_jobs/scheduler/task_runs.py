"""The run of a task: its id is stored before its child starts; the next attempt on the machine resumes it."""

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from db.queue.queries import attempts
from records.outcomes import OutcomeStatus
from records.tasks import Task
from runner import journal
from runner.errors import JournalError
from workflows.errors import CANNOT_RESUME
from workflows.ingest import IngestResult, ingest_pending, read_run
from workflows.measure import new_run_id

from ..jobs.context import ChildExit, ChildLost, JobContext, OnEvent
from .child_process import PATIENCE_SECONDS
from .process_identity import Owner

#: The exit code of an interrupted run; 2 is that of a command that cannot run, for any reason.
_INTERRUPTED, _REFUSED = 130, 2
#: A resume may be refused because the run was completed meanwhile, or can never be resumed.
_TRIES = 3
#: The interval at which the lock of a journal is checked.
_LOOK_SECONDS = 0.2
#: Runs of a thousand nodes may end in one minute: the worker slots store their own runs one after the other,
#: and the last one stores all remaining runs.
STORE_LOCK = threading.Lock()
STORE_QUEUE: list[tuple[str, ...]] = []


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """The result of a task's run: the exit of its last child (None: it was complete before), counts by
    status.

    `began` is whether there is a journal, `complete` whether it has every planned outcome. `unreadable` is
    the reason why an existing journal cannot be used, `refused` the reason why the database refuses it.
    """

    run: str
    ended: ChildExit | None = None
    began: bool = False
    complete: bool = False
    counts: Mapping[OutcomeStatus, int] = field(default_factory=Counter[OutcomeStatus])
    unreadable: str = ""
    refused: str = ""

    @property
    def stored(self) -> bool:
        """Whether the run is complete, and its numbers are in the database."""
        return self.complete and not self.refused


def run_measurement(
    task: Task,
    context: JobContext,
    command: Sequence[str],
) -> MeasuredRun:
    """Measure or resume the task's run with `command` (`run ...` or `upgrade OLD NEW ...`).

    Adds `--json` and either `--run-id RUN` or, if an earlier attempt on this machine left a journal,
    `--resume RUN` in place of all other arguments. Raises JobStopped, and ChildLost for a child that was
    killed or interrupted from outside, for one that cannot be resumed now, and for one on another machine
    that could not start. If a run can never be resumed, another one is begun.
    """
    run = _known_run(task, context) or new_run_id()
    context.set_run(run)
    ended = None
    for _ in range(_TRIES):
        _wait_for_the_last_writer(context, run)
        before = _status(context, run)
        if before.complete:
            break
        if before.unreadable:
            run = _run_instead(context, run, before.unreadable)
        goes_on = ("--resume", run) if before.began else (*command[1:], "--run-id", run)
        ended = context.child(
            [command[0], *goes_on, "--json"],
            _events_of(context),
            run,
            int(task.spec.get("nodes") or 1),
        )
        if ended.code is None or ended.code == _INTERRUPTED:
            how = f"killed by signal {ended.signal}" if ended.signal else "interrupted"
            raise ChildLost(f"the run was {how}: {ended.sentence}")
        after = _status(context, run)
        refused = ended.code in (_REFUSED, CANNOT_RESUME)
        if refused and context.away and not after.began:
            # A machine that is not set up for it must not fail a task that others can run.
            raise ChildLost(f"{context.machine} cannot begin it: {ended.sentence}")
        if not refused or not after.began:
            break
        if after.complete:
            continue
        if ended.code == CANNOT_RESUME:
            # With other hardware, another environment, or a missing harness it would be another run.
            run = _run_instead(context, run, ended.sentence)
        elif before.began:
            # A booting node, a full disk or incomplete settings are temporary: the results are kept.
            raise ChildLost(f"the run cannot be resumed now: {ended.sentence}")
    status = _status(context, run)
    if status.complete and (refused := store_runs(context, run)):
        status = replace(status, refused=str(refused[0]))
    return replace(status, ended=ended)


def _run_instead(context: JobContext, run: str, why: str) -> str:
    """The id of the run that the task measures instead of one that cannot be resumed."""
    context.say(f"run {run} is not resumed: {why}")
    other = new_run_id()
    context.set_run(other)
    return other


def _events_of(context: JobContext) -> OnEvent:
    """Logs the reasons why a child waits before it measures."""
    waits = False

    def receive(event: Mapping[str, Any]) -> None:
        nonlocal waits
        if event.get("event") == "waiting":
            waits = True
            context.say(str(event.get("text", "")))
            context.waits(str(event.get("text", "")))
        elif waits:
            waits = False
            context.waits("")

    return receive


def _known_run(task: Task, context: JobContext) -> str | None:
    """The run that an earlier attempt at this task began on this machine; None otherwise."""
    if task.run_id is None:
        return None
    with context.open_database() as database:
        began = [each for each in attempts(database, task.id) if each.run_id == task.run_id]
    owners = [Owner.parse(each.owner) for each in began]
    local = any(owner and owner.machine == context.machine for owner in owners)
    return task.run_id if local else None


def _wait_for_the_last_writer(context: JobContext, run: str) -> None:
    """Wait for a child whose supervisor was killed: it stores its results and ends, but not at once."""
    path, give_up = journal.path_of(context.data_dir, run), time.monotonic() + PATIENCE_SECONDS
    while path.exists() and journal.in_use(path) and time.monotonic() < give_up:
        context.stop.wait(_LOOK_SECONDS)
        context.check_stopped()


def _status(context: JobContext, run: str) -> MeasuredRun:
    """The progress of a run, by its journal on this machine."""
    path = journal.path_of(context.data_dir, run)
    # An empty journal belongs to a run that was killed before it began.
    if not path.exists() or not path.stat().st_size:
        return MeasuredRun(run)
    try:
        header, contents = read_run(path)
    except JournalError as error:
        return MeasuredRun(run, unreadable=str(error))
    counts = Counter(outcome.status for outcome in contents.outcomes)
    return MeasuredRun(run, None, True, not contents.missing_replicates(header.replicates), counts)


def store_runs(context: JobContext, *runs: str) -> list[JournalError]:
    """Ingest these runs, and when no other worker slot waits to store its own, all pending ones.

    A run is pending if the process that measured it could not store it. Returns the reason why any of `runs`
    cannot be stored.
    """
    refused: list[JournalError] = []
    STORE_QUEUE.append(runs)
    with STORE_LOCK:
        STORE_QUEUE.remove(runs)
        with context.open_database() as database:
            for done in ingest_pending(context.data_dir, database, runs):
                _report(context, done)
                refused += [done] if isinstance(done, JournalError) else []
            if STORE_QUEUE:
                return refused
            for done in ingest_pending(context.data_dir, database):
                _report(context, done)
                if STORE_QUEUE:
                    break
    return refused


def _report(context: JobContext, done: IngestResult | JournalError) -> None:
    if isinstance(done, JournalError):
        context.say(f"{done}; it is skipped")
