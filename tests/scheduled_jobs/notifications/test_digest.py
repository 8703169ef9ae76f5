"""What the digest of a night reports and what it leaves out: pure, from data."""

from dataclasses import replace
from datetime import timedelta

from analysis.staleness import LostCase, MachineDisturbance, Outage
from records.evidence import evidence_of
from scheduled_jobs.notifications.digest import UpgradeDecision, digest
from support.builders.notifications import BEFORE, DUE, MORNING, a_finding, a_night, a_ran
from support.builders.run_records import BERT, MLP, RESNET, RESNET_COMPILED


def test_a_night_without_news_is_quiet() -> None:
    assert digest(a_night()).quiet


def test_new_findings_are_reported_once_and_better_ones_apart_from_worse_ones() -> None:
    better = a_finding(2, MLP, direction="better", change=-0.2)
    made = digest(a_night(findings=[a_finding(1), better]))
    assert [group.largest.case for group in made.regressions] == [RESNET]
    assert [group.largest.case for group in made.improvements] == [MLP]
    assert set(made.ids) == {1, 2} and not made.quiet
    again = digest(a_night(findings=[a_finding(1), better], reported=made.ids))
    assert (again.regressions, again.improvements, again.ids, again.quiet) == ((), (), (), True)


def test_one_group_for_a_night_a_machine_and_a_pair_of_environments() -> None:
    cases = [f"case{n}/infer/-/eager" for n in range(8)]
    same = [a_finding(n, case, change=0.01 * (n + 1)) for n, case in enumerate(cases)]
    other = a_finding(20, MLP, machine="a10", change=-0.5)
    earlier = a_finding(21, BERT, at_run="run-1", change=0.3)
    made = digest(a_night(findings=[*same, other, earlier]))
    assert [(group.machine, group.count) for group in made.regressions] == [
        ("a10", 1),
        ("h200", 1),
        ("h200", 8),
    ]
    largest = made.regressions[2]
    assert [one.case for one in largest.top] == cases[:2:-1]
    assert (largest.old, largest.new) == ("2.14.0.dev20261119", "2.14.0.dev20261120")


def test_a_case_is_reported_once_with_the_metric_that_moved_most() -> None:
    found = [
        a_finding(1),
        a_finding(2, metric="throughput", change=-0.11),
        a_finding(3, metric="rss_peak", change=0.02),
    ]
    (group,) = digest(a_night(findings=found)).regressions
    assert group.count == 1
    assert (group.largest.metric, group.largest.others) == ("throughput", ("latency", "rss_peak"))


def test_muted_acknowledged_and_expected_ones_are_not_reported_but_counted() -> None:
    found = [
        a_finding(1, triage="acknowledged"),
        a_finding(2, MLP, triage="expected"),
        a_finding(3, BERT, muted_until=MORNING + timedelta(seconds=1)),
    ]
    made = digest(a_night(findings=found))
    assert (made.regressions, made.ids, made.silenced, made.quiet) == ((), (), 3, True)


def test_a_finding_is_reported_when_its_mute_ends() -> None:
    made = digest(a_night(findings=[a_finding(1, muted_until=MORNING)]))
    assert made.ids == (1,)


def test_candidates_wait_with_their_reason_and_refuted_ones_are_a_number() -> None:
    found = [
        a_finding(
            1,
            state="candidate",
            decided_at=None,
            evidence=evidence_of({"waits": "the old environment is gone"}),
        ),
        a_finding(2, MLP, state="candidate", decided_at=None),
        a_finding(3, BERT, state="confirming", decided_at=None),
        a_finding(4, RESNET_COMPILED, state="refuted"),
        a_finding(5, BERT, state="refuted", decided_at=BEFORE),
        a_finding(6, BERT, state="unclear"),
    ]
    made = digest(a_night(findings=found))
    assert dict(made.waiting) == {
        "the old environment is gone": 1,
        "is to be measured again": 1,
        "is being measured again": 1,
    }
    # The one that was decided before this night was reported then.
    assert (made.refuted, made.unclear, made.regressions, made.ids) == (1, 1, (), ())


def test_what_came_back_is_a_regression_that_says_so() -> None:
    (group,) = digest(a_night(findings=[a_finding(9, returns_of=3)])).regressions
    assert group.largest.returned


def test_what_moved_with_the_machine_is_no_regression() -> None:
    made = digest(a_night(findings=[a_finding(1, state="machine", decided_at=None)]))
    assert made.regressions == () and [group.largest.case for group in made.machine] == [RESNET]
    assert made.ids == (1,)


def test_a_change_reported_as_the_machines_is_reported_once_more_as_a_regression() -> None:
    first = digest(a_night(findings=[a_finding(1, state="machine", decided_at=None), a_finding(2, MLP)]))
    assert (set(first.ids), first.machine_ids) == ({1, 2}, (1,))
    earlier = {"reported": [2], "reported_as_machines": first.machine_ids}
    then = digest(a_night(findings=[a_finding(1), a_finding(2, MLP)], **earlier))
    assert [group.largest.finding for group in then.regressions] == [1]
    assert (then.ids, then.machine_ids) == ((1,), ())
    assert digest(a_night(findings=[a_finding(1, state="machine", decided_at=None)], **earlier)).quiet


