"""From the pairs of one case and metric to a verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from statistics import median
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .. import distributions
from ..metrics import METRICS
from ..robust_mean import Location, locate
from .pairs import BEYOND, WAITS, LeftOut, Pair, PairFlaw
from .plan import Plan
from .thresholds import Threshold, exceeds

Word = Literal["faster", "slower", "same", "unclear", "no data", "not comparable"]

#: How probable it is that an effect of the smallest visible size is seen.
POWER = 0.80
#: An exact metric is not believed on the word of a single pair.
_EXACT_FEWEST = 2
#: Beyond so many pairs nothing is promised.
MOST = 200


class Doubt(StrEnum):
    """Why a verdict is open, where no number belongs to that."""

    NO_PAIR = "no_pair"
    MAY_NOT_MATTER = "may_not_matter"
    MAY_BE_NOTHING = "may_be_nothing"
    PAIRS_DISAGREE = "pairs_disagree"
    OTHER_WORK = "other_work"


@dataclass(frozen=True, slots=True)
class TooFewPairs:
    """So many pairs count, and `least` is how many it takes."""

    pairs: int
    least: int


@dataclass(frozen=True, slots=True)
class OneSideFirst:
    """One side started first in so many of the pairs, that its luck would look like a change."""

    side: Literal["new", "old"]
    times: int
    pairs: int


@dataclass(frozen=True, slots=True)
class ChanceInSuite:
    """Among so many cases a p value like this one is no discovery."""

    p: float
    cases: int


VerdictReason = Doubt | TooFewPairs | OneSideFirst | ChanceInSuite


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the pairs say about one metric of one case, new against old.

    For a metric that is no time, `faster` reads better and `slower` worse. `reason` is why it is open or
    nothing is compared, None where the word says all. `old` and `new` are medians over the pairs, in the
    metric's unit. `change`, `low`, `high`, `smallest` and `threshold` are logarithms of new / old: 0.01 is
    1 % more. `low`..`high` holds the truth in the share `confidence` of cases, over all looks of the plan
    together; of an exact metric it is the range of the pairs, and `confidence` is None. `p` is valid at
    whichever look one stops. `smallest` is the smallest effect that would have been called with a probability
    of 80 %. `needed` is how many pairs a plan would have to hold so that a change like this one, with noise
    like this, is called or proved the same, again with 80 %; None where no reasonable number would do.
    `left_out` has a reason for every pair that does not count, `n` is the number of those that do. `location`
    is what pairs of a metric that varies have in common, `pairs` are those pairs, in the order in which they
    were measured: both for judging several cases together.
    """

    metric: str
    word: Word
    reason: VerdictReason | None = None
    threshold: float = 0.0
    n: int = 0
    left_out: tuple[LeftOut, ...] = ()
    old: float | None = None
    new: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    p: float | None = None
    smallest: float | None = None
    needed: int | None = None
    location: Location | None = None
    pairs: tuple[Pair, ...] = ()

    @property
    def cost(self) -> int:
        """That of its metric."""
        return METRICS[self.metric].cost

    @property
    def has_ratio(self) -> bool:
        """Whether a geomean can hold it: by a location, or by the range of an exact metric."""
        return self.location is not None or (self.change is not None and self.low is not None)

    @property
    def too_few(self) -> bool:
        """Whether too few pairs count to judge by: of an exact metric a single one."""
        return isinstance(self.reason, TooFewPairs)


def not_comparable(metric: str) -> Verdict:
    """The verdict on two sides that did not do the same work."""
    return Verdict(metric, "not comparable", Doubt.OTHER_WORK)


def judge(metric: str, pairs: Sequence[Pair], threshold: Threshold, plan: Plan | None = None) -> Verdict:
    """The verdict on the pairs so far, in the order in which they were measured.

    `faster` and `slower`: the interval excludes 0 *and* the point passes the threshold. `same`: two one-sided
    tests reject a difference of the threshold or more (Schuirmann, A comparison of the two one-sided tests
    procedure and the power approach, 1987). A change proved real but smaller than the threshold is `same`
    where that too is proved, else `unclear`. The intervals are repeated confidence intervals (Jennison and
    Turnbull, Interim analyses: the repeated confidence interval approach, JRSS B 51, 1989): pairs beyond the
    last look of the plan that they reach wait for the next, if there is one. Where one side started first in
    nearly all pairs, nothing is judged: the order of starting may be the cause.

    Raises ValueError for a metric that is unknown or knows no better, and where a pair that counts holds what
    is no positive finite number (an exact metric may be 0).
    """
    if metric not in METRICS or METRICS[metric].better == "neither":
        raise ValueError(f"no metric that could be better or worse is called {metric}")
    plan = plan or Plan()
    used = [pair for pair in pairs if not pair.left_out]
    for pair in used:
        for value in (pair.old, pair.new):
            if not math.isfinite(value) or value < 0 or (value == 0 and not threshold.exact):
                raise ValueError(f"{metric}: {value} cannot be compared; a pair that holds it is left out")
    left_out = tuple(pair.left_out for pair in pairs if pair.left_out)
    if any(PairFlaw.OTHER_ITEMS in why for why in left_out):
        return replace(not_comparable(metric), left_out=left_out)
    verdict = Verdict(metric, "no data", Doubt.NO_PAIR, threshold.log, left_out=left_out)
    if not used:
        return verdict
    verdict = replace(verdict, word="unclear", reason=None)
    if threshold.exact:
        return _exact(_sides(verdict, used), used, threshold)
    look = plan.look(len(used))
    if not look:
        return _too_few(_sides(verdict, used), used, plan)
    why = WAITS if look < plan.largest else BEYOND
    verdict = replace(verdict, left_out=(*left_out, *[why] * (len(used) - look)))
    if (lopsided := _order_imbalance(used[:look])) is not None:
        return replace(_sides(verdict, used[:look]), reason=lopsided)
    return _judge_look(_sides(verdict, used[:look]), used[:look], plan)


