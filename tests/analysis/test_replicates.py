"""Point, interval and spread of replicates: their properties, an independent formula, and their coverage."""

import math
import random
import statistics

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from analysis.replicates import CONFIDENCE, summarise

#: From a nanosecond in milliseconds to tokens a second.
positive = st.floats(min_value=1e-9, max_value=1e12)


@given(st.lists(positive, min_size=2, max_size=30))
@example([3.0, 3.0])
def test_the_interval_holds_the_point_and_the_range_too(values: list[float]) -> None:
    s = summarise(values)
    assert s.low is not None and s.high is not None and s.spread is not None
    assert s.low <= s.point <= s.high
    assert s.smallest <= s.point <= s.largest
    assert (s.smallest, s.largest, s.n) == (min(values), max(values), len(values))
    assert s.point == statistics.median(values)
    assert s.low > 0 and s.spread >= 0 and math.isfinite(s.spread)


@given(st.lists(positive, min_size=2, max_size=30), st.floats(min_value=1e-6, max_value=1e6))
def test_another_unit_changes_the_unit_and_nothing_else(values: list[float], factor: float) -> None:
    original, changed = summarise(values), summarise([value * factor for value in values])
    close = {"rel": 1e-6}
    assert changed.point == pytest.approx(original.point * factor, **close)
    assert changed.spread == pytest.approx(original.spread, rel=1e-6, abs=1e-9)
    assert original.low is not None and changed.low is not None
    assert math.log(changed.low) == pytest.approx(
        math.log(original.low) + math.log(factor), rel=1e-6, abs=1e-6
    )


@given(st.lists(positive, min_size=2, max_size=30), st.randoms(use_true_random=False))
def test_the_order_of_replicates_does_not_matter(values: list[float], rng: random.Random) -> None:
    shuffled = values.copy()
    rng.shuffle(shuffled)
    original, changed = summarise(values), summarise(shuffled)
    assert (original.point, original.smallest, original.largest, original.n) == (
        changed.point,
        changed.smallest,
        changed.largest,
        changed.n,
    )
    assert changed.spread == pytest.approx(original.spread, rel=1e-9, abs=1e-12)


@given(positive)
def test_one_replicate_has_no_interval(value: float) -> None:
    s = summarise([value])
    assert (s.point, s.smallest, s.largest, s.n) == (value, value, value, 1)
    assert s.low is s.high is s.spread is None


@pytest.mark.parametrize("values", [[0.0, 0.0, 0.0], [0.0, 2.0, 5.0], [-1.0, 2.0]])
def test_where_a_value_is_not_positive_there_is_a_point_and_no_interval(values: list[float]) -> None:
    s = summarise(values)
    assert s.point == statistics.median(values)
    assert s.low is s.high is s.spread is None


@pytest.mark.parametrize(
    ("values", "point"),
    [
        ([1e-30, 1e30], 5e29),
        ([1.0, 1e48], 5e47),
        ([1e307, 1.7e308], 0.9e308),
        ([1e308, 1.5e308], 1.25e308),
        ([5e-324, 1.7e308, 1.7e308, 1.7e308], 1.7e308),
    ],
)
def test_where_the_interval_ends_beyond_any_float_there_is_none(values: list[float], point: float) -> None:
    s = summarise(values)
    assert s.point == pytest.approx(point) and (s.smallest, s.largest) == (min(values), max(values))
    assert s.low is s.high is None
    assert s.spread == pytest.approx(statistics.stdev(map(math.log, values)))


def test_values_near_the_end_of_all_floats_have_a_median() -> None:
    assert summarise([-1.5e308, -1e308]).point == pytest.approx(-1.25e308)
    near = summarise([1e308, 1e308])
    assert (near.point, near.low, near.high) == pytest.approx((1e308, 1e308, 1e308))


def test_no_replicate_is_refused() -> None:
    with pytest.raises(ValueError, match="no replicate"):
        summarise([])


@given(st.lists(positive, min_size=2, max_size=30, unique=True))
def test_the_interval_is_students_for_the_mean_logarithm(values: list[float]) -> None:
    # Here: it takes a second, and every process of the tests imports this file.
    from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

    logs = [math.log(value) for value in values]
    scale = float(stats.sem(logs))
    low, high = stats.t.interval(0.95, len(logs) - 1, loc=statistics.fmean(logs), scale=scale)
    s = summarise(values)
    assert s.low is not None and s.high is not None
    point = math.log(s.point)
    assert math.log(s.low) == pytest.approx(min(low, point), rel=1e-6, abs=1e-6)
    assert math.log(s.high) == pytest.approx(max(high, point), rel=1e-6, abs=1e-6)


def test_two_replicates_by_hand() -> None:
    # Of one degree of freedom, Student's t at 97.5 % is tan(0.475 pi) = 12.706.
    s = summarise([1.0, math.e])
    half = math.tan(0.475 * math.pi) / 2
    assert s.spread == pytest.approx(math.sqrt(0.5))
    assert s.low is not None and s.high is not None
    assert math.log(s.low) == pytest.approx(0.5 - half)
    assert math.log(s.high) == pytest.approx(0.5 + half)


@pytest.mark.parametrize("n", [3, 5])
def test_the_interval_covers_the_truth_as_often_as_it_says(n: int) -> None:
    """Log-normal replicates of 5 % spread: the geometric mean lies inside 95 times of a hundred."""
    rng, truth, trials = random.Random(n), 7.0, 4000
    inside = 0
    for _ in range(trials):
        s = summarise([truth * math.exp(rng.gauss(0.0, 0.05)) for _ in range(n)])
        assert s.low is not None and s.high is not None
        inside += s.low <= truth <= s.high
    # Three standard errors of a share of 0.95 in 4000 trials; holding the point only ever widens.
    assert inside / trials == pytest.approx(CONFIDENCE, abs=3 * math.sqrt(0.95 * 0.05 / trials))
