"""An upgrade as a job: which pairs of processes are measured, and when a case has enough of them."""

from collections.abc import Iterable, Sequence

from analysis.comparison import Comparison
from analysis.pairs import pairs_of
from analysis.sequential import advise
from analysis.thresholds import threshold_of
from analysis.verdict import judge
from runner.records import Outcome, Planned

from .queues import Enough

#: What makes a second identity of one environment, where it is compared with itself.
_AGAIN = "-again"
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
    """Says of one of so many cases, from its outcomes so far, why no more pairs are needed."""

    def _enough(outcomes: Sequence[Outcome]) -> str:
        policy, plan = comparison.policy, comparison.plan
        threshold = threshold_of(policy.metric, policy.thresholds)
        pairs = pairs_of(policy.metric, *comparison.sides(outcomes), threshold.exact)
        verdict = judge(policy.metric, pairs, threshold, plan)
        advice = advise(verdict, plan, cases, rate=policy.false_discovery_rate)
        return "" if advice.go_on else f"not needed: {advice.reason}"

    return _enough


def again(fingerprint: str) -> str:
    """The identity of an environment that is compared with itself: which shows what the method makes up."""
    return fingerprint + _AGAIN


def without_again(fingerprint: str) -> str:
    """The environment's own fingerprint."""
    return fingerprint.removesuffix(_AGAIN)
