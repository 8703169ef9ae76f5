"""What a series shows becomes findings: between which nights, what is known already, what was taken back."""

from dataclasses import replace
from datetime import timedelta

import pytest

from analysis.detection.nights import Change, Decision
from records.evidence import ComparedRuns, Evidence, evidence_of
from records.findings import Finding
from reports.text.finding_text import stricter
from scheduled_jobs.detection.findings import (
    MachineSeries,
    compared_nights,
    compared_runs,
    decisions_of,
    series_findings,
    shown_nights,
)
from support.builders.detection_series import CHANGE, KEY, TRACK, a_series, judged, known
from support.builders.run_records import a_night


def test_a_session_compares_a_night_surely_before_with_the_newest() -> None:
    series = a_series()
    assert compared_nights(CHANGE, series) == (1, 11)
    # No further back than its level goes: before that, another change lies between.
    assert compared_nights(replace(CHANGE, since=4), series) == (4, 11)
    # Seen late, its place is uncertain; and a drift left its level where that began.
    assert compared_nights(replace(CHANGE, raised=11), series) == (0, 11)
    assert compared_nights(replace(CHANGE, shape="drift", since=2), series) == (2, 11)


def test_the_old_side_is_no_night_of_the_level_before() -> None:
    # The step that began the level was at night 11, and its place is estimated one night early.
    series = a_series(60)
    late = replace(CHANGE, index=40, raised=47, since=10)
    for change in (late, replace(late, shape="drift"), replace(late, shape="drift", anchored=True)):
        assert 11 <= compared_nights(change, series)[0] < 20


def test_what_came_back_by_the_newest_night_is_compared_as_it_was_before() -> None:
    series = a_series()
    back = [replace(point, point=11.0 if 6 <= at < 11 else 10.0) for at, point in enumerate(series.points)]
    assert compared_nights(CHANGE, MachineSeries(KEY, "m", tuple(back))) == (1, 10)


def test_people_are_shown_the_nights_around_the_estimated_place() -> None:
    series = a_series()
    assert shown_nights(CHANGE, series) == (4, 7)
    # Seen in the very last night, it cannot be a night later.
    assert shown_nights(replace(CHANGE, index=11), series) == (10, 11)
    assert shown_nights(replace(CHANGE, since=5), series) == (5, 7)
    assert shown_nights(replace(CHANGE, shape="drift", since=2), series) == (2, 11)


def test_a_change_is_stored_with_its_place_and_with_what_is_compared() -> None:
    (found,) = series_findings(TRACK, a_series(), judged(CHANGE), ()).findings
    assert (found.at_run, found.before_run, found.evidence.new_run) == ("run-6", "run-4", "run-7")
    assert (found.old_environment, found.new_environment) == ("environment-4", "environment-7")
    assert (found.state, found.change, found.direction) == ("candidate", 0.1, "worse")
    sides = ComparedRuns("run-1", "environment-1", "run-11", "environment-11", "run-0")
    assert compared_runs(known()) == sides


def test_of_one_that_an_earlier_version_stored_the_nights_around_it_are_compared() -> None:
    earlier = known(evidence=evidence_of({"new_run": "run-7"}))
    assert compared_runs(earlier) == ComparedRuns("run-4", "environment-4", "run-7", "environment-7")


def test_where_the_environment_changes_rarely_the_whole_span_tells_whose_a_change_is() -> None:
    # The place is estimated two nights before the release that made it.
    release = a_series(environment=lambda night: "2.13" if night < 8 else "2.14")
    (found,) = series_findings(TRACK, release, judged(CHANGE), ()).findings
    assert found.state == "candidate"
    assert (compared_runs(known(evidence=found.evidence)).old, found.new_environment) == ("2.13", "2.14")
    # People are shown the nights between which the environment changed, and not one and the same.
    assert found.old_environment == "2.13"
    same = a_series(environment=lambda night: "2.13")
    (found,) = series_findings(TRACK, same, judged(CHANGE), ()).findings
    assert (found.state, found.old_environment, found.new_environment) == ("machine", "2.13", "2.13")


def test_where_the_environment_came_back_the_one_between_is_compared() -> None:
    back = a_series(environment=lambda night: "2.14" if 6 <= night < 10 else "2.13")
    (found,) = series_findings(TRACK, back, judged(CHANGE), ()).findings
    sides = compared_runs(known(evidence=found.evidence))
    assert (found.state, sides.old, sides.new, sides.new_run) == ("candidate", "2.13", "2.14", "run-9")


