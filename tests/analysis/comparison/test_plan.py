"""When a plan looks, what each look may spend, and when a case gets more pairs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.comparison.pairs import WAITS
from analysis.comparison.plan import FEWEST, Plan
from analysis.comparison.sequential_test import advise
from analysis.comparison.verdict import Verdict, not_comparable
from reports.text.verdict_text import describe_advice

plans = st.builds(Plan, st.integers(FEWEST, 400))


@given(plans)
def test_the_shares_of_all_looks_make_the_whole(plan: Plan) -> None:
    shares = [plan.share(look) for look in plan.looks]
    assert all(share > 0 for share in shares)
    assert sum(shares) == pytest.approx(1.0)
    assert list(plan.looks) == sorted(set(plan.looks))
    assert (plan.looks[0], plan.looks[-1]) == (FEWEST, plan.largest)
    assert plan.smallest == FEWEST
    assert shares == sorted(shares, reverse=True)


@given(plans, st.integers(0, 60))
def test_the_look_is_the_last_that_is_reached(plan: Plan, pairs: int) -> None:
    look = plan.look(pairs)
    assert look <= pairs
    assert look == 0 or look in plan.looks
    assert not any(look < other <= pairs for other in plan.looks)


def test_a_plan_spends_most_at_its_first_looks() -> None:
    plan = Plan(32)
    assert plan.looks == (4, 6, 8, 10, 12, 16, 20, 24, 32)
    assert [plan.share(look) for look in plan.looks] == pytest.approx(
        [0.25, 0.20, 0.12, 0.10, 0.09, 0.08, 0.07, 0.05, 0.04]
    )
    # A plan of fewer pairs divides the same error in the same proportions.
    assert Plan().looks == (4, 6, 8, 10, 12)
    assert Plan().share(4) == pytest.approx(25 / 76) and Plan().share(12) == pytest.approx(9 / 76)
    # Its last look is at its last pair, wherever that is.
    assert Plan(14).looks == (4, 6, 8, 10, 12, 14) and Plan(14).share(14) == pytest.approx(8 / 84)


def test_beyond_thirty_two_pairs_looks_are_at_half_as_many_more_and_at_twice_as_many() -> None:
    plan = Plan(200)
    assert plan.looks == (4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 200)
    assert plan.share(48) == plan.share(200) == pytest.approx(3 / (100 + 6 * 3))


@given(plans, st.integers(0, 60))
def test_what_the_budget_affords_is_a_plan(plan: Plan, pairs: int) -> None:
    within = plan.within(pairs)
    assert within.largest <= max(FEWEST, min(pairs, plan.largest))
    assert within.smallest == FEWEST
    # Either side starts first in half of the pairs.
    assert within.largest % 2 == 0 or within.largest == plan.largest
    assert (within.alpha, within.alpha_same) == (plan.alpha, plan.alpha_same)


@pytest.mark.parametrize(
    "changes",
    [{"largest": FEWEST - 1}, {"alpha": 0.0}, {"alpha": 0.5}, {"alpha_same": 0.5}],
)
def test_a_plan_that_cannot_be_kept_is_refused(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"pairs or more|share of errors"):
        replace(Plan(), **changes)


def a_verdict(word: str, n: int, p: float = 1e-9, waiting: int = 0) -> Verdict:
    return Verdict("latency_floor", word, n=n, p=p, left_out=(WAITS,) * waiting)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verdict", "more", "reason"),
    [
        (a_verdict("no data", 0), 4, "no data so far: 4 more pairs to the look at 4"),
        (a_verdict("unclear", 4), 2, "unclear so far: 2 more pairs to the look at 6"),
        (a_verdict("unclear", 5), 1, "unclear so far: 1 more pairs to the look at 6"),
        (a_verdict("unclear", 6), 2, "unclear so far: 2 more pairs to the look at 8"),
        (a_verdict("unclear", 6, waiting=1), 1, "unclear so far: 1 more pairs to the look at 8"),
        (a_verdict("unclear", 12), 0, "unclear after all 12 pairs"),
        (a_verdict("same", 6), 0, "same after 6 pairs"),
        (a_verdict("slower", 8), 0, "slower after 8 pairs"),
        (not_comparable("latency_floor"), 0, "the two differ in the items of a step"),
    ],
)
def test_a_case_goes_on_until_it_is_decided(verdict: Verdict, more: int, reason: str) -> None:
    advice = advise(verdict, Plan())
    assert (advice.more, describe_advice(advice), advice.go_on) == (more, reason, more > 0)


def test_a_call_goes_on_until_it_stands_among_all_cases() -> None:
    called = a_verdict("slower", 8, p=0.004)
    assert not advise(called, Plan(), cases=10).go_on
    assert advise(called, Plan(), cases=40).more == 2
    assert advise(called, Plan(), cases=10, rate=0.01).more == 2
    assert (
        describe_advice(advise(a_verdict("faster", 12, p=0.004), Plan(), cases=40))
        == "faster after all 12 pairs"
    )
