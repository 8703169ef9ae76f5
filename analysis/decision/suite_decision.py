"""Judges a suite as a whole: is any limit of the policy broken?

All changes are logarithms of new / old with the sign turned so that more is worse; limits are shares (0.05 is
5 %). Three rules are tested, each of which has to be refuted for a "go":

- `worst`: some case is worse by `SuiteLimits.worst`, or by its own limit, or more. Every case has to refute
  it for itself.
- `share`: cases of more than `share` of the weight are worse by `SuiteLimits.case` or more. It is refuted by
  a partial conjunction test over the cases together (Benjamini and Heller, Screening for partial conjunction
  hypotheses, Biometrics 64, 2008).
- `mean`: the weighted mean is worse by `SuiteLimits.mean` or more.

A "no-go" is proved by single cases with their own spread, or by the mean. The errors are spent over looks at
fixed numbers of pairs, most of them at the first; the sum over the looks bounds the whole by Boole's
inequality, in whatever order the cases get their pairs and whenever one stops. How often each rule errs was
simulated: `benchmarks/suite_simulation.py`.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .. import distributions
from ..comparison.plan import Plan
from ..geomean import random_effects
from .case_estimates import CaseEstimate, CasePairs, estimate, moderate_estimates

Array = NDArray[np.float64]
Rule = Literal["worst", "share", "mean"]
RULES: tuple[Rule, ...] = get_args(Rule)
RuleWord = Literal["kept", "open", "broken"]

#: The error of `worst` and `share`, and of `mean`: a mean over cases that stopped early leans to the good
#: side, so it has half.
ERROR, MEAN_ERROR = 0.01, 0.005
#: Pairs of one case at most, unless a plan says otherwise.
SUITE_PAIRS = 32
#: A new look at the mean needs so many times the pairs of the one before.
_MEAN_STEP = 1.15
#: The part of the mean's error that its first two looks spend; the k-th later one spends .4 / (k (k + 1)).
_MEAN_FIRST = (0.4, 0.2)
#: So many standard errors of luck are granted before something is out of reach.
LUCK = 2.6
#: The part of the error that a look ahead is supposed to have.
_USUAL_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class SuiteLimits:
    """From what on a change is too much, as shares: see the module's rules. `share` is by weight."""

    case: float = 0.05
    worst: float = 0.10
    mean: float = 0.01
    share: float = 0.10


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean over cases as logarithms: `change` within `low`..`high`; None without any case.

    The interval of the mean that decides holds at 99 % over all looks together, so that it lies on that side
    of a limit on which the decision is; that of the random-effects mean at 99 % for one look.
    """

    change: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class RuleState:
    """Whether a rule is refuted, and the cases that keep it open or that broke it, the largest doubt first.

    `state` is `kept` (a break of the limit is refuted), `broken` (it is proved) or `open`. `p` is the
    p-value of the refutation and `level` what it has to reach.
    """

    rule: Rule
    state: RuleWord
    p: float
    level: float
    cases: tuple[str, ...] = ()
    #: False where not even luck would refute it with the pairs that may still come.
    within_reach: bool = True


@dataclass(frozen=True, slots=True)
class SuiteDecision:
    """The decision on a suite, the three rules it rests on, and the estimates of all cases.

    `mean` is the weighted mean that decides; `random_effects` the mean of a suite like this one, in which a
    case that is not known counts little. `waiting` are cases with fewer pairs than the first look.
    """

    decision: Literal["go", "no-go", "unclear"]
    rules: tuple[RuleState, ...]
    cases: tuple[CaseEstimate, ...]
    waiting: tuple[str, ...]
    mean: MeanEstimate
    random_effects: MeanEstimate
    pairs: int

    def rule(self, name: Rule) -> RuleState:
        """The state of one of the three rules."""
        return next(rule for rule in self.rules if rule.rule == name)


@dataclass(slots=True)
class SuiteArrays:
    """The estimates of all cases as arrays, in one order, and what each rule asks of them."""

    estimates: list[CaseEstimate]
    limits: SuiteLimits
    plan: Plan
    #: Cases that get no more pairs.
    ended: Collection[str] = ()
    weights: Array = field(init=False)
    n: NDArray[np.int64] = field(init=False)
    x: Array = field(init=False)
    error: Array = field(init=False)
    degrees: Array = field(init=False)
    own_error: Array = field(init=False)
    own_degrees: Array = field(init=False)
    part: Array = field(init=False)
    #: The limit of rule `worst` of each case, a logarithm.
    worst: Array = field(init=False)
    #: How many pairs each case can have.
    last: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        def column(name: str) -> Array:
            return np.array([getattr(each, name) for each in self.estimates], dtype=float)

        weights = column("weight")
        self.weights = weights / weights.sum()
        self.n = column("n").astype(int)
        self.x = column("worse")
        self.error, self.degrees = column("shared_error"), column("shared_degrees")
        self.own_error, self.own_degrees = column("error"), column("degrees")
        self.part = np.array([self.plan.share(int(n)) for n in self.n])
        limits = [self.limits.worst if one.limit is None else one.limit for one in self.estimates]
        self.worst = np.log1p(np.array(limits, dtype=float))
        over = np.array([one.case in self.ended for one in self.estimates])
        self.last = np.where(over, self.n, self.plan.largest)

    def refutes(self, limit: float | Array) -> Array:
        """The p-values of "worse by `limit` or more"."""
        return np.minimum(
            1, distributions.below_each(self.degrees, (self.x - limit) / self.error) / self.part
        )

    def proves(self, limit: float | Array) -> Array:
        """The p-values of "worse by less than `limit`", by each case's own spread."""
        return np.minimum(
            1, distributions.below_each(self.own_degrees, (limit - self.x) / self.own_error) / self.part
        )

    def at_best(self, limit: float | Array) -> Array:
        """The p-values of a refutation at the last look, with `LUCK` standard errors of luck."""
        last = self.last
        lucky = (self.x - LUCK * self.error - limit) / self.error * np.sqrt(last / self.n)
        best = np.minimum(1, distributions.below_each(self.degrees + last - self.n, lucky) / _USUAL_SHARE)
        return np.where(self.n < last, best, 1.0)

    def mean_error_at_last(self) -> float:
        """The error of the weighted mean if every case had the last look's pairs."""
        return math.sqrt(float(((self.weights * self.error) ** 2 * self.n / self.last).sum()))


