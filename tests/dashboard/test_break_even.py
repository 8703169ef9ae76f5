"""When compiling has paid, and which mode is advised when."""

from dataclasses import replace

import pytest

from analysis.speedups import Gain
from dashboard.techniques import break_even, categories
from dashboard.techniques.results import best_of
from support.builders.technique_runs import BERT, ON_CPU, RESNET, Measured, gain, outcomes, reading

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


def test_the_advice_is_made_of_the_numbers() -> None:
    said = break_even.advice([case for case in CASES.values() if categories.subject(case.key) == "compile"])
    for part in (
        "eager for fewer than 200 steps (20.0 s of eager work)",
        "then compile=default (2.00×, 2.00× to 2.00×)",
        "won back 10.0 s of compiling",
        "With a filled cache 20 are enough",
        "compile=max-autotune (2.50×, 2.49× to 2.51×) is ahead of it from 5,000 steps on",
    ):
        assert part in said


def test_no_mode_is_advised_that_pairs_do_not_prove() -> None:
    slow = (
        ON_CPU[0],
        Measured(DEFAULT, (99.0, 103.0, 98.0), cold=10.0, warm=1.0),
        Measured(f"{RESNET}/compile=aot_eager", (120.0, 121.0, 120.0), cold=1.0, warm=1.0),
    )
    said = break_even.advice(best_of([reading(outcomes(slow))]))
    assert said.startswith("stay with eager.")
    assert "compile=aot_eager (0.833×" in said and "is slower" in said
    assert "compile=default (" in said and "brings no gain that can be seen" in said


@pytest.mark.parametrize("drift", [0.7, 0.9, 1.1, 1.4])
def test_modes_of_two_runs_have_no_order_however_far_the_machine_drifted(drift: float) -> None:
    tuned = [
        replace(each, floors=tuple(floor * drift for floor in each.floors))
        for each in (ON_CPU[0], replace(ON_CPU[2], cold=10.0 * drift))
    ]
    readings = [reading(outcomes(ON_CPU[:2]), "newer", night=1), reading(outcomes(tuned))]
    said = break_even.advice(best_of(readings))
    assert "eager for fewer than 200 steps" in said and "ahead of it" not in said
    apart = "compile=max-autotune (2.50×, 2.49× to 2.51×) was measured in another run"
    assert said.endswith(f" {apart}: there is no order between them.")


def test_modes_that_pairs_cannot_tell_apart_are_not_ranked() -> None:
    alike = (ON_CPU[0], ON_CPU[1], Measured(TUNED, (44.0, 55.0, 50.0), cold=60.0, warm=1.0))
    said = break_even.advice(best_of([reading(outcomes(alike))]))
    # Nearly as fast as the other within its wide interval.
    assert "ahead of it" not in said


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
