"""A night against the level of its nights before."""

import math
import random
from statistics import median

from pytest import approx

from analysis.recent_level import LEAST, NIGHTS, against


def test_the_level_is_the_median_of_the_last_nights_and_a_spike_moves_nothing() -> None:
    found = against([50.0, *[10.0] * (NIGHTS - 1), 99.0], 10.8)
    assert found is not None
    assert (found.level, found.nights) == (approx(10.0), NIGHTS)
    assert math.exp(found.change) == approx(1.08)


def test_noise_is_not_outside_more_often_than_once_in_a_hundred_nights() -> None:
    drawn = random.Random(5)
    nights = [[math.exp(drawn.gauss(0, 0.01)) for _ in range(NIGHTS + 1)] for _ in range(2000)]
    found = [against(each[:-1], each[-1]) for each in nights]
    outside = sum(one is not None and one.outside for one in found)
    assert outside <= 0.02 * len(nights)
    # Nor is the band so wide that a step of 5 % hides in noise of 1 %.
    steps = [against(each[:-1], 1.05 * each[-1]) for each in nights]
    assert sum(one is not None and one.outside for one in steps) > 0.85 * len(nights)
    assert median(one.band for one in found if one and one.band) < 0.05


def test_too_few_nights_say_nothing_of_noise() -> None:
    found = against([10.0] * (LEAST - 1), 20.0)
    assert found is not None and found.band is None and not found.outside
    assert against([], 20.0) is None


def test_what_never_varied_has_the_least_band() -> None:
    found = against([10.0] * 8, 10.05, least=0.01)
    assert found is not None and found.band == approx(0.01) and not found.outside


def test_of_values_that_are_not_above_zero_there_is_no_ratio() -> None:
    assert against([10.0, 0.0, 10.0, 10.0], 10.0) is None
    assert against([10.0] * 4, 0.0) is None