def judge_suite(
    cases: Sequence[CasePairs],
    limits: SuiteLimits | None = None,
    plan: Plan | None = None,
    ended: Collection[str] = (),
) -> SuiteDecision:
    """Judges a suite from the pairs of its cases; each case once, with a weight above 0 (ValueError
    otherwise).

    Cases that have `ended` get no more pairs, which puts a rule out of reach the sooner. Cases with fewer
    pairs than the first look are `waiting`: as long as there is one, nothing is a go. Whether a case broke is
    not judged here.
    """
    limits, plan = limits or SuiteLimits(), plan or Plan(SUITE_PAIRS)
    if len({each.case for each in cases}) < len(cases) or not all(each.weight > 0 for each in cases):
        raise ValueError("every case is named once and has a weight above 0")
    by_case = {each.case: estimate(each, plan) for each in cases}
    waiting = tuple(case for case, found in by_case.items() if found is None)
    estimates = [found for found in by_case.values() if found is not None]
    if not estimates:
        states = tuple(RuleState(rule, "open", 1.0, ERROR, waiting) for rule in RULES)
        return SuiteDecision("unclear", states, (), waiting, MeanEstimate(), MeanEstimate(), 0)
    suite = SuiteArrays(moderate_estimates(estimates), limits, plan, ended)
    material, worst = math.log1p(limits.case), suite.worst
    columns = [suite.refutes(worst), suite.refutes(material), suite.proves(worst), suite.proves(material)]
    suite.estimates = [
        replace(each, refutes=float(a), refutes_material=float(b), proves=float(c), proves_material=float(d))
        for each, a, b, c, d in zip(suite.estimates, *columns, strict=True)
    ]
    rules = (_worst(suite, waiting), _share(suite, waiting), _mean(suite, waiting))
    states = {rule.state for rule in rules}
    return SuiteDecision(
        "no-go" if "broken" in states else "unclear" if "open" in states else "go",
        rules,
        tuple(suite.estimates),
        waiting,
        _weighted_mean(suite),
        MeanEstimate(*(random_effects(suite.x.tolist(), suite.error.tolist()) or ())),
        int(suite.n.sum()),
    )


