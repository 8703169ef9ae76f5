"""What a policy asks of an upgrade that is to be judged by it."""

import pytest

from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy
from workflows.planning.plan_upgrade import unjudged_limits

EAGER, COMPILED = "mlp/infer/batch=64/eager", "mlp/infer/batch=64/compile=default"
COLD = Policy(worst={"compile_cold": 0.1, "latency_floor": 0.1, "rss_peak": 0.1})


@pytest.mark.parametrize(
    ("policy", "cold_pairs", "cases", "warned"),
    [
        (COLD, 1, (EAGER, COMPILED), True),
        (COLD, 3, (COMPILED,), True),
        (COLD, 4, (COMPILED,), False),
        (COLD, 1, (EAGER,), False),
        (Policy(), 1, (COMPILED,), False),
        # What hardly varies is not feared where the one pair that knows it shows no difference.
        (Policy(worst={"rss_peak": 0.1, "compile_warm": 0.1}), 1, (COMPILED,), False),
    ],
)
def test_limits_that_too_few_pairs_can_decide_are_reported_beforehand(
    policy: Policy, cold_pairs: int, cases: tuple[str, ...], warned: bool
) -> None:
    sentence = unjudged_limits(policy, cold_pairs, Plan(), cases)
    assert bool(sentence) == warned
    if warned:
        assert sentence == (
            "the policy limits compile_cold, which only pairs with an empty compile cache measure: "
            f"{cold_pairs} are planned, at least 4 are needed. With --cold-pairs 24 all pairs are cold"
        )
