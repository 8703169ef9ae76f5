"""Selects the case of an upgrade that gets the next pair, so that the suite is decided as soon as
possible.
"""

from collections.abc import Collection, Mapping, Sequence
from statistics import median

from analysis.comparison.case_results import side
from analysis.comparison.pairs import Pair, pairs_of
from analysis.decision.case_estimates import CasePairs
from analysis.decision.comparison import Comparison
from analysis.decision.next_pairs import NextPairs, next_pairs
from analysis.decision.suite_decision import SuiteDecision, judge_suite
from analysis.decision.suite_pairs import case_pairs, suite_limits
from records.outcomes import Outcome

from ..session_queue import lacks_others

_REASONS = {
    "decided": "the decision stands",
    "no more pairs": "every case has all pairs of the plan",
    "budget": "the decision requires more pairs than the limit for this suite",
    "out of reach": "the pairs of the plan cannot decide it",
}


class SuiteAllocation:
    """Gives the next pair to the case that contributes most to the decision on the suite, until that is made.

    A case that is proved to be beyond its limit blocks the upgrade by itself; then the other cases get pairs,
    so that the report can state the decision without it. Pairs for other metrics come last. `single_cases`:
    only some cases of a suite are measured and are judged one by one.
    """

    def __init__(self, comparison: Comparison, *, single_cases: bool = False) -> None:
        self._comparison = comparison
        self._limits = suite_limits(comparison.policy, single_cases=single_cases)
        self._known: dict[str, tuple[int, list[Pair]]] = {}

    def choose(
        self, cases: Mapping[str, Sequence[Outcome]], ended: Collection[str]
    ) -> tuple[str | None, str]:
        """The case that gets the next pair; None if measuring ends, with the reason."""
        pairs = {
            case: self._pairs(case, outcomes)
            for case, outcomes in cases.items()
            if _works(self._comparison, outcomes)
        }
        over = {*ended, *(case for case in pairs if self._waived(case))}
        candidates = [
            case_pairs(case, own, self._comparison.policy)
            for case, own in pairs.items()
            if not self._waived(case)
        ]
        found = self._next(candidates, cases, over)
        if found.case is not None:
            return found.case, ""
        for case, outcomes in cases.items():
            if case not in over and lacks_others(self._comparison, outcomes, len(cases)):
                return case, ""
        return None, _REASONS[found.reason]

    def _next(
        self, candidates: Sequence[CasePairs], cases: Mapping[str, Sequence[Outcome]], over: Collection[str]
    ) -> NextPairs:
        plan = self._comparison.plan
        # A case without enough pairs that gets no more counts for `unmeasured_share` of the policy.
        candidates = [one for one in candidates if plan.look(len(one.worse)) or one.case not in over]
        while candidates:
            decision = judge_suite(candidates, self._limits, plan, over)
            blockers = _blockers(decision)
            if not blockers:
                seconds = [_seconds(cases[one.case]) for one in decision.cases]
                return next_pairs(decision, seconds, self._limits, plan, over)
            candidates = [one for one in candidates if one.case not in blockers]
        return NextPairs(None, reason="decided")

    def _pairs(self, case: str, outcomes: Sequence[Outcome]) -> list[Pair]:
        """The pairs that count in the deciding metric."""
        many, pairs = self._known.get(case, (-1, []))
        if many != len(outcomes):
            every = pairs_of(self._comparison.policy.metric, *self._comparison.sides(outcomes))
            pairs = [pair for pair in every if not pair.left_out]
            self._known[case] = len(outcomes), pairs
        return pairs

    def _waived(self, case: str) -> bool:
        return any(one.matches(case) for one in self._comparison.waived)


def _works(comparison: Comparison, outcomes: Sequence[Outcome]) -> bool:
    """Whether the case ends `ok` in both environments."""
    return all(
        side([(one.status, one.reason) for one in own]).status == "ok" for own in comparison.sides(outcomes)
    )


def _blockers(decision: SuiteDecision) -> tuple[str, ...]:
    worst = decision.rule("worst")
    return worst.cases if worst.state == "broken" else ()


def _seconds(outcomes: Sequence[Outcome]) -> float:
    """The duration of one more pair."""
    return max(0.1, median(one.wall_seconds for one in outcomes))
