"""An upgrade as a job: which pairs of processes are measured, and when a case has enough of them."""

from collections.abc import Iterable, Sequence

from analysis.comparison.comparison import AGAIN, Comparison
from analysis.comparison.pairs import pairs_of
from analysis.comparison.reasons import leaves_open
from analysis.comparison.sequential_test import Advice, advise
from analysis.comparison.thresholds import threshold_of
from analysis.comparison.upgrade import TABLES
from analysis.comparison.verdict import Verdict, judge
from records.outcomes import Outcome, Planned

from .session_queue import Enough

#: Of so many planned pairs one more is kept in store, for those that end without a number.
_ONE_SPARE_OF = 4


def first_look(comparison: Comparison) -> int:
    """With fewer pairs than this no case has a verdict on the metric that decides."""
    policy = comparison.policy
    return 1 if threshold_of(policy.metric, policy.thresholds).exact else comparison.plan.smallest


def pairs_planned(comparison: Comparison, cases: Iterable[str]) -> list[Planned]:
    """Every replicate that may be needed, first pairs of all cases first."""
    listed, largest = list(cases), comparison.plan.largest
    sides = (comparison.old, comparison.new)
    numbers = range(largest + largest // _ONE_SPARE_OF)
    return [Planned(case, side, n) for n in numbers for case in listed for side in sides]


def enough_pairs(comparison: Comparison, cases: int) -> Enough:
    """Says of one of so many cases, from its outcomes so far, why no more pairs are needed.

    The metric that decides says so. Others, of those that vary, have a say as long as the newest pair knows
    them, for no other brings what only a cold one does: what the comparison is also for goes on until its
    verdict stands, what has a limit until it is on one side of that, what has a table has its first look.
    """
    policy, plan = comparison.policy, comparison.plan
    varying = _varying(comparison) - {policy.metric}

    def _judged(metric: str, outcomes: Sequence[Outcome]) -> tuple[Verdict, Advice]:
        threshold = threshold_of(metric, policy.thresholds)
        pairs = pairs_of(metric, *comparison.sides(outcomes), threshold.exact)
        verdict = judge(metric, pairs, threshold, plan)
        return verdict, advise(verdict, plan, cases, rate=policy.false_discovery_rate)

    def _lacks(metric: str, outcomes: Sequence[Outcome]) -> bool:
        verdict, advice = _judged(metric, outcomes)
        if not advice.go_on:
            return False
        limited = metric in policy.worst and leaves_open(verdict, policy)
        return metric in comparison.also or limited or verdict.n < plan.smallest

    def _enough(outcomes: Sequence[Outcome]) -> str:
        decides, advice = _judged(policy.metric, outcomes)
        others = _known_of_the_newest(outcomes) & varying
        # Of an exact metric two pairs are enough, and nobody who judges by one asked for more.
        if advice.go_on or (decides.n >= plan.smallest and any(_lacks(one, outcomes) for one in others)):
            return ""
        return f"not needed: {advice.reason}"

    return _enough


def _varying(comparison: Comparison) -> set[str]:
    """The metrics beside the one that decides for which there may have to be more pairs."""
    asked = {*comparison.also, *comparison.policy.worst, *(one for table in TABLES.values() for one in table)}
    return {one for one in asked if not threshold_of(one, comparison.policy.thresholds).exact}


def _known_of_the_newest(outcomes: Sequence[Outcome]) -> set[str]:
    """What the newest pair that ended ok knows."""
    ended = [one for one in outcomes if one.status == "ok"]
    newest = max((one.replicate for one in ended), default=0)
    return {metric for one in ended if one.replicate == newest for metric in one.metrics}


def again(fingerprint: str) -> str:
    """The identity of an environment that is compared with itself: which shows what the method makes up."""
    return fingerprint + AGAIN


def without_again(fingerprint: str) -> str:
    """The environment's own fingerprint."""
    return fingerprint.removesuffix(AGAIN)
