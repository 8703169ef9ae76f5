"""Two who schedule with one database: whatever both do at the same moment is done once."""

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest

from db.connection.engine import Database, open_database
from db.queue import commands as queue
from db.queue import queries as queue_queries
from records.tasks import NewTask
from support.builders.run_records import a_night

NOW = a_night(0)
MANY = 60

#: A scheduler that plans what the other plans too, from the other end, and then takes what it can get.
SCHEDULER = """
import json, sys
from datetime import datetime, timedelta

from db.queue import commands as queue
from db.connection.engine import open_database
from records.tasks import NewTask

url, owner, now, many, step = sys.argv[1:]
now, many = datetime.fromisoformat(now), int(many)
with open_database(url, create=False, timeout=60) as database:
    print("ready", flush=True)
    sys.stdin.readline()
    planned = []
    for minute in range(many)[:: int(step)]:
        due_at = now + timedelta(minutes=minute)
        task = NewTask("", "measure", {"by": owner})
        planned.append(queue.plan_run(database, "nightly", due_at, "timetable", [task], now))
    taken = []
    while task := queue.claim(
        database, owner=owner, labels=(), jobs=("measure",), token=f"{owner}-{len(taken)}", now=now
    ):
        taken.append(task.id)
    tokens = [f"{owner}-{number}" for number in range(len(taken))]
    ended = [queue.finish(database, token, "done", {"by": owner}, "", now) for token in tokens]
print(json.dumps([sum(planned), taken, all(ended)]))
"""


def _scheduler(url: str, owner: str, step: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCHEDULER, url, owner, NOW.isoformat(), str(MANY), str(step)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_processes_plan_and_take_every_task_once(url: str, database: Database) -> None:
    both = [_scheduler(url, "one", 1), _scheduler(url, "other", -1)]
    for each in both:
        assert each.stdout is not None and each.stdout.readline() == "ready\n"
    for each in both:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    (planned, taken, ended), (planned_too, taken_too, ended_too) = (
        json.loads(each.communicate(timeout=120)[0]) for each in both
    )
    assert planned + planned_too == MANY and ended and ended_too
    tasks = queue_queries.tasks(database, newest=2 * MANY)
    assert sorted(taken + taken_too) == sorted(each.id for each in tasks) and len(tasks) == MANY
    for each in tasks:
        by = "one" if each.id in taken else "other"
        assert (each.state, each.owner, each.result, each.attempts) == ("done", by, {"by": by}, 1)
        assert [attempt.ended for attempt in queue_queries.attempts(database, each.id)] == ["done"]


def _at_once(url: str, *calls: Callable[[Database], list[str]]) -> list[list[str]]:
    """What calls answer that begin together, each in a thread with a database of its own."""
    barrier = Barrier(len(calls))

    def call(what: Callable[[Database], list[str]]) -> list[str]:
        with open_database(url, timeout=60) as database:
            barrier.wait()
            return what(database)

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(call, calls))


def test_an_end_and_a_loss_at_the_same_moment_are_one_of_them(url: str, database: Database) -> None:
    for minute in range(MANY):
        due_at = NOW + timedelta(minutes=minute)
        queue.plan_run(database, "nightly", due_at, "timetable", [NewTask("", "measure", {})], NOW)
        token = f"token-{minute}"
        assert queue.claim(database, owner="one", labels=(), jobs=["measure"], token=token, now=NOW)

    def finish(mine: Database) -> list[str]:
        return [str(queue.finish(mine, f"token-{n}", "done", {"n": n}, "", NOW)) for n in range(MANY)]

    def lose(mine: Database) -> list[str]:
        backwards = [str(queue.lose(mine, f"token-{n}", "gone", NOW, 3)) for n in reversed(range(MANY))]
        return backwards[::-1]

    finished, lost = _at_once(url, finish, lose)
    assert set(zip(finished, lost, strict=True)) <= {("True", "None"), ("False", "waiting")}
    tasks = queue_queries.tasks(database, newest=MANY)[::-1]
    expected = [
        ("done", {"n": n}, ["done"]) if done == "True" else ("waiting", {}, ["stale"])
        for n, done in enumerate(finished)
    ]
    assert expected == [
        (each.state, each.result, [one.ended for one in queue_queries.attempts(database, each.id)])
        for each in tasks
    ]
