"""The rules of a policy: they find the reasons for and against an upgrade."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from ..comparison.case_results import UNDER_LOAD, CaseResult
from ..comparison.policy import Policy
from ..comparison.thresholds import exceeds, reaches, threshold_of
from ..comparison.verdict import Verdict
from ..geomean import Geomean
from ..metrics import METRICS, PEAK_MEMORY
from .reasons import (
    CaseBeyondLimit,
    CaseBroke,
    CaseRegressed,
    CaseRepaired,
    CaseShaky,
    CaseSlowerUnderLoad,
    CaseUnknown,
    Cause,
    Decision,
    Detail,
    Kind,
    MeanChange,
    NoMean,
    NoneBeyondLimit,
    Reason,
    SimilarCases,
    SlowerInShortPairs,
    SlowerShare,
    UnmeasuredShare,
)
from .suite_decision import RuleWord, SuiteDecision

#: The decision that the state of a rule over the suite supports.
_SPEAKS_OF: Mapping[RuleWord, Decision] = {"broken": "no-go", "open": "unclear", "kept": "go"}


def worsening_range(verdict: Verdict) -> tuple[float, float]:
    """The smallest and the largest possible worsening of the metric, as logarithms; infinite if unknown."""
    if verdict.low is None or verdict.high is None:
        # Between 0 and another number there is no ratio, but there may be a verdict.
        known = {"slower": (math.inf, math.inf), "same": (0.0, 0.0), "faster": (-math.inf, -math.inf)}
        return known.get(verdict.word, (-math.inf, math.inf))
    low, high = sorted((verdict.low * verdict.cost, verdict.high * verdict.cost))
    return low, high


def could_be_slower(verdict: Verdict) -> bool:
    """Whether a worsening by the threshold is not ruled out."""
    return verdict.word not in ("faster", "same") and worsening_range(verdict)[1] >= verdict.threshold


def reasons(
    results: Sequence[CaseResult],
    overall: Geomean,
    suite: SuiteDecision | None,
    policy: Policy,
    screened: Sequence[CaseResult] = (),
) -> list[Reason]:
    """All reasons, in no order.

    The verdicts of `results` are after the control of false discoveries. `suite` is the decision on all
    cases, None if the deciding metric is exact or no case has enough pairs. `screened` are the cases that
    passed a screen: with them the suite has all its cases.
    """
    known = frozenset(one.case for one in suite.cases) if suite else frozenset[str]()
    combined = (
        _of_suite(results, overall, suite, policy)
        if suite
        else [*_share(results, policy), _overall(results, overall, policy)]
    )
    return [
        *_correctness(results, policy),
        *(r for result in results if result.works for r in _of_case(result, policy, known)),
        *_unknown_reasons(results, policy),
        *_slower_under_load(results, policy),
        *combined,
        *_short_pair_reasons((*results, *screened), policy),
        *_unmeasured_reasons((*results, *screened), policy),
        *_gains(results, policy),
    ]


def measured(result: CaseResult, policy: Policy) -> bool:
    """Whether the case has an interval, or an exact verdict, on the deciding metric."""
    verdict = result.verdicts.get(policy.metric)
    if not result.works or verdict is None or not verdict.n:
        return False
    # An exact metric that is 0 in both has no ratio, but is known.
    return verdict.low is not None or verdict.word in ("faster", "slower", "same")


def _correctness(results: Sequence[CaseResult], policy: Policy) -> Iterable[Reason]:
    for result in results:
        case, weight = (result.case,), policy.weight(result.case)
        if result.broke or result.may_have_broken:
            yield _broke(result, policy)
        elif result.repaired:
            yield Reason("go", "repaired", CaseRepaired(result.case, result.old.status), case, weight=weight)
        elif result.works and result.failed[1] > result.failed[0]:
            # A case that may break may also break sometimes.
            forgiven = policy.forgives(result.case)
            shaky = CaseShaky(result.case, result.new, result.failed[0], forgiven)
            yield Reason("go" if forgiven else "unclear", "shaky", shaky, case, weight=weight)


def _broke(result: CaseResult, policy: Policy) -> Reason:
    forgiven = policy.forgives(result.case)
    detail = CaseBroke(result.case, result.new, result.old.status, result.broke, forgiven)
    speaks: Decision = "go" if forgiven else "no-go" if result.broke else "unclear"
    return Reason(speaks, "broke", detail, (result.case,), weight=policy.weight(result.case))


def _of_case(result: CaseResult, policy: Policy, judged_over_suite: Collection[str]) -> Iterable[Reason]:
    """Reasons from the verdicts of single cases, without the deciding metric of cases `judged_over_suite`."""
    guarded = policy.guards(result.case)
    named = (policy.metric, *policy.worst)
    for metric in dict.fromkeys((*named, *(PEAK_MEMORY if guarded else ()))):
        verdict = result.verdicts.get(metric)
        if verdict is None:
            continue
        size = policy.weight(result.case) * max(0.0, verdict.change * verdict.cost if verdict.change else 0.0)
        case = ((result.case,), metric, size)
        over_suite = result.case in judged_over_suite and metric == policy.metric
        doubtful = could_be_slower(verdict) and metric in named and not over_suite
        if guarded and (verdict.word == "slower" or doubtful):
            yield _reason(verdict.word == "slower", "guarded", CaseRegressed(result.case, verdict), *case)
        # Cases without a number are limited by `unmeasured_share`.
        known = (verdict.word != "no data" and not _of_too_few(verdict, policy)) or measured(result, policy)
        if known and metric in policy.worst and not over_suite and (found := _beyond(verdict, policy)):
            limit = math.log1p(policy.worst[metric]) * verdict.cost
            yield _reason(found[0], "worst", CaseBeyondLimit(result.case, verdict, limit, found[1]), *case)


def _beyond(verdict: Verdict, policy: Policy) -> tuple[bool, Cause] | None:
    """The reason why a metric is proved worse than `worst` allows; None if it is not."""
    limit = math.log1p(policy.worst[verdict.metric])
    near, far = worsening_range(verdict)
    exact = threshold_of(verdict.metric, policy.thresholds).exact
    if verdict.word == "no data":
        return False, "no pair"
    if _of_too_few(verdict, policy):
        return False, "too few pairs"
    if verdict.word == "slower" and near == math.inf:
        return True, "was 0"
    if verdict.word == "unclear" and exact and verdict.change is None:
        # One pair without a difference is no reason for concern.
        return (False, "was 0 in some pairs") if verdict.n > 1 or verdict.old != verdict.new else None
    if not (verdict.n and exceeds(far, limit) and far < math.inf) or negligible(verdict, far, policy):
        return None
    # A threshold above the limit does not disable the limit.
    called = verdict.word in ("slower", "same") and not negligible(verdict, near, policy)
    return called and exceeds(near, limit), "limit"


def leaves_open(verdict: Verdict, policy: Policy) -> bool:
    """Whether a metric with a limit in `worst` may be beyond it without proof."""
    found = _beyond(verdict, policy)
    return found is not None and not found[0]


def _of_too_few(verdict: Verdict, policy: Policy) -> bool:
    """Whether a metric that varies has pairs, but too few for an interval."""
    exact = threshold_of(verdict.metric, policy.thresholds).exact
    return verdict.word == "unclear" and verdict.low is None and not exact


def negligible(verdict: Verdict, worse: float, policy: Policy) -> bool:
    """Whether a metric called the same, worse by that logarithm, is worse within its absolute threshold."""
    absolute = threshold_of(verdict.metric, policy.thresholds).absolute
    if verdict.word != "same" or verdict.old is None or not absolute:
        return False
    # Of what is called the same, pairs beyond the relative threshold are within the absolute one.
    within = verdict.old * abs(math.expm1(worse * verdict.cost)) <= absolute
    return within or exceeds(abs(worse), verdict.threshold)


def _reason(
    proved: bool, kind: Kind, detail: Detail, cases: tuple[str, ...], metric: str, size: float
) -> Reason:
    return Reason("no-go" if proved else "unclear", kind, detail, cases, metric, size)


def _unknown_reasons(results: Sequence[CaseResult], policy: Policy) -> Iterable[Reason]:
    """Cases that must not regress and are unknown."""
    for result in results:
        if not policy.guards(result.case):
            continue
        about = ((result.case,), policy.metric, policy.weight(result.case))
        if _without_number(result, policy) and not result.works:
            yield Reason("unclear", "guarded", CaseUnknown(result.case), *about)
        elif result.works and policy.metric not in result.verdicts:
            yield Reason("unclear", "guarded", CaseUnknown(result.case, policy.metric), *about)


def _slower_under_load(results: Sequence[CaseResult], policy: Policy) -> Iterable[Reason]:
    """Cases with only disturbed pairs, all of which agree on a large slow-down."""
    for result in results:
        if result.under_load > 0 and _without_number(result, policy) and not policy.forgives(result.case):
            detail = CaseSlowerUnderLoad(result.case, result.under_load, UNDER_LOAD[1])
            yield Reason(
                "unclear", "worst", detail, (result.case,), policy.metric, policy.weight(result.case)
            )


def _share(results: Sequence[CaseResult], policy: Policy) -> Iterable[Reason]:
    """The number of cases that are materially worse in an exact metric."""
    known = {result.case: result.verdicts[policy.metric] for result in results if measured(result, policy)}
    if not known:
        return
    total = math.fsum(policy.weight(case) for case in known)
    slower = tuple(c for c, one in known.items() if one.word != "unclear" and _is_material(one, 0, policy))
    doubtful = tuple(c for c, one in known.items() if c not in slower and _is_material(one, 1, policy))
    proved, possible = (
        math.fsum(policy.weight(case) for case in cases) / total for cases in (slower, slower + doubtful)
    )
    # A share equal to the allowed one is allowed, regardless of the rounding of the sum.
    allowed = policy.slower_share + 1e-9
    state: RuleWord = "broken" if proved > allowed else "open" if possible > allowed else "kept"
    yield _share_reason(state, slower if state == "broken" else slower + doubtful, proved, len(known), policy)


def _is_material(verdict: Verdict, end: int, policy: Policy) -> bool:
    """Whether an exact metric is materially worse at this end of the range of its pairs."""
    worse = worsening_range(verdict)[end]
    return reaches(worse, math.log1p(policy.case)) and not negligible(verdict, worse, policy)


def _share_reason(
    state: RuleWord, cases: tuple[str, ...], weight: float, known: int, policy: Policy
) -> Reason:
    most = None if policy.weights else math.floor(policy.slower_share * known + 1e-9)
    detail = SlowerShare(policy.metric, state, policy.case, policy.slower_share, known, most)
    return Reason(_SPEAKS_OF[state], "share", detail, cases, policy.metric, weight)


def _of_suite(
    results: Sequence[CaseResult], overall: Geomean, suite: SuiteDecision, policy: Policy
) -> Iterable[Reason]:
    """The reasons of the three rules over the suite, in the deciding metric."""
    verdicts = {result.case: result.verdicts[policy.metric] for result in results if measured(result, policy)}
    yield from _single_cases(suite, verdicts, policy)
    share, mean = suite.rule("share"), suite.rule("mean")
    yield _share_reason(share.state, share.cases, 1 - share.p, len(suite.cases), policy)
    limit = math.log1p(policy.overall) * METRICS[policy.metric].cost
    # The spread of other cases narrows the interval; a proof takes each case's own as well.
    proved = mean.state != "open" or (suite.mean.low or 0.0) <= math.log1p(policy.overall)
    detail = MeanChange(policy.metric, overall, limit, exceeded=mean.state != "kept", proved=proved)
    speaks = _SPEAKS_OF[mean.state]
    yield Reason(speaks, "overall", detail, metric=policy.metric, weight=abs(overall.change or 0.0))


def _single_cases(suite: SuiteDecision, verdicts: Mapping[str, Verdict], policy: Policy) -> Iterable[Reason]:
    """The cases that are, or may be, beyond their limit, or the reason that none is."""
    worst, by_case = suite.rule("worst"), {one.case: one for one in suite.cases}
    if worst.state == "kept" and policy.metric in policy.worst:
        detail = NoneBeyondLimit(policy.metric, policy.worst[policy.metric], len(by_case))
        yield Reason("go", "worst", detail, metric=policy.metric)
    for case in worst.cases if worst.state != "kept" else ():
        found, verdict = by_case[case], verdicts[case]
        size = policy.weight(case) * max(0.0, found.worse)
        about = ((case,), policy.metric, size)
        if policy.guards(case):
            # A slower verdict is a separate reason.
            if verdict.word != "slower":
                regressed = CaseRegressed(case, verdict, found.modes)
                yield Reason(_SPEAKS_OF[worst.state], "guarded", regressed, *about)
            continue
        limit = math.log1p(policy.worst[policy.metric])
        alone = worst.state == "open" and worsening_range(verdict)[0] > limit
        among = len(by_case) if alone else 0
        beyond = CaseBeyondLimit(case, verdict, limit * verdict.cost, modes=found.modes, among=among)
        yield Reason(_SPEAKS_OF[worst.state], "worst", beyond, *about)


def _overall(results: Sequence[CaseResult], overall: Geomean, policy: Policy) -> Reason:
    if overall.change is None or overall.low is None or overall.high is None:
        if any(measured(result, policy) for result in results) and policy.overall >= 0:
            # Cases that are worse without a ratio have their own reasons.
            return Reason("go", "overall", NoMean(policy.metric, "no ratio"), metric=policy.metric)
        return Reason("unclear", "overall", NoMean(policy.metric, "too few pairs"), metric=policy.metric)
    cost = METRICS[policy.metric].cost
    near, far = sorted((overall.low * cost, overall.high * cost))
    limit = math.log1p(policy.overall)
    proved = exceeds(near, limit) and not any(_of_one_pair(result, policy) for result in results)
    speaks: Decision = "no-go" if proved else "unclear" if exceeds(far, limit) else "go"
    detail = MeanChange(policy.metric, overall, limit * cost, exceeded=speaks != "go")
    return Reason(speaks, "overall", detail, metric=policy.metric, weight=abs(overall.change))


def _of_one_pair(result: CaseResult, policy: Policy) -> bool:
    """Whether a case is in the geomean of an exact metric by a single pair."""
    verdict = result.verdicts.get(policy.metric)
    return result.works and verdict is not None and verdict.n == 1 and verdict.low is not None


def _without_number(result: CaseResult, policy: Policy) -> bool:
    decided = result.broke or result.repaired or result.never_worked or result.only_screened
    return not decided and not measured(result, policy)


def _short_pair_reasons(results: Sequence[CaseResult], policy: Policy) -> Iterable[Reason]:
    """The cases that look slower in a screen that ended before full pairs could judge them."""
    found = [
        (result.case, result.screen.least_change)
        for result in results
        if result.screen and result.screen.looks_slower and _without_number(result, policy)
    ]
    if found:
        found.sort(key=lambda one: -one[1])
        cases = tuple(case for case, _ in found)
        detail = SlowerInShortPairs(tuple(found), len(results))
        yield Reason("unclear", "suspected", detail, cases, weight=found[0][1])


def _unmeasured_reasons(results: Sequence[CaseResult], policy: Policy) -> Iterable[Reason]:
    cases = tuple(result.case for result in results if _without_number(result, policy))
    if not cases:
        return
    total = math.fsum(policy.weight(result.case) for result in results)
    missing, limit = math.fsum(policy.weight(case) for case in cases) / total, policy.unmeasured_share
    speaks: Decision = "unclear" if missing > limit + 1e-9 else "go"
    detail = UnmeasuredShare(len(cases), len(results), missing, limit)
    yield Reason(speaks, "unmeasured", detail, cases, policy.metric, missing)


def _gains(results: Sequence[CaseResult], policy: Policy) -> Iterable[Reason]:
    verdicts = {result.case: result.verdicts[policy.metric] for result in results if measured(result, policy)}
    kinds: tuple[Literal["faster", "same"], ...] = ("faster", "same")
    for kind in kinds:
        cases = tuple(case for case, verdict in verdicts.items() if verdict.word == kind)
        if cases:
            detail = SimilarCases(policy.metric, kind, len(cases), len(verdicts))
            yield Reason("go", "gained", detail, cases, policy.metric, float(kind == "faster"))
