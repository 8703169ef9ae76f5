"""The notification jobs, on both databases and to a real server: each report of real rows once."""

import threading
from datetime import datetime
from pathlib import Path

import pytest

from db.connection.engine import Database
from db.findings import notices
from db.findings import store as findings
from db.queue import commands as queue
from db.queue.queries import tasks
from records.findings import Notice
from records.tasks import NewTask
from scheduled_jobs.detection.border_levels import BORDER_CHANGES, BorderChange
from scheduled_jobs.jobs.context import JobResult, Stopped
from scheduled_jobs.notifications.collect import stored_digest
from support.builders.notifications import DUE, MORNING, a_scheduler
from support.builders.run_records import MLP, RESNET
from support.servers.databases import on_both
from support.servers.notification_servers import WebSink
from support.servers.notified_site import DAY, MINUTE, Place


@pytest.fixture
def place(url: str, database: Database, tmp_path: Path, web: WebSink) -> Place:
    return Place(url, database, tmp_path, web)


def test_a_quiet_night_is_one_line_and_is_sent(place: Place) -> None:
    for night in range(3):
        place.measured(DUE - night * DAY, f"run-{2 - night}")
    done = place.run_digest()
    assert done.state == "done" and done.result["summary"] == "1 sent"
    assert place.subjects() == ["Pyrometer 2026-11-22: all 2 cases as before on 1 machine"]
    assert (
        "nightly@h200 on h200, due Sun 2026-11-22 02:30: done, all 2 cases ok"
        in place.web.posts[0]["message"]
    )


def test_a_new_driver_is_reported_on_its_first_night_and_not_again(place: Place) -> None:
    for night, driver in ((2, "575.57"), (1, "575.57"), (0, "580.65")):
        place.measured(DUE - night * DAY, f"run-{2 - night}", driver=driver)
    place.run_digest()
    place.measured(DUE + DAY, "run-3", driver="580.65")
    place.run_digest(MORNING + DAY)
    assert place.subjects() == [
        "Pyrometer 2026-11-22: machine h200: driver: 575.57 to 580.65",
        "Pyrometer 2026-11-23: all 2 cases as before on 1 machine",
    ]


def test_a_quiet_night_may_be_skipped_and_a_loud_one_may_not(
    url: str, database: Database, tmp_path: Path, web: WebSink
) -> None:
    place = Place(url, database, tmp_path, web, 'quiet = "skip"')
    place.measured()
    assert place.run_digest().result["summary"] == "nothing to send"
    place.due(DUE + DAY)
    place.ended("failed", DUE + DAY, "no index answers")
    place.run_digest(MORNING + DAY)
    line = "nightly@h200 was due and failed: no index answers"
    assert place.subjects() == [f"Pyrometer 2026-11-23: {line}"]


