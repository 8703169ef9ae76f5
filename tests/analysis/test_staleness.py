"""What counts as silent, missing, fallen and disturbed, and what only looks like it."""

from dataclasses import replace
from datetime import timedelta

from analysis.staleness import (
    EligibleMachines,
    LostCase,
    MeasuredNight,
    Outage,
    coverage,
    eligible_machines,
    machine_disturbance,
    overdue_nights,
    recovered,
    silent_machines,
    unplanned_outage,
    unplanned_since,
    wait_reason,
)
from records.outcomes import OutcomeCount
from records.tasks import SUPERSEDED, SchedulerSeen, Task
from reports.text import staleness_text
from reports.text.staleness_text import in_words
from support.builders.notifications import DUE, MORNING, a_scheduler, a_task

MINUTE = timedelta(minutes=1)
WAITING = {"state": "waiting", "run_id": None, "owner": None, "ended_at": None, "attempts": 0}


def overdue(*tasks: object, seen: tuple[SchedulerSeen, ...] = ()) -> list[Outage]:
    return overdue_nights(tasks, seen, MORNING, hours=5, minutes=30)  # type: ignore[arg-type]


def test_a_machine_is_silent_when_none_of_its_schedulers_was_seen_lately() -> None:
    seen = [a_scheduler("a10", MORNING - 31 * MINUTE), a_scheduler("h200", MORNING - 30 * MINUTE)]
    (silence,) = silent_machines(seen, MORNING, 30)
    assert (silence.kind, silence.name, silence.since) == ("machine", "a10", MORNING - 31 * MINUTE)
    assert (
        staleness_text.silence(silence) == "machine a10 is silent: no scheduler was seen there for 31 minutes"
    )
    assert silent_machines([*seen, a_scheduler("a10", MORNING)], MORNING, 30) == []


def test_a_silence_is_the_same_for_as_long_as_it_lasts() -> None:
    seen = [a_scheduler("a10", MORNING - timedelta(hours=1))]
    keys = {silent_machines(seen, MORNING + n * MINUTE, 30)[0].key for n in range(3)}
    assert len(keys) == 1
    assert silent_machines(seen, MORNING + timedelta(days=15), 30) == []


def test_a_night_not_started_is_missing_and_lists_eligible_machines() -> None:
    task = a_task(**WAITING)
    assert overdue(a_task(**{**WAITING, "due_at": MORNING - timedelta(hours=5)})) == []
    (alone,) = overdue(task)
    assert (
        staleness_text.silence(alone)
        == "nightly@h200 was due 5 hours ago and has not begun: no scheduler is online for h200"
    )
    gone = a_scheduler("other", MORNING - timedelta(days=1), labels=("h200",))
    assert overdue(task, seen=(gone,)) == [alone]
    (busy,) = overdue(task, seen=(a_scheduler("other", labels=("h200",)),))
    assert staleness_text.silence(busy).endswith("has not begun: other is online but has not started it")
    assert busy.key == alone.key
    node = replace(a_scheduler("node", labels=("h200",)), facts={"head": "head"})
    head = replace(a_scheduler("head"), facts={"missing": ["node"]})
    assert overdue(task, seen=(node, head)) == [alone]
    (back,) = overdue(task, seen=(node, replace(head, facts={"missing": []})))
    assert staleness_text.silence(back).endswith("node is online but has not started it")


def test_several_nights_that_wait_are_one_silence_and_other_tasks_are_none() -> None:
    nights = [a_task(n, **{**WAITING, "due_at": DUE - n * timedelta(days=1)}) for n in range(3)]
    (silence,) = overdue(*nights)
    assert silence.since == DUE - timedelta(days=2)
    assert overdue(a_task()) == []
    assert overdue(a_task(**{**WAITING, "not_before": MORNING})) == []


