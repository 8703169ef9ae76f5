"""Judges a suite as a whole: is any limit of the policy broken, and which case should be measured next?

All changes are logarithms of new / old with the sign turned so that more is worse; limits are shares (0.05 is
5 %). Three rules are tested, each of which has to be refuted for a "go":

- `worst`: some case is worse by `Limits.worst` or more. Every case has to refute it for itself.
- `share`: cases of more than `share` of the weight are worse by `Limits.case` or more. It is refuted by a
  partial conjunction test over the cases together (Benjamini and Heller, Screening for partial conjunction
  hypotheses, Biometrics 64, 2008).
- `mean`: the weighted mean is worse by `Limits.mean` or more.

A "no-go" is proved by single cases with their own spread, or by the mean. The errors are spent over looks at
fixed numbers of pairs, most of them at the first; the sum over the looks bounds the whole by Boole's
inequality, in whatever order the cases get their pairs and whenever one stops.

`pyrometer upgrade` still decides by `analysis.comparison`; `benchmarks/suite_simulation.py` runs these rules.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from .. import student
from .process_modes import Modes, find_modes

Array = NDArray[np.float64]
Rule = Literal["worst", "share", "mean"]
RULES: tuple[Rule, ...] = ("worst", "share", "mean")

#: The numbers of pairs at which a case is looked at, and the part of the error that each look may spend.
LOOKS = (4, 6, 8, 10, 12, 16, 20, 24, 32)
SHARES = (0.25, 0.20, 0.12, 0.10, 0.09, 0.08, 0.07, 0.05, 0.04)
#: The error of `worst` and `share`, and of `mean`: a mean over cases that stopped early leans to the good
#: side, so it has half.
ERROR, MEAN_ERROR = 0.01, 0.005
#: A new look at the mean needs so many times the pairs of the one before.
_MEAN_STEP = 1.15
#: The part of the mean's error that its first two looks spend; the k-th later one spends .4 / (k (k + 1)).
_MEAN_FIRST = (0.4, 0.2)
#: By how much whichever process starts first may be slower. An effect of the order is small, and a wild pair
#: must not pass for one.
ORDER_CAP = 0.03
#: With fewer cases there is nothing to learn about one case's spread from the others.
_FEWEST_TO_MODERATE = 5
#: The spread of the suite counts at most so many degrees of freedom.
_PRIOR_CAP = 12.0
#: A case's variance is never moderated to less than this part of it, and not at all where it is so many
#: times the suite's.
_LEAST_KEPT, _ODD = 0.6, 4.0
#: Pairs of the whole suite per case, at most; with few cases each may have all its looks.
_PAIRS_PER_CASE = 12
#: So many standard errors of luck are granted before something is out of reach.
_LUCK = 2.6
#: The part of the error that a look ahead is supposed to have.
_USUAL_SHARE = 0.1
_NO_ERROR = 1e-5


@dataclass(frozen=True, slots=True)
class SuiteLimits:
    """From what on a change is too much, as shares: see the module's rules. `share` is by weight."""

    case: float = 0.05
    worst: float = 0.10
    mean: float = 0.01
    share: float = 0.10