def test_what_the_control_did_too_is_the_machines() -> None:
    (found,) = series_findings(TRACK, a_series(), judged(replace(CHANGE, machine=True)), ()).findings
    assert found.state == "machine"


def test_a_change_that_moved_by_a_night_is_the_one_that_is_known() -> None:
    moved = replace(CHANGE, index=7)
    for state in ("candidate", "confirming", "confirmed", "refuted", "unclear"):
        assert series_findings(TRACK, a_series(), judged(moved), [known(state=state)]).findings == ()
    # One that was taken back is none; another direction, a distant night, or both at once are two changes.
    assert series_findings(TRACK, a_series(), judged(moved), [known(state="no longer")]).findings
    assert series_findings(TRACK, a_series(), judged(replace(moved, direction="better")), [known()]).findings
    assert series_findings(TRACK, a_series(), judged(replace(CHANGE, index=11)), [known()]).findings
    assert len(series_findings(TRACK, a_series(), judged(CHANGE, moved), [known()]).findings) == 2


def test_a_refuted_piece_hides_no_drift_that_the_weekly_check_found() -> None:
    whole = replace(CHANGE, index=7, raised=11, shape="drift", anchored=True, change=0.2)
    (found,) = series_findings(TRACK, a_series(), judged(whole), [known(state="refuted")]).findings
    assert (found.shape, found.change, found.at_run) == ("drift", 0.2, "run-7")
    assert (
        series_findings(TRACK, a_series(), judged(whole), [known(state="refuted", shape="drift")]).findings
        == ()
    )


def test_what_was_the_machines_hides_nothing_that_is_pytorchs() -> None:
    machines = known(state="machine")
    for index in (6, 7):
        (found,) = series_findings(
            TRACK, a_series(), judged(replace(CHANGE, index=index)), [machines]
        ).findings
        assert (found.state, found.at_run) == ("candidate", f"run-{index}")
    # The machine's own change that moved by a night adds nothing.
    moved = replace(CHANGE, index=7, machine=True)
    assert series_findings(TRACK, a_series(), judged(moved), [machines]).findings == ()


def test_what_was_pytorchs_after_all_is_not_the_machines_again() -> None:
    (found,) = series_findings(TRACK, a_series(), judged(CHANGE), [known(state="machine")]).findings
    earlier = known(evidence=found.evidence)
    assert series_findings(TRACK, a_series(), judged(replace(CHANGE, machine=True)), [earlier]).findings == ()
    # Nor does a look between forget it.
    (later,) = series_findings(TRACK, a_series(), judged(CHANGE), [earlier]).findings
    earlier = known(evidence=later.evidence)
    assert series_findings(TRACK, a_series(), judged(replace(CHANGE, machine=True)), [earlier]).findings == ()
    # Where a first look said so, a later one may know better, once.
    (other,) = series_findings(TRACK, a_series(), judged(replace(CHANGE, machine=True)), [known()]).findings
    assert other.state == "machine"


def test_only_a_candidate_is_taken_back() -> None:
    for state, gone in (("candidate", (7,)), ("confirmed", ()), ("refuted", ()), ("confirming", ())):
        assert (
            series_findings(TRACK, a_series(), judged(returned=(CHANGE,)), [known(state=state)]).returned
            == gone
        )
    other = replace(CHANGE, direction="better")
    assert series_findings(TRACK, a_series(), judged(returned=(other,)), [known()]).returned == ()


def test_what_was_tried_is_not_forgotten_by_a_later_look() -> None:
    tried = known(evidence=evidence_of({"tries": 2, "waits": "it is gone", "detected": {}}))
    (found,) = series_findings(TRACK, a_series(), judged(CHANGE), [tried]).findings
    assert (found.evidence.tries, found.evidence.waits) == (2, "it is gone")
    assert found.evidence.detected.nights == 12


def test_of_a_history_that_begins_later_the_known_run_is_no_place() -> None:
    series = a_series()
    later = MachineSeries(KEY, "m", series.points[8:])
    change = replace(CHANGE, index=2, since=0)
    assert series_findings(TRACK, later, judged(change), [known(at=a_night(6) - timedelta(days=1))]).findings