def test_superseded_nights_are_silent_since_the_first_not_started() -> None:
    day = timedelta(days=1)
    newest = a_task(4, **{**WAITING, "due_at": DUE})
    stood_for = {**WAITING, "state": "cancelled", "error": SUPERSEDED}
    superseded = [a_task(n, **{**stood_for, "due_at": DUE - (4 - n) * day}) for n in (2, 3)]
    done = a_task(1, due_at=DUE - 3 * day)
    (silence,) = overdue(newest, *superseded, done)
    assert silence.since == DUE - 2 * day
    # A cancelled task is not waited for, and what was begun and given back has begun.
    assert overdue(*superseded, done) == []
    assert overdue(replace(newest, attempts=1), *superseded, done) == []


def test_what_people_cancelled_makes_no_later_night_a_missing_one() -> None:
    day, late = timedelta(days=1), {**WAITING, "due_at": MORNING - timedelta(hours=1)}
    cancelled = a_task(1, **{**WAITING, "state": "cancelled", "due_at": DUE - day})
    assert overdue(a_task(2, **late), cancelled) == []
    # It ends no silence either: the night before it is as missing as it was.
    superseded = replace(cancelled, due_at=DUE - 2 * day, error=SUPERSEDED)
    (silence,) = overdue(a_task(2, **late), cancelled, superseded)
    assert silence.since == DUE - 2 * day
    (still,) = overdue(replace(cancelled, due_at=DUE), a_task(2, **{**WAITING, "due_at": DUE - day}))
    assert still.since == DUE - day


def test_back_is_what_was_seen_since_and_not_what_is_merely_forgotten() -> None:
    old = a_scheduler("a10", DUE)
    assert not recovered("machine", "a10", DUE, [old], [])
    assert recovered("machine", "a10", DUE, [old, a_scheduler("a10", MORNING)], [])
    name = "nightly@h200"
    waiting = a_task(**WAITING)
    superseded = replace(waiting, state="cancelled")
    assert not recovered("night", name, DUE, [], [superseded, replace(waiting, due_at=MORNING)])
    assert recovered("night", name, DUE, [], [superseded, a_task(state="running", due_at=MORNING)])
    assert not recovered("night", name, DUE, [], [a_task(due_at=DUE - timedelta(days=1))])


def endings(run: str, **statuses: str) -> tuple[str, list[OutcomeCount]]:
    return run, [OutcomeCount(run, case, status, 2, f"why {status}") for case, status in statuses.items()]


def test_coverage_fell_where_a_case_was_measured_in_half_of_the_nights_and_is_not_now() -> None:
    by_run = dict(
        [
            endings("run-9", a="oom", b="ok", c="crashed", d="crashed"),
            endings("run-8", a="ok", b="ok", c="ok", d="crashed", e="ok"),
            endings("run-7", a="ok", b="ok", c="crashed", d="crashed", e="ok"),
            endings("run-6", a="ok", b="ok", c="crashed", d="crashed", e="ok"),
        ]
    )
    before = ["run-8", "run-7", "run-6"]

    def lost_cases(before: list[str]) -> list[LostCase]:
        return list(coverage(MeasuredNight(a_task(), tuple(before)), by_run).lost)

    # c worked once in three nights; e was not asked for any more.
    assert [(one.case, one.status, one.reason) for one in lost_cases(before)] == [("a", "oom", "why oom")]
    assert [one.case for one in lost_cases(before[:2])] == ["a", "c"]
    assert lost_cases([]) == []


def test_a_case_of_which_one_replicate_is_left_is_still_measured() -> None:
    by_run = dict([endings("run-9", a="oom"), endings("run-8", a="ok")])
    by_run["run-9"].append(OutcomeCount("run-9", "a", "ok", 1, ""))
    assert coverage(MeasuredNight(a_task(), ("run-8",)), by_run).lost == ()


def test_disturbed_is_the_share_of_what_the_machine_spoiled() -> None:
    found = machine_disturbance("h200", [{"ok": 15, "throttled": 2}, {"contended": 1, "crashed": 2}])
    assert (found.throttled, found.contended, found.outcomes, found.share) == (2, 1, 20, 0.15)
    assert machine_disturbance("h200", []).share == 0


def test_lengths_in_words() -> None:
    assert [in_words(MINUTE * n) for n in (31, 119, 120, 2879, 2880)] == [
        "31 minutes",
        "119 minutes",
        "2 hours",
        "47 hours",
        "2 days",
    ]