@dataclass(frozen=True, slots=True)
class CasePairs:
    """The pairs of one case in the order in which they were measured.

    `worse` are log ratios, `new_first` says which side started first (None where that is not known), `floors`
    are the log values of the two processes of each pair, (old, new), by which modes are found; empty where
    none are looked for. `weight` is above 0; `seconds` is what one more pair costs.
    """

    case: str
    worse: tuple[float, ...]
    new_first: tuple[bool | None, ...]
    floors: tuple[tuple[float, float], ...] = ()
    weight: float = 1.0
    seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class CaseEstimate:
    """What `n` pairs, the last look that was reached, say of one case.

    `worse` +- `error` has Student's t with `degrees`; `shared_error` and `shared_degrees` have learnt from
    the spread of the other cases. `order` is by how much the side that starts first is slower, taken out.
    `refutes` is the p-value of "worse by `worst` or more", `refutes_material` that of "worse by `case` or
    more", `proves` and `proves_material` those of their opposites: each is valid at whichever look one stops.
    """

    case: str
    weight: float
    n: int
    worse: float
    error: float
    degrees: float
    order: float = 0.0
    modes: Modes | None = None
    shared_error: float = math.inf
    shared_degrees: float = 1.0
    refutes: float = 1.0
    refutes_material: float = 1.0
    proves: float = 1.0
    proves_material: float = 1.0


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean over cases as logarithms: `change` within `low`..`high` at 99 %; None without any case."""

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
    state: Literal["kept", "open", "broken"]
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


@dataclass(frozen=True, slots=True)
class NextPairs:
    """The case to measure next up to `pairs` pairs that count; None where measuring is over, for `reason`."""

    case: str | None
    pairs: int = 0
    reason: Literal["", "decided", "no more looks", "budget", "out of reach"] = ""


def look(n: int) -> int:
    """The last look that `n` pairs reach; 0 before the first."""
    return max((each for each in LOOKS if each <= n), default=0)


def spent(n: int) -> float:
    """The part of the error that belongs to the look at `n` pairs."""
    return SHARES[LOOKS.index(n)]


def estimate(pairs: CasePairs) -> CaseEstimate | None:
    """The case by itself at the last look that its pairs reach; None before the first.

    Under eight pairs the mean; from then on the winsorised mean with its t (Dixon and Tukey, Technometrics
    10, 1968). The half difference between the two orders of starting is taken out first, within `ORDER_CAP`,
    and costs a degree of freedom. Raises ValueError for a log ratio that is not finite.
    """
    if not all(math.isfinite(each) for each in pairs.worse):
        raise ValueError(f"{pairs.case}: log ratios are finite numbers")
    n = look(len(pairs.worse))
    if not n:
        return None
    modes = find_modes(pairs.floors[:n]) if pairs.floors else None
    kept = [at for at in range(n) if modes is None or not modes.split or modes.within[at]]
    worse = np.array([pairs.worse[at] for at in kept])
    first = np.array([{True: 1.0, False: -1.0, None: 0.0}[pairs.new_first[at]] for at in kept])
    point, error, degrees, order = _locate(worse, first)
    return CaseEstimate(pairs.case, pairs.weight, n, point, error, degrees, order, modes)


def _locate(worse: Array, first: Array) -> tuple[float, float, float, float]:
    """Centre, its error, degrees of freedom and the effect of the order, of four or more log ratios."""
    n, order, balance = len(worse), 0.0, 1.0
    news, olds = worse[first > 0], worse[first < 0]
    lost = 1 if len(news) and len(olds) else 0
    if lost:
        middle = np.median if n >= 8 else np.mean
        order = float(np.clip((middle(news) - middle(olds)) / 2, -ORDER_CAP, ORDER_CAP))
        worse = worse - order * first
        # As many pairs of either order know the centre best.
        balance = max(1.0, math.sqrt((1 / len(news) + 1 / len(olds)) * n / 4))
    ordered = np.sort(worse)
    g = n // 6 if n >= 8 else 0
    kept = np.clip(ordered, ordered[g], ordered[n - 1 - g])
    point = float(kept.mean())
    squares = float(((kept - point) ** 2).sum())
    if g:
        h = n - 2 * g - lost
        error, degrees = math.sqrt(squares / (n - 1) / n) * (n - 1) / (h - 1), h - 1.0
    else:
        degrees = n - 1.0 - lost
        error = math.sqrt(squares / degrees / n)
    return point, max(error * balance, _NO_ERROR), degrees, order


def _moderated(estimates: Sequence[CaseEstimate]) -> list[CaseEstimate]:
    """The estimates with the spread they share (Smyth, Statistical Applications in Genetics 3, 2004).

    The logarithm of a variance with d degrees of freedom has the mean digamma(d/2) - ln(d/2) above that of
    the truth, and the variance trigamma(d/2): what the suite shows beyond that is how far the truths lie
    apart. Both are taken from medians, so that a wild case has no say. A case that is far from the rest
    keeps its own.
    """
    n = np.array([each.n for each in estimates], dtype=float)
    own = np.array([each.error for each in estimates]) ** 2 * n
    degrees = np.array([each.degrees for each in estimates])
    variance, shared = own, degrees
    if len(estimates) >= _FEWEST_TO_MODERATE:
        apart = np.log(own) - special.digamma(degrees / 2) + np.log(degrees / 2)
        middle = float(np.median(apart))
        beyond = (1.4826 * float(np.median(np.abs(apart - middle)))) ** 2
        beyond -= float(np.mean(special.polygamma(1, degrees / 2)))
        prior = _PRIOR_CAP if beyond <= 0 else min(_PRIOR_CAP, 2 * _inverse_trigamma(beyond))
        usual = math.exp(middle + float(special.digamma(prior / 2)) - math.log(prior / 2))
        mixed = np.maximum((prior * usual + degrees * own) / (prior + degrees), _LEAST_KEPT * own)
        odd = own > _ODD * usual
        variance, shared = np.where(odd, own, mixed), np.where(odd, degrees, degrees + prior)
    errors = np.sqrt(variance / n)
    return [
        replace(each, shared_error=float(error), shared_degrees=float(own_degrees))
        for each, error, own_degrees in zip(estimates, errors, shared, strict=True)
    ]


def _inverse_trigamma(value: float) -> float:
    """Where trigamma takes this value, by bisection of the logarithm between 0.05 and 50."""
    low, high = math.log(0.05), math.log(50)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if special.polygamma(1, math.exp(middle)) > value else (low, middle)
    return math.exp(low)


@dataclass(slots=True)
class _Suite:
    """The arrays that the rules are made of."""

    estimates: list[CaseEstimate]
    limits: SuiteLimits
    weights: Array = field(init=False)
    n: NDArray[np.int64] = field(init=False)
    x: Array = field(init=False)
    error: Array = field(init=False)
    degrees: Array = field(init=False)
    own_error: Array = field(init=False)
    own_degrees: Array = field(init=False)
    part: Array = field(init=False)

    def __post_init__(self) -> None:
        def column(name: str) -> Array:
            return np.array([getattr(each, name) for each in self.estimates], dtype=float)

        weights = column("weight")
        self.weights = weights / weights.sum()
        self.n = column("n").astype(int)
        self.x = column("worse")
        self.error, self.degrees = column("shared_error"), column("shared_degrees")
        self.own_error, self.own_degrees = column("error"), column("degrees")
        self.part = np.array([spent(int(n)) for n in self.n])

    def refutes(self, limit: float) -> Array:
        return np.minimum(1, special.stdtr(self.degrees, (self.x - limit) / self.error) / self.part)

    def proves(self, limit: float) -> Array:
        return np.minimum(1, special.stdtr(self.own_degrees, (limit - self.x) / self.own_error) / self.part)

    def at_best(self, limit: float) -> Array:
        """The p-values of a refutation at the last look, with `_LUCK` standard errors of luck."""
        last = LOOKS[-1]
        lucky = (self.x - _LUCK * self.error - limit) / self.error * np.sqrt(last / self.n)
        best = np.minimum(1, special.stdtr(self.degrees + last - self.n, lucky) / _USUAL_SHARE)
        return np.where(self.n < last, best, 1.0)

    def mean_error_at_last(self) -> float:
        """The error of the weighted mean if every case had the last look's pairs."""
        return math.sqrt(float(((self.weights * self.error) ** 2 * self.n / LOOKS[-1]).sum()))


