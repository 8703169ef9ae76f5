"""When compiling has paid."""

import pytest

from analysis.speedups import Gain
from dashboard.techniques import break_even
from dashboard.techniques.results import best_of
from support.builders.technique_runs import BERT, ON_CPU, RESNET, gain, outcomes, reading

DEFAULT, TUNED = f"{RESNET}/compile=default", f"{RESNET}/compile=max-autotune"
CASES = {case.case: case for case in best_of([reading(outcomes(ON_CPU))])}


def test_compiling_has_paid_once_it_saved_what_it_took() -> None:
    # 10 s of compiling; a step of 50 ms that took 100 ms before.
    found = break_even.break_even(10.0, 50.0, gain(2.0, 1.5, 3.0))
    assert found is not None
    assert found.steps == pytest.approx(200)
    assert found.seconds == pytest.approx(20)
    assert (found.fewest, found.most) == (pytest.approx(100), pytest.approx(400))
    # The whole of it both ways: 200 steps eager, or compiling and 200 steps.
    assert found.steps * 0.1 == pytest.approx(10 + found.steps * 0.05)


def test_what_may_be_no_faster_may_never_pay() -> None:
    found = break_even.break_even(10.0, 50.0, gain(1.1, 0.9, 1.3))
    assert found is not None and found.most is None and found.fewest == pytest.approx(10 / (0.05 * 0.3))
    one_pair = break_even.break_even(10.0, 50.0, gain(2.0))
    assert one_pair is not None and (one_pair.fewest, one_pair.most) == (None, None)


@pytest.mark.parametrize("found", [gain(1.0, 0.9, 1.1), gain(0.8, 0.7, 0.9), gain(None)])
def test_what_is_no_faster_never_pays(found: Gain) -> None:
    assert break_even.break_even(10.0, 50.0, found) is None


def test_after_more_steps_than_a_float_holds_it_never_pays() -> None:
    assert break_even.break_even(1e308, 50.0, gain(1.5, 1.4, 1.6)) is None
    edge = break_even.break_even(1e306, 50.0, gain(2.0, 1 + 1e-12, 3.0))
    assert edge is not None and edge.most is None and edge.fewest is not None


def test_a_warm_cache_pays_sooner() -> None:
    cold, warm = break_even.of(CASES[DEFAULT]), break_even.of(CASES[DEFAULT], break_even.WARM)
    assert cold is not None and warm is not None
    assert (cold.steps, warm.steps) == (pytest.approx(200), pytest.approx(20))
    assert break_even.of(CASES[f"{BERT}/precision=int8-dynamic"]) is None


def test_the_mode_that_compiles_longer_is_ahead_from_some_step_on() -> None:
    steps = break_even.overtakes(CASES[DEFAULT], CASES[TUNED])
    assert steps == pytest.approx(5000)
    assert steps is not None and 10 + steps * 0.05 == pytest.approx(60 + steps * 0.04)


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (0.2, "1"),
        (20.0, "20"),
        (20.1, "21"),
        (99.5, "100"),
        (200 * (1 + 1e-15), "200"),
        (1049.0, "1,100"),
        (999.5, "1,000"),
        (5000.0, "5,000"),
        (123_456.0, "130,000"),
    ],
)
def test_steps_are_rounded_up(steps: float, text: str) -> None:
    assert break_even.in_words(steps) == text
