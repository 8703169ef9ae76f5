"""The spread between nights: of known noise, with steps, spikes and two modes in it, and of newer nights."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.detection.night_noise import MEMORY, NightNoise, middle


def learned(values: list[float]) -> NightNoise:
    noise = NightNoise()
    for before, after in pairwise(values):
        noise.add(after - before)
    return noise


def test_of_no_night_nothing_is_known() -> None:
    assert NightNoise().spread is None and len(NightNoise()) == 0


def test_it_finds_the_spread_of_normal_nights() -> None:
    rng = np.random.default_rng(1)
    found = [learned(rng.normal(0, 0.02, MEMORY + 1).tolist()).spread or 0 for _ in range(400)]
    # The larger of two estimates lies a little too high.
    assert 0.02 <= float(np.median(found)) <= 0.023


def test_neither_a_step_nor_a_drift_nor_a_spike_is_noise() -> None:
    values = np.random.default_rng(2).normal(0, 0.02, 60)
    plain = learned(values.tolist()).spread or 0
    step, spike = values.copy(), values.copy()
    step[30:] += 1.0
    spike[[7, 20, 44]] += 1.0
    drift = values + np.linspace(0, 0.1, 60)
    for changed in (step, spike, drift):
        assert learned(changed.tolist()).spread == pytest.approx(plain, rel=0.35)


def test_two_modes_that_take_turns_are_noise() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(0, 0.005, 60) + 0.1 * (rng.random(60) < 0.3)
    assert (learned(values.tolist()).spread or 0) > 0.04


@given(st.lists(st.integers(-1000, 1000), min_size=MEMORY + 1, max_size=2 * MEMORY))
def test_only_newer_nights_count(values: list[int]) -> None:
    all_of_them = learned([value / 8 for value in values])
    newest = learned([value / 8 for value in values[-MEMORY - 1 :]])
    assert all_of_them.spread == newest.spread
    assert len(all_of_them) == MEMORY


def test_equal_nights_have_no_spread() -> None:
    assert learned([1.0] * 10).spread == 0.0


def test_the_middle_of_sorted_values() -> None:
    assert middle([1.0, 2.0, 9.0]) == 2.0
    assert math.isclose(middle([1.0, 2.0, 3.0, 9.0]), 2.5)
