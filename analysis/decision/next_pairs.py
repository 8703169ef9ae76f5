"""Selects the next case to measure, or ends the measuring."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .. import distributions
from ..comparison.plan import Plan
from .case_estimates import FEWEST_TO_MODERATE
from .suite_decision import ERROR, LUCK, RULES, SUITE_PAIRS, SuiteArrays, SuiteDecision, SuiteLimits, mean_of

Array = NDArray[np.float64]

#: The most pairs of the whole suite per case; with few cases each may have all its looks.
_PAIRS_PER_CASE = 16
#: The most pairs of a case that may be the reason for a no-go: +30 % of a noisy case is proved by then.
_PAIRS_OF_A_SUSPECT = 12


@dataclass(frozen=True, slots=True)
class NextPairs:
    """The case to measure next up to `pairs` pairs that count; None if measuring ends, with the `reason`."""

    case: str | None
    pairs: int = 0
    reason: Literal["", "decided", "no more pairs", "budget", "out of reach"] = ""


def next_pairs(
    decision: SuiteDecision,
    seconds: Sequence[float],
    limits: SuiteLimits | None = None,
    plan: Plan | None = None,
    ended: Collection[str] = (),
) -> NextPairs:
    """The case whose next look contributes the most to the open rules per second.

    `seconds` of a pair correspond to `decision.cases`; cases that have `ended` get no more pairs. Cases
    before their first look come first, in order. If a go is out of reach, pairs go to cases that would prove
    a no-go; if that is out of reach too, measuring ends. After a no-go by the share or the mean, a case whose
    point is beyond its limit gets a few more pairs, because it may be the reason.
    """
    plan = plan or Plan(SUITE_PAIRS)
    if waiting := [case for case in decision.waiting if case not in ended]:
        return NextPairs(waiting[0], plan.smallest)
    if decision.decision == "go":
        return NextPairs(None, reason="decided")
    suite = SuiteArrays(list(decision.cases), limits or SuiteLimits(), plan, ended)
    following = np.array([min((look for look in plan.looks if look > n), default=0) for n in suite.n])
    following[[one.case in ended for one in decision.cases]] = 0
    if decision.decision == "no-go":
        return _suspect(decision, suite, following)
    if not following.any():
        return NextPairs(None, reason="no more pairs")
    cases = len(suite.n)
    each = _PAIRS_PER_CASE if cases >= FEWEST_TO_MODERATE else plan.largest
    if decision.pairs >= each * cases:
        return NextPairs(None, reason="budget")
    cost = np.where(following, (following - suite.n) * np.asarray(seconds, dtype=float), np.inf)
    if not all(rule.within_reach for rule in decision.rules):
        gain = _gain_of_proof(decision, suite, following)
    else:
        gain = _gain(decision, suite, following)
    gain = np.where(following, gain, 0.0) / cost
    if not gain.max() > 0:
        return NextPairs(None, reason="out of reach")
    at = int(np.argmax(gain))
    return NextPairs(decision.cases[at].case, int(following[at]))


def _suspect(decision: SuiteDecision, suite: SuiteArrays, following: NDArray[np.int64]) -> NextPairs:
    """The slowest case beyond its limit that is not proved, while it has few pairs."""
    proved = np.array([each.proves for each in decision.cases]) * len(suite.n) <= ERROR
    few = (following > 0) & (following <= _PAIRS_OF_A_SUSPECT)
    suspected = np.where(few & ~proved & (suite.x > suite.worst), suite.x, 0.0)
    if not suspected.any():
        return NextPairs(None, reason="decided")
    at = int(np.argmax(suspected))
    return NextPairs(decision.cases[at].case, int(following[at]))


def _gain(decision: SuiteDecision, suite: SuiteArrays, following: NDArray[np.int64]) -> Array:
    """The expected contribution of the next look of each case to a go."""
    gain = np.zeros(len(suite.n))
    then = np.maximum(following, suite.n)
    worst, share, mean = (decision.rule(rule) for rule in RULES)
    if worst.state == "open":
        p = np.array([each.refutes for each in decision.cases])
        gain += np.where(p > ERROR, np.maximum(0.05, np.log(p / ERROR)), 0.0)
    if share.state == "open":
        p = np.array([each.refutes_material for each in decision.cases])
        limit = math.log1p(suite.limits.case)
        expected = (np.minimum(suite.x, 0.98 * limit) - limit) / suite.error * np.sqrt(then / suite.n)
        parts = np.array([suite.plan.share(int(n)) for n in then])
        ahead = np.minimum(1, distributions.below_each(suite.degrees + then - suite.n, expected) / parts)
        fall = np.log(np.maximum(p, 1e-12)) - np.log(np.maximum(ahead, 1e-12))
        chosen = np.array([each.case in share.cases for each in decision.cases])
        gain += np.where(chosen, np.maximum(fall, 0.02), 0.0)
    if mean.state == "open" and not (gain * (following > 0)).any():
        gain += _gain_for_the_mean(suite, then)
    return gain


def _gain_of_proof(decision: SuiteDecision, suite: SuiteArrays, following: NDArray[np.int64]) -> Array:
    """The expected contribution of the next look of each case to a no-go, if one may still be proved."""
    then = np.maximum(following, suite.n)
    gain = np.zeros(len(suite.n))
    candidates = np.zeros(len(suite.n), dtype=bool)
    worst, share, mean = (decision.rule(rule) for rule in RULES)
    if not worst.within_reach:
        limit = suite.worst
        open_ = np.array([each.refutes > ERROR for each in decision.cases])
        candidates |= open_ & (suite.x + LUCK * suite.error > limit) & (suite.x > 0.9 * limit)
    if not share.within_reach:
        limit = math.log1p(suite.limits.case)
        order = np.argsort(-suite.x, kind="stable")
        many = int(np.argmax(np.cumsum(suite.weights[order]) > suite.limits.share + 1e-9)) + 1
        slowest = order[:many]
        hopeful = bool((suite.x[slowest] + 2 * suite.error[slowest] > limit).all())
        if hopeful and float(suite.x[slowest].mean()) > limit:
            proved = np.array([each.proves_material for each in decision.cases]) * len(suite.n) <= ERROR
            candidates[slowest] |= ~proved[slowest]
    if not mean.within_reach:
        centre, error, _ = mean_of(suite.weights, suite.x, suite.error, suite.degrees)
        limit = math.log1p(suite.limits.mean)
        if centre + 2 * error > limit + LUCK * suite.mean_error_at_last():
            gain += _gain_for_the_mean(suite, then)
    return gain + np.where(candidates, 1.0 / suite.n, 0.0)


def _gain_for_the_mean(suite: SuiteArrays, then: NDArray[np.int64]) -> Array:
    """The share of the mean's variance that more pairs of each case would remove."""
    variances = (suite.weights * suite.error) ** 2
    return variances / variances.sum() * (1 - suite.n / np.maximum(then, 1))
