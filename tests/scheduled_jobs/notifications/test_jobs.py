"""The notification jobs, on both databases and to a real server: each report of real rows once."""

import threading
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from db.connection.engine import Database
from db.findings import notices
from db.findings import store as findings
from db.findings.notices import replace_delivery
from db.queue import commands as queue
from db.queue.queries import shared_time, tasks
from records.findings import Delivery, DeliveryState, Notice
from records.tasks import NewTask
from scheduled_jobs.detection.border_levels import BORDER_CHANGES, BorderChange
from scheduled_jobs.jobs.context import JobResult, JobStopped
from scheduled_jobs.jobs.digest import health_check, send_digest
from scheduled_jobs.notifications.collect import before, stored_digest
from scheduled_jobs.notifications.delivery import MOST_TRIES
from support.builders.notifications import DUE, MORNING, a_scheduler
from support.builders.run_records import MLP, RESNET
from support.servers.databases import on_both
from support.servers.notification_servers import WebSink
from support.servers.notified_site import DAY, MINUTE, NotifiedSite, a_job


@pytest.fixture
def site(url: str, database: Database, tmp_path: Path, web: WebSink) -> NotifiedSite:
    return NotifiedSite(url, database, tmp_path, web)


def test_a_quiet_night_is_one_line_and_is_sent(site: NotifiedSite) -> None:
    for night in range(3):
        site.measured(DUE - night * DAY, f"run-{2 - night}")
    done = site.run_digest()
    assert done.state == "done" and done.result["summary"] == "1 sent"
    assert site.subjects() == ["Pyrometer 2026-11-22: all 2 cases as before on 1 machine"]
    assert (
        "nightly@h200 on h200, due Sun 2026-11-22 02:30: done, all 2 cases ok" in site.web.posts[0]["message"]
    )


def test_a_new_driver_is_reported_on_its_first_night_and_not_again(site: NotifiedSite) -> None:
    for night, driver in ((2, "575.57"), (1, "575.57"), (0, "580.65")):
        site.measured(DUE - night * DAY, f"run-{2 - night}", driver=driver)
    site.run_digest()
    site.measured(DUE + DAY, "run-3", driver="580.65")
    site.run_digest(MORNING + DAY)
    assert site.subjects() == [
        "Pyrometer 2026-11-22: machine h200: driver: 575.57 to 580.65",
        "Pyrometer 2026-11-23: all 2 cases as before on 1 machine",
    ]


def test_a_quiet_night_may_be_skipped_and_a_loud_one_may_not(
    url: str, database: Database, tmp_path: Path, web: WebSink
) -> None:
    site = NotifiedSite(url, database, tmp_path, web, 'quiet = "skip"')
    site.measured()
    assert site.run_digest().result["summary"] == "nothing to send"
    site.due(DUE + DAY)
    site.ended("failed", DUE + DAY, "no index answers")
    site.run_digest(MORNING + DAY)
    line = "nightly@h200 was due and failed: no index answers"
    assert site.subjects() == [f"Pyrometer 2026-11-23: {line}"]


