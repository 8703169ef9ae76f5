"""Histories: the nights of a track and no others, each series in order, and what changed between them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from db.connection.engine import Database
from db.queue import commands as queue
from db.runs import history as runs_history
from db.runs import run_changes, store
from records.environments import Environment
from records.kinds import EnvironmentKind
from records.runs import Run, RunChange
from records.series import HistoryRun, Track
from records.tasks import NewTask
from scheduled_jobs.detection.series_history import border
from support.builders.run_records import (
    MLP,
    RESNET,
    a_machine,
    a_night,
    a_preset,
    a_run,
    an_environment,
    an_outcome,
)
from support.builders.stored_run import store_run

NIGHTLY = Track("nightly", "nightly", "h200")
CANARY = Environment("canary-1", "canary", "", "3.12.3", {}, EnvironmentKind.CANARY)
SONG = "canary_compute/infer/-/eager"


def measured(database: Database, run: Run, *, latency: float = 2.0, cases: Sequence[str] = (MLP,)) -> None:
    """A run that is stored with its measurements, of each of its environments."""
    outcomes = [
        an_outcome(case, environment=environment, replicate=replicate, latency=latency + 0.5 * replicate)
        for environment in run.environments
        for case in ((SONG,) if environment == CANARY else cases)
        for replicate in range(2)
    ]
    store_run(database, run, outcomes)


def scheduled(
    database: Database,
    run: str | None,
    *,
    track: Track = NIGHTLY,
    due_at: datetime,
    job: str = "measure",
    state: str = "done",
) -> None:
    """A task that made a run and ended, or did not."""
    task = NewTask(f"{track.track}@{track.label}", job, {"track": track.track}, track.label)
    token = f"{track}-{due_at}"
    queue.plan_run(database, track.schedule, due_at, "timetable", [task], due_at)
    claimed = queue.claim(database, owner="one", labels=[track.label], jobs=[job], token=token, now=due_at)
    assert claimed is not None
    if run is not None:
        queue.set_run(database, token, run)
    if state == "lost":
        queue.lose(database, token, "", due_at, 1)
    elif state != "running":
        queue.finish(database, token, state, {}, "", due_at)


def nightly(database: Database, night: int, *, latency: float = 2.0, **how: Any) -> None:
    """A night of the track, as its schedule measures it."""
    environment = an_environment(f"2.14.0.dev2026090{night}+cpu", "nightly")
    run = a_run(f"night-{night}", environments=[environment], started_at=a_night(night))
    measured(database, run, latency=latency)
    scheduled(database, run.id, due_at=a_night(night), **how)


def test_a_history_is_what_its_nights_measured_in_order(database: Database) -> None:
    for night in (2, 0, 1):
        nightly(database, night, latency=2.0 + night)
    (history,) = runs_history.history(database, NIGHTLY, ["latency"])
    assert (history.key.case, history.key.metric, history.key.hardware_label) == (
        MLP,
        "latency",
        "Xeon 6430, 2 cores",
    )
    assert [(each.at.run, each.point) for each in history.points] == [
        (f"night-{night}", 2.25 + night) for night in range(3)
    ]
    first, *_ = history.points
    version = "2.14.0.dev20260900+cpu"
    assert first.at == HistoryRun("night-0", a_night(0), f"environment-nightly-{version}", "bench-1")
    assert history.points[1].at is not first.at
    both = runs_history.history(database, NIGHTLY, {"throughput", "latency", "no such metric"})
    assert [each.key.metric for each in both] == ["latency", "throughput"]
    assert both[0] == history and runs_history.history(database, NIGHTLY, []) == []


def test_what_others_measured_is_not_in_it(database: Database) -> None:
    nightly(database, 1)
    nightly(database, 3, state="failed")
    measured(database, a_run("by-hand", started_at=a_night(2)))
    for night, track in enumerate(
        (
            Track("nightly", "2.13.0", "h200"),
            Track("nightly", "nightly", "a10"),
            Track("other", "nightly", "h200"),
        )
    ):
        measured(database, a_run(f"other-{night}", started_at=a_night(2)))
        scheduled(database, f"other-{night}", track=track, due_at=a_night(5 + night))
    scheduled(database, "never stored", due_at=a_night(9))
    (history,) = runs_history.history(database, NIGHTLY, ["latency"])
    assert [each.at.run for each in history.points] == ["night-1", "night-3"]
    assert runs_history.history(database, Track("nightly", "latest", "h200"), ["latency"]) == []


def test_only_so_many_nights_are_read(database: Database) -> None:
    for night in range(5):
        nightly(database, night)
    (history,) = runs_history.history(database, NIGHTLY, ["latency"], newest=2)
    assert [each.at.run for each in history.points] == ["night-3", "night-4"]


def test_several_series_and_environments_of_one_run(database: Database) -> None:
    baseline = an_environment("2.13.0+cpu")
    nightlies = [an_environment(f"2.14.0.dev{night}", "nightly") for night in range(2)]
    for night in range(2):
        environments = [baseline, nightlies[night], CANARY]
        run = a_run(f"night-{night}", environments=environments, started_at=a_night(night))
        measured(database, run, cases=(MLP, RESNET) if night else (RESNET,))
        scheduled(database, run.id, due_at=a_night(night))
    found = runs_history.history(database, NIGHTLY, ["latency"])
    by_case = {
        each.key.case: [(point.at.run, point.at.environment) for point in each.points] for each in found
    }
    first, second = (
        [(f"night-{night}", each.fingerprint) for each in (baseline, nightlies[night])] for night in range(2)
    )
    assert by_case == {
        SONG: [("night-0", CANARY.fingerprint), ("night-1", CANARY.fingerprint)],
        MLP: second,
        RESNET: [*first, *second],
    }
    assert found[0].points[0].at is not found[2].points[0].at
    assert found[1].points[0].at is found[2].points[2].at, "one for all series of a run and environment"


def test_nothing_changed_between_alike_runs(database: Database) -> None:
    for night in range(2):
        store.save_run(database, a_run(f"night-{night}", started_at=a_night(night)))
    assert run_changes.run_changes(database, "night-0", "night-1") == []
    assert run_changes.run_changes(database, "night-0", "night-0") == []
    with pytest.raises(ValueError, match="run nobody was never stored"):
        run_changes.run_changes(database, "night-0", "nobody")


def _night(number: int, **facts: Any) -> Run:
    conditions = {"driver": "580.65", "kernel": "6.8.0", "load": 0.1 * number, "turbo_off": None}
    environment = replace(
        an_environment("2.14.0.dev1", "nightly"),
        facts={
            "packages": ["numpy==2.3.1", "torch==2.14.0.dev1"],
            "cuda": "13.0",
            "variables": {},
            "executable": f"/somewhere/{number}",
        },
    )
    run = a_run(f"night-{number}", environments=[environment, CANARY], started_at=a_night(number))
    return replace(run, facts={"conditions": conditions, "device": "cuda", "timing": {"blocks": 5}, **facts})


def test_facts_of_another_kind_in_a_file_are_as_none(database: Database) -> None:
    first, second = _night(0), _night(1, conditions=7)
    facts = {**first.environments[0].facts, "packages": 7}
    odd = replace(first.environments[0], fingerprint="odd", facts=facts)
    for run in (first, replace(second, environments=(odd, CANARY))):
        store.save_run(database, run)
    found = {(each.kind, each.name): each for each in run_changes.run_changes(database, "night-0", "night-1")}
    for kind, name, before in (("environment", "numpy", "2.3.1"), ("machine", "driver", "580.65")):
        assert (found[kind, name].before, found[kind, name].after) == (before, "")


def test_all_changes_are_listed(database: Database) -> None:
    first, second = _night(0), _night(1)
    environment = replace(
        second.environments[0],
        fingerprint="another",
        torch_version="2.14.0.dev2",
        facts={
            "packages": ["numpy==2.3.2", "torch==2.14.0.dev2", "triton==3.6"],
            "cuda": "13.0",
            "variables": {"OMP_NUM_THREADS": "2"},
        },
    )
    conditions = {"driver": "590.01", "load": 7.0, "turbo_off": "0", "image": "sha256:1"}
    second = replace(
        second,
        machine=a_machine("bench-2", "8 x H200"),
        environments=(CANARY, environment),
        preset=replace(a_preset("as it comes"), settings={"threads": 2, "OMP_WAIT_POLICY": "passive"}),
        harness="harness-2",
        facts={"conditions": conditions, "device": "cpu", "timing": {"blocks": 6}, "user_version": "v2"},
    )
    for run in (first, second):
        store.save_run(database, run)
    assert run_changes.run_changes(database, "night-0", "night-1") == [
        RunChange("environment", "numpy", "2.3.1", "2.3.2"),
        RunChange("environment", "torch", "2.14.0.dev1", "2.14.0.dev2"),
        RunChange("environment", "triton", "", "3.6"),
        RunChange("environment", "variables.OMP_NUM_THREADS", "", "2"),
        RunChange("hardware", "cpu", "Xeon 6430, 2 cores", "8 x H200"),
        RunChange("hardware", "hardware", "Xeon 6430, 2 cores", "8 x H200"),
        RunChange("harness", "cases", "", "v2"),
        RunChange("harness", "harness", "harness-1f3a", "harness-2"),
        RunChange("machine", "driver", "580.65", "590.01"),
        RunChange("machine", "image", "", "sha256:1"),
        RunChange("machine", "kernel", "6.8.0", ""),
        RunChange("machine", "name", "bench-1", "bench-2"),
        RunChange("machine", "turbo_off", "", "0"),
        RunChange("preset", "device", "cuda", "cpu"),
        RunChange("preset", "preset", "quiet", "as it comes"),
        RunChange("preset", "threads", "1", "2"),
        RunChange("preset", "timing.blocks", "5", "6"),
    ]


def test_changes_along_many_nights(database: Database) -> None:
    for night, driver in enumerate(("580", "580", "590", "580")):
        run = _night(night, conditions={"driver": driver, "load": night})
        store.save_run(database, run)
    names = [f"night-{night}" for night in range(4)]
    found = run_changes.changes_along(database, names)
    assert found == {
        "night-1": [],
        "night-2": [RunChange("machine", "driver", "580", "590")],
        "night-3": [RunChange("machine", "driver", "590", "580")],
    }
    assert run_changes.changes_along(database, names[:1]) == run_changes.changes_along(database, []) == {}
    with pytest.raises(ValueError, match="run gone was never stored"):
        run_changes.changes_along(database, [*names, "gone"])


def test_a_power_limit_that_changed_over_night_is_a_change_of_the_machine(database: Database) -> None:
    for night, limit in enumerate((700.0, 500.0)):
        card = {"uuid": "GPU-1", "power_limit_w": limit, "ecc": "on"}
        store.save_run(database, _night(night, conditions={"gpus": {"0": card}}))
    (changes,) = run_changes.changes_along(database, ["night-0", "night-1"]).values()
    assert changes == [RunChange("machine", "gpus.0.power_limit_w", "700.0", "500.0")]
    assert border(changes) == "gpus.0.power_limit_w: 700.0 to 500.0"


def test_runs_say_whom_they_were_measured_for(database: Database) -> None:
    nightly(database, 0)
    task = NewTask("2.13.0@h200", "measure", {"track": "2.13.0", "baseline": "2.13.0"}, "h200")
    queue.plan_run(database, "nightly", a_night(1), "timetable", [task], a_night(1))
    claim = queue.claim(database, owner="o", labels=["h200"], jobs=["measure"], token="t", now=a_night(1))
    assert claim is not None and queue.set_run(database, "t", "night-1")
    old, new = an_environment("2.13.0+cpu", "stable"), an_environment("2.14.0+cpu", "candidate")
    for run, environments in (("night-1", [old]), ("session", [old, new, CANARY])):
        store.save_run(database, a_run(run, environments=environments, started_at=a_night(1)))
    scheduled(database, "session", due_at=a_night(2), job="confirm")
    found = runs_history.measured_for(database, ["night-0", "night-1", "session", "nobody"])
    assert {(each.run, each.name): (each.last, each.track, each.baseline) for each in found} == {
        ("night-0", "nightly"): (True, "nightly", ""),
        # It is known while the task still runs.
        ("night-1", "stable"): (True, "2.13.0", "2.13.0"),
        ("session", "stable"): (False, "", ""),
        ("session", "candidate"): (True, "", ""),
        ("session", "canary"): (False, "", ""),
    }
    assert {each.environment for each in found} >= {old.fingerprint, new.fingerprint, CANARY.fingerprint}
    assert runs_history.measured_for(database, []) == []


def test_changes_are_of_the_requested_environment(database: Database) -> None:
    def packed(version: str) -> Environment:
        return replace(
            an_environment(version),
            facts={"packages": [f"triton=={version}"], "build": version, "cuda": "13"},
        )

    old, new = packed("2.13.0"), packed("2.14.0")
    for night, environments in enumerate(([old], [old, new], [old, new])):
        run = replace(_night(night), environments=tuple(environments))
        conditions = {"driver": "590" if night == 2 else "580"}
        store.save_run(database, replace(run, facts={**run.facts, "conditions": conditions}))
    driver = RunChange("machine", "driver", "580", "590")
    places = [(f"night-{night}", old.fingerprint) for night in range(3)]
    upgraded = [places[0], ("night-1", new.fingerprint)]
    found = run_changes.changes_around(database, [places, upgraded, [], places[:1]])
    assert found[0] == [[], [], [driver]]
    assert found[1] == [
        [],
        [
            RunChange("environment", "torch", "2.13.0", "2.14.0"),
            RunChange("environment", "triton", "2.13.0", "2.14.0"),
        ],
    ]
    assert found[2:] == [[], [[]]]
    # One that was forgotten meanwhile differs from nothing.
    assert run_changes.changes_around(database, [[places[0], ("gone", old.fingerprint)]]) == [[[], []]]
