"""Control of false discoveries over a suite: the share of faster and slower verdicts that may be chance."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from .plan import Plan
from .verdict import ChanceInSuite, Verdict, pairs_needed

#: The accepted share of false verdicts among all faster and slower verdicts.
RATE = 0.05

Key = TypeVar("Key")


def adjust_p_values(ps: Sequence[float]) -> list[float]:
    """For each p value the smallest false discovery rate at which it is still a discovery, in the same order.

    Benjamini and Hochberg, Controlling the false discovery rate, JRSS B 57, 1995: with the i-th smallest of m
    called if p_i <= i q / m, it is the minimum over j >= i of m p_j / j. Raises ValueError for a number that
    is not a probability.
    """
    p_values = np.asarray(ps, dtype=np.float64)
    if not ((p_values >= 0) & (p_values <= 1)).all():
        raise ValueError("a p value lies between 0 and 1")
    order = np.argsort(p_values, kind="stable")
    m = len(p_values)
    steps = p_values[order] * m / np.arange(1, m + 1)
    values = np.empty(m)
    values[order] = np.minimum.accumulate(steps[::-1])[::-1]
    # A rounded product can be smaller than its factors allow.
    return np.clip(values, p_values, 1).tolist()


def control(
    verdicts: Mapping[Key, Verdict], rate: float = RATE, plan: Plan | None = None
) -> dict[Key, Verdict]:
    """The verdicts of one metric over a suite, with discoveries withdrawn that may be chance.

    The family is all verdicts with a p value: more cases give more false discoveries. `faster` and `slower`
    that are not significant at `rate` become `unclear`; other verdicts are unchanged. `same` is a proof, not
    a discovery. Calling a direction counts as a discovery of that direction (Benjamini and Yekutieli, False
    discovery rate-adjusted multiple confidence intervals, JASA 100, 2005). The p values are those of the look
    at which a case stopped. Each satisfies P(p <= u) <= u for that case under no change, for any stopping
    rule, as the procedure requires. It further requires that cases are independent, or positively dependent
    (Benjamini and Yekutieli, The control of the false discovery rate in multiple testing under dependency,
    Annals of Statistics 29, 2001). Cases have separate processes, and drift affects both sides of a pair, so
    that little dependence remains; the correction for any dependence, the sum of 1/i, would require p values
    that are four times as small for a suite of forty.
    """
    family = {key: verdict.p for key, verdict in verdicts.items() if verdict.p is not None}
    rates = dict(zip(family, adjust_p_values(list(family.values())), strict=True))
    return {
        key: _taken_back(verdict, rate, len(family), plan or Plan())
        if verdict.word in ("faster", "slower") and rates.get(key, 0.0) > rate
        else verdict
        for key, verdict in verdicts.items()
    }


def _taken_back(verdict: Verdict, rate: float, family: int, plan: Plan) -> Verdict:
    assert verdict.p is not None
    reason = ChanceInSuite(verdict.p, family)
    needed = None
    if verdict.location:
        # The level that a single discovery among all cases has to reach.
        strict = replace(plan, alpha=min(plan.alpha, rate / family))
        needed = pairs_needed(verdict.location, verdict.threshold, strict)
    return replace(verdict, word="unclear", reason=reason, needed=needed)