def test_a_night_is_reported_once_however_many_threads_ask(site: NotifiedSite) -> None:
    site.measured()
    answers: list[JobResult] = []
    start = threading.Barrier(4)

    def run_digest() -> None:
        start.wait()
        answers.append(site.run_digest())

    threads = [threading.Thread(target=run_digest) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    site.run_digest(MORNING + 3 * 60 * MINUTE)
    site.checked(MORNING + 4 * 60 * MINUTE)
    assert len(answers) == 4 and len(site.web.posts) == 1


def test_a_digest_by_hand_takes_nothing_from_the_one_in_the_morning(site: NotifiedSite) -> None:
    early = DUE - 60 * MINUTE
    site.run_digest(early, early)
    site.measured()
    site.run_digest()
    site.run_digest(MORNING + 5 * MINUTE)
    assert site.subjects() == [
        "Pyrometer 2026-11-22: nothing was due",
        "Pyrometer 2026-11-22: all 2 cases as before on 1 machine",
    ]
    stored = stored_digest(site.database, MORNING.date())
    assert stored is not None and stored.facts["since"] == early.isoformat()


@on_both
def test_a_regression_is_reported_once_and_a_triaged_one_is_not(site: NotifiedSite) -> None:
    site.measured(DUE - DAY, "run-1")
    site.measured()
    reported, muted, known = site.found(), site.found(MLP), site.found(direction="better")
    assert [one.state for one in (reported, muted, known)] == ["candidate"] * 3
    for one in (reported, muted, known):
        site.confirmed(one)
    findings.triage(site.database, muted.id, "mute", "ada", "", MORNING + DAY, DUE)
    findings.triage(site.database, known.id, "acknowledge", "ada", "seen", None, DUE)
    site.run_digest()
    site.measured(DUE + DAY, "run-3")
    site.run_digest(MORNING + DAY)
    site.measured(DUE + 2 * DAY, "run-4")
    site.run_digest(MORNING + 2 * DAY)
    assert site.subjects() == [
        f"Pyrometer 2026-11-22: 1 regression, largest +10.5 % {RESNET} on h200",
        # The mute is over.
        f"Pyrometer 2026-11-23: 1 regression, largest +10.5 % {MLP} on h200",
        "Pyrometer 2026-11-24: all 2 cases as before on 1 machine",
    ]
    assert site.digest().facts["silenced"] == 2 and site.digest("2026-11-24").facts["open"] == 2


def test_a_regression_that_was_reported_as_the_machines_is_reported_again(site: NotifiedSite) -> None:
    site.measured(DUE - DAY, "run-1")
    site.measured()
    site.found(state="machine")
    site.run_digest()
    # A later look says that it is PyTorch's.
    site.confirmed(site.found(), DUE + DAY)
    for night in (1, 2):
        site.measured(DUE + night * DAY, f"run-{night + 2}")
        site.run_digest(MORNING + night * DAY)
    assert site.subjects() == [
        f"Pyrometer 2026-11-22: 1 change with the machine, largest +10.5 % {RESNET} on h200",
        f"Pyrometer 2026-11-23: 1 regression, largest +10.5 % {RESNET} on h200",
        "Pyrometer 2026-11-24: all 2 cases as before on 1 machine",
    ]


def test_a_missed_digest_loses_nothing(site: NotifiedSite) -> None:
    site.measured(DUE - DAY, "run-1")
    site.run_digest(MORNING - DAY)
    site.measured()
    site.confirmed(site.found())
    site.measured(DUE + DAY, "run-3")
    site.run_digest(MORNING + DAY)
    assert site.subjects()[1] == f"Pyrometer 2026-11-23: 1 regression, largest +10.5 % {RESNET} on h200"
    assert len(site.digest("2026-11-23").facts["ran"]) == 2


@on_both
def test_coverage_that_fell_is_reported_once_with_how_it_ended(site: NotifiedSite) -> None:
    for night in range(4):
        site.measured(DUE - (4 - night) * DAY, f"run-{night}")
    site.measured(DUE, "run-9", b="oom")
    site.run_digest()
    site.measured(DUE + DAY, "run-10", b="oom")
    site.run_digest(MORNING + DAY)
    first, then = site.web.posts
    assert first["title"] == "Pyrometer 2026-11-22: 1 part lost coverage"
    assert (
        f"1 case of nightly@h200 is no longer measured: {RESNET} (oom: it ended as oom)" in first["message"]
    )
    assert then["title"] == "Pyrometer 2026-11-23: all 2 cases as before on 1 machine, 1 of them not ok"
    assert "1 case that used to be is not measured, in all" in then["message"]


def test_lost_coverage_is_not_reported_again_after_a_night_of_rest(site: NotifiedSite) -> None:
    for night in range(4):
        site.measured(DUE - (4 - night) * DAY, f"run-{night}")
    site.measured(DUE, "run-9", b="oom")
    site.run_digest()
    site.run_digest(MORNING + DAY)
    site.measured(DUE + 2 * DAY, "run-10", b="oom")
    site.run_digest(MORNING + 2 * DAY)
    assert site.subjects() == [
        "Pyrometer 2026-11-22: 1 part lost coverage",
        "Pyrometer 2026-11-23: nothing was due",
        "Pyrometer 2026-11-24: all 2 cases as before on 1 machine, 1 of them not ok",
    ]
    site.measured(DUE + 3 * DAY, "run-11")
    site.run_digest(MORNING + 3 * DAY)
    assert site.digest("2026-11-25").facts["coverage"] == []


def test_lost_coverage_of_one_part_is_not_kept_by_another_whose_name_begins_its_own(
    site: NotifiedSite,
) -> None:
    site.measured(DUE - 2 * DAY - MINUTE, "run-other")
    part = "nightly@h200 again"
    for night in range(4):
        site.measured(DUE - (4 - night) * DAY, f"run-{night}", part=part)
    site.measured(DUE, "run-9", part=part, b="oom")
    site.run_digest()
    assert site.digest().facts["coverage"] == [["nightly", part, RESNET]]
    site.measured(DUE + DAY, "run-10", part=part)
    site.run_digest(MORNING + DAY)
    assert site.digest("2026-11-23").facts["coverage"] == []


def test_lost_coverage_of_an_earlier_pyrometer_is_reported_again(site: NotifiedSite) -> None:
    for night in range(4):
        site.measured(DUE - (4 - night) * DAY, f"run-{night}")
    site.measured(DUE, "run-9", b="oom")
    site.run_digest()
    made = site.digest()
    earlier = {**made.facts, "coverage": [f"nightly nightly@h200 {RESNET}"]}
    assert before([replace(made, facts=earlier)], MORNING + DAY).coverage == frozenset()


def test_a_run_that_came_to_nothing_is_no_night_to_compare_with(site: NotifiedSite) -> None:
    site.measured(b="crashed")
    site.measured(DUE + 90 * MINUTE, "run-3", driver="580.65", state="failed")
    site.run_digest()
    message = site.web.posts[0]["message"]
    assert "due Sun 2026-11-22 04:00: failed" in message
    assert "no longer measured" not in message and "580.65" not in message


@on_both
def test_a_night_whose_run_is_not_stored_takes_no_digest_with_it(site: NotifiedSite) -> None:
    site.measured(DUE - DAY, "run-1")
    site.due()
    site.ended("done", DUE + 40 * MINUTE, run="run-that-is-only-a-journal")
    assert site.run_digest().state == "done"
    assert len(site.web.posts) == 1


def test_what_was_missed_and_not_made_up_for_is_a_missing_night(site: NotifiedSite) -> None:
    site.due(kind="missed", tasks=False)
    site.run_digest()
    assert site.subjects() == ["Pyrometer 2026-11-22: nightly was due and no scheduler was running"]


def test_what_a_later_moment_of_the_night_made_up_for_is_not_missing(site: NotifiedSite) -> None:
    for hours in (12, 3):
        site.measured(DUE - hours * 60 * MINUTE, f"run-{hours}")
        site.due(DUE - (hours - 1) * 60 * MINUTE, "missed", tasks=False)
    site.measured(DUE, "run-0")
    site.run_digest()
    assert site.digest().facts["problems"] == []


def test_throttling_is_reported(site: NotifiedSite) -> None:
    site.measured(a="throttled")
    site.run_digest()
    assert "machine h200: 1 throttled of 2 outcomes (50 %)" in site.web.posts[0]["message"]


@on_both
def test_an_outage_is_reported_at_once_and_once_and_so_is_its_end(site: NotifiedSite) -> None:
    site.seen("a10", MORNING - 31 * MINUTE)
    site.checked()
    site.checked(MORNING + 10 * MINUTE)
    assert len(site.web.posts) == 1
    site.seen("a10", MORNING + 15 * MINUTE)
    site.checked(MORNING + 20 * MINUTE)
    site.checked(MORNING + 30 * MINUTE)
    assert site.subjects() == [
        "Pyrometer: machine a10 is silent: no scheduler was seen there for 31 minutes",
        "Pyrometer: machine a10 is back, 51 minutes after it was last seen",
    ]
    assert [post["type"] for post in site.web.posts] == ["failure", "success"]
    # Another silence is another message.
    site.checked(MORNING + 60 * MINUTE)
    assert len(site.web.posts) == 3


def test_the_end_of_an_outage_is_reported_of_each_machine_of_a_fleet(site: NotifiedSite) -> None:
    machines = [f"n{number:03}" for number in range(110)]
    reported: list[str] = []
    for seen, checked in ((MORNING - 31 * MINUTE, MORNING), (MORNING + 15 * MINUTE, MORNING + 20 * MINUTE)):
        queue.seen_all(site.database, [a_scheduler(machine, seen) for machine in machines])
        reported += site.checked(checked).result["notified"]
    assert sum(" is silent" in title for title in reported) == len(machines)
    assert sum(" is back" in title for title in reported) == len(machines)


def test_the_notices_of_a_fleet_hide_no_digest_and_no_finding(site: NotifiedSite) -> None:
    site.measured(DUE - DAY, "run-1")
    site.run_digest(MORNING - 2 * DAY)
    site.measured()
    site.confirmed(site.found())
    for number in range(500):
        about = {"of": "machine", "name": f"n{number}", "since": MORNING.isoformat()}
        lately = Notice("silence", f"machine n{number}", MORNING - MINUTE, "", "", about)
        assert notices.save_notice(site.database, lately)
    site.run_digest()
    assert site.subjects()[-1] == f"Pyrometer 2026-11-22: 1 regression, largest +10.5 % {RESNET} on h200"
    assert site.digest().facts["since"] == (MORNING - 2 * DAY).isoformat()


@pytest.mark.postgres
@pytest.mark.parametrize("url", ["postgres"], indirect=True)
@pytest.mark.parametrize(("ago", "ahead", "reports"), [(1, 180, 0), (31, -60, 1)])
def test_silence_is_judged_by_the_clock_of_the_database(
    site: NotifiedSite, ago: int, ahead: int, reports: int
) -> None:
    now = shared_time(site.database, MORNING)
    site.seen("a10", now - ago * MINUTE)
    own = replace(site.job_context(now + ahead * MINUTE), shared_time=shared_time)
    health_check(a_job("check"), own)
    assert len(site.web.posts) == reports
    send_digest(replace(a_job("digest"), due_at=now), own)
    assert sum("a10 is silent" in post["message"] for post in site.web.posts[reports:]) == reports


def test_a_machine_that_stops_on_request_or_is_forgotten_is_neither_silent_nor_back(
    site: NotifiedSite,
) -> None:
    site.seen("a10", MORNING)
    queue.gone_all(site.database, [a_scheduler("a10").owner])
    site.seen("old", MORNING - 13 * DAY)
    site.checked()
    assert len(site.web.posts) == 1
    site.checked(MORNING + 2 * DAY)
    assert site.subjects() == ["Pyrometer: machine old is silent: no scheduler was seen there for 13 days"]


def test_a_night_that_does_not_begin_is_reported_at_once_and_in_the_digest(site: NotifiedSite) -> None:
    site.due(MORNING - DAY)
    site.checked()
    sentence = "nightly@h200 was due 24 hours ago and has not begun: no scheduler is online for h200"
    assert site.subjects() == [f"Pyrometer: {sentence}"]
    site.run_digest()
    assert site.subjects()[1].startswith(f"Pyrometer 2026-11-22: {sentence}")
    site.ended("done", MORNING + 5 * MINUTE)
    site.checked(MORNING + 10 * MINUTE)
    assert "has begun" in site.subjects()[2] and len(site.web.posts) == 3


def test_the_end_of_a_late_night_is_reported_however_many_others_are_newer(site: NotifiedSite) -> None:
    site.due(MORNING - DAY)
    site.checked()
    site.ended("done", MORNING + 5 * MINUTE)
    newer = MORNING + 6 * MINUTE
    fleet = [NewTask(f"n{number}", "measure", {"track": "nightly"}, f"n{number}") for number in range(500)]
    assert queue.plan_run(site.database, "another", newer, "timetable", fleet, newer)
    site.checked(MORNING + 10 * MINUTE)
    assert site.subjects()[-1].endswith("nightly@h200 has begun, 24 hours after it was due")


def test_a_machine_that_stays_away_is_one_silence_over_the_nights(site: NotifiedSite) -> None:
    for night in range(3):
        due_at = DUE + night * DAY
        site.due(due_at)
        queue.supersede(site.database, "nightly", due_at, due_at)
        for hours in (1, 7, 13, 19):
            site.checked(due_at + hours * 60 * MINUTE)
    assert len(site.web.posts) == 1 and "has not begun" in site.subjects()[0]
    site.run_digest(MORNING + 2 * DAY)
    (problem,) = site.digest("2026-11-24").facts["problems"]
    assert "was due 2 days ago and has not begun" in problem["sentence"]
    site.ended("done", DUE + 3 * DAY)
    site.checked(DUE + 3 * DAY + MINUTE)
    assert "has begun" in site.subjects()[-1]


def test_a_target_that_fails_is_tried_by_later_checks_and_reported_in_the_next_digest(
    site: NotifiedSite,
) -> None:
    site.measured()
    site.web.status = 500
    done = site.run_digest()
    (name,) = done.result["targets"]
    assert done.state == "done" and done.result["targets"][name].startswith("try 1 failed, is tried again: ")
    assert site.said and "hunter" not in str(site.said) + str(done)
    for minutes in range(10, 200, 10):
        site.checked(MORNING + minutes * MINUTE)
    was = site.digest().deliveries[name]
    assert (was.state, was.tries) == ("failed", 4)
    site.web.status = 200
    site.measured(DUE + DAY, "run-3")
    site.run_digest(MORNING + DAY)
    assert site.subjects() == ["Pyrometer 2026-11-23: 1 message was not delivered"]
    assert f"did not reach {name.replace('://', ':' + chr(0x200B) + '//')}" in site.web.posts[0]["message"]


def test_a_target_whose_sender_ended_in_its_last_try_is_reported_too(site: NotifiedSite) -> None:
    site.measured()
    site.web.status = 500
    site.run_digest()
    made = site.digest()
    ((name, was),) = made.deliveries.items()
    last = Delivery(DeliveryState.TRYING, MORNING + 200 * MINUTE, MOST_TRIES)
    assert replace_delivery(site.database, made.kind, made.key, name, was, last)
    site.web.status = 200
    site.measured(DUE + DAY, "run-3")
    site.run_digest(MORNING + DAY)
    assert site.subjects() == ["Pyrometer 2026-11-23: 1 message was not delivered"]
    assert "its sender ended before it was delivered" in site.web.posts[0]["message"]


def test_a_stopped_job_sends_nothing_more(site: NotifiedSite) -> None:
    site.measured()
    site.stop.set()
    with pytest.raises(JobStopped):
        site.run_digest()
    assert site.web.posts == []
    site.stop.clear()
    # The digest is stored; the next check brings it.
    site.checked(MORNING + 10 * MINUTE)
    assert len(site.web.posts) == 1


def test_levels_across_a_border_are_reported_once_however_often_the_track_is_looked_at(
    site: NotifiedSite,
) -> None:
    site.measured()
    levels = BorderChange(
        "h200", "nightly", "latency_floor", "driver: 575 to 580", 1, 8, 0.0402, ((MLP, 0.1),)
    )

    def looked(at: datetime) -> None:
        queue.plan_run(site.database, "detect:alone", at, "follow-up", [NewTask("", "detect", {})], at)
        token = at.isoformat()
        queue.claim(site.database, owner="h200/b/1/1", labels=[], jobs=["detect"], token=token, now=at)
        assert queue.finish(site.database, token, "done", {BORDER_CHANGES: [levels.body]}, "", at + MINUTE)

    looked(DUE)
    # After a session, and for another machine of the label, the same nights are looked at again.
    looked(DUE + 5 * MINUTE)
    looked(MORNING + 5 * MINUTE)
    site.run_digest()
    assert len(site.digest().facts["crossed"]) == 1
    site.measured(DUE + DAY, "run-3")
    site.run_digest(MORNING + DAY)
    assert site.digest("2026-11-23").facts["crossed"] == []


@on_both
def test_failed_jobs_and_judged_upgrades_are_reported(site: NotifiedSite) -> None:
    site.measured()
    levels = BorderChange(
        "h200", "nightly", "latency_floor", "driver: 575 to 580", 1, 8, 0.0402, ((MLP, 0.1),)
    )
    for job, schedule, state, result, error in (
        ("detect", "detect:nightly", "failed", {}, "no history"),
        ("detect", "detect:alone", "done", {BORDER_CHANGES: [levels.body]}, ""),
        ("upgrade", "upgrade:2.14.0", "done", {"decision": "no-go", "old": "2.13.0", "new": "2.14.0"}, ""),
    ):
        queue.plan_run(site.database, schedule, DUE, "follow-up", [NewTask("", job, {})], DUE)
        queue.claim(site.database, owner="h200/b/1/1", labels=[], jobs=[job], token=schedule, now=DUE)
        assert queue.finish(site.database, schedule, state, result, error, DUE + MINUTE)
    notices.save_notice(site.database, Notice("release", "x", DUE, "torch 2.14.0 is on offer", ""))
    site.run_digest()
    assert site.subjects() == [
        "Pyrometer 2026-11-22: 1 job failed; upgrade 2.13.0 to 2.14.0: no-go; torch 2.14.0 is on offer"
    ]
    assert "detect:nightly failed: no history" in site.web.posts[0]["message"]
    assert "+4.1 % Latency (min-based) (median of 8 cases) on the night of" in site.web.posts[0]["message"]
    assert len(tasks(site.database)) == 4
