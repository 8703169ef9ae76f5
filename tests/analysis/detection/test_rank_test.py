"""New nights against earlier ones: shifts stand out, chance, memory and modes do not."""

import numpy as np
import pytest
from numpy.typing import NDArray

from analysis.detection.rank_test import Earlier, best_split, memory


def normal(seed: int, nights: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=nights)


def autoregressive(seed: int, nights: int, keep: float) -> NDArray[np.float64]:
    values = normal(seed, nights)
    for night in range(1, nights):
        values[night] = keep * values[night - 1] + (1 - keep**2) ** 0.5 * values[night]
    return values


def earlier(own: list[float], residuals: list[float] | None = None) -> Earlier:
    return Earlier(own, residuals or [], memory(own, residuals or []))


def share(old: int, new: int, shift: float, keep: float = 0.0, sign: int = 1) -> float:
    """Of 300 rows of nights, in how many the newest stand out that are `shift` deviations off."""
    found = 0
    for seed in range(300):
        values = autoregressive(seed, old + new, keep).tolist()
        found += earlier(values[:old]).exceeded([one + shift for one in values[old:]], sign)
    return found / 300


def test_what_moved_far_stands_out_and_chance_does_not() -> None:
    assert share(60, 4, 5.0) > 0.95 and share(60, 10, 2.5) > 0.9
    assert share(60, 3, -5.0, sign=-1) > 0.95 and share(60, 3, 5.0, sign=-1) == 0.0
    assert share(60, 3, 0.0) <= 0.01 and share(60, 10, 0.0) <= 0.01


def test_nights_that_remember_need_a_larger_move() -> None:
    assert share(60, 10, 0.0, keep=0.8) <= 0.02
    assert share(60, 10, 2.0, keep=0.8) < share(60, 10, 2.0) / 2
    assert share(60, 10, 8.0, keep=0.8) > 0.7


def test_few_nights_that_lie_apart_need_a_rare_arrangement() -> None:
    """Three of 27 nights lie beyond the others in one of 2,925 arrangements, of 28 in one of 3,276."""
    exact = [0.0] * 25
    assert not earlier(exact).exceeded([1.0] * 3, 1)
    assert earlier([*exact, 0.0]).exceeded([1.0] * 3, 1)
    assert not earlier([*exact, 0.0]).exceeded([1.0, 1.0, 0.0], 1)


def test_memory_is_rather_too_high_than_too_low() -> None:
    for keep in (0.0, 0.6, 0.8):
        known = [memory(autoregressive(seed, 60, keep).tolist()) for seed in range(50)]
        assert keep < np.median(known) < keep + 0.2
    assert memory([1.0]) < 1.0 and memory([1.0] * 9) < 1.0


def test_a_mode_that_was_there_before_is_no_news() -> None:
    modes = 0.05 * (np.arange(60) // 6 % 2) + 0.005 * normal(1, 60)
    for new in (3, 6, 10):
        assert not earlier(modes.tolist()).exceeded([0.05 + 0.001 * n for n in range(new)], 1)
    assert earlier(modes.tolist()).exceeded([0.15] * 6, 1)


def test_residuals_of_other_levels_tell_the_noise_but_not_the_level() -> None:
    residuals = (0.02 * normal(2, 80)).tolist()
    level = (0.02 * normal(3, 5)).tolist()
    assert earlier(level, residuals).exceeded([0.15] * 5, 1)
    # Of a shift of one deviation a long level is sure and five nights are not.
    new = [0.028] * 20
    assert earlier(residuals).exceeded(new, 1) and not earlier(level, residuals).exceeded(new, 1)


def test_the_smallest_step_falls_with_the_number_of_nights() -> None:
    small, large = earlier(normal(4, 20).tolist()), earlier(normal(4, 100).tolist())
    assert large.smallest(7, 0.84) < small.smallest(7, 0.84)
    assert large.smallest(14, 0.84) < large.smallest(7, 0.84)


@pytest.mark.parametrize("at", [3, 5, 9])
def test_a_split_is_found_where_the_level_changes(at: int) -> None:
    values = 0.02 * normal(5, 14)
    values[at:] += 0.2
    assert best_split(values.tolist(), 3, 11) == at
