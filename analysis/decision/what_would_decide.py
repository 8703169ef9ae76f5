"""The cases, pairs and minutes that would decide an unclear upgrade."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..comparison.case_results import CaseResult
from ..comparison.plan import Plan
from ..comparison.policy import Policy
from ..comparison.verdict import MOST, Verdict, pairs_needed
from ..geomean import Geomean
from ..metrics import COLD
from .reasons import Reason

#: The number of pairs proposed if the noise is unknown.
_USUAL = 12


@dataclass(frozen=True, slots=True)
class PairsToDecide:
    """A new session of `case` with a plan of `pairs` pairs; None if no reasonable number is enough.

    `minutes` is the estimated duration from that of the last pairs; None if it is unknown. In a `cold` one
    every pair starts with an empty compile cache and takes longer than the last ones did.
    """

    case: str
    pairs: int | None
    minutes: float | None
    why: str
    cold: bool = False


def pairs_to_decide(
    found: Sequence[Reason], results: Sequence[CaseResult], overall: Geomean, policy: Policy, plan: Plan
) -> tuple[PairsToDecide, ...]:
    """The pairs that would decide every reason for `unclear`, each case once, in the order of the reasons.

    They are new pairs under a plan of that size: adding to the present ones would test the same hypothesis
    twice without correcting the error rate. It is an estimate from the present change and noise, with a power
    of 80 %.
    """
    by_case = {result.case: result for result in results}
    needs: dict[str, tuple[int | None, str]] = {}
    cold: set[str] = set()
    for reason in found:
        if reason.speaks != "unclear":
            continue
        cases = _noisiest(results, policy) if reason.kind == "overall" else reason.cases
        for case in cases:
            pairs = _pairs(reason, by_case[case], overall, policy, plan)
            before, why = needs.get(case, (0, reason.kind))
            most = None if pairs is None or before is None else max(pairs, before)
            needs[case] = (most, why)
            if reason.metric in COLD and _compiles(by_case[case]):
                cold.add(case)
    return tuple(
        PairsToDecide(
            case,
            pairs,
            None if case in cold else _minutes(pairs, by_case[case].pair_seconds),
            why,
            case in cold,
        )
        for case, (pairs, why) in needs.items()
    )


def _compiles(result: CaseResult) -> bool:
    return any(metric in result.verdicts for metric in ("compile_cold", "compile_warm"))


def _minutes(pairs: int | None, pair_seconds: float) -> float | None:
    return pairs * pair_seconds / 60 if pairs is not None and pair_seconds > 0 else None


def _pairs(reason: Reason, result: CaseResult, overall: Geomean, policy: Policy, plan: Plan) -> int | None:
    verdict = result.verdicts.get(reason.metric) if reason.metric else None
    if verdict is not None and verdict.word == "not comparable":
        return None
    if reason.kind in ("shaky", "unmeasured") or verdict is None or verdict.location is None:
        return min(plan.largest, _USUAL)
    if reason.kind == "overall":
        return _for_the_mean(verdict, overall, policy)
    if reason.kind == "worst":
        return _for_a_limit(verdict, policy.worst[reason.metric], plan)
    if reason.kind == "share" or (reason.kind == "guarded" and reason.metric == policy.metric):
        return _for_a_limit(verdict, policy.case, plan)
    return verdict.needed


def _for_a_limit(verdict: Verdict, limit: float, plan: Plan) -> int | None:
    """The pairs until the interval is on one side of the limit, or until the case is decided within it."""
    assert verdict.location and verdict.change is not None
    beyond = replace(verdict.location, point=verdict.change * verdict.cost - math.log1p(limit))
    pairs = pairs_needed(beyond, 0.0, plan)
    if verdict.word == "unclear" and abs(verdict.change) < verdict.threshold and verdict.needed:
        # Proved the same, it is also within the limit.
        return min(pairs or verdict.needed, verdict.needed)
    return pairs


def _for_the_mean(verdict: Verdict, overall: Geomean, policy: Policy) -> int | None:
    """The pairs until the interval of the geomean is on one side of the limit, if all cases had this
    noise.
    """
    if overall.change is None or overall.high is None:
        return None
    margin = abs(overall.change * verdict.cost - math.log1p(policy.overall))
    half = overall.high - overall.change
    if margin <= 0 or verdict.n * (half / margin) ** 2 > MOST:
        return None
    return 2 * math.ceil(verdict.n * (half / margin) ** 2 / 2)


def _noisiest(results: Sequence[CaseResult], policy: Policy) -> list[str]:
    """The cases that together make four fifths of the geomean's variance; for an exact metric, which has no
    variance, the unclear ones.
    """
    parts: Mapping[str, float] = {
        result.case: (policy.weight(result.case) * verdict.location.error) ** 2
        for result in results
        if (verdict := result.verdicts.get(policy.metric)) and verdict.location and result.works
    }
    if not parts:
        return [
            result.case
            for result in results
            if result.works and (verdict := result.verdicts.get(policy.metric)) and verdict.word == "unclear"
        ]
    cases: list[str] = []
    for case in sorted(parts, key=lambda case: -parts[case]):
        if math.fsum(parts[one] for one in cases) >= 0.8 * math.fsum(parts.values()):
            break
        cases.append(case)
    return cases
