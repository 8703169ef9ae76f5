"""Scheduled runs, tasks, attempts: each run once, one attempt at a time, a late write is refused."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from db.admin import prune
from db.connection.engine import Database
from db.errors import DatabaseError
from db.queue import commands as queue
from db.queue import queries as queue_queries
from records.json_values import LONGEST_SENTENCE
from records.tasks import NewTask, SchedulerSeen, Task, TaskAttempt
from support.builders.run_records import a_night

NOW = a_night(0)
LATER = NOW + timedelta(minutes=5)
SPEC = {"track": "nightly", "suite": "cpu"}


def plan(
    database: Database,
    *tasks: NewTask,
    schedule: str = "nightly",
    due_at: datetime = NOW,
    kind: str = "timetable",
) -> list[Task]:
    """A scheduled run; answers its tasks."""
    assert queue.plan_run(database, schedule, due_at, kind, tasks or [NewTask("", "measure", SPEC)], NOW)
    return list(queue_queries.scheduled_runs(database, schedule, 1)[0].tasks)


def claim(
    database: Database,
    token: str = "token-1",
    *,
    owner: str = "owner-1",
    labels: Collection[str] = (),
    jobs: Collection[str] = ("measure",),
    now: datetime = NOW,
) -> Task | None:
    """A claim as the measuring lane makes it."""
    return queue.claim(database, owner=owner, labels=labels, jobs=jobs, token=token, now=now)


def only(database: Database) -> Task:
    """The one task there is."""
    (task,) = queue_queries.tasks(database)
    return task


def ends(database: Database) -> list[tuple[int, str, str]]:
    """How the attempts at the one task ended."""
    found = queue_queries.attempts(database, only(database).id)
    return [(each.number, each.token, each.ended) for each in found]


def test_a_run_is_planned_once_with_its_tasks(database: Database) -> None:
    tasks = [NewTask("nightly@h200", "measure", SPEC, "h200"), NewTask("tidy", "prune", {}, not_before=LATER)]
    assert queue.plan_run(database, "nightly", NOW, "timetable", tasks, LATER)
    assert not queue.plan_run(database, "nightly", NOW, "by hand", [NewTask("more", "measure", {})], NOW)
    (run,) = queue_queries.scheduled_runs(database, "nightly")
    assert (run.schedule, run.due_at, run.kind, run.made_at) == ("nightly", NOW, "timetable", LATER)
    first, second = run.tasks
    assert first == Task(
        first.id, "nightly", NOW, "nightly@h200", "measure", SPEC, "h200", "waiting", attempts=0
    )
    assert (second.part, second.job, second.label, second.not_before) == ("tidy", "prune", "", LATER)
    assert queue.plan_run(database, "other", NOW, "timetable", [], NOW), "another schedule, another run"


def test_a_run_with_an_impossible_task_is_not_stored_at_all(database: Database) -> None:
    twins = [NewTask("same", "measure", SPEC), NewTask("same", "measure", SPEC)]
    with pytest.raises(DatabaseError):
        queue.plan_run(database, "nightly", NOW, "timetable", twins, NOW)
    assert queue_queries.scheduled_runs(database, "nightly") == []
    assert queue.plan_run(database, "nightly", NOW, "timetable", twins[:1], NOW)


def test_missed_moments_are_taken_back_when_the_clock_is(database: Database) -> None:
    for night, kind in ((0, "missed"), (1, "missed"), (2, "missed"), (3, "timetable")):
        queue.plan_run(database, "nightly", a_night(night), kind, [], NOW)
    queue.plan_run(database, "other", a_night(3), "missed", [], NOW)
    assert queue.withdraw_missed(database, "nightly", a_night(0)) == 2
    assert queue.withdraw_missed(database, "nightly", a_night(0)) == 0
    left = [(each.due_at, each.kind) for each in queue_queries.scheduled_runs(database, "nightly")]
    assert left == [(a_night(3), "timetable"), (a_night(0), "missed")]
    assert queue_queries.last_due(database) == {"nightly": a_night(3), "other": a_night(3)}


def test_a_manual_task_does_not_change_the_timetable(database: Database) -> None:
    for night, kind in enumerate(("caught up", "by hand", "follow-up")):
        plan(database, due_at=a_night(night), kind=kind)
    assert queue_queries.last_due(database) == {"nightly": a_night(0)}


def test_the_task_that_is_due_longest_is_taken_first(database: Database) -> None:
    plan(database, schedule="late", due_at=a_night(2))
    plan(database, NewTask("b", "measure", SPEC), NewTask("a", "measure", SPEC), due_at=a_night(1))
    plan(database, NewTask("", "prune", {}), schedule="tidy", due_at=a_night(0))
    taken = [claim(database, f"token-{number}") for number in range(4)]
    assert [task and (task.schedule, task.part) for task in taken] == [
        ("nightly", "b"),
        ("nightly", "a"),
        ("late", ""),
        None,
    ]
    assert [task.job for task in queue_queries.tasks(database, state="waiting")] == ["prune"]


def test_a_claimed_task_is_its_owners(database: Database) -> None:
    (planned,) = plan(database)
    plan(database, due_at=a_night(9))
    task = claim(database, now=LATER)
    assert task is not None and task == queue_queries.task(database, planned.id)
    assert (task.state, task.owner, task.token, task.attempts) == ("running", "owner-1", "token-1", 1)
    assert task.started_at == LATER and task.ended_at is None and task.beats > planned.beats
    assert queue_queries.running_tasks(database) == [task]
    assert claim(database) == task, "a claim whose answer was lost is asked again"
    assert queue_queries.attempts(database, task.id) == [
        TaskAttempt(task.id, 1, "token-1", "owner-1", LATER, None, "", "")
    ]
    assert queue.lose(database, "token-1", "never begun", LATER, 3) == "waiting"
    assert claim(database) is None, "an attempt that is over is not begun again"
    again = claim(database, "token-2")
    assert again is not None and again.id == task.id


def test_only_a_machine_that_is_meant_takes_a_task(database: Database) -> None:
    plan(database, NewTask("", "measure", SPEC, "h200"))
    assert claim(database) is None and claim(database, labels=["a10", "bench-1"]) is None
    assert claim(database, jobs=[]) is None and claim(database, jobs={"detect"}, labels={"h200"}) is None
    assert claim(database, labels={"a10", "h200"}) is not None


def test_nothing_is_taken_before_its_time(database: Database) -> None:
    plan(database, NewTask("", "measure", SPEC, not_before=LATER))
    assert claim(database, now=LATER - timedelta(microseconds=1)) is None
    assert claim(database, now=LATER) is not None


def test_what_was_begun_on_a_machine_is_gone_on_with_there_before_anything_else(database: Database) -> None:
    # Names that a pattern of SQL would take for one another.
    machines = ("h_1", "hx1", "h_10")
    plan(database, due_at=a_night(0))
    plan(database, *(NewTask(part, "measure", SPEC) for part in machines), due_at=a_night(1))
    claim(database, "first")
    for machine in machines:
        claim(database, machine, owner=f"{machine}/boot/1/2")
        queue.set_run(database, machine, f"run-{machine}")
    for token in ("first", *machines):
        queue.release(database, token, "stopped", LATER)
    assert queue_queries.machines_with_partial_runs(database) == set(machines)
    taken = {
        machine: claim(database, f"{machine}-2", owner=f"{machine}/boot/3/4") for machine in machines[1:]
    }
    assert {machine: task and task.part for machine, task in taken.items()} == {"hx1": "hx1", "h_10": "h_10"}
    assert queue_queries.machines_with_partial_runs(database) == {"h_1"}
    for part in ("", "h_1"):
        other = claim(database, f"other-{part}", owner="other/boot/1/2")
        assert other is not None and other.part == part, "for others it is due as it was"


def test_waiting_tasks_are_listed_by_job_and_label_once_due(database: Database) -> None:
    for night in range(3):
        later = NewTask("later", "upgrade", {}, "a10", not_before=LATER)
        plan(database, NewTask("now", "measure", SPEC, "h200"), later, due_at=a_night(night))
    plan(database, NewTask("", "prune", {}), schedule="tidy", due_at=a_night(0))
    early = {("measure", "h200"), ("prune", "")}
    assert queue_queries.waiting_for(database, LATER - timedelta(microseconds=1)) == early
    assert queue_queries.waiting_for(database, LATER) == early | {("upgrade", "a10")}
    claim(database, jobs=["prune"])
    assert queue_queries.waiting_for(database, NOW) == {("measure", "h200")}


def test_many_attempts_show_at_once_that_they_live_and_hear_which_do_not(database: Database) -> None:
    plan(database, *(NewTask(str(each), "measure", SPEC) for each in range(4)))
    for each in range(3):
        claim(database, f"token-{each}")
    queue.lose(database, "token-0", "silent", LATER, 3)
    before = {task.part: task.beats for task in queue_queries.tasks(database)}
    assert queue.beat_all(database, []) == frozenset()
    assert queue.beat_all(database, ["token-0", "token-1", "token-2", "never"]) == {"token-1", "token-2"}
    after = {task.part: task.beats for task in queue_queries.tasks(database)}
    assert {part for part in after if after[part] != before[part]} == {"1", "2"}


def test_a_task_is_done_once(database: Database) -> None:
    plan(database)
    assert claim(database) is not None
    assert queue.set_run(database, "token-1", "run-1") and queue.beat_all(database, ["token-1"])
    assert queue.finish(database, "token-1", "done", {"cases": 3}, "", LATER)
    task = only(database)
    assert (task.state, task.result, task.error, task.ended_at) == ("done", {"cases": 3}, "", LATER)
    assert (task.run_id, task.token, task.owner) == ("run-1", None, "owner-1")
    assert queue.finish(database, "token-1", "done", {"cases": 4}, "", a_night(1)), "it was done already"
    assert not queue.finish(database, "token-1", "failed", {}, "no", a_night(1)), "and not failed"
    assert only(database) == task and ends(database) == [(1, "token-1", "done")]
    assert not queue.beat_all(database, ["token-1"]) and not queue.set_run(database, "token-1", "run-2")
    assert not queue.release(database, "token-1", "", LATER)
    assert queue.lose(database, "token-1", "", LATER, 3) is None and only(database) == task
    assert claim(database, "token-2") is None


def test_of_a_long_failure_the_ends_are_stored(database: Database) -> None:
    plan(database)
    claim(database)
    assert queue.finish(database, "token-1", "failed", {}, "first" + "x" * 1_000_000 + "last", LATER)
    error = only(database).error
    assert error.startswith("first") and error.endswith("last") and len(error) <= LONGEST_SENTENCE


def test_a_failure_is_an_end_with_its_reason(database: Database) -> None:
    plan(database)
    claim(database)
    with pytest.raises(ValueError, match="'lost' is not an end state of an attempted task"):
        queue.finish(database, "token-1", "lost", {}, "", LATER)
    assert queue.finish(database, "token-1", "failed", {"exit": 3}, "the suite is gone", LATER)
    task = only(database)
    assert (task.state, task.error, task.result) == ("failed", "the suite is gone", {"exit": 3})
    (attempt,) = queue_queries.attempts(database, task.id)
    assert (attempt.ended, attempt.ended_at, attempt.detail) == ("failed", LATER, "the suite is gone")


def test_what_the_dead_had_waits_again_and_what_they_bring_back_is_refused(database: Database) -> None:
    plan(database)
    first = claim(database)
    queue.set_run(database, "token-1", "run-1")
    assert queue.lose(database, "token-1", "its process is gone", LATER, 3) == "waiting"
    second = claim(database, "token-2", owner="owner-2", now=LATER)
    assert first and second and second.attempts == 2 and second.run_id == "run-1"
    assert second.beats > first.beats, "a watcher sees that another worker has it"
    assert not queue.beat_all(database, ["token-1"]) and not queue.set_run(database, "token-1", "run-0")
    assert not queue.finish(database, "token-1", "done", {"zombie": True}, "", LATER)
    assert only(database) == second, "nothing of it is stored"
    assert ends(database) == [(1, "token-1", "stale"), (2, "token-2", "")]
    queue.set_run(database, "token-2", "run-2")
    assert queue.finish(database, "token-2", "done", {"zombie": False}, "", LATER)
    assert only(database).result == {"zombie": False} and only(database).run_id == "run-2"
    for run in ("run-1", "run-2"):
        assert queue_queries.task_of_run(database, run) == only(database)
    assert queue_queries.task_of_run(database, "run-0") is None


def test_after_so_many_attempts_a_task_is_lost(database: Database) -> None:
    plan(database)
    for number, state in enumerate(("waiting", "waiting", "lost")):
        assert claim(database, f"token-{number}", now=a_night(number)) is not None
        assert queue.lose(database, f"token-{number}", "no sign of life", LATER, 3) == state
    assert claim(database, "token-4") is None
    task = only(database)
    assert (task.state, task.attempts, task.error, task.ended_at) == ("lost", 3, "no sign of life", LATER)
    assert not queue.finish(database, "token-2", "done", {}, "", LATER) and only(database) == task
    assert [ended for _, _, ended in ends(database)] == ["lost", "lost", "stale"]


def test_what_is_lost_again_rests_longer_each_time(database: Database) -> None:
    plan(database)
    now, waits = NOW, {("measure", "")}
    for number, minutes in enumerate((0, 4, 8, 16, 32, 60, 60, 60)):
        assert claim(database, f"token-{number}", now=now) is not None
        assert queue.lose(database, f"token-{number}", "none can reach it", now, 9) == "waiting"
        before, now = now, only(database).not_before or now
        assert now - before == timedelta(minutes=minutes)
        early = now - timedelta(seconds=1)
        assert queue_queries.waiting_for(database, early) == (set() if minutes else waits)
        assert not minutes or claim(database, f"early-{number}", now=early) is None
    assert queue_queries.waiting_for(database, now) == waits


def test_a_task_that_is_given_back_has_lost_nothing(database: Database) -> None:
    plan(database)
    for number in range(5):
        claim(database, f"token-{number}")
        queue.set_run(database, f"token-{number}", "run-1")
        assert queue.release(database, f"token-{number}", "stopped", LATER)
        assert not queue.release(database, f"token-{number}", "stopped", LATER)
    task = only(database)
    assert (task.state, task.attempts, task.owner, task.run_id) == ("waiting", 0, None, "run-1")
    assert ends(database) == [(number + 1, f"token-{number}", "released") for number in range(5)]
    last = claim(database, "token-5")
    assert last is not None and last.attempts == 1
    assert queue.lose(database, "token-5", "", LATER, 1) == "lost"


def test_a_cancelled_task_has_no_owner(database: Database) -> None:
    waiting, taken = plan(database, NewTask("a", "detect", {}), NewTask("b", "measure", SPEC))
    assert claim(database) is not None
    assert queue.cancel(database, waiting.id, LATER) and queue.cancel(database, taken.id, LATER)
    assert not queue.cancel(database, waiting.id, LATER) and not queue.cancel(database, 999, LATER)
    assert not queue.beat_all(database, ["token-1"]), "so its owner hears of it"
    assert not queue.finish(database, "token-1", "done", {}, "", LATER)
    assert claim(database, "token-2", jobs=("detect", "measure")) is None
    assert {task.state for task in queue_queries.tasks(database)} == {"cancelled"}
    assert [each.ended for each in queue_queries.attempts(database, taken.id)] == ["stale"]


def test_what_was_never_begun_gives_way_to_a_later_one(database: Database) -> None:
    for night, kind in enumerate(
        ("timetable", "caught up", "by hand", "timetable", "timetable", "timetable")
    ):
        plan(database, due_at=a_night(night), kind=kind)
    plan(database, schedule="other", due_at=a_night(0))
    tasks = {(task.schedule, (task.due_at - NOW).days): task.id for task in queue_queries.tasks(database)}
    queue.cancel(database, tasks["nightly", 0], NOW)
    for token in ("begun", "other", "other's"):
        claim(database, token)
    queue.set_run(database, "begun", "run-1")
    queue.release(database, "begun", "stopped", NOW)
    before = {task.id: task for task in queue_queries.tasks(database)}
    assert queue.supersede(database, "nightly", a_night(5), LATER) == 2
    assert queue.supersede(database, "nightly", a_night(5), LATER) == 0
    changed = [task for task in queue_queries.tasks(database) if task != before[task.id]]
    assert [(task.state, (task.due_at - NOW).days, task.ended_at) for task in changed] == [
        ("cancelled", 4, LATER),
        ("cancelled", 3, LATER),
    ]


def test_tasks_are_listed_newest_first(database: Database) -> None:
    for night in range(3):
        plan(database, NewTask("a", "measure", SPEC), NewTask("b", "detect", {}), due_at=a_night(night))
    plan(database, schedule="other", due_at=a_night(1))

    def listed(**filters: Any) -> list[tuple[str, int, str]]:
        found = queue_queries.tasks(database, **filters)
        return [(each.schedule, (each.due_at - NOW).days, each.part) for each in found]

    assert listed(schedule="nightly", newest=3) == [
        ("nightly", 2, "b"),
        ("nightly", 2, "a"),
        ("nightly", 1, "b"),
    ]
    assert listed(job="measure") == [("nightly", 2, "a"), ("other", 1, ""), *listed(job="measure")[2:]]
    assert len(listed()) == 7 and listed(state="running") == [] and len(listed(state="waiting")) == 7
    nights = [(run.due_at - NOW).days for run in queue_queries.scheduled_runs(database, "nightly", 2)]
    assert nights == [2, 1] and queue_queries.task(database, 999) is None


def test_the_last_of_each_is_the_newest_that_is_over(database: Database) -> None:
    for night, state in enumerate(("done", "failed", "running")):
        plan(database, NewTask("a", "measure", SPEC), NewTask("b", "measure", SPEC), due_at=a_night(night))
        for part in "ab":
            claim(database, f"{night}{part}")
            if state != "running" and (night, part) != (1, "b"):
                queue.finish(database, f"{night}{part}", state, {}, "", a_night(9 - night))
    found = queue_queries.last_of_each(database)
    nights = {key: ((task.due_at - NOW).days, task.state) for key, task in found.items()}
    assert nights == {("nightly", "a"): (1, "failed"), ("nightly", "b"): (0, "done")}


def test_a_scheduler_is_seen_until_it_goes(database: Database) -> None:
    def one(beats: int, owner: str = "owner-1") -> SchedulerSeen:
        facts = {"schedules": [{"schedule": "nightly"}], "measures": beats > 1}
        return SchedulerSeen(owner, "bench-1", ("h200", "a10"), NOW, a_night(beats), beats, "0.7.0", facts)

    queue.seen_all(database, [one(1, "owner-2"), one(1)])
    queue.seen_all(database, [one(2)])
    queue.seen_all(database, [])
    assert queue_queries.schedulers(database) == [one(2), one(1, "owner-2")]
    for _ in range(2):
        queue.gone_all(database, ["owner-1", "nobody"])
    assert queue_queries.schedulers(database) == [one(1, "owner-2")]


def test_a_server_has_the_clock_that_its_machines_share(database: Database) -> None:
    shared = queue_queries.shared_time(database, NOW)
    if database.engine.dialect.name == "sqlite":
        assert shared == NOW
    else:
        assert shared.tzinfo == UTC and shared > NOW
        assert queue_queries.shared_time(database, shared + timedelta(days=1)) < shared + timedelta(hours=1)


def test_a_scheduler_of_an_older_version_has_no_facts(database: Database) -> None:
    one = SchedulerSeen("owner-1", "bench-1", ("bench-1",), NOW, NOW, 1, "0.0.9")
    queue.seen_all(database, [one])
    with database.writing() as connection:
        connection.execute(text("UPDATE scheduler SET facts = NULL"))
    assert queue_queries.schedulers(database) == [one]


def test_old_tasks_go_and_what_rests_on_them_stays(database: Database) -> None:
    for night, kind in enumerate(("timetable", "caught up", "timetable", "by hand", "missed")):
        queue.plan_run(database, "nightly", a_night(night), kind, [NewTask("", "measure", SPEC)], NOW)
        claim(database, f"token-{night}")
        if night == 1:
            queue.set_run(database, "token-1", "run-1")
        queue.finish(database, f"token-{night}", "done", {}, "", NOW)
    plan(database, schedule="running", due_at=a_night(0), kind="by hand")
    claim(database, "token-r")
    plan(database, schedule="waiting", due_at=a_night(0), kind="by hand")
    for night in range(2):
        queue.plan_run(database, "yearly", a_night(night), "timetable", [], NOW)
    plan(database, NewTask("", "detect", {}), schedule="detect:nightly", kind="follow-up")
    queue.cancel(database, queue_queries.tasks(database, job="detect")[0].id, NOW)

    def left() -> dict[str, list[int]]:
        schedules = ("nightly", "running", "waiting", "yearly", "detect:nightly")
        found = {name: queue_queries.scheduled_runs(database, name) for name in schedules}
        return {name: [(each.due_at - NOW).days for each in runs] for name, runs in found.items()}

    before = left()
    due = queue_queries.last_due(database)
    assert prune.prune_queue(database, a_night(4), dry_run=True) == 5 and left() == before
    assert prune.prune_queue(database, a_night(4)) == 5
    assert left() == {
        "nightly": [4, 1],
        "running": [0],
        "waiting": [0],
        "yearly": [1],
        "detect:nightly": [],
    }
    assert queue_queries.last_due(database) == due, "each timetable goes on from where it was"
    assert prune.prune_queue(database, a_night(4)) == 0
    assert len(queue_queries.tasks(database)) == 4 and queue_queries.task_of_run(database, "run-1")
    assert prune.prune_queue(database, a_night(99)) == 0, "these are the last, or ran, or are not over"
