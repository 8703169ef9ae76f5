"""The scan: what it raises on planted changes, that a place once given stays, and its limits."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from analysis.detection.night_scan import CandidateChange, scan
from analysis.detection.nights import Rules
from support.builders.detection_series import noise

RULES = Rules()
#: Logarithms on a grid, so that steps of all sizes and equal nights both occur.
logs = st.integers(-60, 60).map(lambda value: value / 200)
histories = st.lists(logs, max_size=70)
borders = st.frozensets(st.integers(1, 70), max_size=3)


def raised(values: NDArray[np.float64], borders: tuple[int, ...] = ()) -> list[CandidateChange]:
    return scan(values.tolist(), borders, RULES).raised


def places(found: list[CandidateChange]) -> list[CandidateChange]:
    """What must not change as nights are added."""
    return [replace(one, state="open", earlier=()) for one in found]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("sign", [1, -1])
def test_a_step_of_ten_percent_is_seen_within_a_week(seed: int, sign: int) -> None:
    values = noise(seed, 60)
    values[40:] += sign * math.log(1.1)
    found = [one for one in raised(values) if one.raised >= 40]
    assert found[0].sign == sign and found[0].raised <= 46 and found[0].state == "stayed"
    assert abs(found[0].index - 40) <= 2 and found[0].shape == "step"
    assert found[0].change == pytest.approx(sign * math.log(1.1), abs=0.05)


@pytest.mark.parametrize("size", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("night", [9, 30, 59])
def test_a_single_spike_is_no_change(size: float, night: int) -> None:
    for seed in range(10):
        values = noise(seed, 60, 0.01)
        quiet = [(one.raised, one.index) for one in raised(values)]
        values[night] += size
        assert [(one.raised, one.index) for one in raised(values) if one.index == night] == []
        assert len(raised(values)) <= len(quiet) + 1


@pytest.mark.parametrize("seed", range(10))
def test_three_nights_off_are_a_candidate_that_later_nights_take_back(seed: int) -> None:
    values = noise(seed, 60, 0.01)
    values[40:43] += 0.2
    assert raised(values[:42]) == []
    before = raised(values[:43])
    assert [(one.index, one.state) for one in before] == [(40, "open")]
    after = raised(values)
    assert [(one.index, one.state) for one in after] == [(40, "returned")]


def test_exact_nights_show_a_step_beyond_the_floor_and_none_below() -> None:
    values = np.zeros(60)
    values[40:] = math.log(1.03)
    assert [(one.raised, one.index, one.state) for one in raised(values)] == [(42, 40, "stayed")]
    values[40:] = math.log(1.015)
    assert raised(values) == []


def test_a_drift_is_seen_and_called_one() -> None:
    called = 0
    for seed in range(20):
        values = noise(seed, 160, 0.01)
        values += np.clip((np.arange(160) - 50) / 60, 0, 1) * math.log(1.1)
        found = [one for one in raised(values) if one.sign > 0 and one.raised >= 50]
        assert found and found[0].raised <= 90
        called += any(one.shape == "drift" for one in found)
    assert called >= 15


def test_later_pieces_of_a_drift_are_measured_from_where_it_began() -> None:
    values = np.clip((np.arange(140) - 50) / 60, 0, 1) * math.log(1.1) + noise(5, 140, 0.004)
    first, *later = [one for one in raised(values) if one.sign > 0]
    assert first.change < 0.04
    assert later and all(one.shape == "drift" and one.since == first.since for one in later)
    assert later[-1].change == pytest.approx(math.log(1.1), abs=0.03)


def test_small_cuts_do_not_hide_behind_each_other() -> None:
    """Four steps of 1.5 %, each below the floor, forty nights apart."""
    values = noise(7, 200, 0.004)
    for night in (40, 80, 120, 160):
        values[night:] += math.log(1.015)
    assert any(one.sign > 0 for one in raised(values))


@pytest.mark.parametrize("size", [-0.5, 0.08, 0.5])
def test_a_border_begins_anew_and_is_no_change(size: float) -> None:
    values = noise(9, 80, 0.01)
    values[40:] += size
    assert raised(values, (40,)) == []
    assert raised(values) != []


def test_after_a_border_four_nights_are_enough() -> None:
    values = noise(9, 80, 0.01)
    values[40:] += 0.3
    values[50:] += 0.1
    assert [one.index for one in raised(values, (40,))] == [50]
    done = scan(values[:43].tolist(), (40,), RULES)
    assert (done.nights_of_segment, done.nights_short, done.smallest) == (3, 1, None)
    assert scan(values[:44].tolist(), (40,), RULES).nights_short == 0


@settings(max_examples=150, deadline=None)
@given(histories, borders, st.integers(0, 70))
def test_what_was_raised_keeps_its_place_as_nights_are_added(
    values: list[float], borders: frozenset[int], nights: int
) -> None:
    then = scan(values[:nights], borders, RULES).raised
    now = scan(values, borders, RULES).raised
    assert places([one for one in now if one.raised < nights]) == places(then)
    # What was decided stays decided.
    assert all(old.state in ("open", new.state) for old, new in zip(then, now, strict=False))


def test_noisy_years_with_changes_raise_the_same_every_night() -> None:
    """What hypothesis seldom makes: long histories with many candidates."""
    for seed in range(3):
        values = noise(seed, 300, 0.03) + 0.2 * (np.arange(300) // 70 % 2)
        whole = raised(values, (150,))
        assert len(whole) > 3
        for nights in range(0, 300, 7):
            then = raised(values[:nights], (150,))
            assert places(then) == places([one for one in whole if one.raised < nights])


@settings(max_examples=150, deadline=None)
@given(histories)
def test_turned_round_it_raises_the_same_the_other_way(values: list[float]) -> None:
    original = scan(values, (), RULES).raised
    mirrored = scan([-value for value in values], (), RULES).raised
    assert [(one.raised, one.index, one.sign, one.state) for one in original] == [
        (one.raised, one.index, -one.sign, one.state) for one in mirrored
    ]


@settings(max_examples=150, deadline=None)
@given(histories)
def test_every_candidate_is_of_the_floor_or_more_and_lies_in_its_segment(values: list[float]) -> None:
    for one in scan(values, (), RULES).raised:
        assert one.sign * one.change >= RULES.log_floor
        assert one.since < one.index < one.raised
        assert one.strength > 0


def test_normal_nights_raise_fewer_than_one_candidate_in_a_hundred_nights() -> None:
    many = sum(len(raised(noise(seed, 200))) for seed in range(60))
    assert 0 < many / (60 * 200) < 0.01


def test_the_smallest_step_is_seen_within_a_week_in_four_cases_of_five() -> None:
    seen = 0
    for seed in range(300):
        values = noise(seed, 67)
        smallest = scan(values[:60].tolist(), (), RULES).smallest
        assert smallest is not None
        values[60:] += smallest
        seen += any(one.sign > 0 and 60 <= one.raised < 67 for one in raised(values))
    assert 0.75 <= seen / 300 <= 0.9


def test_a_window_that_slides_over_the_nights_raises_the_same() -> None:
    """A window of the newest 180 nights has another first night every night."""
    for seed in range(4):
        values = noise(seed, 300, 0.03)
        values[230:] += math.log(1.12)
        whole = {(one.raised, one.index) for one in raised(values) if one.raised >= 200}
        seen = {
            (one.raised + nights - 180, one.index + nights - 180)
            for nights in range(201, 301)
            for one in raised(values[nights - 180 : nights])
            if one.raised > 180 - RULES.recent
        }
        assert whole and whole == {place for place in seen if place[0] >= 200}