def judge_suite(cases: Sequence[CasePairs], limits: SuiteLimits | None = None) -> SuiteDecision:
    """Judges a suite from the pairs of its cases; each case once, with a weight above 0 (ValueError
    otherwise).

    Cases with fewer pairs than the first look are `waiting`: as long as there is one, nothing is a go.
    Whether a case broke is not judged here.
    """
    limits = limits or SuiteLimits()
    if len({each.case for each in cases}) < len(cases) or not all(each.weight > 0 for each in cases):
        raise ValueError("every case is named once and has a weight above 0")
    by_case = {each.case: estimate(each) for each in cases}
    waiting = tuple(case for case, found in by_case.items() if found is None)
    known = [found for found in by_case.values() if found is not None]
    if not known:
        states = tuple(RuleState(rule, "open", 1.0, ERROR, waiting) for rule in RULES)
        return SuiteDecision("unclear", states, (), waiting, MeanEstimate(), MeanEstimate(), 0)
    suite = _Suite(_moderated(known), limits)
    material, worst = math.log1p(limits.case), math.log1p(limits.worst)
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
        _random_effects(suite),
        int(suite.n.sum()),
    )


def _named(suite: _Suite, chosen: Sequence[int] | NDArray[np.int64]) -> tuple[str, ...]:
    return tuple(suite.estimates[at].case for at in chosen)


