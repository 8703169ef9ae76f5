"""False discoveries over a suite: of what is called faster or slower, how much may be chance."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from .plan import Plan
from .verdict import ChanceInSuite, Verdict, pairs_needed

#: The share of false calls among all calls that is put up with.
RATE = 0.05

Key = TypeVar("Key")


def adjust_p_values(ps: Sequence[float]) -> list[float]:
    """For each p value the smallest false discovery rate at which it is still called, in the same order.

    Benjamini and Hochberg, Controlling the false discovery rate, JRSS B 57, 1995: with the i-th smallest of m
    called if p_i <= i q / m, it is the minimum over j >= i of m p_j / j. Raises ValueError for what is no
    probability.
    """
    p_values = np.asarray(ps, dtype=np.float64)
    if not ((p_values >= 0) & (p_values <= 1)).all():
        raise ValueError("a p value lies between 0 and 1")
    order = np.argsort(p_values, kind="stable")
    m = len(p_values)
    steps = p_values[order] * m / np.arange(1, m + 1)
    values = np.empty(m)
    values[order] = np.minimum.accumulate(steps[::-1])[::-1]
    # Rounded, a product can fall below what it was made of.
    return np.clip(values, p_values, 1).tolist()


def control(
    verdicts: Mapping[Key, Verdict], rate: float = RATE, plan: Plan | None = None
) -> dict[Key, Verdict]:
    """The verdicts of one metric over a suite, with calls taken back that chance may have made.

    The family is all verdicts that have a p value: more cases give more false calls by chance. `faster` and
    `slower` that do not stand at `rate` become `unclear`; every other verdict stays. `same` is a proof of its
    own and no discovery. Calling a direction counts as a discovery of that direction (Benjamini and
    Yekutieli, False discovery rate-adjusted multiple confidence intervals, JASA 100, 2005).

    The p values are those of whichever look a case stopped at. Each is P(p <= u) <= u for that case under no
    change, however it stopped, which is all that the procedure asks of it. It further asks that cases be
    independent, or positively dependent (Benjamini and Yekutieli, The control of the false discovery rate in
    multiple testing under dependency, Annals of Statistics 29, 2001). Cases have processes of their own, and
    drift hits both sides of a pair, so what is left in common is little; their correction for any dependence,
    the sum of 1/i, would take four times as small p values for a suite of forty.
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
        # Alone among all, it would have to be as sure as this.
        strict = replace(plan, alpha=min(plan.alpha, rate / family))
        needed = pairs_needed(verdict.location, verdict.threshold, strict)
    return replace(verdict, word="unclear", reason=reason, needed=needed)
