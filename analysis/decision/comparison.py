"""The comparison of two environments: number of pairs, policy, and the verdict on the outcomes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from records.outcomes import Outcome

from ..comparison.case_results import CaseResult, CaseSide, NotMeasured, judge_case
from ..comparison.plan import Plan
from ..comparison.policy import Limits, Policy, Waiver
from ..comparison.screening import FIRST_FULL, Screen, ScreenedCase, screen_case
from ..comparison.thresholds import Threshold
from .upgrade import Upgrade, decide

#: The facts of a run with its comparison (see `to_body`), and with the decision (see `decision_body`).
COMPARED, DECIDED = "comparison", "decided"
#: The largest plan; it limits the number of looks of a plan from a file.
MOST_PAIRS = 10_000


@dataclass(frozen=True, slots=True)
class Comparison:
    """The new environment against the old one, by fingerprint, with the plan and the policy.

    `asked` are the two specs as typed, `options` the other options of a command that measures and judges the
    same. `also` are metrics that are measured until they have verdicts too. Cases in `waived` are measured
    but ignored in the decision. With a `screen` the replicates before `FIRST_FULL` are of short pairs.
    """

    old: str
    new: str
    plan: Plan
    policy: Policy
    asked: tuple[str, str] = ("", "")
    options: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    waived: tuple[Waiver, ...] = ()
    screen: Screen | None = None

    def sides(self, outcomes: Sequence[Outcome]) -> tuple[list[Outcome], list[Outcome]]:
        """The measured outcomes of each side by number, without skipped replicates, which are not failed
        pairs.
        """
        measured = sorted((one for one in outcomes if one.status != "skipped"), key=_number)
        return self._of_old(measured), self._of_new(measured)

    def results(self, outcomes: Iterable[Outcome]) -> list[CaseResult]:
        """Every case of the outcomes in both environments, by name; outcomes of other environments are left
        out.

        The order by name makes the result independent of the source, a journal or a database.
        """
        by_case: dict[str, list[Outcome]] = defaultdict(list)
        for outcome in outcomes:
            if outcome.environment in (self.old, self.new):
                by_case[outcome.case].append(outcome)
        return [self._result(case, by_case[case]) for case in sorted(by_case)]

    def verdict(self, results: Sequence[CaseResult]) -> Upgrade:
        """The verdict on the upgrade, from the results of all its cases."""
        return decide(results, self.policy, self.plan, self.waived, self.also)

    def is_short(self, replicate: int) -> bool:
        """Whether the pair with this number is a short pair of a screen."""
        return self.screen is not None and replicate < FIRST_FULL

    def screen_outcomes(self, case: str, outcomes: Sequence[Outcome]) -> ScreenedCase | None:
        """The result of the screen for a case from its outcomes so far; None without a screen."""
        if self.screen is None:
            return None
        short = [one for one in outcomes if self.is_short(one.replicate)]
        return screen_case(case, self.screen, *self.sides(short))

    def _result(self, case: str, outcomes: Sequence[Outcome]) -> CaseResult:
        screened = self.screen_outcomes(case, outcomes)
        if screened is None:
            return self._judge_outcomes(case, outcomes)
        if screened.selection is None:
            sides = CaseSide("ok"), CaseSide("ok")
            return CaseResult(case, case.rpartition("/")[2], *sides, {}, screen=screened)
        full = [one for one in outcomes if not self.is_short(one.replicate)]
        if not full:
            side = CaseSide("skipped", not_measured=NotMeasured.NO_FULL_PAIR)
            return CaseResult(case, case.rpartition("/")[2], side, side, {}, screen=screened)
        return replace(self._judge_outcomes(case, full), screen=screened)

    def _judge_outcomes(self, case: str, outcomes: Sequence[Outcome]) -> CaseResult:
        old, new = self.sides(outcomes)
        if not old and not new:
            # Without any measurement the reasons of its outcomes apply.
            skipped = sorted(outcomes, key=_number)
            old, new = self._of_old(skipped), self._of_new(skipped)
        technique = case.rpartition("/")[2]
        return judge_case(technique, old, new, self.policy.thresholds, self.plan, _pair_seconds(old, new))

    def _of_old(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        return [one for one in outcomes if one.environment == self.old]

    def _of_new(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        return [one for one in outcomes if one.environment == self.new]

    def to_body(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    @staticmethod
    def from_body(body: Mapping[str, Any]) -> "Comparison":
        """The inverse of `to_body`; raises ValueError for anything else."""
        try:
            policy: dict[str, Any] = dict(body["policy"])
            thresholds: Mapping[str, Mapping[str, Any]] = policy["thresholds"]
            policy["thresholds"] = {name: Threshold(**one) for name, one in thresholds.items()}
            for name in ("must_not_regress", "may_break"):
                policy[name] = tuple(policy[name])
            for name in ("compile_time", "peak_memory"):
                if name in policy:
                    own: dict[str, Any] = {**policy[name], "blocks": tuple(policy[name]["blocks"])}
                    policy[name] = Limits(**own)
            sides, (old, new) = (str(body["old"]), str(body["new"])), map(str, body["asked"])
            options = tuple(map(str, body["options"]))
            plan = _plan(body["plan"])
            if plan.largest > MOST_PAIRS:
                raise ValueError(f"a plan of {plan.largest} pairs")
            also = tuple(map(str, body.get("also", ())))
            waived = tuple(Waiver(**one) for one in body.get("waived", ()))
            screen = _screen(body.get("screen"))
            return Comparison(*sides, plan, Policy(**policy), (old, new), options, also, waived, screen)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"a comparison that this Pyrometer cannot read: {error}") from error


def _plan(body: Mapping[str, Any]) -> Plan:
    """The plan of a stored run; 0.1.0 also stored the first look and the steps."""
    return Plan(body["largest"], body["alpha"], body["alpha_same"])


def _screen(body: Mapping[str, Any] | None) -> Screen | None:
    return None if body is None else Screen(tuple(body["changed"]), tuple(body["unknown"]))


def stored_comparison(facts: Mapping[str, Any]) -> Comparison | None:
    """The comparison in the facts of a stored run; None for any other run. Raises ValueError as `from_body`
    does.
    """
    body = facts.get(COMPARED)
    return None if body is None else Comparison.from_body(body)


def _number(outcome: Outcome) -> int:
    return outcome.replicate


def _pair_seconds(old: Sequence[Outcome], new: Sequence[Outcome]) -> float:
    """The duration of a pair: both sides live as long as their session."""
    walls = {one.replicate: one.wall_seconds for one in old}
    both = [max(walls[one.replicate], one.wall_seconds) for one in new if one.replicate in walls]
    return median(both) if both else 0.0
