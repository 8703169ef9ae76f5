"""Series judged night by night: candidates that come once, controls, borders, few nights, what is refused."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from analysis.detection.change_points import change_points, judge
from analysis.detection.default_watched_metrics import history_rules, rules_of
from analysis.detection.nights import Change, JudgedSeries, NightValue, Rules, TooFewNights, TooNoisy
from analysis.metrics import Better
from support.builders.detection_series import noise

Values = NDArray[np.float64]


def nights_of(logs: Values, borders: dict[int, str] | None = None) -> list[NightValue]:
    named = borders or {}
    return [NightValue(value, named.get(number, "")) for number, value in enumerate(np.exp(logs).tolist())]


def judged(logs: Values, better: Better = "lower", control: Values | None = None) -> JudgedSeries:
    return judge(nights_of(logs), better, None, None if control is None else nights_of(control))


def step(nights: int, at: int, share: float) -> Values:
    return math.log1p(share) * (np.arange(nights) >= at).astype(np.float64)


def as_seen(logs: Values, better: Better = "lower", control: Values | None = None) -> list[Change]:
    """Every candidate in the order in which nightly scans raise it, each once."""
    seen: dict[tuple[int, str], Change] = {}
    for number in range(len(logs)):
        known_control = None if control is None else control[: number + 1]
        for one in judged(logs[: number + 1], better, known_control).candidates:
            seen.setdefault((one.index, one.direction), one)
    return list(seen.values())


def test_a_step_is_one_candidate_however_often_one_asks() -> None:
    logs = noise(1, 90) + step(90, 60, 0.08)
    seen = [one for one in as_seen(logs) if one.raised >= 60]
    assert len(seen) == 1
    assert (seen[0].direction, seen[0].shape) == ("worse", "step")
    assert abs(seen[0].index - 60) <= 1 and seen[0].raised <= 64 and seen[0].against < 60


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.0, 0.3), st.integers(10, 50))
def test_a_candidate_keeps_index_direction_and_night_as_nights_are_added(
    seed: int, share: float, at: int
) -> None:
    logs = noise(seed, 60, 0.03) + step(60, at, share)
    for number in range(len(logs)):
        now = {one.raised: one for one in judged(logs[: number + 1]).candidates}
        then = {one.raised: one for one in judged(logs[: number + 2]).candidates}
        for night in now.keys() & then.keys():
            assert (now[night].index, now[night].direction) == (then[night].index, then[night].direction)
        # A candidate of today is not raised again tomorrow.
        assert all(night > number for night in then.keys() - now.keys())


def test_a_candidate_is_answered_for_a_week_and_then_is_history() -> None:
    logs = noise(1, 90) + step(90, 60, 0.08)
    raised = next(one.raised for one in as_seen(logs) if one.raised >= 60)
    asked = [number for number in range(60, 90) if judged(logs[: number + 1]).candidates]
    assert asked == list(range(raised, raised + Rules().recent))
    (change,) = change_points(nights_of(logs), "lower")
    assert abs(change.index - 60) <= 1 and change.state == "stayed"


@pytest.mark.parametrize(
    ("better", "share", "direction"),
    [
        ("lower", 0.1, "worse"),
        ("lower", -0.1, "better"),
        ("higher", 0.1, "better"),
        ("higher", -0.1, "worse"),
    ],
)
def test_what_is_better_and_worse(better: Better, share: float, direction: str) -> None:
    result = judged(noise(2, 44) + step(44, 38, share), better)
    assert [one.direction for one in result.candidates] == [direction]


def test_exact_nights_have_finite_strengths() -> None:
    result = judged(step(60, 55, 0.05))
    (candidate,), (change,) = result.candidates, change_points(nights_of(step(60, 55, 0.05)), "lower")
    assert (candidate.index, change.index) == (55, 55)
    assert 0 < candidate.strength < math.inf and 0 < change.strength < math.inf
    assert result.noise == 0.0 and result.watchable


def test_two_nights_off_are_nothing_and_three_are_taken_back() -> None:
    for number in (1, 2):
        spike = noise(3, 80, 0.01)
        spike[70 : 70 + number] += 0.5
        assert as_seen(spike) == []
    thrice = noise(3, 80, 0.01)
    thrice[70:73] += 0.5
    (seen,) = as_seen(thrice)
    assert (seen.index, seen.state) == (70, "open")
    end = judged(thrice)
    assert end.candidates == () and change_points(nights_of(thrice), "lower") == ()
    assert [(one.index, one.state) for one in end.returned] == [(70, "returned")]


def test_a_border_is_no_regression() -> None:
    logs = noise(4, 80, 0.01) + step(80, 50, 0.3)
    nights = nights_of(logs, {50: "driver 570 to 580"})
    assert change_points(nights, "lower") == () and judge(nights, "lower").returned == ()
    for number in range(81):
        assert judge(nights_of(logs[:number], {50: "driver 570 to 580"}), "lower").candidates == ()
    assert change_points(nights_of(logs), "lower") != ()


@pytest.mark.parametrize(
    "nights",
    [0, 1, 7],
)
def test_of_few_nights_nothing_is_said_and_why(nights: int) -> None:
    result = judged(noise(5, nights) + step(nights, 3, 1.0))
    assert (result.watchable, result.smallest) == (False, None)
    assert result.unwatchable == TooFewNights(nights, 8)
    assert result.candidates == result.returned == ()
    assert change_points(nights_of(noise(5, nights) + step(nights, 3, 1.0)), "lower") == ()
    assert (result.noise is None) == (nights < 2)


def test_after_a_border_nights_are_counted_from_it() -> None:
    logs = noise(6, 40)
    result = judge(nights_of(logs, {37: "kernel 6.1"}), "lower")
    assert (result.watchable, result.unwatchable) == (False, TooFewNights(3, 4, "kernel 6.1"))
    assert judge(nights_of(logs, {36: "kernel 6.1"}), "lower").watchable


def test_eight_nights_show_large_steps_only_and_more_show_smaller_ones() -> None:
    def smallest(nights: int) -> float:
        found = [judged(noise(seed, nights)).smallest for seed in range(30)]
        return float(np.median([one for one in found if one is not None]))

    sizes = [smallest(nights) for nights in (8, 20, 60)]
    assert all(after < before for before, after in pairwise(sizes))
    assert 0.02 < sizes[-1] < 0.05


def test_a_series_that_is_too_noisy_says_so_and_still_shows_what_is_larger() -> None:
    result = judged(noise(8, 60, 0.2))
    assert (result.watchable, result.candidates) == (False, ())
    assert isinstance(result.unwatchable, TooNoisy)
    assert result.unwatchable == TooNoisy(result.noise, result.smallest)
    assert 0.1 < result.unwatchable.noise < 0.3 and result.unwatchable.smallest > math.log1p(0.2)
    result = judged(noise(8, 64, 0.2) + step(64, 60, 4.0))
    assert not result.watchable
    assert [one.direction for one in result.candidates] == ["worse"]


def test_a_change_that_the_control_made_too_is_the_machines() -> None:
    moved = step(80, 60, 0.08)
    for seed in range(5):
        logs, control = noise(seed, 80, 0.01) + moved, noise(100 + seed, 80, 0.01) + moved
        seen = [one for one in as_seen(logs, "lower", control) if one.raised >= 60]
        assert seen and all(one.machine for one in seen)


def test_a_change_that_the_control_did_not_make_is_pytorchs() -> None:
    for seed in range(5):
        logs, control = noise(seed, 80, 0.01) + step(80, 60, 0.08), noise(100 + seed, 80, 0.01)
        seen = [one for one in as_seen(logs, "lower", control) if one.raised >= 60]
        assert [(one.machine, one.relative) for one in seen] == [(False, False)]


def test_a_control_that_is_off_by_chance_for_two_nights_hides_nothing() -> None:
    logs, control = noise(1, 90, 0.01) + step(90, 60, 0.08), noise(2, 90, 0.01)
    control[60:62] += 0.08
    final = [one for one in as_seen(logs, "lower", control) if one.raised >= 60]
    last = [
        one for number in range(62, 90) for one in judged(logs[:number], "lower", control[:number]).candidates
    ]
    assert final and not last[-1].machine


def test_a_regression_hides_neither_behind_a_border_nor_behind_a_faster_machine() -> None:
    logs, control = noise(1, 90, 0.01), noise(2, 90, 0.01) + step(90, 60, -0.08)
    borders = {60: "driver"}
    alone = judge(nights_of(logs, borders), "lower", Rules(recent=30))
    controlled = judge(nights_of(logs, borders), "lower", Rules(recent=30), nights_of(control, borders))
    assert alone.candidates == ()
    assert [(one.direction, one.machine, one.relative) for one in controlled.candidates] == [
        ("worse", False, True)
    ]
    assert abs(controlled.candidates[0].index - 60) <= 1


def test_a_change_on_top_of_a_common_change_is_attributed_to_pytorch() -> None:
    logs, control = noise(1, 90, 0.01) + step(90, 60, 0.16), noise(2, 90, 0.01) + step(90, 60, 0.08)
    result = judge(nights_of(logs), "lower", Rules(recent=30), nights_of(control))
    assert [(one.direction, one.machine) for one in result.candidates] == [("worse", False)]


def test_nights_without_a_control_are_judged_all_the_same() -> None:
    logs = noise(1, 90, 0.01) + step(90, 60, 0.08)
    control: list[NightValue | None] = [
        night if number % 3 else None for number, night in enumerate(nights_of(noise(2, 90, 0.01)))
    ]
    for controlled in (control, [None] * 90):
        result = judge(nights_of(logs), "lower", Rules(recent=30), controlled)
        assert [(abs(one.index - 60) <= 1, one.machine) for one in result.candidates] == [(True, False)]


def test_a_drift_cannot_hide_in_a_window() -> None:
    """10 % over 150 nights, of which no 30 show more than 2 %."""
    logs = noise(9, 200, 0.01) + np.clip((np.arange(200) - 40) / 150, 0, 1) * math.log(1.1)
    seen = [one for one in as_seen(logs) if one.direction == "worse"]
    assert seen and max(one.change for one in seen) > math.log(1.05)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_what_has_no_logarithm_is_refused(value: float) -> None:
    good = nights_of(noise(1, 10))
    with pytest.raises(ValueError, match="night 10 is"):
        judge([*good, NightValue(value)], "lower")
    with pytest.raises(ValueError, match="only numbers above 0"):
        judge(good, "lower", None, [None] * 9 + [NightValue(value)])


def test_a_control_of_another_length_is_refused() -> None:
    nights = nights_of(noise(1, 10))
    with pytest.raises(ValueError, match="9 nights of a control do not match 10 nights"):
        judge(nights, "lower", None, nights[:9])


@pytest.mark.parametrize(
    "wrong",
    [
        {"floor": 0.0},
        {"floor": math.nan},
        {"clip": 6.0},
        {"slack": 0.0},
        {"reach": 7.0},
        {"relearn": 1},
        {"stay": 1},
        {"recent": 0},
    ],
)
def test_rules_that_mean_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        Rules(**wrong)  # pyright: ignore[reportArgumentType]


def test_what_a_step_is_compared_with_lies_before_it() -> None:
    for share, most in ((0.05, 8), (0.10, 5)):
        wrong = 0
        for seed in range(100):
            logs = noise(seed, 100) + step(100, 60, share)
            found = [
                one for one in judge(nights_of(logs), "lower", Rules(recent=40)).candidates if one.index > 50
            ]
            wrong += bool(found) and found[0].against >= 60
        assert wrong <= most


def test_trends_draws_steps_above_a_threshold_that_enqueues_no_session() -> None:
    logs = noise(11, 120, 0.004) + step(120, 60, 0.015)
    drawn = change_points(nights_of(logs), "lower", history_rules("latency_floor"))
    assert [abs(one.index - 60) <= 2 for one in drawn] == [True]
    assert change_points(nights_of(logs), "lower", rules_of("latency_floor")) == ()