def _case_names(suite: SuiteArrays, chosen: Sequence[int] | NDArray[np.int64]) -> tuple[str, ...]:
    return tuple(suite.estimates[at].case for at in chosen)


def _worst(suite: SuiteArrays, waiting: tuple[str, ...]) -> RuleState:
    p = np.array([each.refutes for each in suite.estimates])
    proved = np.array([each.proves for each in suite.estimates]) * len(suite.estimates) <= ERROR
    if proved.any():
        worst_first = [at for at in np.argsort(-suite.x) if proved[at]]
        return RuleState("worst", "broken", float(p.max()), ERROR, _case_names(suite, worst_first))
    doubted = [at for at in np.argsort(-p, kind="stable") if p[at] > ERROR]
    best = np.minimum(p, suite.at_best(suite.worst))
    cases = (*_case_names(suite, doubted), *waiting)
    return RuleState(
        "worst", "open" if cases else "kept", float(p.max()), ERROR, cases, bool((best <= ERROR).all())
    )


def _share(suite: SuiteArrays, waiting: tuple[str, ...]) -> RuleState:
    p = np.array([each.refutes_material for each in suite.estimates])
    proves = np.array([each.proves_material for each in suite.estimates])
    combined, slowest = partial_conjunction(p, suite.weights, suite.limits.share)
    ascending = np.argsort(proves, kind="stable")
    beyond = np.nonzero(np.cumsum(suite.weights[ascending]) > suite.limits.share + 1e-9)[0]
    if len(beyond):
        at = int(beyond[0])
        equal = float(np.ptp(suite.weights)) < 1e-12
        if proves[ascending[at]] * (len(p) - at if equal else len(p)) <= ERROR:
            return RuleState("share", "broken", combined, ERROR, _case_names(suite, ascending[: at + 1]))
    if combined <= ERROR and not waiting:
        return RuleState("share", "kept", combined, ERROR)
    best, _ = partial_conjunction(
        np.minimum(p, suite.at_best(math.log1p(suite.limits.case))), suite.weights, suite.limits.share
    )
    return RuleState(
        "share", "open", combined, ERROR, (*_case_names(suite, slowest), *waiting), best <= ERROR
    )


def _mean(suite: SuiteArrays, waiting: tuple[str, ...]) -> RuleState:
    limit = math.log1p(suite.limits.mean)
    level = _mean_level(suite)
    centre, error, degrees = mean_of(suite.weights, suite.x, suite.error, suite.degrees)
    p = distributions.below(degrees, (centre - limit) / error)
    _, own_error, own_degrees = mean_of(suite.weights, suite.x, suite.own_error, suite.own_degrees)
    noisiest = np.argsort(-suite.weights * suite.error, kind="stable")
    # By the cases' own spreads, and by the interval that is reported: it lies beyond the limit then.
    proof = max(
        distributions.below(own_degrees, (limit - centre) / own_error),
        distributions.below(degrees, (limit - centre) / error),
    )
    if proof <= level:
        worst_first = np.argsort(-suite.weights * suite.x, kind="stable")
        return RuleState("mean", "broken", p, level, _case_names(suite, worst_first[:3]))
    if p <= level and not waiting:
        return RuleState("mean", "kept", p, level)
    reachable = centre - 2 * error <= limit - LUCK * suite.mean_error_at_last()
    return RuleState("mean", "open", p, level, (*_case_names(suite, noisiest[:3]), *waiting), reachable)


def _mean_level(suite: SuiteArrays) -> float:
    """The error of the look at the mean, on one side."""
    return MEAN_ERROR * _mean_share(int(suite.n.sum()), suite.plan.smallest * len(suite.n))


def _mean_share(pairs: int, first: int) -> float:
    """The part of the mean's error that belongs to the look at so many pairs; `first` are those of the first
    look."""
    k = 1 + max(0, math.floor(math.log(pairs / first) / math.log(_MEAN_STEP) + 1e-9))
    return _MEAN_FIRST[k - 1] if k <= 2 else (1 - sum(_MEAN_FIRST)) / ((k - 1) * (k - 2))


