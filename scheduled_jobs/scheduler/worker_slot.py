"""One worker slot of a host: runs one task at a time, in a thread of its own."""

import threading
import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from configuration.errors import ConfigurationError
from db.errors import DatabaseError, DatabaseUnavailable, SchemaTooNew
from records.tasks import Task, TaskState
from runner.errors import RunnerError
from workflows.errors import JobError

from ..jobs.context import ChildLost, Job, JobContext, JobResult, Stopped
from .hosts import Host


@dataclass(frozen=True, slots=True)
class Lost:
    """An attempt that failed for reasons outside the task; the task is tried again."""

    detail: str


@dataclass(frozen=True, slots=True)
class Released:
    """An attempt that was stopped and is given back to the queue."""


#: The function of each job, by name.
Registry = Mapping[str, Job]

#: How an attempt ended.
Ending = JobResult | Lost | Released


@dataclass(slots=True)
class RunningTask:
    """An attempt at a task on a host while it runs. `ending` is None until it is over.

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
        #: The token of a claim without an answer: repeated with it, the claim has the same answer.
        self.claiming: str | None = None

    def begin(self, work: RunningTask, job: Job, context: JobContext, ended: Callable[[], None]) -> None:
        """Start an attempt; `ended` is called, from another thread, when it is over."""
        self.work = work

        def attempt() -> None:
            try:
                work.ending = _ending(job, work.task, context)
            finally:
                ended()

        # A daemon: what does not let go must not keep a process that ends.
        threading.Thread(target=attempt, name=self.name, daemon=True).start()


def _ending(job: Job, task: Task, context: JobContext) -> Ending:
    try:
        return job(task, context)
    except Stopped:
        return Released()
    except (ChildLost, DatabaseUnavailable, SchemaTooNew) as error:
        return Lost(str(error))
    except (ConfigurationError, DatabaseError, JobError, RunnerError) as error:
        return JobResult(TaskState.FAILED, error=str(error))
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return JobResult(TaskState.FAILED, error=f"{error.strerror or error}{where}")
    except Exception as error:
        # A defect in one job must not end the service, and must not be lost either.
        context.say(traceback.format_exc())
        return JobResult(TaskState.FAILED, error=f"a defect in Pyrometer: {type(error).__name__}: {error}")