def test_a_night_is_reported_once_however_many_threads_ask(place: Place) -> None:
    place.measured()
    answers: list[JobResult] = []
    start = threading.Barrier(4)

    def run_digest() -> None:
        start.wait()
        answers.append(place.run_digest())

    threads = [threading.Thread(target=run_digest) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    place.run_digest(MORNING + 3 * 60 * MINUTE)
    place.checked(MORNING + 4 * 60 * MINUTE)
    assert len(answers) == 4 and len(place.web.posts) == 1


def test_a_digest_by_hand_takes_nothing_from_the_one_in_the_morning(place: Place) -> None:
    early = DUE - 60 * MINUTE
    place.run_digest(early, early)
    place.measured()
    place.run_digest()
    place.run_digest(MORNING + 5 * MINUTE)
    assert place.subjects() == [
        "Pyrometer 2026-11-22: nothing was due",
        "Pyrometer 2026-11-22: all 2 cases as before on 1 machine",
    ]
    stored = stored_digest(place.database, MORNING.date())
    assert stored is not None and stored.facts["since"] == early.isoformat()


@on_both
def test_a_regression_is_reported_once_and_a_triaged_one_is_not(place: Place) -> None:
    place.measured(DUE - DAY, "run-1")
    place.measured()
    reported, muted, known = place.found(), place.found(MLP), place.found(direction="better")
    assert [one.state for one in (reported, muted, known)] == ["candidate"] * 3
    for one in (reported, muted, known):
        place.confirmed(one)
    findings.triage(place.database, muted.id, "mute", "ada", "", MORNING + DAY, DUE)
    findings.triage(place.database, known.id, "acknowledge", "ada", "seen", None, DUE)
    place.run_digest()
    place.measured(DUE + DAY, "run-3")
    place.run_digest(MORNING + DAY)
    place.measured(DUE + 2 * DAY, "run-4")
    place.run_digest(MORNING + 2 * DAY)
    assert place.subjects() == [
        f"Pyrometer 2026-11-22: 1 regression, largest +10.5 % {RESNET} on h200",
        # The mute is over.
        f"Pyrometer 2026-11-23: 1 regression, largest +10.5 % {MLP} on h200",
        "Pyrometer 2026-11-24: all 2 cases as before on 1 machine",
    ]
    assert place.digest().facts["silenced"] == 2 and place.digest("2026-11-24").facts["open"] == 2


def test_a_regression_that_was_reported_as_the_machines_is_reported_again(place: Place) -> None:
    place.measured(DUE - DAY, "run-1")
    place.measured()
    place.found(state="machine")
    place.run_digest()
    # A later look says that it is PyTorch's.
    place.confirmed(place.found(), DUE + DAY)
    for night in (1, 2):
        place.measured(DUE + night * DAY, f"run-{night + 2}")
        place.run_digest(MORNING + night * DAY)
    assert place.subjects() == [
        f"Pyrometer 2026-11-22: 1 change with the machine, largest +10.5 % {RESNET} on h200",
        f"Pyrometer 2026-11-23: 1 regression, largest +10.5 % {RESNET} on h200",
        "Pyrometer 2026-11-24: all 2 cases as before on 1 machine",
    ]


def test_a_missed_digest_loses_nothing(place: Place) -> None:
    place.measured(DUE - DAY, "run-1")
    place.run_digest(MORNING - DAY)
    place.measured()
    place.confirmed(place.found())
    place.measured(DUE + DAY, "run-3")
    place.run_digest(MORNING + DAY)
    assert place.subjects()[1] == f"Pyrometer 2026-11-23: 1 regression, largest +10.5 % {RESNET} on h200"
    assert len(place.digest("2026-11-23").facts["ran"]) == 2


@on_both
def test_coverage_that_fell_is_reported_once_with_how_it_ended(place: Place) -> None:
    for night in range(4):
        place.measured(DUE - (4 - night) * DAY, f"run-{night}")
    place.measured(DUE, "run-9", b="oom")
    place.run_digest()
    place.measured(DUE + DAY, "run-10", b="oom")
    place.run_digest(MORNING + DAY)
    first, then = place.web.posts
    assert first["title"] == "Pyrometer 2026-11-22: 1 part lost coverage"
    assert (
        "1 case of nightly@h200 used to be measured and is no longer: "
        f"{RESNET} (oom: it ended as oom)" in first["message"]
    )
    assert then["title"] == "Pyrometer 2026-11-23: all 2 cases as before on 1 machine, 1 of them not ok"
    assert "1 case that used to be is not measured, in all" in then["message"]


def test_a_run_that_came_to_nothing_is_no_night_to_compare_with(place: Place) -> None:
    place.measured(b="crashed")
    place.measured(DUE + 90 * MINUTE, "run-3", driver="580.65", state="failed")
    place.run_digest()
    message = place.web.posts[0]["message"]
    assert "due Sun 2026-11-22 04:00: failed" in message
    assert "used to be measured" not in message and "580.65" not in message


@on_both
def test_what_was_missed_and_not_made_up_for_is_a_missing_night(place: Place) -> None:
    place.due(how="missed", tasks=False)
    place.run_digest()
    assert place.subjects() == [
        "Pyrometer 2026-11-22: nightly was due and no scheduler was there to begin it"
    ]


def test_what_a_later_moment_of_the_night_made_up_for_is_not_missing(place: Place) -> None:
    for hours in (12, 3):
        place.measured(DUE - hours * 60 * MINUTE, f"run-{hours}")
        place.due(DUE - (hours - 1) * 60 * MINUTE, "missed", tasks=False)
    place.measured(DUE, "run-0")
    place.run_digest()
    assert place.digest().facts["troubles"] == []


def test_throttling_is_reported(place: Place) -> None:
    place.measured(a="throttled")
    place.run_digest()
    assert "machine h200: 1 throttled of 2 outcomes (50 %)" in place.web.posts[0]["message"]


@on_both
def test_an_outage_is_reported_at_once_and_once_and_so_is_its_end(place: Place) -> None:
    place.seen("a10", MORNING - 31 * MINUTE)
    place.checked()
    place.checked(MORNING + 10 * MINUTE)
    assert len(place.web.posts) == 1
    place.seen("a10", MORNING + 15 * MINUTE)
    place.checked(MORNING + 20 * MINUTE)
    place.checked(MORNING + 30 * MINUTE)
    assert place.subjects() == [
        "Pyrometer: machine a10 is silent: no scheduler was seen there for 31 minutes",
        "Pyrometer: machine a10 is back, 51 minutes after it was last seen",
    ]
    assert [post["type"] for post in place.web.posts] == ["failure", "success"]
    # Another silence is another message.
    place.checked(MORNING + 60 * MINUTE)
    assert len(place.web.posts) == 3


def test_a_machine_that_stops_on_request_or_is_forgotten_is_neither_silent_nor_back(place: Place) -> None:
    place.seen("a10", MORNING)
    queue.gone_all(place.database, [a_scheduler("a10").owner])
    place.seen("old", MORNING - 13 * DAY)
    place.checked()
    assert len(place.web.posts) == 1
    place.checked(MORNING + 2 * DAY)
    assert place.subjects() == ["Pyrometer: machine old is silent: no scheduler was seen there for 13 days"]


def test_a_night_that_does_not_begin_is_reported_at_once_and_in_the_digest(place: Place) -> None:
    place.due(MORNING - DAY)
    place.checked()
    sentence = "nightly@h200 was due 24 hours ago and has not begun: no scheduler is there for h200"
    assert place.subjects() == [f"Pyrometer: {sentence}"]
    place.run_digest()
    assert place.subjects()[1].startswith(f"Pyrometer 2026-11-22: {sentence}")
    place.ended("done", MORNING + 5 * MINUTE)
    place.checked(MORNING + 10 * MINUTE)
    assert "has begun" in place.subjects()[2] and len(place.web.posts) == 3


def test_a_machine_that_stays_away_is_one_silence_over_the_nights(place: Place) -> None:
    for night in range(3):
        due_at = DUE + night * DAY
        place.due(due_at)
        queue.supersede(place.database, "nightly", due_at, due_at)
        for hours in (1, 7, 13, 19):
            place.checked(due_at + hours * 60 * MINUTE)
    assert len(place.web.posts) == 1 and "has not begun" in place.subjects()[0]
    place.run_digest(MORNING + 2 * DAY)
    (problem,) = place.digest("2026-11-24").facts["troubles"]
    assert "was due 2 days ago and has not begun" in problem["sentence"]
    place.ended("done", DUE + 3 * DAY)
    place.checked(DUE + 3 * DAY + MINUTE)
    assert "has begun" in place.subjects()[-1]


def test_a_target_that_fails_is_tried_by_later_checks_and_reported_in_the_next_digest(place: Place) -> None:
    place.measured()
    place.web.status = 500
    done = place.run_digest()
    (name,) = done.result["targets"]
    assert done.state == "done" and done.result["targets"][name].startswith("try 1 failed, is tried again: ")
    assert place.said and "hunter" not in str(place.said) + str(done)
    for minutes in range(10, 200, 10):
        place.checked(MORNING + minutes * MINUTE)
    was = place.digest().deliveries[name]
    assert (was.state, was.tries) == ("failed", 4)
    place.web.status = 200
    place.measured(DUE + DAY, "run-3")
    place.run_digest(MORNING + DAY)
    assert place.subjects() == ["Pyrometer 2026-11-23: 1 message was not delivered"]
    assert f"did not reach {name.replace('://', ':' + chr(0x200B) + '//')}" in place.web.posts[0]["message"]


def test_a_stopped_job_sends_nothing_more(place: Place) -> None:
    place.measured()
    place.stop.set()
    with pytest.raises(Stopped):
        place.run_digest()
    assert place.web.posts == []
    place.stop.clear()
    # The digest is stored; the next check brings it.
    place.checked(MORNING + 10 * MINUTE)
    assert len(place.web.posts) == 1


def test_levels_across_a_border_are_reported_once_however_often_the_track_is_looked_at(place: Place) -> None:
    place.measured()
    levels = BorderChange(
        "h200", "nightly", "latency_floor", "driver: 575 to 580", 1, 8, 0.0402, ((MLP, 0.1),)
    )

    def looked(at: datetime) -> None:
        queue.plan_run(place.database, "detect:alone", at, "follow-up", [NewTask("", "detect", {})], at)
        token = at.isoformat()
        queue.claim(place.database, owner="h200/b/1/1", labels=[], jobs=["detect"], token=token, now=at)
        assert queue.finish(place.database, token, "done", {BORDER_CHANGES: [levels.body]}, "", at + MINUTE)

    looked(DUE)
    # After a session, and for another machine of the label, the same nights are looked at again.
    looked(DUE + 5 * MINUTE)
    looked(MORNING + 5 * MINUTE)
    place.run_digest()
    assert len(place.digest().facts["crossed"]) == 1
    place.measured(DUE + DAY, "run-3")
    place.run_digest(MORNING + DAY)
    assert place.digest("2026-11-23").facts["crossed"] == []


@on_both
def test_failed_jobs_and_judged_upgrades_are_reported(place: Place) -> None:
    place.measured()
    levels = BorderChange(
        "h200", "nightly", "latency_floor", "driver: 575 to 580", 1, 8, 0.0402, ((MLP, 0.1),)
    )
    for job, schedule, state, result, error in (
        ("detect", "detect:nightly", "failed", {}, "no history"),
        ("detect", "detect:alone", "done", {BORDER_CHANGES: [levels.body]}, ""),
        ("upgrade", "upgrade:2.14.0", "done", {"decision": "no-go", "old": "2.13.0", "new": "2.14.0"}, ""),
    ):
        queue.plan_run(place.database, schedule, DUE, "follow-up", [NewTask("", job, {})], DUE)
        queue.claim(place.database, owner="h200/b/1/1", labels=[], jobs=[job], token=schedule, now=DUE)
        assert queue.finish(place.database, schedule, state, result, error, DUE + MINUTE)
    notices.save_notice(place.database, Notice("release", "x", DUE, "torch 2.14.0 is on offer", ""))
    place.run_digest()
    assert place.subjects() == [
        "Pyrometer 2026-11-22: 1 job failed; upgrade 2.13.0 to 2.14.0: no-go; torch 2.14.0 is on offer"
    ]
    assert "detect:nightly failed: no history" in place.web.posts[0]["message"]
    assert "+4.1 % Latency floor (median of 8 cases) on the night of" in place.web.posts[0]["message"]
    assert len(tasks(place.database)) == 4