def mean_of(weights: Array, x: Array, error: Array, degrees: Array) -> tuple[float, float, float]:
    """A weighted mean, its error, and degrees of freedom by Satterthwaite (Biometrics Bulletin 2, 1946)."""
    parts = (weights * error) ** 2
    variance = float(parts.sum())
    return float(weights @ x), math.sqrt(variance), variance**2 / float((parts**2 / degrees).sum())


def _weighted_mean(suite: SuiteArrays) -> MeanEstimate:
    centre, error, degrees = mean_of(suite.weights, suite.x, suite.error, suite.degrees)
    half = float(distributions.quantile(degrees, 1 - _mean_level(suite))) * error
    return MeanEstimate(centre, centre - half, centre + half)


def partial_conjunction(p: Array, weights: Array, share: float) -> tuple[float, list[int]]:
    """The p-value of "cases of more than `share` of the weight are worse", and the cases that make it
    largest.

    Every smallest set of cases whose weight exceeds the share is tested by Fisher's combination of its
    p-values; the largest result counts, and no correction is due (Benjamini and Heller 2008). With equal
    weights that is the set of the r + 1 largest p. `weights` add up to 1; they are rounded to a thousandth
    of the share. With a share of 1 or more there is no such set, and the p-value is 0.
    """
    costs = -np.log(np.clip(p, 1e-300, 1))
    if float(np.ptp(weights)) < 1e-12:
        many = math.floor(share * len(p) + 1e-9) + 1
        if many > len(p):
            return 0.0, []
        largest = np.argsort(-p, kind="stable")[:many]
        return _fisher(float(costs[largest].sum()), many), [int(at) for at in largest]
    return _worst_set(costs, weights, share)


def _fisher(cost: float, many: int) -> float:
    return distributions.chi_squared_above(2 * many, 2 * cost)


def _worst_set(costs: Array, weights: Array, share: float) -> tuple[float, list[int]]:
    """Among minimal sets that exceed the share, the one with the largest combined p: a knapsack by size.

    Cases are added from the heaviest to the lightest, so a set is minimal when its last case makes it exceed.
    """
    if share >= 1:
        return 0.0, []
    full, order = 1000, np.argsort(-weights, kind="stable")
    units = np.minimum(np.rint(weights / max(share, 1e-9) * full), full + 1).astype(int)[order]
    # By how many cases a set has and what it weighs, which does not exceed: the least cost of any.
    least = np.full((len(order) + 1, full + 1), np.inf)
    least[0, 0] = 0.0
    #: Of each case, the sets (as bits) that are the least ones with it.
    taken: list[NDArray[np.uint8]] = []
    #: By size, the least cost of a set that exceeds, the place of its last case, and what it weighs without.
    found: dict[int, tuple[float, int, int]] = {}
    for place, (at, unit) in enumerate(zip(order, units, strict=True)):
        known = least[: place + 1]
        exceeding = known[:, full + 1 - unit :]
        if exceeding.shape[1]:
            lightest = exceeding.argmin(axis=1)
            for many, column in enumerate(lightest):
                cost = float(exceeding[many, column] + costs[at])
                if cost < found.get(many + 1, (np.inf, 0, 0))[0]:
                    found[many + 1] = cost, place, full + 1 - unit + int(column)
        grown = known[:, : full + 1 - unit] + costs[at]
        before = least[1 : place + 2, unit:]
        better = grown < before
        before[better] = grown[better]
        taken.append(np.packbits(better, axis=1))
    if not found:
        return 0.0, []
    p, many = max((_fisher(cost, many), many) for many, (cost, _, _) in found.items())
    _, last, weight = found[many]
    members = [last]
    for place in range(last - 1, -1, -1):
        left, without = many - len(members), weight - int(units[place])
        if 0 < left <= len(taken[place]) and without >= 0 and _bit(taken[place][left - 1], without):
            members.append(place)
            weight = without
    return p, sorted((int(order[place]) for place in reversed(members)), key=lambda at: costs[at])


def _bit(packed: NDArray[np.uint8], at: int) -> bool:
    return bool(packed[at // 8] >> (7 - at % 8) & 1)