def _worst(suite: _Suite, waiting: tuple[str, ...]) -> RuleState:
    p = np.array([each.refutes for each in suite.estimates])
    proved = np.array([each.proves for each in suite.estimates]) * len(suite.estimates) <= ERROR
    if proved.any():
        worst_first = [at for at in np.argsort(-suite.x) if proved[at]]
        return RuleState("worst", "broken", float(p.max()), ERROR, _named(suite, worst_first))
    doubted = [at for at in np.argsort(-p, kind="stable") if p[at] > ERROR]
    best = np.minimum(p, suite.at_best(math.log1p(suite.limits.worst)))
    cases = (*_named(suite, doubted), *waiting)
    return RuleState(
        "worst", "open" if cases else "kept", float(p.max()), ERROR, cases, bool((best <= ERROR).all())
    )


def _share(suite: _Suite, waiting: tuple[str, ...]) -> RuleState:
    p = np.array([each.refutes_material for each in suite.estimates])
    proves = np.array([each.proves_material for each in suite.estimates])
    combined, culprits = partial_conjunction(p, suite.weights, suite.limits.share)
    ascending = np.argsort(proves, kind="stable")
    beyond = np.nonzero(np.cumsum(suite.weights[ascending]) > suite.limits.share + 1e-9)[0]
    if len(beyond):
        at = int(beyond[0])
        equal = float(np.ptp(suite.weights)) < 1e-12
        if proves[ascending[at]] * (len(p) - at if equal else len(p)) <= ERROR:
            return RuleState("share", "broken", combined, ERROR, _named(suite, ascending[: at + 1]))
    if combined <= ERROR and not waiting:
        return RuleState("share", "kept", combined, ERROR)
    best, _ = partial_conjunction(
        np.minimum(p, suite.at_best(math.log1p(suite.limits.case))), suite.weights, suite.limits.share
    )
    return RuleState("share", "open", combined, ERROR, (*_named(suite, culprits), *waiting), best <= ERROR)


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
    return float(special.chdtrc(2 * many, 2 * cost))


def _worst_set(costs: Array, weights: Array, share: float) -> tuple[float, list[int]]:
    """Among minimal sets that exceed the share, the one with the largest combined p: a knapsack by size.

    Cases are added from the heaviest to the lightest, so a set is minimal when its last case makes it exceed.
    """
    if share >= 1:
        return 0.0, []
    full = 1000
    units = np.rint(weights / max(share, 1e-9) * full).astype(int)
    least: dict[tuple[int, int], tuple[float, tuple[int, ...]]] = {(0, 0): (0.0, ())}
    found: list[tuple[float, tuple[int, ...]]] = []
    for at in np.argsort(-weights, kind="stable"):
        added: dict[tuple[int, int], tuple[float, tuple[int, ...]]] = {}
        closing: dict[int, tuple[float, tuple[int, ...]]] = {}
        for (many, weight), (cost, members) in least.items():
            total, sum_, now = weight + int(units[at]), cost + float(costs[at]), (*members, int(at))
            if total > full:
                if many not in closing or sum_ < closing[many][0]:
                    closing[many] = sum_, now
            elif (many + 1, total) not in added or sum_ < added[many + 1, total][0]:
                added[many + 1, total] = sum_, now
        found += [(_fisher(cost, many + 1), members) for many, (cost, members) in closing.items()]
        for key, entry in added.items():
            if key not in least or entry[0] < least[key][0]:
                least[key] = entry
    if not found:
        return 0.0, []
    p, members = max(found)
    return p, sorted(members, key=lambda at: costs[at])


