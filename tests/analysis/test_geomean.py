"""The mean change over cases: by hand, its properties, and its coverage."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.geomean import geomean, random_effects
from analysis.robust_mean import Location, locate

locations = st.builds(
    Location,
    st.integers(-500, 500).map(lambda value: value / 1000),
    st.integers(0, 100).map(lambda value: value / 1000),
    st.integers(3, 11),
    st.integers(6, 12),
    st.just(0),
)
weights = st.floats(min_value=0.01, max_value=100)
several = st.lists(st.tuples(locations, weights), min_size=1, max_size=12)


def test_two_cases_by_hand() -> None:
    mean = geomean([(Location(0.02, 0.003, 5, 6, 0), 3.0), (Location(-0.02, 0.004, 7, 8, 0), 1.0)])
    parts = [(0.75 * 0.003) ** 2, (0.25 * 0.004) ** 2]
    degrees = sum(parts) ** 2 / (parts[0] ** 2 / 5 + parts[1] ** 2 / 7)
    assert 6 < degrees < 7
    assert mean.change == pytest.approx(0.01)
    assert (mean.cases, mean.pairs) == (2, 14)
    assert mean.high is not None and mean.low is not None
    # Student's t at 99.5 % of seven and of six degrees.
    assert 3.4995 < (mean.high - 0.01) / math.sqrt(sum(parts)) < 3.7074
    assert mean.high - 0.01 == pytest.approx(0.01 - mean.low)


def test_of_nothing_there_is_no_mean() -> None:
    mean = geomean([])
    assert (mean.change, mean.low, mean.high, mean.cases, mean.pairs) == (None, None, None, 0, 0)


@given(several)
def test_it_lies_among_its_cases_and_turns_round_with_them(cases: list[tuple[Location, float]]) -> None:
    mean = geomean(cases)
    turned = geomean(
        [(Location(-one.point, one.error, one.degrees, one.n, 0), weight) for one, weight in cases]
    )
    assert mean.change is not None and turned.change is not None
    points = [location.point for location, _ in cases]
    assert min(points) - 1e-9 <= mean.change <= max(points) + 1e-9
    assert turned.change == pytest.approx(-mean.change, abs=1e-12)
    assert mean.low is not None and turned.high is not None
    assert turned.high == pytest.approx(-mean.low, abs=1e-9)


@given(several, st.floats(min_value=1e-3, max_value=1e3))
def test_only_the_proportions_of_weights_matter(cases: list[tuple[Location, float]], factor: float) -> None:
    original, weighted = geomean(cases), geomean([(one, weight * factor) for one, weight in cases])
    assert weighted.change == pytest.approx(original.change, abs=1e-9)
    assert weighted.high == pytest.approx(original.high, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("weight", [0.0, -1.0, math.nan, math.inf])
def test_a_weight_is_above_zero(weight: float) -> None:
    with pytest.raises(ValueError, match="weight"):
        geomean([(Location(0.0, 0.1, 5, 6, 0), weight)])


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng, trials, missed = np.random.default_rng(1), 1000, 0
    spreads = [0.005, 0.01, 0.02, 0.05]
    for _ in range(trials):
        mean = geomean([(locate(rng.normal(0.0, spread, 6).tolist()), 1.0) for spread in spreads])
        assert mean.low is not None and mean.high is not None
        missed += not mean.low <= 0 <= mean.high
    assert missed <= trials * (0.01 + 3 * math.sqrt(0.01 / trials))


def quiet(*points: float) -> list[tuple[Location, float]]:
    """Cases of equal weight that are known to half a per cent."""
    return [(Location(point, 0.005, 9, 10, 1), 1.0) for point in points]


def test_one_case_that_knows_nothing_moves_the_mean_and_hardly_what_is_typical() -> None:
    # As in a comparison of an environment with itself: one case in two modes, -37 % to +95 %.
    others = quiet(-0.001, -0.003, 0.003, -0.001, -0.005, 0.001, 0.002, -0.001, 0.001)
    alone, mean = geomean(others), geomean([*others, (Location(0.107, 0.092, 5, 8, 1), 1.0)])
    assert alone.typical and mean.typical and mean.change is not None
    # A tenth of 0.107 and what the nine others bring.
    assert mean.change == pytest.approx((0.107 - 0.004) / 10)
    assert mean.typical[0] == pytest.approx(alone.typical[0], abs=0.001)
    assert mean.typical[2] - mean.typical[1] < 1.1 * (alone.typical[2] - alone.typical[1])
    assert mean.cases == 10


def test_a_weight_of_the_user_counts_in_the_mean_and_not_in_what_is_typical() -> None:
    (first, _), *others = quiet(0.1, *[0.0] * 9)
    even, mean = geomean(quiet(0.1, *[0.0] * 9)), geomean([(first, 9.0), *others])
    assert (even.change, mean.change) == (pytest.approx(0.01), pytest.approx(0.05))
    assert mean.typical == even.typical


def test_what_is_typical_by_hand_where_cases_differ_by_no_more_than_their_errors() -> None:
    # Weights 1 / error^2 are 4 and 1: (4 x 0.01 + 0.02) / 5; Q is below 1, so nothing lies between the cases.
    found = random_effects([0.01, 0.02], [0.01, 0.02])
    assert found is not None
    half = 63.6567 * math.sqrt(1 / (1 / 0.01**2 + 1 / 0.02**2))
    assert found == pytest.approx((0.012, 0.012 - half, 0.012 + half), rel=1e-5)


def test_what_is_typical_by_hand_where_the_cases_lie_apart() -> None:
    # With equal errors the between-case variance of Paule and Mandel is that of the points less the error's.
    points = [0.0, 0.02, 0.04, 0.10]
    found = random_effects(points, [0.01] * 4, confidence=0.95)
    assert found is not None
    half = 3.18245 * statistics.stdev(points) / 2
    assert found == pytest.approx((0.04, 0.04 - half, 0.04 + half), rel=1e-5)
    # Pairs that agree to the last digit are known to 1e-5, and no worse.
    assert random_effects(points, [1e-9] * 4) == random_effects(points, [0.0] * 4)


@given(st.lists(locations, min_size=2, max_size=9))
def test_what_is_typical_is_the_same_in_any_order_and_lies_among_the_cases(cases: list[Location]) -> None:
    points, errors = [one.point for one in cases], [one.error for one in cases]
    one, mirrored = random_effects(points, errors), random_effects(points[::-1], errors[::-1])
    assert one is not None and mirrored is not None
    assert mirrored == pytest.approx(one, abs=1e-6)
    assert min(points) - 1e-9 <= one[0] <= max(points) + 1e-9 and one[1] <= one[0] <= one[2]


@pytest.mark.parametrize("cases", [0, 1])
def test_of_one_case_nothing_is_typical(cases: int) -> None:
    assert random_effects([0.01] * cases, [0.01] * cases) is None
    assert geomean(quiet(*[0.01] * cases)).typical is None
