"""One lane of a place: does one task after the other, in a thread of its own, and says how each ended."""

import threading
import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from configuration.errors import ConfigurationError
from db.errors import DatabaseError, DatabaseUnavailable, SchemaTooNew
from records.tasks import Task
from runner.errors import RunnerError
from workflows.errors import JobError

from ..jobs.context import ChildLost, Job, JobContext, JobResult, Stopped
from .hosts import Host


@dataclass(frozen=True, slots=True)
class Lost:
    """An attempt that came to nothing through nobody's fault; the task is tried again."""

    detail: str


@dataclass(frozen=True, slots=True)
class Released:
    """An attempt that was stopped."""


#: Who does which job.
Registry = Mapping[str, Job]

#: How an attempt ended.
Ending = JobResult | Lost | Released


@dataclass(slots=True)
class RunningTask:
    """An attempt at a task while it lasts, and the place it is made at. `ending` is None until it is over.

    Setting `stop` asks the job to let go. `fenced` is an attempt that is no longer ours: what it came to is
    nobody's business. `enqueued` counts the follow-ups that are in the database.
    """

    task: Task
    token: str
    place: Host
    stop: threading.Event = field(default_factory=threading.Event)
    ending: Ending | None = None
    fenced: bool = False
    enqueued: int = 0


class WorkerSlot:
    """Holds at most one attempt at a time. `jobs` names what it takes."""

    def __init__(self, name: str, jobs: Collection[str]) -> None:
        self.name = name
        self.jobs = frozenset(jobs)
        self.work: RunningTask | None = None
        #: The token of a claim that was not answered: asked again under it, it is answered the same.
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
        return JobResult("failed", error=str(error))
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return JobResult("failed", error=f"{error.strerror or error}{where}")
    except Exception as error:
        # A defect in one job must not end the service, and must not be lost either.
        context.say(traceback.format_exc())
        return JobResult("failed", error=f"a defect in Pyrometer: {type(error).__name__}: {error}")
