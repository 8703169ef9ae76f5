"""An upgrade as a job: which pairs of processes are measured, when a case has enough, what they say."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from analysis.case_results import CaseResult, judge_case
from analysis.pairs import pairs_of
from analysis.plan import Plan
from analysis.policy import Policy
from analysis.sequential import advise
from analysis.thresholds import Threshold, threshold_of
from analysis.upgrade import Upgrade, decide
from analysis.verdict import judge
from runner.errors import JournalError
from runner.records import Outcome, Planned

from .queues import Enough

#: What makes a second identity of one environment, where it is compared with itself.
_AGAIN = "-again"
#: Of so many planned pairs one more is kept in store, for those that end without a number.
_ONE_SPARE_OF = 4


@dataclass(frozen=True, slots=True)
class Comparison:
    """The new environment against the old one, by fingerprint: how many pairs, and by what policy.

    `asked` are the two as they were typed, `options` what a command needs beside them and a case to measure
    and judge the same.
    """

    old: str
    new: str
    plan: Plan
    policy: Policy
    asked: tuple[str, str] = ("", "")
    options: tuple[str, ...] = ()

    @property
    def first_look(self) -> int:
        """With fewer pairs than this no case has a verdict on the metric that decides."""
        return 1 if threshold_of(self.policy.metric, self.policy.thresholds).exact else self.plan.smallest

    def planned(self, cases: Iterable[str]) -> list[Planned]:
        """Every replicate that may be needed, first pairs of all cases first."""
        listed = list(cases)
        numbers = range(self.plan.largest + self.plan.largest // _ONE_SPARE_OF)
        return [Planned(case, side, n) for n in numbers for case in listed for side in (self.old, self.new)]

    def enough(self, cases: int) -> Enough:
        """Says of one of so many cases, from its outcomes so far, why no more pairs are needed."""

        def _enough(outcomes: Sequence[Outcome]) -> str:
            metric, policy = self.policy.metric, self.policy
            threshold = threshold_of(metric, policy.thresholds)
            pairs = pairs_of(metric, *self._sides(outcomes), threshold.exact)
            verdict = judge(metric, pairs, threshold, self.plan)
            advice = advise(verdict, self.plan, cases, rate=policy.false_discovery_rate)
            return "" if advice.go_on else f"not needed: {advice.reason}"

        return _enough

    def results(self, outcomes: Iterable[Outcome]) -> list[CaseResult]:
        """Every case of the outcomes in both environments, in the order in which they came."""
        by_case: dict[str, list[Outcome]] = defaultdict(list)
        for outcome in outcomes:
            by_case[outcome.case].append(outcome)
        return [self._result(case, own) for case, own in by_case.items()]

    def verdict(self, results: Sequence[CaseResult]) -> Upgrade:
        """The verdict on the upgrade, from the results of all its cases."""
        return decide(results, self.policy, self.plan)

    def _result(self, case: str, outcomes: Sequence[Outcome]) -> CaseResult:
        old, new = self._sides(outcomes)
        if not old and not new:
            # Nothing of it was measured: the reasons why say so.
            old, new = ([one for one in outcomes if one.environment == side] for side in (self.old, self.new))
        technique = case.rpartition("/")[2]
        return judge_case(technique, old, new, self.policy.thresholds, self.plan, _pair_seconds(old, new))

    def _sides(self, outcomes: Sequence[Outcome]) -> tuple[list[Outcome], list[Outcome]]:
        """What was measured on either side, by number: what was not needed is no failed pair."""
        measured = sorted((one for one in outcomes if one.status != "skipped"), key=lambda one: one.replicate)
        return (
            [one for one in measured if one.environment == self.old],
            [one for one in measured if one.environment == self.new],
        )

    def to_body(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    @staticmethod
    def from_body(body: Mapping[str, Any]) -> "Comparison":
        """The inverse of `to_body`; raises JournalError for anything else."""
        try:
            policy: dict[str, Any] = dict(body["policy"])
            thresholds: Mapping[str, Mapping[str, Any]] = policy["thresholds"]
            policy["thresholds"] = {name: Threshold(**one) for name, one in thresholds.items()}
            for name in ("must_not_regress", "may_break"):
                policy[name] = tuple(policy[name])
            sides, (old, new) = (str(body["old"]), str(body["new"])), map(str, body["asked"])
            options = tuple(map(str, body["options"]))
            return Comparison(*sides, Plan(**body["plan"]), Policy(**policy), (old, new), options)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise JournalError(f"a comparison that this Pyrometer does not understand: {error}") from error


def again(fingerprint: str) -> str:
    """The identity of an environment that is compared with itself: which shows what the method makes up."""
    return fingerprint + _AGAIN


def without_again(fingerprint: str) -> str:
    """The environment's own fingerprint."""
    return fingerprint.removesuffix(_AGAIN)


def _pair_seconds(old: Sequence[Outcome], new: Sequence[Outcome]) -> float:
    """What a pair takes: both sides live as long as their session."""
    walls = {one.replicate: one.wall_seconds for one in old}
    both = [max(walls[one.replicate], one.wall_seconds) for one in new if one.replicate in walls]
    return median(both) if both else 0.0
