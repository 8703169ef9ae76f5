"""Pairs: how much their rounds differ decides when there are enough, and nothing else does."""

import math
import random
from dataclasses import dataclass, replace
from statistics import median, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.outcomes import Outcome, PlannedReplicate
from runner.execution.blocks import Blocks, precise, standard_error
from runner.execution.session import Conditions, RunningSession, needs_more_blocks
from runner.session_plan import SessionPlan, Timing
from runner.telemetry.interference import Interference
from runner.worker.messages import Block
from support.measuring import CASE_FILES, QUICK, Scratch, conditions, follow, forked, key

MS = 1_000_000
TIMING = Timing(measure_seconds=1.0, min_blocks=5, max_seconds=10.0)
SLOW = Interference("contended", "cpu", "others", 0.5)


def blocks(*floors: int, wall_ms: int = 100, tainted: int | None = None) -> Blocks:
    """One block for each of these fastest iterations, in nanoseconds."""
    made = Blocks(TIMING)
    for number, floor in enumerate(floors):
        made.take(Block((floor, 2 * floor), wall_ms * MS, 0), SLOW if number == tainted else None)
    return made


@pytest.mark.parametrize("many", [8, 20, 60])
@pytest.mark.parametrize("wild", [0.0, 0.2])
def test_the_standard_error_is_that_of_medians_whether_or_not_some_are_wild(many: int, wild: float) -> None:
    rng = random.Random(many)

    def drawn() -> list[float]:
        return [rng.gauss(0, 10 if rng.random() < wild else 1) for _ in range(many)]

    medians = stdev(median(drawn()) for _ in range(4000))
    error = median(standard_error(drawn()) for _ in range(1000))
    assert error == pytest.approx(medians, rel=0.25)


def test_too_few_rounds_say_nothing_of_their_spread() -> None:
    assert standard_error([0.0] * 3) == math.inf
    assert standard_error([0.0] * 4) == 0.0


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=60), st.floats(-1, 1))
def test_the_side_that_is_faster_does_not_decide(values: list[float], shift: float) -> None:
    error = standard_error(values)
    assert standard_error([-value for value in values]) == error
    assert standard_error([value + shift for value in values]) == pytest.approx(error, abs=1e-9)


def test_a_pair_is_precise_when_its_rounds_agree_though_both_sides_wander() -> None:
    pace = [100, 140, 90, 200, 120, 160]
    ours, theirs = blocks(*pace), blocks(*(2 * each for each in pace))
    assert precise(ours, theirs, 0.0)
    restless = blocks(*(2 * each for each in reversed(pace)))
    assert not precise(ours, restless, 0.1)
    assert precise(ours, restless, 1.0)


def test_a_round_that_does_not_count_on_one_side_is_none() -> None:
    ours, wild = blocks(100, 100, 100, 100, 100), blocks(100, 100, 900, 100, 100)
    assert not precise(ours, wild, 0.01)
    assert precise(ours, blocks(100, 100, 900, 100, 100, tainted=2), 0.01)
    assert not precise(blocks(100, 100, 100, 100), blocks(100, 100, 100, 100, tainted=0), 1.0)


def test_precision_is_not_bought_at_any_price() -> None:
    assert not blocks(*[1000] * 39).exhausted
    assert blocks(*[1000] * 40).exhausted
    short = Blocks(replace(TIMING, max_seconds=2.0))
    short.take(Block((1000,), 2000 * MS, 0), None)
    assert short.exhausted
    tiny = Blocks(TIMING)
    for _ in range(10):
        tiny.take(Block((10,) * 10_000, MS, 0), None)
    assert tiny.exhausted


@dataclass
class MeasuredRounds:
    """A contender with scripted rounds."""

    blocks: Blocks
    satisfied: bool = True
    exhausted: bool = False


def test_two_sides_interleave_their_rounds_until_they_are_precise() -> None:
    calm, wild = [100, 100, 100, 100, 100], [100, 140, 90, 200, 120]
    one, alike, other = (
        MeasuredRounds(blocks(*calm)),
        MeasuredRounds(blocks(*calm)),
        MeasuredRounds(blocks(*wild)),
    )
    assert needs_more_blocks([one, alike], 0.01) == []
    assert needs_more_blocks([one, other], 0.01) == [one, other]
    # Who is satisfied first goes on: blocks of one number are of one round.
    alike.satisfied = False
    assert needs_more_blocks([one, alike], 0.01) == [one, alike]
    assert needs_more_blocks([one, alike], 0.0) == [alike]
    # A contender takes no more rounds than it can improve by.
    other.exhausted = True
    assert needs_more_blocks([one, other], 0.01) == []
    alike.exhausted = True
    assert needs_more_blocks([one, alike], 0.01) == [alike]


def test_only_pairs_are_kept_for_precision() -> None:
    wild = [
        MeasuredRounds(blocks(*floors))
        for floors in ([100] * 5, [100, 140, 90, 200, 120], [200, 90, 140, 100, 80])
    ]
    assert needs_more_blocks(wild, 0.01) == []
    assert needs_more_blocks(wild[1:2], 0.01) == []


def pair(shared: Conditions) -> tuple[Outcome, Outcome]:
    """Two processes of one case in two environments."""
    contenders = tuple(PlannedReplicate(key("wanders"), side, 0) for side in ("old", "new"))
    plan = SessionPlan("wanders#0", contenders)
    with RunningSession(plan, shared, f"{shared.run}:pair") as session:
        old, new = follow(session, shared).outcomes
    assert (old.reason, new.reason) == ("", "")
    return old, new


@pytest.mark.torch
def test_two_processes_whose_rounds_differ_take_more_interleaved_rounds(scratch: Scratch) -> None:
    # Ten blocks are enough for either: a busy machine makes fewer and longer ones of them.
    timing = replace(QUICK, measure_seconds=0.1)
    shared = conditions(scratch.folder, CASE_FILES / "paces.py")
    (target,) = shared.targets.values()
    # Two names of one environment.
    shared = replace(shared, targets={side: replace(target, name=side) for side in ("old", "new")})
    with forked(shared) as forking:
        coarse, fine = (
            pair(replace(forking, timing=replace(timing, pair_error=error))) for error in (10.0, 1e-9)
        )
    for old, new in (coarse, fine):
        assert len(old.blocks) == len(new.blocks) >= 4
    # Four times what has to be measured by either side ends it.
    seconds = max(sum(sum(block) for block in one.blocks) / 1e9 for one in fine)
    assert seconds > 3 * timing.measure_seconds
    assert len(fine[0].blocks) > len(coarse[0].blocks)
