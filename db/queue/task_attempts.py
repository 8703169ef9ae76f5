"""What attempts at tasks say of themselves while they last, and how long those at a task took together."""

from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import select, update

from ..connection.engine import Database
from ..connection.statements import in_batches
from ..schema import queue_tables

_ATTEMPT = queue_tables.Attempt


def say(database: Database, token: str, sentence: str) -> bool:
    """Note what an attempt waits for, empty for nothing any more; false where it is over."""
    running = (_ATTEMPT.token == token, _ATTEMPT.ended == "")
    with database.writing() as connection:
        said = update(_ATTEMPT).where(*running).values(detail=sentence)
        return connection.execute(said).rowcount == 1


def said(database: Database, tasks: Collection[int]) -> dict[int, str]:
    """By task, what its running attempt waits for; without those that wait for nothing."""
    query = select(_ATTEMPT.task_id, _ATTEMPT.detail).where(_ATTEMPT.ended == "", _ATTEMPT.detail != "")
    found: dict[int, str] = {}
    with database.reading() as connection:
        for some in in_batches(sorted(set(tasks))):
            waiting = query.where(_ATTEMPT.task_id.in_(some)).order_by(_ATTEMPT.task_id, _ATTEMPT.number)
            found |= {task: detail for task, detail in connection.execute(waiting)}
    return found


def spent(database: Database, tasks: Collection[int]) -> dict[int, tuple[float, int]]:
    """By task, the seconds of all attempts at it that are over, and how many those are; without others.

    An attempt that was lost lasted until it was given up, which may be later than its end.
    """
    seconds: dict[int, list[float]] = defaultdict(list)
    times = (_ATTEMPT.task_id, _ATTEMPT.started_at, _ATTEMPT.ended_at)
    with database.reading() as connection:
        for some in in_batches(sorted(set(tasks))):
            query = select(*times).where(_ATTEMPT.task_id.in_(some), _ATTEMPT.ended_at.is_not(None))
            for task, started_at, ended_at in connection.execute(query):
                assert ended_at is not None
                seconds[task].append((ended_at - started_at).total_seconds())
    return {task: (sum(each), len(each)) for task, each in seconds.items()}
