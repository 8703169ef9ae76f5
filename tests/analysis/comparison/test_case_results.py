"""From all replicates of a case in both environments to its verdicts."""

import math
from dataclasses import replace
from datetime import timedelta

import pytest

from analysis.comparison.case_results import AloneProcesses, judge_case
from analysis.comparison.pairs import BEYOND, SideFlaw
from analysis.comparison.plan import Plan
from analysis.comparison.thresholds import Threshold
from records.outcomes import Outcome
from reports.text.verdict_text import in_cycles, ran_alone, side_reason
from support.builders.run_records import FIRST_NIGHT, an_outcome

WOBBLE = (0.001, -0.002, 0.0, 0.002, -0.001, 0.0015)


def replicates(slower: float = 0.0, breaks: float = 0.0) -> list[Outcome]:
    """Six replicates; those of one number are alive together."""
    return [
        an_outcome(
            replicate=number,
            metrics={
                "latency_floor": 10.0 * math.exp(slower + own),
                "throughput": 800.0 * math.exp(-slower - own),
                "graph_breaks": breaks,
                "gpu_busy": 50.0,
            },
            facts={"items": 8},
            started_at=FIRST_NIGHT + timedelta(minutes=number),
        )
        for number, own in enumerate(WOBBLE)
    ]


def still(outcomes: list[Outcome]) -> list[Outcome]:
    """The same without the wobble, as the other side of each pair."""
    values = {"latency_floor": 10.0, "throughput": 800.0}
    return [replace(one, metrics={**one.metrics, **values}) for one in outcomes]


def alone(one: Outcome, crowded: str) -> Outcome:
    """The same, measured when its partner was gone."""
    later = one.started_at + timedelta(hours=1)
    return replace(one, started_at=later, facts={**one.facts, "measured_alone": crowded})


def test_every_metric_that_knows_a_better_is_judged() -> None:
    old, new = still(replicates()), replicates(slower=0.05, breaks=2.0)
    result = judge_case("eager", old, new, pair_seconds=6.6)
    assert {metric: verdict.word for metric, verdict in result.verdicts.items()} == {
        "latency_floor": "slower",
        "throughput": "slower",
        "graph_breaks": "slower",
    }
    assert (result.case, result.technique, result.pair_seconds) == (old[0].case, "eager", 6.6)
    assert result.works and not result.broke
    assert result.verdicts["latency_floor"].change == pytest.approx(0.05 + sum(WOBBLE) / 6)


def with_cycles(outcomes: list[Outcome], factor: float) -> list[Outcome]:
    """The same on a GPU whose SM clock is 1.5 GHz / `factor`."""
    return [
        replace(one, metrics={**one.metrics, "step_cycles": one.metrics["latency_floor"] * 1500 / factor})
        for one in outcomes
    ]


def test_a_slower_gpu_is_distinguished_from_a_slower_clock() -> None:
    old, new = still(replicates()), replicates(slower=0.05)
    clock = judge_case("eager", with_cycles(old, 1.0), with_cycles(new, math.exp(0.05)))
    assert clock.verdicts["latency_floor"].word == "slower"
    assert in_cycles(clock, "slower") == "the same in SM cycles: the clock differs"
    kernels = judge_case("eager", with_cycles(old, 1.0), with_cycles(new, 1.0))
    assert in_cycles(kernels, "slower") == "slower in SM cycles too"
    assert in_cycles(kernels, "same") == in_cycles(judge_case("eager", old, new), "slower") == ""


def test_processes_that_had_to_take_turns_are_pairs_and_it_is_said() -> None:
    crowded = "out of memory beside 1 other of its session (no room)"
    old, new = still(replicates()), replicates(slower=0.05)
    apart = [alone(one, crowded) if one.replicate % 2 else one for one in old]
    others = [one if one.replicate % 2 else alone(one, crowded) for one in new]
    result = judge_case("eager", apart, others)
    assert result.verdicts["latency_floor"].word == "slower"
    assert result.alone == AloneProcesses(6, 12, crowded)
    assert ran_alone(result) == f"6 of 12 processes had to run alone: {crowded}"
    side_by_side = judge_case("eager", old, new)
    assert side_by_side.alone is None and ran_alone(side_by_side) == ""