def _mean(suite: _Suite, waiting: tuple[str, ...]) -> RuleState:
    limit = math.log1p(suite.limits.mean)
    level = MEAN_ERROR * _mean_share(int(suite.n.sum()), len(suite.n))
    centre, error, degrees = _mean_of(suite.weights, suite.x, suite.error, suite.degrees)
    p = student.below(degrees, (centre - limit) / error)
    _, own_error, own_degrees = _mean_of(suite.weights, suite.x, suite.own_error, suite.own_degrees)
    noisiest = np.argsort(-suite.weights * suite.error, kind="stable")
    if student.below(own_degrees, (limit - centre) / own_error) <= level:
        worst_first = np.argsort(-suite.weights * suite.x, kind="stable")
        return RuleState("mean", "broken", p, level, _named(suite, worst_first[:3]))
    if p <= level and not waiting:
        return RuleState("mean", "kept", p, level)
    reachable = centre - 2 * error <= limit - _LUCK * suite.mean_error_at_last()
    return RuleState("mean", "open", p, level, (*_named(suite, noisiest[:3]), *waiting), reachable)


def _mean_share(pairs: int, cases: int) -> float:
    """The part of the mean's error that belongs to the look at so many pairs."""
    k = 1 + max(0, math.floor(math.log(pairs / (LOOKS[0] * cases)) / math.log(_MEAN_STEP) + 1e-9))
    return _MEAN_FIRST[k - 1] if k <= 2 else (1 - sum(_MEAN_FIRST)) / ((k - 1) * (k - 2))


def _mean_of(weights: Array, x: Array, error: Array, degrees: Array) -> tuple[float, float, float]:
    """A weighted mean, its error, and degrees of freedom by Satterthwaite (Biometrics Bulletin 2, 1946)."""
    parts = (weights * error) ** 2
    variance = float(parts.sum())
    return float(weights @ x), math.sqrt(variance), variance**2 / float((parts**2 / degrees).sum())


def _weighted_mean(suite: _Suite) -> MeanEstimate:
    centre, error, degrees = _mean_of(suite.weights, suite.x, suite.error, suite.degrees)
    half = float(student.quantile(degrees, 0.995)) * error
    return MeanEstimate(centre, centre - half, centre + half)


def _random_effects(suite: _Suite) -> MeanEstimate:
    """The mean of cases like these: variance between cases by Paule and Mandel (1982), interval by Hartung
    and Knapp (Statistics in Medicine 20, 2001). A case that is known badly counts little."""
    if len(suite.x) < 2:
        return MeanEstimate()
    variances = suite.error**2

    def excess(between: float) -> float:
        a = 1 / (variances + between)
        centre = float((a * suite.x).sum() / a.sum())
        return float((a * (suite.x - centre) ** 2).sum()) - (len(suite.x) - 1)

    low, high = 0.0, float(np.ptp(suite.x)) ** 2 + 1e-12
    if excess(0.0) > 0:
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    a = 1 / (variances + low)
    centre = float((a * suite.x).sum() / a.sum())
    scale = max(1.0, float((a * (suite.x - centre) ** 2).sum()) / (len(suite.x) - 1))
    half = float(student.quantile(len(suite.x) - 1, 0.995)) * math.sqrt(scale / float(a.sum()))
    return MeanEstimate(centre, centre - half, centre + half)


