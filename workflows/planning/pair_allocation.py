"""Which case of an upgrade gets the next pair, so that the suite as a whole is decided soonest."""

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
    "budget": "the decision takes more pairs than such a suite is given",
    "out of reach": "no number of pairs of the plan would decide it",
}


class SuiteAllocation:
    """Gives the next pair to the case that brings the decision on the suite soonest, until that stands.

    A case that is proved to be beyond its limit blocks the upgrade by itself; the other cases then get pairs,
    so that the report can state the decision without it. Cases that need more pairs for other metrics get
    them last. `single_cases`: only some cases of a suite are measured, which are judged one by one.
    """

    def __init__(self, comparison: Comparison, *, single_cases: bool = False) -> None:
        self._comparison = comparison
        self._limits = suite_limits(comparison.policy, single_cases=single_cases)
        self._known: dict[str, tuple[int, list[Pair]]] = {}

    def choose(
        self, cases: Mapping[str, Sequence[Outcome]], ended: Collection[str]
    ) -> tuple[str | None, str]:
        """The case that gets the next pair; None where measuring is over, and then why."""
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
        # A case without enough pairs that gets no more of them has a share of its own in the policy.
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
        """The pairs that count in the metric that decides."""
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
    """What one more pair costs."""
    return max(0.1, median(one.wall_seconds for one in outcomes))
