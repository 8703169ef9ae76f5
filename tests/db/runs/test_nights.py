"""Nights and a fleet: tasks and scheduled runs, points, newest runs, environments in use."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from db.connection.engine import Database
from db.queue import commands as queue
from db.queue import queries as queue_queries
from db.runs import environments_in_use, queries, series_queries, store
from records.environments import Environment
from records.kinds import EnvironmentKind
from records.tasks import NewTask
from support.builders.run_records import (
    MLP,
    RESNET,
    a_machine,
    a_night,
    a_run,
    an_environment,
    an_outcome,
)
from support.builders.stored_run import store_run

NIGHTLY, PINNED = an_environment("2.14.0+cpu"), an_environment("2.13.0+cpu")
CANARY = Environment("canary-1", "canary", "", "3.12.3", {}, EnvironmentKind.CANARY)


def measured(
    database: Database,
    run: str,
    night: int,
    *,
    environments: Sequence[Environment] = (NIGHTLY,),
    latency: float = 2.0,
    machine: str = "bench-1",
) -> None:
    """A run with points of two cases in each environment."""
    outcomes = [
        an_outcome(case, environment=environment, latency=latency, started_at=a_night(night))
        for case in (MLP, RESNET)
        for environment in environments
    ]
    made = a_run(run, environments=environments, started_at=a_night(night), machine=a_machine(machine))
    store_run(database, made, outcomes)


def triggered(database: Database, due_at: datetime, *tasks: NewTask, kind: str = "timetable") -> None:
    assert queue.plan_run(database, "nightly", due_at, kind, tasks, due_at)


def test_night_tasks_are_those_that_measure_newest_first(database: Database) -> None:
    spec = {"track": "nightly", "baseline": "2.13.0", "suite": "cpu"}
    for night in range(3):
        pinned = NewTask("2.13.0@h200", "measure", {"track": "2.13.0", "baseline": None}, "h200")
        both = (NewTask("nightly@h200", "measure", spec, "h200"), pinned)
        triggered(database, a_night(night), *both, NewTask("", "check", {}))
    queue.claim(database, owner="m/b/1/2", labels=["h200"], jobs=["measure"], token="t", now=a_night(3))
    found = queue_queries.night_tasks(database, a_night(1), a_night(2), 10)
    assert [(one.track, one.baseline, one.due_at) for one in found] == [
        (track, baseline, a_night(night))
        for night in (2, 1)
        for track, baseline in (("2.13.0", ""), ("nightly", "2.13.0"))
    ]
    assert len(queue_queries.night_tasks(database, a_night(0), a_night(2), 5)) == 5
    first = queue_queries.night_tasks(database, a_night(0), a_night(2), 10)[-1]
    assert (first.state, first.machine, first.attempts) == ("running", "m", 1)
    assert {one.machine for one in found} == {"h200"}
    until = queue_queries.night_tasks(database, a_night(0), a_night(1), 10)
    assert [one.due_at for one in until] == [a_night(1), a_night(1), a_night(0), a_night(0)]


def test_missed_runs_are_those_of_some_schedules_since_a_moment(database: Database) -> None:
    for night, kind in enumerate(("missed", "missed", "timetable", "missed")):
        triggered(database, a_night(night), kind=kind)
    queue.plan_run(database, "other", a_night(2), "missed", (), a_night(2))
    assert queue_queries.missed_runs(database, ["nightly"], a_night(1)) == {
        "nightly": [a_night(3), a_night(1)]
    }
    assert queue_queries.missed_runs(database, [], a_night(0)) == {}


def test_the_last_run_of_each_schedule_says_what_became_of_its_tasks(database: Database) -> None:
    queue.plan_run(database, "new", a_night(0), "first seen", (), a_night(0))
    triggered(database, a_night(0), NewTask("a", "measure", {}))
    triggered(database, a_night(1), *(NewTask(part, "measure", {}) for part in "abc"))
    for token, state, error in (("1", "done", ""), ("2", "failed", "no disk"), ("3", "failed", "")):
        queue.claim(database, owner="o", labels=(), jobs=["measure"], token=token, now=a_night(2))
        queue.finish(database, token, state, {}, error, a_night(2))
    (last,) = queue_queries.last_scheduled_runs(database)
    assert (last.schedule, last.due_at, last.kind) == ("nightly", a_night(1), "timetable")
    # The oldest task was done first: of the newest run one failed, and one still waits.
    assert (last.states, last.error) == ({"failed": 2, "waiting": 1}, "no disk")


def test_points_of_runs_and_the_course_of_some_of_their_series(database: Database) -> None:
    for night in range(4):
        measured(database, f"nightly-{night}", night, latency=2.0 + night)
        measured(database, f"pinned-{night}", night, environments=[PINNED], latency=9.0)
    found = series_queries.points_of_runs(database, ["nightly-3", "nightly-2"], ["latency", "throughput"])
    assert {(key.case, key.metric) for key in found} == {
        (case, metric) for case in (MLP, RESNET) for metric in ("latency", "throughput")
    }
    (mlp,) = (key for key in found if (key.case, key.metric) == (MLP, "latency"))
    assert [(point.run, point.point) for point in found[mlp]] == [("nightly-2", 4.0), ("nightly-3", 5.0)]
    assert series_queries.points_of_runs(database, ["nobody"], ["latency"]) == {}
    # The pinned nights lie between them, in the same series.
    course = series_queries.lines(database, [mlp], [f"nightly-{night}" for night in (3, 0, 1)])
    assert [(point.run, point.point) for point in course[mlp]] == [
        ("nightly-0", 2.0),
        ("nightly-1", 3.0),
        ("nightly-3", 5.0),
    ]
    assert (
        series_queries.lines(database, [mlp], []) == series_queries.lines(database, [], ["nightly-1"]) == {}
    )


def test_a_run_compares_that_has_several_pytorches_and_not_one_with_the_canary(database: Database) -> None:
    measured(database, "upgrade", 0, environments=[PINNED, NIGHTLY])
    measured(database, "alone", 1, environments=[NIGHTLY, CANARY])
    assert queries.comparison_runs(database, ["upgrade", "alone", "nobody"]) == {"upgrade"}


def test_summaries_are_of_the_requested_runs(database: Database) -> None:
    for night in range(3):
        measured(database, f"run-{night}", night)
    found = queries.run_summaries(database, ["run-2", "run-0", "nobody"])
    assert set(found) == {"run-0", "run-2"} and found["run-2"] == queries.run_summary(database, "run-2")
    assert queries.run_summaries(database, []) == {}


def test_every_machine_has_its_newest_run(database: Database) -> None:
    store.save_run(database, a_run("late", started_at=a_night(5), machine=a_machine("a")))
    # It arrived after a newer one.
    store.save_run(database, a_run("early", started_at=a_night(1), machine=a_machine("a")))
    store.save_run(database, a_run("other", started_at=a_night(2), machine=a_machine("b")))
    for run, name in (
        ("20260907-020000-submitted-0123abcd", "a"),
        ("undated-submitted-0123abcd01234567", "c"),
    ):
        store.save_run(database, a_run(run, started_at=a_night(6), machine=a_machine(name)))
    assert sorted(environments_in_use.newest_of_machines(database).values()) == ["late", "other"]


def test_environments_are_those_of_the_newest_runs_and_not_the_canary(database: Database) -> None:
    for night in range(4):
        measured(database, f"run-{night}", night, environments=[NIGHTLY, CANARY], machine=f"m{night}")
    measured(database, "pinned", 0, environments=[PINNED])
    both = environments_in_use.environments_used(database, 10)
    assert [(one.torch_version, one.runs, one.run, one.machine) for one in both] == [
        ("2.14.0+cpu", 4, "run-3", "m3"),
        ("2.13.0+cpu", 1, "pinned", "bench-1"),
    ]
    assert both[0].started_at == a_night(3) and both[0].started_at - both[1].started_at == timedelta(days=3)
    assert [one.runs for one in environments_in_use.environments_used(database, 2)] == [2]