def test_a_drift_that_came_in_pieces_is_measured_from_before_the_first_one() -> None:
    series = a_series(40)
    drift = replace(CHANGE, index=34, raised=36, since=8, shape="drift")
    first = known(id=5, state="confirmed", at_run="run-10", evidence=Evidence())
    first = replace(
        first, evidence=Evidence(sides=ComparedRuns("run-5", "environment-5", "run-14", "e", "run-0"))
    )
    later = replace(first, id=6, at_run="run-20", evidence=Evidence())
    (found,) = series_findings(TRACK, series, judged(drift), [later, first]).findings
    sides = compared_runs(replace(first, evidence=found.evidence))
    assert (sides.old_run, sides.new_run, found.evidence.began_as) == ("run-5", "run-39", 5)
    assert (found.before_run, found.old_environment) == ("run-5", "environment-5")
    # What moved the other way, or was refuted, is no piece of it.
    others = [replace(first, state="refuted"), replace(later, direction="better")]
    (found,) = series_findings(TRACK, series, judged(drift), others).findings
    assert compared_runs(replace(first, evidence=found.evidence)).old_run == "run-11"
    assert found.evidence.began_as is None


def test_a_third_small_step_the_same_way_is_a_drift() -> None:
    series = a_series(40)
    steps = [
        replace(
            known(id=number, state="confirmed", at_run=f"run-{at}", at=a_night(at)),
            change=0.03,
            evidence=Evidence(
                sides=ComparedRuns(f"run-{at - 5}", f"environment-{at - 5}", f"run-{at + 3}", "e")
            ),
        )
        for number, at in ((5, 10), (6, 20))
    ]
    third = replace(CHANGE, index=34, raised=36, since=20, change=0.03)
    (found,) = series_findings(TRACK, series, judged(third), steps).findings
    assert (found.shape, found.before_run, found.evidence.began_as) == ("drift", "run-5", 5)
    large = replace(third, change=0.10)
    fixed = [steps[0], replace(steps[1], triage="fixed")]
    turned = [steps[0], replace(steps[1], direction="better")]
    for change, before in ((third, steps[:1]), (large, steps), (third, fixed), (third, turned)):
        (found,) = series_findings(TRACK, series, judged(change), before).findings
        assert found.shape == "step" and found.evidence.began_as is None


def test_of_a_drift_the_pieces_are_known_that_a_session_has_to_go_beyond() -> None:
    series = a_series(40)
    first, second = (
        replace(
            known(id=number, state="confirmed", at_run=f"run-{at}", at=a_night(at)),
            change=change,
            evidence=Evidence(
                sides=ComparedRuns(f"run-{at - 5}", f"environment-{at - 5}", f"run-{at + 3}", "e")
            ),
        )
        for number, at, change in ((5, 10, 0.03), (6, 20, 0.04))
    )
    third = replace(CHANGE, index=34, raised=36, since=20, change=0.03)

    def known_before(*pieces: Finding, change: Change = third) -> object:
        (found,) = series_findings(TRACK, series, judged(change), pieces).findings
        assert (found.shape, found.evidence.began_as) == ("drift", 5)
        return found.evidence.confirmed_before

    assert known_before(first, second) == pytest.approx(0.07)
    # The second one was measured from before the first.
    whole = replace(second, shape="drift", change=0.075, evidence=replace(second.evidence, began_as=5))
    assert known_before(first, whole) == pytest.approx(0.075)
    # A large step before the level that was left is none of a drift, nor is a piece whose old side is gone.
    drift = replace(third, shape="drift")
    gone = Evidence(sides=ComparedRuns("pruned", "environment", "run-13", "e"))
    (large,) = series_findings(TRACK, series, judged(drift), [replace(second, change=0.10)]).findings
    (pruned,) = series_findings(TRACK, series, judged(drift), [replace(first, evidence=gone)]).findings
    for found in (large, pruned):
        assert compared_runs(known(evidence=found.evidence)).old_run == "run-23"
        assert found.evidence.confirmed_before is None


def test_decisions_of_sessions_reach_the_scan_by_index() -> None:
    series = a_series()
    found = [known(state=state) for state in ("confirmed", "refuted", "unclear", "candidate", "machine")]
    gone = known(state="refuted", at_run="pruned")
    assert decisions_of(series, [*found, gone]) == [Decision(6, 11, True), Decision(6, 11, False)]


def test_a_series_that_was_refuted_twice_has_to_move_twice_as_far_and_says_so() -> None:
    (found,) = series_findings(TRACK, a_series(), replace(judged(CHANGE), factor=2.0), ()).findings
    assert "was doubled" in stricter(found.evidence.detected) and stricter(known().evidence.detected) == ""
