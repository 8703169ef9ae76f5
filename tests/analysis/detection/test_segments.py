"""The full pass: planted steps and drifts, borders, ties, and segments that are always a partition."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from analysis.detection.nights import Rules
from analysis.detection.segments import SHORTEST, changes_between, segments
from support.builders.detection_series import noise

RULES = Rules()


def starts(values: NDArray[np.float64], borders: tuple[int, ...] = (), rules: Rules = RULES) -> list[int]:
    return [low for low, _ in segments(values.tolist(), borders, rules)][1:]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-40, 40).map(lambda value: value / 100), min_size=1, max_size=80),
    st.frozensets(st.integers(1, 79), max_size=3),
)
def test_segments_are_a_partition_that_borders_cut(values: list[float], borders: frozenset[int]) -> None:
    inside = {border for border in borders if border < len(values)}
    found = segments(values, inside, RULES)
    assert found[0][0] == 0 and found[-1][1] == len(values)
    assert all(before[1] == after[0] for before, after in pairwise(found))
    assert inside <= {low for low, _ in found}
    for low, high in found:
        # Only borders make a segment short.
        assert high - low >= SHORTEST or low in inside or high in inside or len(found) == 1
    for first, _, _ in changes_between(values, found, inside):
        assert found[first][0] not in inside


def test_of_no_nights_there_are_no_segments() -> None:
    assert segments([], (), RULES) == []


@pytest.mark.parametrize("seed", range(10))
def test_two_steps_are_found_where_they_are(seed: int) -> None:
    values = noise(seed, 120)
    values[40:] += math.log(1.1)
    values[80:] -= math.log(1.2)
    found = starts(values)
    assert len(found) == 2 and abs(found[0] - 40) <= 2 and abs(found[1] - 80) <= 2


def test_without_a_change_hardly_anything_is_found() -> None:
    many = sum(len(starts(noise(seed, 120))) for seed in range(100))
    assert many <= 3


def test_spikes_and_heavy_tails_are_no_changes() -> None:
    rng = np.random.default_rng(4)
    for _ in range(30):
        values = 0.02 * rng.standard_t(2, 120)
        values[rng.integers(0, 120, 4)] += 1.0
        assert starts(values) == []


def test_changes_below_the_floor_are_left_out_however_sure() -> None:
    values = noise(5, 120, 0.001)
    values[60:] += math.log(1.01)
    assert starts(values) == []
    assert starts(values, rules=Rules(floor=0.005)) == [60]


def test_exact_nights_with_ties() -> None:
    values = np.zeros(60)
    values[30:] = math.log(1.05)
    assert starts(values) == [30]
    assert starts(np.zeros(60)) == []


def test_a_border_is_no_change_and_hides_none() -> None:
    values = noise(6, 120)
    values[50:] += 0.5
    values[90:] += 0.1
    found = segments(values.tolist(), (50,), RULES)
    assert [low for low, _ in found] == [0, 50, 90]
    assert changes_between(values.tolist(), found, (50,)) == [(2, 2, "step")]


def test_a_drift_is_one_change_and_a_staircase_is_several() -> None:
    night = np.arange(160)
    drift = noise(7, 160, 0.005) + np.clip((night - 50) / 60, 0, 1) * math.log(1.15)
    found = segments(drift.tolist(), (), RULES)
    assert len(found) > 2
    assert changes_between(drift.tolist(), found, ()) == [(1, len(found) - 1, "drift")]
    stairs = noise(7, 160, 0.005) + math.log(1.05) * (night // 40)
    found = segments(stairs.tolist(), (), RULES)
    assert changes_between(stairs.tolist(), found, ()) == [(1, 1, "step"), (2, 2, "step"), (3, 3, "step")]