def test_thresholds_and_the_plan_are_the_callers() -> None:
    old, new = still(replicates()), replicates(slower=0.05)
    lenient = {"latency_floor": Threshold(0.20)}
    assert judge_case("eager", old, new, lenient).verdicts["latency_floor"].word == "same"
    sooner = judge_case("eager", old, new, plan=Plan(4)).verdicts["latency_floor"]
    assert (sooner.n, sooner.left_out) == (4, (BEYOND,) * 2)
    unsure = judge_case("eager", old, new, plan=Plan(alpha=1e-12)).verdicts["latency_floor"]
    assert (unsure.word, unsure.n) == ("unclear", 6)


def test_a_case_that_broke_has_no_verdict_and_says_why() -> None:
    gone = [replace(one, status="crashed", reason="SIGSEGV", metrics={}) for one in replicates()]
    result = judge_case("eager", replicates(), gone)
    assert result.broke
    assert side_reason(result.new) == "6 of 6 replicates: SIGSEGV"
    verdict = result.verdicts["latency_floor"]
    assert (verdict.word, verdict.left_out) == (
        "no data",
        ((SideFlaw("new", "ended", status="crashed"),),) * 6,
    )
    assert judge_case("eager", gone, replicates()).repaired
    assert judge_case("eager", gone, gone).never_worked
    assert judge_case("eager", [], gone).may_have_broken


def test_broken_counts_name_both_sides() -> None:
    gone = [replace(one, status="crashed", reason="SIGSEGV", metrics={}) for one in replicates()]
    result = judge_case("eager", [*gone[:1], *replicates()[1:]], [*gone[:4], *replicates()[4:]])
    assert result.works
    assert result.failed == (1, 4)


def test_other_work_is_not_comparable() -> None:
    more = [replace(one, facts={"items": 16}) for one in replicates()]
    assert judge_case("eager", replicates(), more).verdicts["latency_floor"].word == "not comparable"


def disturbed(changes: list[float], statuses: tuple[str, str] = ("contended", "ok")) -> list[list[Outcome]]:
    """Both sides of pairs that others disturbed in every block, and whose floors differ by these shares."""
    sides: list[list[Outcome]] = [[], []]
    for number, change in enumerate(changes):
        for side, status in enumerate(statuses):
            floors = [1e6 * (1 + change * side) * (1 + 0.01 * block) for block in range(6)]
            facts = {
                "items": 8,
                "block_floors_ns": floors,
                "tainted_blocks": [{"block": at} for at in range(6)],
            }
            sides[side].append(
                an_outcome(
                    replicate=number,
                    status=status,
                    metrics={},
                    facts=facts,
                    started_at=FIRST_NIGHT + timedelta(minutes=number),
                )
            )
    return sides


@pytest.mark.parametrize(
    ("changes", "agreeing"),
    [
        ([0.5] * 6, 6),
        ([0.32, 0.9, 0.5, 0.4, 0.35, 0.6, 2.0], 7),
        ([-0.4] * 6, -6),
        ([0.5] * 5, 0),
        ([0.5] * 5 + [0.29], 0),
        ([0.5] * 5 + [-0.5], 0),
    ],
)
def test_disturbed_pairs_count_where_all_agree_on_a_large_change(changes: list[float], agreeing: int) -> None:
    old, new = disturbed(changes)
    result = judge_case("eager", old, new)
    assert result.under_load == agreeing
    # As a number they are worth nothing.
    assert not any(verdict.n for verdict in result.verdicts.values())


def test_pairs_that_ended_for_another_reason_are_no_evidence() -> None:
    old, new = disturbed([0.5] * 6, ("contended", "lost"))
    assert judge_case("eager", old, new).under_load == 0
    undisturbed = [replace(one, status="ok") for one in old]
    assert judge_case("eager", undisturbed, [replace(one, status="ok") for one in new]).under_load == 0