def test_a_night_that_was_due_and_not_done_is_missing() -> None:
    failed = a_ran("a10", state="failed", cases=0, ok=0, run="", error="no index answers")
    made = digest(a_night(ran=[a_ran(), failed]))
    assert [(one.kind, one.sentence) for one in made.problems] == [
        ("missing", "nightly@a10 was due and failed: no index answers")
    ]


def test_what_was_made_up_for_later_is_not_missing() -> None:
    early = DUE - timedelta(hours=12)
    lost = a_ran(state="lost", due_at=early)
    missed = a_ran(part="", machine="", state="missed", due_at=early)
    assert digest(a_night(ran=[lost, missed, a_ran()])).problems == ()
    assert [one.kind for one in digest(a_night(ran=[lost, missed])).problems] == ["missing", "missing"]
    # A later moment that failed makes up for nothing.
    assert len(digest(a_night(ran=[a_ran(due_at=early), a_ran(state="failed")])).problems) == 1


def test_the_newest_night_that_is_done_makes_up_for_what_was_not_in_whatever_order() -> None:
    hours = timedelta(hours=1)
    done, late = a_ran(due_at=DUE - 18 * hours), a_ran()
    lost = a_ran(state="lost", due_at=DUE - 12 * hours)
    missed = a_ran(part="", machine="", state="missed", due_at=DUE - 6 * hours)
    for ran in ([done, lost, missed, late], [late, missed, lost, done]):
        assert digest(a_night(ran=ran)).problems == ()


def test_silence_coverage_and_disturbance_are_problems() -> None:
    silent = Outage("machine", "a10", BEFORE, timedelta(hours=9))
    lost_cases = [LostCase("nightly", "nightly@h200", f"case{n}", "oom", "out of memory") for n in range(7)]
    spoiled = [
        MachineDisturbance("h200", 3, 2, 100),
        MachineDisturbance("a10", 0, 4, 100),
        MachineDisturbance("b", 0, 0, 1),
    ]
    made = digest(a_night(outages=[silent], lost_cases=lost_cases, disturbed=spoiled))
    assert [one.kind for one in made.problems] == ["silent", "coverage", "disturbed"]
    assert made.problems[1].sentence.startswith(
        "7 cases of nightly@h200 are no longer measured: case0 (oom: out of memory); case1"
    )
    assert made.problems[1].sentence.endswith("; and 2 more")
    assert made.problems[2].sentence == "machine h200: 3 throttled and 2 contended of 100 outcomes (5 %)"


def test_coverage_that_fell_before_is_not_reported_again() -> None:
    lost_cases = [
        LostCase("nightly", "", "case0", "oom", ""),
        LostCase("nightly", "", "case1", "crashed", ""),
    ]
    first = digest(a_night(lost_cases=lost_cases[:1]))
    then = digest(a_night(lost_cases=lost_cases, lost_before=first.coverage))
    assert [one.sentence for one in then.problems] == [
        "1 case of nightly is no longer measured: case1 (crashed)"
    ]
    assert len(then.coverage) == 2


def test_a_judged_upgrade_and_what_is_not_done_are_not_quiet() -> None:
    assert not digest(
        a_night(upgrades=[UpgradeDecision("2.13.0", "2.14.0", "go", "h200", "run-5", ())])
    ).quiet
    assert not digest(a_night(ran=[a_ran(state="running")])).quiet


def test_a_change_that_goes_on_is_reported_in_the_night_in_which_it_was_noted() -> None:
    night = {"change": 0.2, "run": "run-9", "night": DUE.isoformat(), "noted_at": MORNING.isoformat()}
    one = a_finding(1, evidence=evidence_of({"goes_on": night}))
    made = digest(a_night(still=[one], reported=[1]))
    (goes_on,) = made.going_on
    assert (goes_on.reported, goes_on.change, goes_on.since, goes_on.now) == (0.1, 0.2, one.at, DUE)
    assert (made.regressions, made.ids, made.quiet) == ((), (), False)
    earlier = a_finding(1, evidence=evidence_of({"goes_on": night | {"noted_at": BEFORE.isoformat()}}))
    measured = a_finding(1, evidence=evidence_of({"goes_on": night | {"finding": 2}}))
    for other in (earlier, measured, a_finding(1), replace(one, triage="acknowledged")):
        assert digest(a_night(still=[other], reported=[1])).quiet


def test_a_drift_is_one_regression_with_its_whole_size() -> None:
    piece = a_finding(1, change=0.03, at=DUE - timedelta(days=20), at_run="run-20")
    whole = a_finding(2, change=0.09, shape="drift", before=DUE - timedelta(days=60))
    other = a_finding(3, MLP, change=0.03, at=DUE - timedelta(days=20), at_run="run-20")
    made = digest(a_night(findings=[piece, whole, other]))
    assert [[one.change for one in group.top] for group in made.regressions] == [[0.09], [0.03]]
    assert made.regressions[0].largest.after == whole.before and set(made.ids) == {1, 2, 3}