def _sides(verdict: Verdict, used: Sequence[Pair]) -> Verdict:
    old, new = median(pair.old for pair in used), median(pair.new for pair in used)
    return replace(verdict, n=len(used), old=old, new=new)


def _too_few(verdict: Verdict, used: Sequence[Pair], plan: Plan) -> Verdict:
    change = median(pair.log for pair in used)
    reason = TooFewPairs(len(used), plan.smallest)
    return replace(verdict, change=change, reason=reason, needed=plan.smallest)


def _order_imbalance(used: Sequence[Pair]) -> OneSideFirst | None:
    """Which side started first in more than three of four pairs, for then its luck looks like a change."""
    first = [pair.new_first for pair in used if pair.new_first is not None]
    new = sum(first)
    found = (OneSideFirst("new", new, len(used)), OneSideFirst("old", len(first) - new, len(used)))
    return next((one for one in found if 4 * one.times > 3 * one.pairs), None)


def _judge_look(verdict: Verdict, used: Sequence[Pair], plan: Plan) -> Verdict:
    """The verdict at a look."""
    found = locate([pair.log for pair in used], [pair.new_first for pair in used])
    share = plan.share(found.n)
    half = found.half(plan.alpha * share / 2)
    half_same = found.half(plan.alpha_same * share)
    size = abs(found.point)
    verdict = replace(
        verdict,
        change=found.point,
        low=found.point - half,
        high=found.point + half,
        confidence=1 - plan.alpha,
        p=min(1.0, found.p() / share),
        # What is called must leave 0 outside and pass the threshold: whichever is harder.
        smallest=max(found.visible(plan.alpha * share / 2, POWER), verdict.threshold + found.half(1 - POWER)),
        location=found,
        pairs=tuple(used),
    )
    if size > half and size >= verdict.threshold:
        return replace(verdict, word="slower" if found.point * verdict.cost > 0 else "faster")
    if size + half_same < verdict.threshold:
        return replace(verdict, word="same")
    real = Doubt.MAY_NOT_MATTER if size > half else Doubt.MAY_BE_NOTHING
    return replace(verdict, reason=real, needed=pairs_needed(found, verdict.threshold, plan))


def pairs_needed(found: Location, threshold: float, plan: Plan) -> int | None:
    """How many pairs a new plan like `plan` would need to decide this point with this noise.

    Settle: call it, or prove it the same, at the last look with a probability of 80 %. `threshold` is a
    logarithm. None where no even number up to 200 would do, as for a point right at the threshold.
    """
    size = abs(found.point)
    noise = found.error * math.sqrt(found.n)
    called = size >= threshold
    pairs, visible, passes = _larger_plans(plan, found.n, found.set_aside, called)
    if called:
        # The point has to pass the threshold as well.
        decided = (visible * noise <= size) & (passes * noise <= size - threshold)
    else:
        decided = visible * noise <= threshold - size
    enough = pairs[decided]
    return int(enough[0]) if len(enough) else None


@lru_cache(maxsize=256)
def _larger_plans(
    plan: Plan, n: int, set_aside: int, called: bool
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Even numbers of pairs from the plan's on, and what they see at the last look of a plan so large.

    By the noise of a single pair: the smallest centre that is called (or proved to be within, from there to
    the threshold), and by how much a centre must pass a bar for its point to do so, both with `POWER`.
    """
    pairs = np.arange(plan.largest + plan.largest % 2, MOST + 1, 2)
    shares = np.array([replace(plan, largest=int(largest)).share(int(largest)) for largest in pairs])
    degrees = np.maximum(1, pairs - 1 - 2 * set_aside * pairs // n)
    tails = shares * (plan.alpha / 2 if called else plan.alpha_same)
    visible = distributions.noncentral(degrees, 1 - POWER, distributions.quantile(degrees, 1 - tails))
    return pairs, visible / np.sqrt(pairs), distributions.quantile(degrees, POWER) / np.sqrt(pairs)


def _exact(verdict: Verdict, used: Sequence[Pair], threshold: Threshold) -> Verdict:
    """A metric that hardly varies: what matters is whether all pairs agree."""
    if all(pair.old > 0 and pair.new > 0 for pair in used):
        logs = [pair.log for pair in used]
        verdict = replace(verdict, change=median(logs), low=min(logs), high=max(logs))
    if len(used) < _EXACT_FEWEST:
        return replace(verdict, reason=TooFewPairs(1, _EXACT_FEWEST), needed=_EXACT_FEWEST)
    directions = {_direction(pair, threshold) for pair in used}
    if directions == {0}:
        return replace(verdict, word="same")
    if len(directions) == 1:
        return replace(verdict, word="slower" if directions.pop() * verdict.cost > 0 else "faster")
    return replace(verdict, reason=Doubt.PAIRS_DISAGREE)


def _direction(pair: Pair, threshold: Threshold) -> int:
    difference = pair.new - pair.old
    if abs(difference) <= threshold.absolute or difference == 0:
        return 0
    # Of 0, any other number is an infinite multiple.
    if pair.old > 0 and pair.new > 0 and not exceeds(abs(pair.log), threshold.log):
        return 0
    return 1 if difference > 0 else -1
