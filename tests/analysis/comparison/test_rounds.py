"""Two processes round by round: a machine that changes its pace changes it for both."""

import math
from dataclasses import replace
from typing import Any

import pytest

from analysis.comparison import rounds
from analysis.comparison.pairs import pairs_of
from analysis.comparison.rounds import core_share
from analysis.speedups import compare
from records.references import Baseline
from support.builders.run_records import an_outcome

#: The machine's pace in each round; either process sees one it is not alone with.
PACE = (1.0, 1.0, 1.0, 1.25, 1.25, 1.25, 1.25)


def facts(step_ns: float, pace: tuple[float, ...] = PACE, **more: Any) -> dict[str, Any]:
    """Those of a process whose step takes `step_ns` on a machine of pace 1."""
    return {"items": 8, "shapes": 1, "block_floors_ns": [round(step_ns * each) for each in pace], **more}


def test_the_pace_of_the_machine_is_no_part_of_the_change() -> None:
    # The new process was satisfied before the machine slowed down: its median block is a fast one.
    old, new = facts(1_000_000), facts(1_030_000, PACE[:4])
    assert rounds.change(old, new) == pytest.approx(math.log(1.03))
    assert rounds.change(new, old) == pytest.approx(-math.log(1.03))


def test_a_block_that_others_took_does_not_count_nor_does_its_partner() -> None:
    old, new = facts(1e6), facts(1e6, (*PACE[:2], 9.0, 9.0, 9.0, *PACE[5:]))
    new["tainted_blocks"] = [{"block": number, "status": "contended"} for number in (2, 3, 4)]
    assert rounds.change(old, new) == pytest.approx(0.0)


@pytest.mark.parametrize("blocks", [5, ["x"], [{"block": []}], {"block": 2}])
def test_what_a_file_from_elsewhere_calls_tainted_is_no_error(blocks: Any) -> None:
    assert rounds.tainted_block_numbers({"tainted_blocks": blocks}) == frozenset()
    assert rounds.change(facts(1e6), facts(2e6, tainted_blocks=blocks)) == pytest.approx(math.log(2))


def test_a_number_of_a_block_is_one_however_json_spells_it() -> None:
    blocks = [{"block": number} for number in (2.0, 3, 4.0, 2.5, math.nan, None)]
    assert rounds.tainted_block_numbers({"tainted_blocks": blocks}) == {2, 3, 4}


@pytest.mark.parametrize("shapes", ["x", [1]])
def test_unreadable_shapes_count_as_possibly_several(shapes: Any) -> None:
    old = an_outcome(metrics={"latency_floor": 2.0}, facts=facts(1e6, shapes=shapes))
    new = replace(old, metrics={"latency_floor": 1.0})
    assert pairs_of("latency_floor", [old], [new])[0].log == pytest.approx(math.log(0.5))


@pytest.mark.parametrize(
    "other", [{}, {"block_floors_ns": None}, {"block_floors_ns": [1.0, 1.0, 1.0]}, facts(0.0), facts(1e6, ())]
)
def test_of_too_few_rounds_nothing_is_known(other: dict[str, Any]) -> None:
    assert rounds.change(facts(1e6), other) is None


def test_a_pair_is_judged_by_its_rounds_where_they_are_known() -> None:
    old = an_outcome(metrics={"latency_floor": 1.25, "latency": 1.3}, facts=facts(1e6))
    new = replace(old, metrics={"latency_floor": 1.03, "latency": 1.3}, facts=facts(1.03e6))
    (pair,) = pairs_of("latency_floor", [old], [new])
    assert (pair.old, pair.new) == (1.25, 1.03)
    assert pair.log == pytest.approx(math.log(1.03))
    assert pairs_of("latency", [old], [new])[0].log == 0.0
    shapes = [replace(one, facts={**one.facts, "shapes": 3}) for one in (old, new)]
    assert pairs_of("latency_floor", shapes[:1], shapes[1:])[0].log == pytest.approx(math.log(1.03 / 1.25))


def test_a_gain_is_made_of_rounds_too() -> None:
    base = an_outcome(metrics={"latency_floor": 1.0}, facts=facts(1e6))
    faster = replace(base, case="compiled", metrics={"latency_floor": 1.1}, facts=facts(0.5e6, items=16))
    gain = compare(Baseline("speed-up", ("eager",)), [faster], [base], "eager")
    assert gain.ratio == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"device": "cpu", "cpu_share": 0.35}, 0.35),
        ({"device": "cpu", "cpu_share": 0.9}, None),
        ({"device": "cuda:0", "cpu_share": 0.35}, None),
        ({"device": "cpu"}, None),
        # Asleep while its own processes work, and robbed of its core.
        ({"device": "cpu", "cpu_share": 0.35, "core_share": 0.98}, None),
        ({"device": "cpu", "cpu_share": 0.35, "core_share": 0.5}, 0.5),
        ({"device": "cpu", "cpu_share": 1.8, "core_share": 0.5}, None),
        ({}, None),
    ],
)
def test_who_had_less_of_its_core_says_so(facts: dict[str, Any], said: float | None) -> None:
    assert core_share(an_outcome(facts=facts)) == said


def test_a_case_that_sleeps_while_its_data_is_made_had_its_core() -> None:
    busy = {"device": "cpu", "cpu_share": 0.35}
    assert core_share(an_outcome(facts=busy, metrics={"data_wait": 0.6})) is None
