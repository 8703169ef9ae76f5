"""What waits in the queue: the oldest of it first, how much more there is, what waited and does no longer."""

from datetime import timedelta
from typing import Any

from db.connection.engine import Database
from db.queue import commands as queue
from db.queue import queries as queue_queries
from records.tasks import NewTask
from support.builders.run_records import a_night


def test_waiting_tasks_are_listed_oldest_first_and_the_rest_counted(database: Database) -> None:
    tasks = (NewTask("a", "measure", {}, "h200"), NewTask("b", "detect", {}))
    for night in (1, 0, 2):
        assert queue.plan_run(database, "nightly", a_night(night), "timetable", tasks, a_night(night))
    about = {"owner": "one", "labels": ["h200"], "jobs": ["measure"]}
    assert queue.claim(database, token="token", now=a_night(2), **about) is not None

    def listed(**how: Any) -> tuple[list[tuple[int, str]], int]:
        found, more = queue_queries.waiting_tasks(database, **how)
        return [((each.due_at - a_night(0)).days, each.part) for each in found], more

    assert listed(oldest=2) == ([(0, "b"), (1, "a")], 3)
    assert listed() == ([(0, "b"), (1, "a"), (1, "b"), (2, "a"), (2, "b")], 0)
    assert listed(labels=["h200", "a10"], oldest=1) == ([(1, "a")], 1)
    assert listed(labels=[""]) == ([(0, "b"), (1, "b"), (2, "b")], 0) and listed(labels=[]) == ([], 0)


def test_machines_whose_names_differ_in_a_capital_letter_are_two(database: Database) -> None:
    tasks = [NewTask(part, "measure", {}) for part in ("first", "begun")]
    queue.plan_run(database, "nightly", a_night(0), "timetable", tasks, a_night(0))
    about = {"labels": [], "jobs": ["measure"], "now": a_night(0)}
    for token in ("one", "two"):
        assert queue.claim(database, owner="bench/1", token=token, **about) is not None
    assert queue.set_run(database, "two", "run-1")
    for token in ("one", "two"):
        assert queue.release(database, token, "stopped", a_night(0))
    taken = [queue.claim(database, owner=f"{name}/2", token=name, **about) for name in ("Bench", "bench")]
    assert [task and task.part for task in taken] == ["first", "begun"]


def test_superseded_is_what_a_later_one_stands_for_and_not_what_people_cancelled(database: Database) -> None:
    for night in range(3):
        task = NewTask("a", "measure", {})
        assert queue.plan_run(database, "nightly", a_night(night), "timetable", [task], a_night(night))
    newest, cancelled, _ = queue_queries.tasks(database)
    assert queue.cancel(database, cancelled.id, a_night(2))
    assert queue.supersede(database, "nightly", newest.due_at, a_night(2)) == 1
    for found in (
        queue_queries.tasks(database),
        queue_queries.night_tasks(database, a_night(0), a_night(9), 9),
    ):
        assert [(one.state, one.superseded) for one in found] == [
            ("waiting", False),
            ("cancelled", False),
            ("cancelled", True),
        ]


def test_when_each_part_was_last_taken_up(database: Database) -> None:
    parts = ("done", "lost", "released", "running", "never")

    def due(schedule: str, night: int) -> None:
        new = [NewTask(part, "measure", {}, part) for part in parts]
        assert queue.plan_run(database, schedule, a_night(night), "timetable", new, a_night(night))
        queue.supersede(database, schedule, a_night(night), a_night(night))

    def taken_up(*labels: str, night: int) -> None:
        now = a_night(night) + timedelta(hours=1)
        for label in labels:
            about = {"owner": "one/1", "jobs": ["measure"], "token": f"{night} {label}"}
            assert queue.claim(database, labels=[label], now=now, **about) is not None

    due("nightly", 0)
    taken_up("done", "lost", "released", night=0)
    for token in ("0 done", "0 lost", "0 released"):
        assert queue.finish(database, token, "done", {}, "", a_night(0))
    due("nightly", 1)
    taken_up("done", "lost", "released", "running", night=1)
    assert queue.finish(database, "1 done", "failed", {}, "it cannot be built", a_night(1))
    assert queue.lose(database, "1 lost", "its scheduler died", a_night(1), most=5) == "waiting"
    assert queue.release(database, "1 released", "stopped", a_night(1))
    due("nightly", 2)
    due("another", 3)
    taken_up("never", night=3)
    first, second = (a_night(night) + timedelta(hours=1) for night in (0, 1))
    # Of a lost task only its due moment is known; a released one had not begun.
    assert queue_queries.last_taken_up(database, "nightly") == {
        "done": second,
        "lost": a_night(1),
        "released": first,
        "running": second,
        "never": a_night(3) + timedelta(hours=1),
    }
    assert queue_queries.last_taken_up(database, "another") == {}


def test_not_started_lists_the_newest_and_the_oldest_since_the_last_start(database: Database) -> None:
    parts = {"a": "", "b": "h200", "c": "a10", "d": "none"}
    about = {"owner": "one", "jobs": ["measure"], "now": a_night(9)}

    def due(night: int) -> None:
        new = [NewTask(part, "measure", {}, label) for part, label in parts.items()]
        new.append(NewTask("other", "detect", {}))
        assert queue.plan_run(database, "nightly", a_night(night), "timetable", new, a_night(night))
        queue.supersede(database, "nightly", a_night(night), a_night(night))

    def found() -> list[tuple[str, int, str]]:
        listed = queue_queries.not_started(database, "measure")
        return sorted((each.part, (each.due_at - a_night(0)).days, each.state) for each in listed)

    assert found() == []
    due(0)
    assert found() == [(part, 0, "waiting") for part in parts]
    due(1)
    for part, label in (("a", "mine"), ("b", "h200")):
        assert queue.claim(database, labels=[label], token=part, **about) is not None
    assert queue.finish(database, "a", "failed", {}, "away", a_night(1))
    # One that was begun and waits again was begun.
    assert queue.lose(database, "b", "gone", a_night(1), 3) == "waiting"
    silent = [("c", 0, "cancelled"), ("c", 1, "waiting"), ("d", 0, "cancelled"), ("d", 1, "waiting")]
    assert found() == silent
    for night in (2, 3):
        due(night)
    dropped = next(each for each in queue_queries.tasks(database, newest=9) if each.part == "d")
    assert queue.cancel(database, dropped.id, a_night(3))
    assert found() == [
        *(("a", 2, "cancelled"), ("a", 3, "waiting")),
        *(("b", 2, "cancelled"), ("b", 3, "waiting")),
        *(("c", 0, "cancelled"), ("c", 3, "waiting")),
    ]