def test_coverage_counts_the_usual_cases_and_of_a_run_that_broke_off_those_it_did_not_reach() -> None:
    by_run = dict(
        [
            endings("run-9", a="ok", b="crashed"),
            endings("run-8", a="ok", b="ok", c="ok"),
            endings("run-7", a="ok", b="ok", c="ok"),
        ]
    )
    before = ("run-8", "run-7")
    whole = coverage(MeasuredNight(a_task(), before), by_run)
    assert (whole.usual, whole.measured_cases, [one.case for one in whole.lost]) == (2, 1, ["b"])
    torn = coverage(MeasuredNight(a_task(state="failed"), before), by_run)
    assert (torn.usual, torn.measured_cases) == (3, 1)
    assert [(one.case, one.status) for one in torn.lost] == [("b", "crashed"), ("c", "not reached")]
    assert coverage(MeasuredNight(a_task(), ()), by_run).usual == 0


def test_a_run_is_missing_that_was_announced_or_that_usually_comes_by_now() -> None:
    days = [DUE - n * timedelta(days=1) for n in range(4)]
    announced = [DUE + timedelta(days=1), DUE + timedelta(days=2)]
    later = DUE + timedelta(days=1, hours=3)
    assert unplanned_since(days, announced, later) == announced[0]
    assert unplanned_since(days, announced, DUE + timedelta(hours=20)) is None
    # Announced was only what came: how long it usually is says the rest.
    assert unplanned_since(days, [DUE], later) == DUE + timedelta(days=1)
    assert unplanned_since(days, [], DUE + timedelta(hours=23)) is None
    assert unplanned_since(days[:2], [], later) is None and unplanned_since([], announced, later) is None


def test_a_schedule_of_working_days_rests_at_the_weekend() -> None:
    monday = DUE
    days = [monday, *(monday - timedelta(days=n) for n in (3, 4, 5))]
    assert unplanned_since(days, [], monday + timedelta(days=2)) is None
    assert unplanned_since(days, [], monday + timedelta(days=4)) == monday + timedelta(days=3)


def test_an_unscheduled_night_is_late_after_hours_and_dropped_after_weeks() -> None:
    late = unplanned_outage("nightly (nightly)", DUE, DUE + timedelta(hours=6), 5)
    assert late is not None and late.kind == "night" and late.since == DUE
    assert staleness_text.silence(late) == (
        "nightly (nightly) was due 6 hours ago and was not planned: no scheduler was running"
    )
    assert unplanned_outage("n", DUE, DUE + timedelta(hours=5), 5) is None
    assert unplanned_outage("n", DUE, DUE + timedelta(days=15), 5) is None


def test_a_task_waits_for_its_time_a_worker_a_label_or_its_turn() -> None:
    there = [a_scheduler("h1", labels=("h200",)), a_scheduler("h2", labels=("h200",)), a_scheduler("a10")]
    able, no_scheduler = eligible_machines(there), eligible_machines([])
    task = a_task(**WAITING)

    def why(task: Task, able: EligibleMachines = able, *busy: str) -> tuple[str, tuple[str, ...]]:
        found = wait_reason(task, able, set(busy), MORNING)
        return found.why, found.machines

    assert why(task) == ("next", ("h1", "h2"))
    assert why(task, able, "h1") == ("next", ("h1", "h2"))
    assert why(task, able, "h1", "h2") == ("busy", ("h1", "h2"))
    assert why(replace(task, label="tpu")) == ("no such label", ())
    # A machine is always asked by its own name, and what is for none is for all.
    assert why(replace(task, label="a10")) == ("next", ("a10",))
    assert why(replace(task, label="")) == ("next", ("a10", "h1", "h2"))
    assert why(task, no_scheduler) == why(replace(task, label=""), no_scheduler) == ("unscheduled", ())
    assert why(replace(task, not_before=MORNING + MINUTE))[0] == "not yet"
    assert why(replace(task, not_before=MORNING - MINUTE))[0] == "next"
