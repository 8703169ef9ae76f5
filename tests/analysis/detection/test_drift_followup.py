"""A change that goes on: how far, beside whom, and how often noise is taken for it."""

import math

import numpy as np
import pytest

from analysis.detection.drift_followup import further, stays_off
from analysis.detection.nights import NightValue, Rules

RULES = Rules(floor=0.02)


def nights_of(
    logs: "np.ndarray[tuple[int], np.dtype[np.float64]]", border: int | None = None
) -> list[NightValue]:
    return [
        NightValue(math.exp(log), "a driver" if n == border else "") for n, log in enumerate(logs.tolist())
    ]


def a_drift(nights: int = 60, seed: int = 1) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """A quarter of a per cent a night from night 20 on."""
    noise = np.random.default_rng(seed).normal(0.0, 0.005, nights)
    return noise + 0.0025 * np.clip(np.arange(nights) - 20, 0, None)


def test_a_drift_goes_on_from_where_it_was_seen() -> None:
    found = further(nights_of(a_drift()), 30, RULES)
    assert found is not None and found.clear(1.0) and not found.clear(-1.0)
    # From the middle of the first five nights to the middle of the last five.
    assert found.change == pytest.approx(0.0025 * 25, abs=0.01)
    # What was noted has to be passed by as much again.
    assert not found.clear(1.0, found.change - 0.01) and found.clear(1.0, found.change - 0.04)


def test_too_few_nights_give_no_answer() -> None:
    logs = a_drift()
    assert further(nights_of(logs), 51, RULES) is None
    assert further(nights_of(logs), 50, RULES) is not None


def test_across_a_border_only_a_control_can_tell() -> None:
    logs, border = a_drift(), 40
    assert further(nights_of(logs, border), 30, RULES) is None
    # Before the change a border hides nothing.
    assert further(nights_of(logs, 25), 30, RULES) is not None
    driver = 0.2 * (np.arange(60) >= border)
    control = nights_of(np.random.default_rng(2).normal(0.0, 0.005, 60) + driver)
    found = further(nights_of(logs + driver, border), 30, RULES, control)
    assert found is not None and found.change == pytest.approx(0.0625, abs=0.015)


def test_what_the_control_does_too_is_no_going_on() -> None:
    logs = a_drift()
    control: list[NightValue | None] = list(nights_of(logs + np.random.default_rng(3).normal(0, 0.005, 60)))
    found = further(nights_of(logs), 30, RULES, control)
    assert found is not None and not found.clear(1.0)
    # Nights without a control say nothing.
    few = [night if number < 36 else None for number, night in enumerate(control)]
    assert further(nights_of(logs), 30, RULES, few) is None


@pytest.mark.parametrize("spread", [0.003, 0.02, 0.06])
def test_of_steps_that_stay_hardly_any_goes_on(spread: float) -> None:
    """Asked on every night of three months, as the service does."""
    wrong, rng = 0, np.random.default_rng(4)
    for _ in range(60):
        nights = nights_of(rng.normal(0.0, spread, 120) + 0.08 * (np.arange(120) >= 30))
        asked = [further(nights[: night + 1], 31, RULES) for night in range(41, 120, 3)]
        wrong += any(found is not None and found.clear(0.08) for found in asked)
    assert wrong <= 2


OFF = [10.0] * 12 + [10.5] * 11


def test_what_stays_off_its_old_level_for_ten_nights_is_off_by_so_much() -> None:
    nights = [NightValue(value) for value in OFF]
    assert stays_off(nights, 0, 12, RULES) == pytest.approx(math.log(1.05))
    # One night fewer, too little, and a level that came back by half.
    assert stays_off(nights[:-1], 0, 12, RULES) == 0.0
    assert stays_off([NightValue(min(value, 10.1)) for value in OFF], 0, 12, RULES) == 0.0
    assert stays_off([*nights, *[NightValue(10.0)] * 5], 0, 12, RULES) == 0.0


def test_whether_it_stays_off_across_a_border_only_a_control_can_tell() -> None:
    nights = [NightValue(value, "driver" if at == 15 else "") for at, value in enumerate(OFF)]
    assert stays_off(nights, 0, 12, RULES) == 0.0
    level = stays_off(nights, 0, 12, RULES, [NightValue(7.0)] * len(OFF))
    assert level == pytest.approx(math.log(1.05))
    assert stays_off(nights, 0, 12, RULES, nights) == 0.0
    # Too few nights have one, or none of the old level does.
    assert stays_off(nights, 0, 12, RULES, [*[None] * 12, *[NightValue(7.0)] * 11]) == 0.0
