"""From nights to findings: what becomes a candidate, what is the machine's, what is measured again."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from db.admin.delete_run import forget_run
from db.connection.engine import Database
from db.findings import store as findings
from db.queue import commands as queue
from records.evidence import Confirmation
from records.findings import Finding
from scheduled_jobs.detection.border_levels import BORDER_CHANGES, border_change_of
from scheduled_jobs.jobs.context import JobResult
from scheduled_jobs.jobs.detect import detect
from support.builders.detection_nights import (
    PINNED,
    TOML,
    Nights,
    a_task,
    finish,
    job_context,
    nightly,
    waiting,
)
from support.builders.run_records import MLP, RESNET, RESNET_COMPILED, a_machine, a_night
from workflows.errors import JobError

#: The first night on which the compiled case is a tenth slower.
SLOWER = 30
#: The last night of those that show it.
LAST = SLOWER + 4
Look = Callable[..., JobResult]


@pytest.fixture
def look(sqlite: Database, tmp_path: Path) -> Look:
    """Have a track judged on the morning after a night, as the service does it."""

    def looked(night: int, schedule: str = "alone", track: str = "nightly", label: str = "") -> JobResult:
        now = a_night(night).replace(hour=9)
        spec = {"schedule": schedule, "track": track, "label": label}
        task = a_task(sqlite, "detect", spec, now)
        done = detect(task, job_context(tmp_path, now))
        finish(sqlite, task, done, now)
        return done

    return looked


def the_finding(database: Database) -> Finding:
    (found,) = findings.findings(database)
    return found


def sessions(done: JobResult) -> list[Any]:
    return [task for follow_up in done.follow_ups for task in follow_up.tasks]


def test_a_step_becomes_a_candidate_and_a_session(sqlite: Database, look: Look) -> None:
    nights = Nights(sqlite)
    before = nights.add(range(SLOWER))
    assert (look(SLOWER - 1).result["candidates"], findings.findings(sqlite)) == (0, [])
    after = nights.add(range(SLOWER, LAST + 1), {RESNET_COMPILED: 1.1})
    done = look(LAST)
    found = the_finding(sqlite)
    assert (found.state, found.direction, found.shape) == ("candidate", "worse", "step")
    assert (found.key.case, found.at_run) == (RESNET_COMPILED, after[0])
    assert found.change == pytest.approx(0.095, abs=0.02)
    # Its place may be off by a night: the two that are compared lie surely before it and after it.
    assert (found.before_run, found.evidence.new_run) == (before[-2], after[1])
    assert found.old_environment == nightly(SLOWER - 2).fingerprint
    changed = {each.name for each in found.evidence.changes}
    assert "triton" in changed and found.group_key.startswith(f"bench-1/{after[0]}/")
    (session,) = sessions(done)
    assert (session.job, session.label) == ("confirm", "bench-1")
    assert session.spec["findings"] == [found.id]
    # The same workload's other technique is measured once it is confirmed, other workloads are not.
    assert (session.spec["cases"], session.spec["related"]) == ([RESNET_COMPILED], [RESNET])


def test_a_candidate_is_enqueued_once(sqlite: Database, look: Look) -> None:
    nights = Nights(sqlite)
    nights.add(range(SLOWER))
    nights.add(range(SLOWER, LAST + 1), {RESNET_COMPILED: 1.1})
    assert len(sessions(look(LAST))) == 1
    first = the_finding(sqlite)
    nights.add(range(LAST + 1, LAST + 3), {RESNET_COMPILED: 1.1})
    again = look(LAST + 2)
    assert (again.result["candidates"], sessions(again)) == (0, [])
    assert the_finding(sqlite).id == first.id and len(waiting(sqlite, "confirm")) == 1


def test_a_session_that_was_lost_is_enqueued_again(sqlite: Database, look: Look) -> None:
    nights = Nights(sqlite)
    nights.add(range(SLOWER))
    nights.add(range(SLOWER, LAST + 1), {RESNET_COMPILED: 1.1})
    look(LAST)
    found = the_finding(sqlite)
    (task,) = waiting(sqlite, "confirm")
    findings.set_state(sqlite, [found.id], "confirming")
    assert queue.cancel(sqlite, task.id, a_night(LAST))
    nights.add(range(LAST + 1, LAST + 2), {RESNET_COMPILED: 1.1})
    (again,) = sessions(look(LAST + 1))
    assert again.spec["findings"] == [found.id] and the_finding(sqlite).state == "candidate"


def test_one_odd_night_is_nothing(sqlite: Database, look: Look) -> None:
    nights = Nights(sqlite)
    nights.add(range(SLOWER))
    nights.add(range(SLOWER, SLOWER + 1), {RESNET_COMPILED: 1.3})
    look(SLOWER)
    nights.add(range(SLOWER + 1, LAST + 1))
    assert look(LAST).result["candidates"] == 0 and findings.findings(sqlite) == []


def test_a_change_of_an_environment_that_stayed_is_the_machines(sqlite: Database, look: Look) -> None:
    nights = Nights(sqlite, schedule="nightly", track="2.13.0", environment=lambda night: PINNED)
    nights.add(range(SLOWER))
    nights.add(range(SLOWER, LAST + 1), {MLP: 0.9})
    done = look(LAST, "nightly", "2.13.0")
    found = the_finding(sqlite)
    assert (found.state, found.direction, done.result["machine"]) == ("machine", "better", 1)
    assert sessions(done) == [] and found.old_environment == found.new_environment


def test_what_the_pinned_one_does_too_is_the_machines(sqlite: Database, look: Look) -> None:
    pinned = Nights(sqlite, schedule="nightly", track="2.13.0", environment=lambda night: PINNED)
    nights = Nights(sqlite, schedule="nightly")
    for each in (pinned, nights):
        each.add(range(SLOWER))
        each.add(range(SLOWER, LAST + 1), {MLP: 1.1, RESNET: 1.1 if each is nights else 1.0})
    look(LAST, "nightly", "nightly")
    states = {one.key.case: one.state for one in findings.findings(sqlite)}
    assert states == {MLP: "machine", RESNET: "candidate"}


@pytest.mark.parametrize(("off", "begins"), [(1.02, SLOWER), (1.05, SLOWER + 3)])
def test_what_was_the_machines_is_measured_again_once_the_ratio_moved_too(
    sqlite: Database, look: Look, off: float, begins: int
) -> None:
    pinned = Nights(sqlite, schedule="nightly", track="2.13.0", environment=lambda night: PINNED)
    nights = Nights(sqlite, schedule="nightly")
    pinned.add(range(SLOWER))
    nights.add(range(SLOWER))
    # In its first nights the machine's own change is off by chance, so that the ratio hardly shows the other.
    pinned.add(range(SLOWER, SLOWER + 3), {MLP: 1.1 * off})
    nights.add(range(SLOWER, SLOWER + 3), {MLP: 1.1 * 1.04})
    first = look(SLOWER + 2, "nightly", "nightly")
    found = the_finding(sqlite)
    assert (found.state, found.at, sessions(first)) == ("machine", a_night(SLOWER), [])
    pinned.add(range(SLOWER + 3, LAST + 2), {MLP: 1.1})
    nights.add(range(SLOWER + 3, LAST + 2), {MLP: 1.1 * 1.04})
    done = look(LAST + 1, "nightly", "nightly")
    (candidate,) = findings.findings(sqlite, states=["candidate"])
    assert (candidate.at, done.result["candidates"]) == (a_night(begins), 1)
    assert candidate.change == pytest.approx(0.03, abs=0.011)
    assert [task.spec["findings"] for task in sessions(done)] == [[candidate.id]]
    # It is the same finding where it began on the same night, and asked for once.
    assert (candidate.id == found.id) == (begins == SLOWER)
    again = look(LAST + 2, "nightly", "nightly").result["candidates"]
    assert (again, len(waiting(sqlite, "confirm"))) == (0, 1)


def test_a_new_driver_is_a_border_and_no_regression(sqlite: Database, look: Look) -> None:
    nights = Nights(sqlite)
    nights.add(range(SLOWER), driver="550.54")
    nights.add(range(SLOWER, SLOWER + 6), {MLP: 1.2, RESNET: 1.2}, driver="560.10")
    assert look(SLOWER + 5).result["candidates"] == 0 and findings.findings(sqlite) == []


def test_across_a_border_without_a_baseline_the_levels_are_reported(sqlite: Database, look: Look) -> None:
    nights = Nights(sqlite)
    nights.add(range(SLOWER), driver="575.57")
    nights.add(range(SLOWER, SLOWER + 1), {MLP: 1.3, RESNET: 1.1, RESNET_COMPILED: 1.1}, driver="580.65")
    (found,) = map(border_change_of, look(SLOWER).result[BORDER_CHANGES])
    assert (found.machine, found.track, found.metric) == ("bench-1", "nightly", "latency_floor")
    assert (found.nights, found.cases, found.border) == (1, 3, "driver: 575.57 to 580.65")
    assert found.middle == pytest.approx(math.log(1.1), abs=0.01)
    assert found.largest[0] == (MLP, pytest.approx(math.log(1.3), abs=0.01))
    # Once more when four nights know the new level, and then no more.
    reported: list[int] = []
    for night in range(SLOWER + 1, SLOWER + 5):
        nights.add(range(night, night + 1), {MLP: 1.3, RESNET: 1.1, RESNET_COMPILED: 1.1}, driver="580.65")
        reported += [each["nights"] for each in look(night).result[BORDER_CHANGES]]
    assert reported == [4]


def test_a_case_that_is_no_longer_measured_is_not_reported_again_and_again(
    sqlite: Database, look: Look
) -> None:
    nights = Nights(sqlite)
    nights.add(range(SLOWER), driver="575.57")
    nights.add(range(SLOWER, SLOWER + 1), driver="580.65")
    others = Nights(sqlite, cases=(RESNET, RESNET_COMPILED))
    others.add(range(SLOWER + 1, SLOWER + 3), driver="580.65")
    # The last night of the third case is the first one with the new driver.
    assert look(SLOWER + 2).result[BORDER_CHANGES] == []


@pytest.mark.parametrize("track", ["nightly", "2.13.0"])
def test_next_to_a_baseline_they_are_judged_and_not_reported(
    sqlite: Database, look: Look, track: str
) -> None:
    for each in (
        Nights(sqlite, schedule="nightly", track="2.13.0", environment=lambda night: PINNED),
        Nights(sqlite, schedule="nightly"),
    ):
        each.add(range(SLOWER), driver="575.57")
        each.add(range(SLOWER, SLOWER + 1), driver="580.65")
    assert look(SLOWER, "nightly", track).result[BORDER_CHANGES] == []


def test_two_machines_of_one_label_have_levels_of_their_own(sqlite: Database, look: Look) -> None:
    both = [Nights(sqlite, label="h200", machine=a_machine(name)) for name in ("first", "second")]
    for night in range(24):
        both[night % 2].add(range(night, night + 1), dict.fromkeys((MLP, RESNET), 1 + 0.2 * (night % 2)))
    assert look(24, label="h200").result["candidates"] == 0 and findings.findings(sqlite) == []


def test_what_is_neither_better_nor_worse_is_not_watched(sqlite: Database, tmp_path: Path) -> None:
    task = a_task(sqlite, "detect", {"schedule": "alone", "track": "nightly", "label": ""}, a_night(3))
    toml = TOML.replace('watch = ["latency_floor"]', 'watch = ["latency_floor", "power"]')
    with pytest.raises(JobError, match="schedule alone watches power, which is neither better nor worse"):
        detect(task, job_context(tmp_path, a_night(3), toml=toml))


def test_a_track_without_results_has_no_candidate(look: Look) -> None:
    assert look(3).result["summary"] == "0 series, 0 new candidates"


def test_nights_of_zero_are_left_out_and_that_is_said(sqlite: Database, look: Look) -> None:
    nights = Nights(sqlite)
    nights.add(range(SLOWER), {MLP: 0.0})
    nights.add(range(SLOWER, LAST + 1), {MLP: 1.1, RESNET: 0.0})
    done = look(LAST)
    assert (done.result["candidates"], findings.findings(sqlite)) == (0, [])
    assert "2 with values of 0, which are left out" in done.result["summary"]


@pytest.mark.parametrize("nights", [1, 2])
def test_a_track_of_two_nights_is_too_young_to_judge(sqlite: Database, look: Look, nights: int) -> None:
    track = Nights(sqlite)
    track.add(range(nights - 1))
    track.add(range(nights - 1, nights), {MLP: 3.0}, driver="another")
    done = look(nights)
    assert (done.result["candidates"], done.result["unwatchable"], sessions(done)) == (0, 3, [])
    assert "3 too young or too noisy to judge" in done.result["summary"]


def test_a_finding_that_is_older_than_the_history_is_left_as_it_is(sqlite: Database, look: Look) -> None:
    nights = Nights(sqlite)
    runs = nights.add(range(SLOWER))
    nights.add(range(SLOWER, LAST + 1), {RESNET_COMPILED: 1.1})
    look(LAST)
    found = the_finding(sqlite)
    findings.decide(sqlite, found.id, "refuted", 0.0, None, None, Confirmation(), a_night(LAST))
    nights.add(range(LAST + 1, LAST + 12), {RESNET_COMPILED: 1.1})
    # The first night of the level that was left is gone, and so is the side of a second comparison.
    assert forget_run(sqlite, runs[0], force=True) is not None
    done = look(LAST + 11)
    assert (the_finding(sqlite).state, done.result["repeated"], sessions(done)) == ("refuted", 0, [])