def next_pairs(
    decision: SuiteDecision,
    seconds: Sequence[float],
    limits: SuiteLimits | None = None,
    most_pairs: int | None = None,
) -> NextPairs:
    """The case whose next look brings the open rules on the most per second; `seconds` go with
    `decision.cases`.

    Cases before their first look come first, in order. Where a go is out of reach the pairs go to the cases
    that would prove a no-go; where that is out of reach too, measuring is over.
    """
    if decision.waiting:
        return NextPairs(decision.waiting[0], LOOKS[0])
    if decision.decision != "unclear":
        return NextPairs(None, reason="decided")
    suite = _Suite(list(decision.cases), limits or SuiteLimits())
    cases = len(suite.n)
    cap = most_pairs or (_PAIRS_PER_CASE if cases >= _FEWEST_TO_MODERATE else LOOKS[-1]) * cases
    if decision.pairs >= cap:
        return NextPairs(None, reason="budget")
    following = np.array([min((each for each in LOOKS if each > n), default=0) for n in suite.n])
    if not following.any():
        return NextPairs(None, reason="no more looks")
    cost = np.where(following, (following - suite.n) * np.asarray(seconds, dtype=float), np.inf)
    if not all(rule.within_reach for rule in decision.rules):
        gain = _gain_of_proof(decision, suite)
    else:
        gain = _gain(decision, suite, following)
    gain = np.where(following, gain, 0.0) / cost
    if not gain.max() > 0:
        return NextPairs(None, reason="out of reach")
    at = int(np.argmax(gain))
    return NextPairs(decision.cases[at].case, int(following[at]))


def _gain(decision: SuiteDecision, suite: _Suite, following: NDArray[np.int64]) -> Array:
    """What the next look of each case is expected to bring for a go."""
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
        parts = np.array([spent(int(n)) for n in then])
        ahead = np.minimum(1, special.stdtr(suite.degrees + then - suite.n, expected) / parts)
        fall = np.log(np.maximum(p, 1e-12)) - np.log(np.maximum(ahead, 1e-12))
        chosen = np.array([each.case in share.cases for each in decision.cases])
        gain += np.where(chosen, np.maximum(fall, 0.02), 0.0)
    if mean.state == "open" and not (gain * (following > 0)).any():
        variances = (suite.weights * suite.error) ** 2
        gain += variances / variances.sum() * (1 - suite.n / np.maximum(then, 1))
    return gain


def _gain_of_proof(decision: SuiteDecision, suite: _Suite) -> Array:
    """1 for each case that may yet prove that a limit is broken, by what it knows so far."""
    wanted = np.zeros(len(suite.n), dtype=bool)
    worst, share, mean = (decision.rule(rule) for rule in RULES)
    if not worst.within_reach:
        limit = math.log1p(suite.limits.worst)
        open_ = np.array([each.refutes > ERROR for each in decision.cases])
        wanted |= open_ & (suite.x + _LUCK * suite.error > limit) & (suite.x > 0.9 * limit)
    if not share.within_reach:
        limit = math.log1p(suite.limits.case)
        order = np.argsort(-suite.x, kind="stable")
        many = int(np.argmax(np.cumsum(suite.weights[order]) > suite.limits.share + 1e-9)) + 1
        culprits = order[:many]
        hopeful = bool((suite.x[culprits] + 2 * suite.error[culprits] > limit).all())
        if hopeful and float(suite.x[culprits].mean()) > limit:
            proved = np.array([each.proves_material for each in decision.cases]) * len(suite.n) <= ERROR
            wanted[culprits] |= ~proved[culprits]
    if not mean.within_reach:
        centre, error, _ = _mean_of(suite.weights, suite.x, suite.error, suite.degrees)
        limit = math.log1p(suite.limits.mean)
        if centre + 2 * error > limit + _LUCK * suite.mean_error_at_last():
            noise = suite.weights * suite.error
            wanted |= noise >= np.median(noise)
    return np.where(wanted, 1.0 / suite.n, 0.0)
