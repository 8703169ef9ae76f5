"""Record how an attempt ended: done, with its follow-ups; lost; or returned to the queue."""

from datetime import datetime

from db.connection.engine import Database
from db.errors import DatabaseError, DatabaseUnavailable
from db.queue.commands import beat, finish, lose, plan_run, release
from records.tasks import Task, TaskState

from ..jobs.context import FollowUp, JobResult
from .log import Log
from .planner import FOLLOW_UP, plan_now
from .worker_pool import LostAttempt, ReleasedAttempt, RunningTask

#: An attempt that infrastructure lost is followed by another, until a task had so many: the second at once,
#: the others after 4, 8 and 16 minutes.
MOST_ATTEMPTS = 5


def record_result(database: Database, work: RunningTask, now: datetime, log: Log) -> None:
    """Store the result of an attempt. Raises DatabaseError, and may then be called again."""
    if isinstance(work.ending, JobResult):
        _close(database, work, work.ending, now, log)
    elif isinstance(work.ending, LostAttempt) and not work.fenced:
        give_up(database, work.task, work.token, work.ending.detail, now, log)
    elif (
        isinstance(work.ending, ReleasedAttempt)
        and not work.fenced
        # One that was given up meanwhile is no longer ours to give back.
        and release(database, work.token, "the service was stopped", now)
    ):
        log("released", about=task_details(work.task))


def give_up(database: Database, task: Task, token: str, detail: str, now: datetime, log: Log) -> None:
    """Give up a lost attempt, so that another one follows, unless that was done already."""
    state = lose(database, token, detail, now, MOST_ATTEMPTS)
    if state is not None:
        log("lost", detail, task_details(task) | {"state": state}, "warning")


def task_details(task: Task) -> dict[str, object]:
    """The fields of an event about a task."""
    return {
        "schedule": task.schedule,
        "task": task.id,
        "part": task.part,
        "job": task.job,
        "run": task.run_id,
    }


def run_details(schedule: str, due_at: datetime, kind: str, count: int) -> dict[str, object]:
    """The fields of an event about a scheduled run."""
    return {"schedule": schedule, "due_at": due_at.isoformat(), "kind": kind, "tasks": count}


def _close(database: Database, work: RunningTask, done: JobResult, now: datetime, log: Log) -> None:
    # Checked before anything is enqueued: a lost attempt must not enqueue follow-ups.
    if work.fenced or not beat(database, work.token):
        finish(database, work.token, done.state, done.result, done.error, now)
        log("stale", "it was given up before it came back", task_details(work.task), "warning")
        return
    try:
        for follow_up in done.follow_ups[work.enqueued :]:
            _enqueue(database, follow_up, now, log)
            work.enqueued += 1
    except DatabaseUnavailable:
        raise
    except DatabaseError as error:
        # Refused once, it is refused always: the slot must not wait for it.
        done = JobResult(TaskState.FAILED, done.result, f"its follow-up tasks cannot be enqueued: {error}")
    is_stored = finish(database, work.token, done.state, done.result, done.error, now)
    level = "info" if done.state == TaskState.DONE else "error"
    text = done.error or str(done.result.get("summary", ""))
    named = task_details(work.task) | {"state": done.state, "run": done.result.get("run")}
    log("ended" if is_stored else "stale", text, named, level)


def _enqueue(database: Database, follow_up: FollowUp, now: datetime, log: Log) -> None:
    moment, name = follow_up.due_at, follow_up.schedule
    if moment is None:
        # Two tasks can end in one moment; neither may swallow what follows from the other.
        moment = plan_now(database, name, FOLLOW_UP, follow_up.tasks, now)
    elif not plan_run(database, name, moment, FOLLOW_UP, follow_up.tasks, now):
        return
    log("planned", about=run_details(name, moment, FOLLOW_UP, len(follow_up.tasks)))
