"""Which session comes next: pairs of a case lie apart in time, and end when the verdict is fixed."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy, Waiver
from analysis.decision.comparison import Comparison
from analysis.decision.upgrade import Upgrade
from records.outcomes import Outcome, PlannedReplicate
from runner.session_plan import SessionPlan
from workflows.planning.pair_allocation import SuiteAllocation
from workflows.session_queue import InOrder, Pairs, Room, enough_lost, enough_pairs, pairs_planned

A, B = "matmul/infer/size=64/eager", "mlp/infer/batch=8/eager"


@dataclass(frozen=True)
class Measured:
    """What a whole upgrade came to: its decision, the pairs of each case, why the others were not needed."""

    upgrade: Upgrade
    pairs: Counter[str]
    reasons: set[str]


def planned(pairs: int, *cases: str) -> list[PlannedReplicate]:
    return [
        PlannedReplicate(case, side, n) for n in range(pairs) for case in cases for side in ("old", "new")
    ]


def never(outcomes: Sequence[Outcome]) -> str:
    return ""


def queue(pairs: int, *cases: str, enough=never, first_look: int = 1, allocate=None) -> Pairs:
    return Pairs(planned(pairs, *cases), ("old", "new"), enough, first_look, allocate)


def room(sessions: float) -> Room:
    """Room for so many more sessions."""
    return Room(sessions, lambda session: 1)


def drained(pairs: Pairs, status: str = "ok") -> list[tuple[str, int, tuple[str, ...]]]:
    """Every session it hands out, each measured at once with that status."""
    seen: list[tuple[str, int, tuple[str, ...]]] = []
    while session := pairs.next(room(math.inf)):
        first = session.contenders[0]
        seen.append((first.case, first.replicate, tuple(one.environment for one in session.contenders)))
        for one in session.contenders:
            pairs.learn(Outcome(one.case, one.environment, one.replicate, status))
    return seen


def test_first_pairs_of_all_cases_come_before_second_ones_and_sides_take_turns_at_starting():
    assert drained(queue(2, A, B)) == [
        (A, 0, ("old", "new")),
        (B, 0, ("old", "new")),
        (A, 1, ("new", "old")),
        (B, 1, ("new", "old")),
    ]


def test_a_budget_for_few_brings_the_first_cases_to_a_verdict_instead_of_all_of_them_nearly():
    third = "softmax/infer/size=64/eager"
    pairs, seen = queue(4, A, B, third, first_look=2), list[tuple[str, int]]()
    while len(seen) < 5 and (session := pairs.next(room(5 - len(seen)))):
        seen.append((session.contenders[0].case, session.contenders[0].replicate))
        for one in session.contenders:
            pairs.learn(Outcome(one.case, one.environment, one.replicate, "ok"))
    # The third case can no longer be brought there: what is left goes to one that has a verdict.
    assert seen == [(A, 0), (B, 0), (A, 1), (B, 1), (A, 2)]


def test_choosing_a_case_estimates_each_session_once():
    estimated: list[str] = []

    def cost(session: SessionPlan) -> float:
        estimated.append(session.id)
        return 1.0

    pairs = queue(4, *(f"matmul/infer/size={size}/eager" for size in range(1, 101)), first_look=4)
    assert pairs.next(Room(math.inf, cost)) is not None
    assert len(estimated) == len(set(estimated)) == 400


def test_what_a_budget_leaves_shows_whether_other_cases_break():
    third = "softmax/infer/size=64/eager"
    allocate = lambda cases, ended: (None, "the decision stands")  # noqa: E731
    pairs, seen = queue(4, A, B, third, first_look=2, allocate=allocate), list[tuple[str, int]]()
    while len(seen) < 5 and (session := pairs.next(room(5 - len(seen)))):
        seen.append((session.contenders[0].case, session.contenders[0].replicate))
        for one in session.contenders:
            pairs.learn(Outcome(one.case, one.environment, one.replicate, "ok"))
    assert seen == [(A, 0), (B, 0), (A, 1), (B, 1), (third, 0)]
    # What was not measured of the third case is a matter of the budget.
    assert {(one.case, reason) for one, reason in pairs.not_needed()} == {
        (case, "not needed: the decision stands") for case in (A, B)
    }


def test_a_pair_without_a_result_does_not_count_towards_a_verdict():
    pairs = queue(4, A, B, first_look=1)
    lost = pairs.next(room(1))
    assert lost is not None and lost.contenders[0].case == A
    for one in lost.contenders:
        pairs.learn(Outcome(one.case, one.environment, one.replicate, "contended"))
    again = pairs.next(room(1))
    assert again is not None and (again.contenders[0].case, again.contenders[0].replicate) == (A, 1)


def test_a_case_that_has_enough_frees_its_other_pairs():
    def enough(outcomes: Sequence[Outcome]) -> str:
        return "decided" if outcomes[0].case == A and len(outcomes) == 4 else ""

    pairs = queue(4, A, B, enough=enough)
    assert [number for case, number, _ in drained(pairs) if case == A] == [0, 1]
    not_needed = list(pairs.not_needed())
    assert not_needed == [
        (PlannedReplicate(A, side, n), "decided") for n in (2, 3) for side in ("old", "new")
    ]
    assert list(pairs.not_needed()) == []


def test_a_case_that_breaks_in_every_pair_is_not_measured_a_third_time():
    pairs = queue(5, A)
    assert len(drained(pairs, "crashed")) == 2
    assert [reason for _, reason in pairs.not_needed()] == ["not needed: ended crashed in 2 pairs"] * 6


def test_what_is_unsupported_once_stays_so():
    assert len(drained(queue(5, A), "unsupported")) == 1


@pytest.mark.parametrize("status", ["crashed", "unsupported"])
def test_a_case_with_no_result_on_one_side_goes_on(status: str):
    ends = iter(["lost", status, status, "contended", "ok", status, "never"])
    pairs = queue(5, A)
    # Sides take turns at starting: the old one is lost, contended, and then works.
    while (session := pairs.next(room(math.inf))) is not None:
        for one in session.contenders:
            pairs.learn(Outcome(A, one.environment, one.replicate, next(ends)))
    assert next(ends) == "never"
    assert {reason for _, reason in pairs.not_needed()} == {f"not needed: ended {status} in 3 pairs"}


def test_what_others_did_to_a_pair_ends_nothing():
    assert len(drained(queue(5, A), "contended")) == 5


def test_a_case_that_broke_once_and_then_worked_goes_on():
    pairs = queue(3, A)
    pairs.next(room(math.inf))
    for side in ("old", "new"):
        pairs.learn(Outcome(A, side, 0, "crashed"))
    assert len(drained(pairs)) == 2


def test_of_a_torn_pair_the_other_half_is_not_measured():
    pairs = queue(2, A)
    pairs.learn(Outcome(A, "old", 0, "ok"))
    assert [number for _, number, _ in drained(pairs)] == [1]
    assert list(pairs.not_needed()) == [
        (PlannedReplicate(A, "new", 0), "its partner was measured before an interruption")
    ]


def test_what_an_earlier_part_measured_is_not_measured_again():
    pairs = queue(2, A)
    for side in ("old", "new"):
        pairs.learn(Outcome(A, side, 0, "ok"))
    assert [number for _, number, _ in drained(pairs)] == [1]
    assert list(pairs.not_needed()) == []


def test_what_is_left_shrinks_as_cases_end():
    pairs = queue(3, A, B, enough=lambda outcomes: "decided" if outcomes[0].case == A else "")
    assert len(list(pairs.sessions_left())) == 6
    session = pairs.next(room(math.inf))
    assert session is not None
    for one in session.contenders:
        pairs.learn(Outcome(one.case, one.environment, one.replicate, "ok"))
    assert {session.contenders[0].case for session in pairs.sessions_left()} == {B}


def measured(pairs: int, *, colds: int = 1, warm: float = 1.4, **others: float) -> list[Outcome]:
    """A compiled case that is slower by a tenth: of its pairs the first `colds` compile, the others do not.

    `warm` is by what the new side's `compile_warm` is longer, `others` the same of any other metric.
    """
    found: list[Outcome] = []
    for number in range(pairs):
        compiles = {"compile_cold": 4.0} if number < colds else {"compile_warm": warm}
        for side, new in (("old", False), ("new", True)):
            ratios = {"latency_floor": 1.1, **compiles, **others}
            # Latencies hardly vary; compiling does, by so much that six pairs do not decide a tenth.
            spread = {name: 0.001 if name == "latency_floor" else 0.03 for name in ratios}
            metrics = {
                name: (ratio if new else 1.0) * (1 + spread[name] * (number * (2 + new) % 5))
                for name, ratio in ratios.items()
            }
            about = {"started_at": datetime(2026, 1, 1, 0, number, tzinfo=UTC), "wall_seconds": 5.0}
            found.append(Outcome(A, side, number, "ok", metrics=metrics, **about))
    return found


def measured_pairs(comparison: Comparison, pairs: range, **given: float) -> list[int]:
    """After how many of these numbers of pairs more are asked for."""
    enough = enough_pairs(comparison, 1)
    return [many for many in pairs if not enough(measured(many, **given))]


@pytest.mark.parametrize(("rate", "reason"), [(0.05, "not needed: slower after 6 pairs"), (1e-15, "")])
def test_an_upgrade_measures_until_a_call_stands_at_the_rate_of_its_policy(rate: float, reason: str):
    outcomes = [
        Outcome(
            A,
            side,
            number,
            "ok",
            started_at=datetime(2026, 1, 1, 0, number, tzinfo=UTC),
            wall_seconds=5.0,
            metrics={"latency_floor": value + 0.001 * number},
        )
        for number in range(6)
        for side, value in (("old", 1.0), ("new", 1.1))
    ]
    comparison = Comparison("old", "new", Plan(), Policy(false_discovery_rate=rate))
    assert enough_pairs(comparison, 1)(outcomes) == reason


def test_what_has_a_table_has_its_first_look_unless_no_further_pair_knows_it():
    comparison = Comparison("old", "new", Plan(), Policy())
    # The first pair compiles: five pairs have four that find the cache filled.
    assert measured_pairs(comparison, range(3, 10), warm=1.1) == [3, 4]
    assert measured_pairs(comparison, range(3, 10), colds=0) == [3]
    # An exact metric needs no more pairs than its verdict.
    exact = Comparison("old", "new", Plan(), Policy(metric="rss_peak_steady", worst={}))
    assert measured_pairs(exact, range(1, 4), rss_peak_steady=1.5) == [1]


def test_what_an_upgrade_is_also_for_goes_on_until_it_is_judged():
    comparison = Comparison("old", "new", Plan(), Policy(), also=("compile_warm", "compile_cold"))
    assert measured_pairs(comparison, range(3, 16), warm=1.1) == list(range(3, 13))
    assert measured_pairs(comparison, range(3, 16), warm=2.0) == [3, 4]


@pytest.mark.parametrize(("limit", "until"), [(0.1, 12), (0.5, 6)])
def test_what_has_a_limit_goes_on_until_it_is_on_one_side_of_it(limit: float, until: int):
    comparison = Comparison("old", "new", Plan(), Policy(worst={"compile_warm": limit, "compile_cold": 0.1}))
    assert measured_pairs(comparison, range(3, 16), warm=1.1) == list(range(3, until + 1))


def upgrade_queue(cases: dict[str, float], spread: float = 0.002, most: int = 32, **more: Any) -> Measured:
    """The queue of an upgrade over a suite whose new side differs by these shares, measured to its end."""
    comparison = Comparison("old", "new", Plan(most), Policy(), **more)
    pairs = Pairs(
        pairs_planned(comparison, cases),
        ("old", "new"),
        enough_lost(comparison),
        4,
        SuiteAllocation(comparison).choose,
    )
    rng, outcomes, begun = np.random.default_rng(7), list[Outcome](), datetime(2026, 1, 1, tzinfo=UTC)
    while session := pairs.next(room(math.inf)):
        for at, one in enumerate(session.contenders):
            new = one.environment == "new"
            value = (1 + cases[one.case] * new) * math.exp(rng.normal(0, spread / math.sqrt(2)))
            outcomes.append(
                Outcome(
                    one.case, one.environment, one.replicate, "ok", wall_seconds=5.0,
                    started_at=begun + timedelta(seconds=10 * len(outcomes) - 9 * at),
                    metrics={"latency_floor": value},
                )
            )  # fmt: skip
            pairs.learn(outcomes[-1])
    not_needed = {reason for _, reason in pairs.not_needed()}
    upgrade = comparison.verdict(comparison.results(outcomes))
    return Measured(upgrade, Counter(one.case for one in outcomes if one.environment == "new"), not_needed)


TEN = {f"case{number}/infer/-/eager": 0.0 for number in range(10)}


def test_a_suite_without_a_change_ends_after_its_first_look():
    measured = upgrade_queue(TEN)
    assert measured.upgrade.decision == "go"
    assert {*measured.pairs.values()} == {4}
    assert measured.reasons == {"not needed: the decision stands"}


def test_pairs_go_to_the_case_that_is_in_doubt():
    # The others are a little faster, so that the mean is in no doubt.
    measured = upgrade_queue({**dict.fromkeys(TEN, -0.005), A: 0.085}, spread=0.01)
    doubted = measured.pairs.pop(A)
    assert doubted > max(measured.pairs.values())


def test_a_case_that_blocks_does_not_keep_the_others_from_being_decided():
    measured = upgrade_queue({**TEN, A: 0.5}, spread=0.01)
    upgrade = measured.upgrade
    assert (upgrade.decision, upgrade.blockers, upgrade.without_blockers) == ("no-go", (A,), "go")
    assert measured.pairs[A] <= 6


def test_a_waived_case_gets_no_more_pairs_than_the_first_look():
    measured = upgrade_queue({**TEN, A: 0.5}, waived=(Waiver(A, "an accepted price"),))
    assert measured.upgrade.decision == "go" and measured.upgrade.waived[0].case == A
    assert measured.pairs[A] == 4


def test_a_case_in_doubt_ends_with_the_plan():
    measured = upgrade_queue({A: 0.0}, spread=0.5)
    assert measured.upgrade.decision == "unclear"
    assert measured.reasons == {"not needed: every case has all pairs of the plan"}


def test_a_case_that_is_always_disturbed_does_not_take_all_pairs():
    comparison = Comparison("old", "new", Plan(32), Policy())
    pairs = Pairs(
        pairs_planned(comparison, [A, B]),
        ("old", "new"),
        enough_lost(comparison),
        4,
        SuiteAllocation(comparison).choose,
    )
    # More than the eight that the plan has in store.
    assert len(drained(pairs, "contended")) == 2 * 9
    assert {reason for _, reason in pairs.not_needed()} == {"not needed: 9 pairs were disturbed or lost"}


def test_a_case_of_a_suite_may_lose_so_many_pairs_before_and_after_its_first_look():
    comparison = Comparison("old", "new", Plan(32), Policy())
    for good in (0, 6):
        pairs = [(number, "contended" if number >= good else "ok") for number in range(good + 9)]
        outcomes = [
            Outcome(A, side, number, status, metrics={"latency_floor": 1.0}, wall_seconds=1.0)
            for number, status in pairs
            for side in ("old", "new")
        ]
        assert enough_lost(comparison)(outcomes) == "not needed: 9 pairs were disturbed or lost"
        assert enough_lost(comparison)(outcomes[:-2]) == ""
    few = replace(comparison, plan=Plan(8))
    assert enough_lost(few)(outcomes[: 2 * (6 + 4)]) == "" and enough_lost(few)(outcomes[: 2 * (6 + 5)])


def test_a_lost_pair_is_measured_again_in_the_same_order():
    pairs, orders = queue(8, A), list[bool]()
    for lost in (False, True, False, False, False):
        session = pairs.next(room(math.inf))
        assert session is not None
        orders.append(session.contenders[0].environment == "new")
        for one in session.contenders:
            pairs.learn(Outcome(A, one.environment, one.replicate, "contended" if lost else "ok"))
    assert orders == [False, True, True, False, True]


def test_in_order_keeps_a_workloads_cases_adjacent():
    todo = [PlannedReplicate(case, "e", n) for n in range(2) for case in (A, B)]
    sessions = InOrder(todo)
    ids = []
    while session := sessions.next(room(math.inf)):
        ids.append(session.id)
    assert len(ids) == 4 and list(sessions.not_needed()) == []
