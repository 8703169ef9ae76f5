"""Writes of scheduled runs, tasks and attempts. Each can be repeated, or is fenced by the token of the
attempt.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, and_, delete, exists, func, insert, or_, select, update

from records.json_values import LONGEST_SENTENCE, Facts, bounded_text
from records.tasks import SUPERSEDED, NewTask, SchedulerSeen, Task, TaskState, machine_of

from ..connection.engine import Database
from ..connection.statements import begins_with, in_batches, insert_for, insert_or_replace
from ..schema import queue_tables
from .queries import task_of

Values = dict[str, Any]

_SCHEDULED_RUN, _TASK, _ATTEMPT = queue_tables.ScheduledRunRow, queue_tables.TaskRow, queue_tables.AttemptRow

#: The longest delay before a task that was lost more than once can be claimed, in minutes.
_LONGEST_REST_MINUTES = 60


def plan_run(
    database: Database, schedule: str, due_at: datetime, kind: str, tasks: Sequence[NewTask], now: datetime
) -> bool:
    """Store a scheduled run with its tasks; False, without a change, if its fire time is stored already."""
    new_run = (
        insert_for(database.engine.dialect.name, _SCHEDULED_RUN)
        .on_conflict_do_nothing()
        .returning(_SCHEDULED_RUN.kind)
    )
    values = {"schedule": schedule, "due_at": due_at, "kind": kind, "made_at": now}
    with database.writing() as connection:
        if connection.execute(new_run, values).first() is None:
            return False
        if tasks:
            connection.execute(insert(_TASK), [_new_task(schedule, due_at, each) for each in tasks])
    return True


def withdraw_missed(database: Database, schedule: str, after: datetime) -> int:
    """Delete the `missed` runs of a schedule with a fire time later than `after`; returns their number.

    Used when the clock was set back: those fire times are in the future again.
    """
    too_early = delete(_SCHEDULED_RUN).where(
        _SCHEDULED_RUN.schedule == schedule, _SCHEDULED_RUN.kind == "missed", _SCHEDULED_RUN.due_at > after
    )
    with database.writing() as connection:
        return connection.execute(too_early).rowcount


def claim(
    database: Database,
    *,
    owner: str,
    labels: Collection[str],
    jobs: Collection[str],
    token: str,
    now: datetime,
) -> Task | None:
    """Claim the task that has been due longest, among these jobs, for any machine or one of these labels.

    Tasks whose run was begun on the owner's machine come first: only this machine can resume them. The task
    becomes `running` under `token`, with a new attempt. A repeated call with the same token returns the same
    task while that attempt owns it. Returns None if no task waits. Concurrent callers get different tasks.
    """
    with database.writing() as connection:
        tried = select(_ATTEMPT.task_id).where(_ATTEMPT.token == token)
        if connection.execute(tried).first() is not None:
            row = connection.execute(select(_TASK).where(_TASK.token == token)).mappings().first()
            return None if row is None else task_of(row)
        task_id = connection.execute(_next_waiting(machine_of(owner), labels, jobs, now)).scalar()
        if task_id is None:
            return None
        changes: Values = {"state": TaskState.RUNNING, "token": token, "owner": owner, "started_at": now}
        # The claim is also a heartbeat: a new attempt must not look like an old one that hangs.
        counted: Values = {"attempts": _TASK.attempts + 1, "beats": _TASK.beats + 1}
        claimed = update(_TASK).where(_TASK.id == task_id).values(changes | counted).returning(_TASK)
        task = task_of(connection.execute(claimed).mappings().one())
        # Not from the count of the task, which leaves out attempts that were returned: they have numbers too.
        number = select(func.coalesce(func.max(_ATTEMPT.number), 0) + 1).where(_ATTEMPT.task_id == task_id)
        attempt: Values = {
            "task_id": task_id,
            "number": connection.execute(number).scalar_one(),
            "token": token,
            "owner": owner,
            "started_at": now,
            "ended": "",
            "detail": "",
        }
        connection.execute(insert(_ATTEMPT), attempt)
    return task


def set_run(database: Database, token: str, run_id: str) -> bool:
    """Record which run the attempt measures; False if the attempt no longer owns its task."""
    with database.writing() as connection:
        is_owner = _change(connection, token, {"run_id": run_id})
        if is_owner:
            _note(connection, token, {"run_id": run_id})
    return is_owner


def beat_all(database: Database, tokens: Collection[str]) -> frozenset[str]:
    """Record a heartbeat of these attempts in one statement; returns those that still own their tasks."""
    owners: set[str] = set()
    if not tokens:
        return frozenset()
    with database.writing() as connection:
        for some in in_batches(sorted(tokens)):
            beaten = update(_TASK).where(_TASK.token.in_(some)).values(beats=_TASK.beats + 1)
            owners |= {
                token for token in connection.execute(beaten.returning(_TASK.token)).scalars() if token
            }
    return frozenset(owners)


def finish(
    database: Database, token: str, state: TaskState, result: Facts, error: str, now: datetime
) -> bool:
    """End the task of this attempt as `done` or `failed`; a repeated call changes nothing and returns True.

    Of a long `error` both ends are stored. Returns False if the attempt no longer owns its task: the result
    is discarded, and the attempt is marked `stale`. Raises ValueError for another state.
    """
    if state not in (TaskState.DONE, TaskState.FAILED):
        raise ValueError(f"{state!r} is not an end state of an attempted task")
    error = bounded_text(error, LONGEST_SENTENCE, "the log of the scheduler has the whole text")
    over: Values = {"state": state, "token": None, "result": dict(result), "error": error, "ended_at": now}
    with database.writing() as connection:
        if _change(connection, token, over):
            _note(connection, token, {"ended": state, "ended_at": now, "detail": error})
            return True
        ended = connection.execute(select(_ATTEMPT.ended).where(_ATTEMPT.token == token)).scalar()
        if ended not in ("done", "failed"):
            _note(connection, token, {"ended": "stale", "detail": f"came back {state} when it was {ended}"})
        return ended == state


def release(database: Database, token: str, detail: str, now: datetime) -> bool:
    """Return an unfinished task to the queue: it keeps its run, and the attempt is not counted."""
    waiting = _waiting_values() | {"attempts": _TASK.attempts - 1}
    with database.writing() as connection:
        is_owner = _change(connection, token, waiting)
        if is_owner:
            _note(connection, token, {"ended": "released", "ended_at": now, "detail": detail})
    return is_owner


def lose(database: Database, token: str, detail: str, now: datetime, most: int) -> TaskState | None:
    """Give up an attempt whose owner disappeared: its task waits again, or is `lost` after `most` attempts.

    From the second loss on, the task cannot be claimed for some minutes, twice as long each time. Returns the
    task's new state; None if the attempt no longer owns its task.
    """
    with database.writing() as connection:
        count = select(_TASK.attempts).where(_TASK.token == token).with_for_update()
        attempts = connection.execute(count).scalar()
        if attempts is None:
            return None
        lost: Values = {"state": TaskState.LOST, "token": None, "ended_at": now, "error": detail}
        changes = lost if attempts >= most else _waiting_values() | _rest(attempts, now)
        _change(connection, token, changes)
        _note(connection, token, {"ended": "lost", "ended_at": now, "detail": detail})
    return TaskState(changes["state"])


def cancel(database: Database, task_id: int, now: datetime) -> bool:
    """Cancel a task that waits or runs; False if it has ended. A running attempt notices at its heartbeat."""
    with database.writing() as connection:
        found = select(_TASK.token).where(
            _TASK.id == task_id, _TASK.state.in_((TaskState.WAITING, TaskState.RUNNING))
        )
        row = connection.execute(found.with_for_update()).first()
        if row is None:
            return False
        over: Values = {"state": TaskState.CANCELLED, "token": None, "ended_at": now}
        connection.execute(update(_TASK).where(_TASK.id == task_id).values(over))
        if row.token is not None:
            _note(connection, row.token, {"ended": "cancelled", "ended_at": now})
    return True


def supersede(database: Database, schedule: str, before: datetime, now: datetime) -> int:
    """Cancel the tasks of a schedule's earlier runs that have not started; returns their number.

    A later run replaces them: a machine that was off for several nights catches up one of them, not all.
    Tasks that were triggered by hand and tasks that have a measured run keep waiting.
    """
    planned = select(_SCHEDULED_RUN.due_at).where(
        _SCHEDULED_RUN.schedule == schedule,
        _SCHEDULED_RUN.due_at < before,
        _SCHEDULED_RUN.kind.in_(("timetable", "caught up")),
    )
    waits = (_TASK.schedule == schedule, _TASK.state == TaskState.WAITING, _TASK.run_id.is_(None))
    over: Values = {"state": TaskState.CANCELLED, "ended_at": now, "error": SUPERSEDED}
    with database.writing() as connection:
        statement = update(_TASK).where(*waits, _TASK.due_at.in_(planned)).values(over)
        return connection.execute(statement).rowcount


def seen_all(database: Database, schedulers: Sequence[SchedulerSeen]) -> None:
    """Store the reports of schedulers, replacing their former ones; each owner once."""
    table = queue_tables.SchedulerRow
    names = table.__table__.columns.keys()
    rows = [
        {name: getattr(each, name) for name in names} | {"facts": dict(each.facts)} for each in schedulers
    ]
    with database.writing() as connection:
        insert_or_replace(connection, table, rows, ["owner"])


def gone_all(database: Database, owners: Collection[str]) -> None:
    """Unregister schedulers that have stopped."""
    table = queue_tables.SchedulerRow
    with database.writing() as connection:
        for some in in_batches(sorted(owners)):
            connection.execute(delete(table).where(table.owner.in_(some)))


def _new_task(schedule: str, due_at: datetime, task: NewTask) -> Values:
    return {
        "schedule": schedule,
        "due_at": due_at,
        "part": task.part,
        "job": task.job,
        "spec": dict(task.spec),
        "label": task.label,
        "state": TaskState.WAITING,
        "attempts": 0,
        "beats": 0,
        "not_before": task.not_before,
        "result": {},
        "error": "",
    }


def _next_waiting(machine: str, labels: Collection[str], jobs: Collection[str], now: datetime) -> Select[int]:
    """The id of the task to claim; on Postgres its row is locked, and rows locked by others are skipped."""
    by_machine = begins_with(_ATTEMPT.owner, f"{machine}/")
    begun = exists().where(_ATTEMPT.task_id == _TASK.id, _ATTEMPT.run_id == _TASK.run_id, by_machine)
    # Looked up only for the few tasks that have a run.
    first = and_(_TASK.run_id.is_not(None), begun.correlate(_TASK))
    return (
        select(_TASK.id)
        .where(
            _TASK.state == TaskState.WAITING,
            _TASK.label.in_({"", *labels}),
            _TASK.job.in_(jobs),
            or_(_TASK.not_before.is_(None), _TASK.not_before <= now),
        )
        .order_by(first.desc(), _TASK.due_at, _TASK.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )


def _waiting_values() -> Values:
    """The values that make a task wait again; it keeps its run, to be resumed."""
    return {"state": TaskState.WAITING, "token": None, "owner": None, "started_at": None}


def _rest(attempts: int, now: datetime) -> Values:
    """The time from which a lost task may be claimed again: at once after the first loss, because usually one
    machine died.

    The later delays prevent a cause that all machines share from using up all attempts within seconds.
    """
    if attempts < 2:
        return {}
    return {"not_before": now + timedelta(minutes=min(2**attempts, _LONGEST_REST_MINUTES))}


def _change(connection: Connection, token: str, values: Values) -> bool:
    """Update the task that the attempt with this token owns; returns whether there is one."""
    changed = connection.execute(update(_TASK).where(_TASK.token == token).values(values))
    return changed.rowcount == 1


def _note(connection: Connection, token: str, values: Values) -> None:
    """Update an attempt."""
    connection.execute(update(_ATTEMPT).where(_ATTEMPT.token == token).values(values))


def set_wait_reason(database: Database, token: str, sentence: str) -> bool:
    """Record what an attempt waits for, empty for nothing; False if the attempt has ended."""
    running = (_ATTEMPT.token == token, _ATTEMPT.ended == "")
    with database.writing() as connection:
        changed = update(_ATTEMPT).where(*running).values(detail=sentence)
        return connection.execute(changed).rowcount == 1
