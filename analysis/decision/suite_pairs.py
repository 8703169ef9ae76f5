"""The pairs of a comparison in the form of the decision on a whole suite."""

import math
from collections.abc import Mapping, Sequence

from ..comparison.pairs import Pair
from ..comparison.plan import Plan
from ..comparison.policy import Policy
from ..comparison.thresholds import threshold_of
from ..comparison.verdict import Verdict
from ..metrics import METRICS
from .case_estimates import CasePairs
from .suite_decision import SuiteDecision, SuiteLimits, judge_suite


def varies(policy: Policy) -> bool:
    """Whether the deciding metric varies from pair to pair, so that cases are judged together."""
    return not threshold_of(policy.metric, policy.thresholds).exact


def suite_limits(policy: Policy, *, single_cases: bool = False) -> SuiteLimits:
    """The limits of a policy for its deciding metric; a missing limit of a single case is infinite.

    With `single_cases` there are no limits of the mean and of the share of slower cases, which are unknown if
    only some cases of a suite are measured.
    """
    worst = policy.worst.get(policy.metric, math.inf)
    if single_cases:
        return SuiteLimits(policy.case, worst, mean=math.inf, share=1.0)
    return SuiteLimits(policy.case, worst, policy.overall, policy.slower_share)


def case_pairs(case: str, pairs: Sequence[Pair], policy: Policy) -> CasePairs:
    """The pairs of a case that count, and the values of their processes, more being worse in both."""
    cost = METRICS[policy.metric].cost
    return CasePairs(
        case,
        tuple(cost * pair.log for pair in pairs),
        tuple(pair.new_first for pair in pairs),
        tuple((cost * math.log(pair.old), cost * math.log(pair.new)) for pair in pairs),
        policy.weight(case),
        min(policy.case, suite_limits(policy).worst) if policy.guards(case) else None,
    )


def judge_cases(
    verdicts: Mapping[str, Verdict], policy: Policy, plan: Plan, *, single_cases: bool = False
) -> SuiteDecision | None:
    """The decision on all cases with enough pairs; None if there is none, or the metric is exact.

    `single_cases` is as in `suite_limits`.
    """
    cases = [case_pairs(case, one.pairs, policy) for case, one in verdicts.items() if one.pairs]
    if not cases or not varies(policy):
        return None
    return judge_suite(cases, suite_limits(policy, single_cases=single_cases), plan)
