"""What speaks for and against an upgrade, by a policy."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from ..comparison.case_results import UNDER_LOAD, CaseResult, CaseSide
from ..comparison.policy import Policy
from ..comparison.screening import MISSED_LIMIT, MISSED_SHARE, SCREEN_LIMIT
from ..comparison.thresholds import exceeds, reaches, threshold_of
from ..comparison.verdict import Verdict
from ..geomean import Geomean
from ..metrics import METRICS, PEAK_MEMORY
from .process_modes import Modes
from .suite_decision import RuleWord, SuiteDecision

#: The decisions, the worst first.
Decision = Literal["no-go", "unclear", "go"]
#: In order of weight: correctness first.
Kind = Literal[
    "broke",
    "guarded",
    "worst",
    "share",
    "overall",
    "memory",
    "compile",
    "shaky",
    "suspected",
    "unfinished",
    "unmeasured",
    "screened",
    "repaired",
    "gained",
]

WORST_FIRST: tuple[Decision, ...] = get_args(Decision)
#: For which decision a rule over the suite speaks.
_SPEAKS_OF: Mapping[RuleWord, Decision] = {"broken": "no-go", "open": "unclear", "kept": "go"}
_KINDS: tuple[Kind, ...] = get_args(Kind)

#: Why a metric of a case is held to be beyond its limit: by its numbers, or for want of any.
Cause = Literal["limit", "no pair", "too few pairs", "was 0", "was 0 in some pairs", "slow mode"]


@dataclass(frozen=True, slots=True)
class CaseRepaired:
    """A case works that did not: how it ended before."""

    case: str
    status: str


@dataclass(frozen=True, slots=True)
class CaseShaky:
    """A case breaks more often in the `new` environment than in `before` replicates of the old one."""

    case: str
    new: CaseSide
    before: int
    allowed: bool = False


@dataclass(frozen=True, slots=True)
class CaseBroke:
    """A case broke, or may have if the old environment has no result: `new` is how it ended, and why."""

    case: str
    new: CaseSide
    old_status: str
    certain: bool
    allowed: bool


@dataclass(frozen=True, slots=True)
class CaseRegressed:
    """A case that must not regress may have, or has; `modes` are those of its processes, if any."""

    case: str
    verdict: Verdict
    modes: Modes | None = None


@dataclass(frozen=True, slots=True)
class CaseSlowerUnderLoad:
    """All of so many disturbed pairs agree that a case without an interval is slower by more than `least`."""

    case: str
    pairs: int
    least: float


@dataclass(frozen=True, slots=True)
class CaseUnknown:
    """Of a case that must not regress nothing is known: it was not measured, or has not this `metric`."""

    case: str
    metric: str = ""


@dataclass(frozen=True, slots=True)
class CaseBeyondLimit:
    """A metric of a case is, or may be, worse than its `limit`, a logarithm of new / old.

    So many `more` cases are beyond the limit too. `modes` are those of its processes, where there are two.
    `among` is the number of cases where this one alone would be beyond the limit, and is not proved to be
    among so many; else 0.
    """

    case: str
    verdict: Verdict
    limit: float
    cause: Cause = "limit"
    more: int = 0
    modes: Modes | None = None
    among: int = 0


@dataclass(frozen=True, slots=True)
class NoneBeyondLimit:
    """Of none of the `known` cases the metric is worse by `limit` (a share) or more."""

    metric: str
    limit: float
    known: int


@dataclass(frozen=True, slots=True)
class SlowerShare:
    """Whether cases of more than the share `allowed` are worse by `limit` (a share) or more.

    `state` is `kept` (they are not), `open` (they may be) or `broken` (they are). `known` cases have a
    number; `most` of them may be worse, None where their weights differ.
    """

    metric: str
    state: RuleWord
    limit: float
    allowed: float
    known: int
    most: int | None


@dataclass(frozen=True, slots=True)
class NoMean:
    """There is no geomean: no case has a ratio, or none has enough pairs."""

    metric: str
    cause: Literal["no ratio", "too few pairs"]


@dataclass(frozen=True, slots=True)
class MeanChange:
    """The geomean, and the limit (a logarithm) that it is held against.

    `exceeded` is whether it may be beyond the limit; `proved` is False where it only seems to be.
    """

    metric: str
    mean: Geomean
    limit: float
    exceeded: bool
    proved: bool = True
    with_pairs: bool = True


@dataclass(frozen=True, slots=True)
class UnmeasuredShare:
    """So many of `total` cases have no interval, and their share by weight; `allowed` is the policy's."""

    cases: int
    total: int
    share: float
    allowed: float


@dataclass(frozen=True, slots=True)
class SimilarCases:
    """So many of `total` cases are faster, or the same."""

    metric: str
    word: Literal["faster", "same"]
    cases: int
    total: int


@dataclass(frozen=True, slots=True)
class Worse:
    """So many of `total` cases are worse in a metric, `material` ones by `limit` (a share) or more.

    `largest` is the largest change that no other reason has named, `named` whether there is a larger one.
    `too_many` is the share by weight that is proved to be, where it is more than `allowed`.
    """

    metric: str
    cases: int
    total: int
    limit: float
    material: int
    allowed: float
    largest: tuple[str, Verdict] | None = None
    named: bool = False
    too_many: float | None = None


@dataclass(frozen=True, slots=True)
class Doubtful:
    """So many of `total` cases, `few` of them of too few pairs, may be worse by `limit` (a share) or more."""

    metric: str
    cases: int
    total: int
    limit: float
    largest: tuple[str, Verdict]
    few: int = 0


@dataclass(frozen=True, slots=True)
class OnlyScreened:
    """So many of `total` cases passed a screen, in which nothing differed by `limit` (a share) or more.

    Of a slow-down by `missed_limit` it misses at most the share `missed_share` (see `comparison.screening`).
    """

    cases: int
    total: int
    limit: float = SCREEN_LIMIT
    missed_limit: float = MISSED_LIMIT
    missed_share: float = MISSED_SHARE


@dataclass(frozen=True, slots=True)
class SlowerInShortPairs:
    """Of `total` cases these were slower by `limit` (a share) or more in short pairs, and have no interval.

    The slowest comes first, each with the smallest change that a short pair showed (a logarithm).
    """

    cases: tuple[tuple[str, float], ...]
    total: int
    limit: float = SCREEN_LIMIT


@dataclass(frozen=True, slots=True)
class UnfinishedUpgrade:
    """The upgrade has not ended: so many cases have outcomes, and others or more pairs may follow."""

    cases: int


CaseDetail = (
    CaseRepaired | CaseShaky | CaseBroke | CaseRegressed | CaseSlowerUnderLoad | CaseUnknown | CaseBeyondLimit
)
Detail = (
    CaseDetail
    | NoneBeyondLimit
    | SlowerShare
    | NoMean
    | MeanChange
    | UnmeasuredShare
    | OnlyScreened
    | SlowerInShortPairs
    | UnfinishedUpgrade
    | SimilarCases
    | Worse
    | Doubtful
)


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: for which decision it speaks, of which kind, and what it says.

    `cases` are those it is about, `metric` what it is about there; `weight` is by how much it counts among
    reasons of its kind. A `warning` speaks for `go` and is nothing to pass over.
    """

    speaks: Decision
    kind: Kind
    detail: Detail
    cases: tuple[str, ...] = ()
    metric: str = ""
    weight: float = 0.0
    warning: bool = False


def worst_decision(decisions: Iterable[Decision | None]) -> Decision:
    """What several machines come to together: the worst of their decisions.

    None, of a machine without a decision, counts as unclear. Raises ValueError for no machine at all.
    """
    ranks = (WORST_FIRST.index("unclear" if one is None else one) for one in decisions)
    return WORST_FIRST[min(ranks)]


def sort_reasons(found: Iterable[Reason]) -> list[Reason]:
    """Reasons by weight: no-go, unclear, warnings, go; in each correctness first, much before little."""

    def _key(one: Reason) -> tuple[int, bool, int, float, str, str]:
        weight = (WORST_FIRST.index(one.speaks), not one.warning, _KINDS.index(one.kind), -one.weight)
        return *weight, "".join(one.cases[:1]), METRICS[one.metric].title if one.metric else ""

    return sorted(found, key=_key)


def worsening_range(verdict: Verdict) -> tuple[float, float]:
    """By how much the metric is worse at least and at most, as logarithms; infinite where unknown."""
    if verdict.low is None or verdict.high is None:
        # Between 0 and another number there is no ratio, yet there may be a verdict.
        known = {"slower": (math.inf, math.inf), "same": (0.0, 0.0), "faster": (-math.inf, -math.inf)}
        return known.get(verdict.word, (-math.inf, math.inf))
    low, high = sorted((verdict.low * verdict.cost, verdict.high * verdict.cost))
    return low, high


def could_be_slower(verdict: Verdict) -> bool:
    """Whether nothing rules out that it is worse by the threshold."""
    return verdict.word not in ("faster", "same") and worsening_range(verdict)[1] >= verdict.threshold


def reasons(
    results: Sequence[CaseResult],
    overall: Geomean,
    suite: SuiteDecision | None,
    policy: Policy,
    screened: Sequence[CaseResult] = (),
) -> list[Reason]:
    """All reasons, in no order. The verdicts of `results` are those that stand over the suite.

    `suite` is the decision on all cases, None where the metric that decides is exact or no case has
    enough pairs. `screened` are the cases that passed a screen: with them the suite has all its cases.
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
    """Whether the case has an interval, or an exact verdict, on the metric that decides."""
    verdict = result.verdicts.get(policy.metric)
    if not result.works or verdict is None or not verdict.n:
        return False
    # An exact metric that is 0 in both has no ratio, and is known all the same.
    return verdict.low is not None or verdict.word in ("faster", "slower", "same")


def _correctness(results: Sequence[CaseResult], policy: Policy) -> Iterable[Reason]:
    for result in results:
        case, weight = (result.case,), policy.weight(result.case)
        if result.broke or result.may_have_broken:
            yield _broke(result, policy)
        elif result.repaired:
            yield Reason("go", "repaired", CaseRepaired(result.case, result.old.status), case, weight=weight)
        elif result.works and result.failed[1] > result.failed[0]:
            # What may stop working for good may do so now and then.
            forgiven = policy.forgives(result.case)
            shaky = CaseShaky(result.case, result.new, result.failed[0], forgiven)
            yield Reason("go" if forgiven else "unclear", "shaky", shaky, case, weight=weight)


def _broke(result: CaseResult, policy: Policy) -> Reason:
    forgiven = policy.forgives(result.case)
    detail = CaseBroke(result.case, result.new, result.old.status, result.broke, forgiven)
    speaks: Decision = "go" if forgiven else "no-go" if result.broke else "unclear"
    return Reason(speaks, "broke", detail, (result.case,), weight=policy.weight(result.case))


def _of_case(result: CaseResult, policy: Policy, judged_over_suite: Collection[str]) -> Iterable[Reason]:
    """Reasons of a case by its own verdicts, but for the deciding metric of cases `judged_over_suite`."""
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
        # Cases without a number have a share of their own.
        known = (verdict.word != "no data" and not _of_too_few(verdict, policy)) or measured(result, policy)
        if known and metric in policy.worst and not over_suite and (found := _beyond(verdict, policy)):
            limit = math.log1p(policy.worst[metric]) * verdict.cost
            yield _reason(found[0], "worst", CaseBeyondLimit(result.case, verdict, limit, found[1]), *case)


def _beyond(verdict: Verdict, policy: Policy) -> tuple[bool, Cause] | None:
    """Whether it is proved that a metric is worse than `worst` allows, and why; None where it is within."""
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
        # Of one pair without a difference nothing is feared.
        return (False, "was 0 in some pairs") if verdict.n > 1 or verdict.old != verdict.new else None
    if not (verdict.n and exceeds(far, limit) and far < math.inf) or negligible(verdict, far, policy):
        return None
    # Who sets a threshold above the limit has not lifted the limit.
    called = verdict.word in ("slower", "same") and not negligible(verdict, near, policy)
    return called and exceeds(near, limit), "limit"


def leaves_open(verdict: Verdict, policy: Policy) -> bool:
    """Whether a metric with a limit in `worst` may yet be beyond it, and is not proved to be."""
    return (found := _beyond(verdict, policy)) is not None and not found[0]


def _of_too_few(verdict: Verdict, policy: Policy) -> bool:
    """Whether a metric that varies has pairs that are no ground for any interval."""
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
    """Cases that must not regress, and of which nothing is known."""
    for result in results:
        if not policy.guards(result.case):
            continue
        about = ((result.case,), policy.metric, policy.weight(result.case))
        if _without_number(result, policy) and not result.works:
            yield Reason("unclear", "guarded", CaseUnknown(result.case), *about)
        elif result.works and policy.metric not in result.verdicts:
            yield Reason("unclear", "guarded", CaseUnknown(result.case, policy.metric), *about)


def _slower_under_load(results: Sequence[CaseResult], policy: Policy) -> Iterable[Reason]:
    """Cases that only disturbed pairs know, all of which agree on a large slow-down."""
    for result in results:
        if result.under_load > 0 and _without_number(result, policy) and not policy.forgives(result.case):
            detail = CaseSlowerUnderLoad(result.case, result.under_load, UNDER_LOAD[1])
            about = ((result.case,), policy.metric, policy.weight(result.case))
            yield Reason("unclear", "worst", detail, *about)


def _share(results: Sequence[CaseResult], policy: Policy) -> Iterable[Reason]:
    """How many cases are materially worse in an exact metric."""
    known = {result.case: result.verdicts[policy.metric] for result in results if measured(result, policy)}
    if not known:
        return
    total = math.fsum(policy.weight(case) for case in known)
    slower = tuple(c for c, one in known.items() if one.word != "unclear" and _material(one, 0, policy))
    doubtful = tuple(c for c, one in known.items() if c not in slower and _material(one, 1, policy))
    proved, possible = (
        math.fsum(policy.weight(case) for case in cases) / total for cases in (slower, slower + doubtful)
    )
    # A share of exactly what is allowed is allowed, however the sum was rounded.
    allowed = policy.slower_share + 1e-9
    state: RuleWord = "broken" if proved > allowed else "open" if possible > allowed else "kept"
    yield _share_reason(state, slower if state == "broken" else slower + doubtful, proved, len(known), policy)


def _material(verdict: Verdict, end: int, policy: Policy) -> bool:
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
    """What the three rules over the suite say, in the metric that decides."""
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
    """The cases that are, or may be, beyond their limit; that none is."""
    worst, by_case = suite.rule("worst"), {one.case: one for one in suite.cases}
    if worst.state == "kept" and policy.metric in policy.worst:
        detail = NoneBeyondLimit(policy.metric, policy.worst[policy.metric], len(by_case))
        yield Reason("go", "worst", detail, metric=policy.metric)
    for case in worst.cases if worst.state != "kept" else ():
        found, verdict = by_case[case], verdicts[case]
        size = policy.weight(case) * max(0.0, found.worse)
        about = ((case,), policy.metric, size)
        if policy.guards(case):
            # What is called slower is a reason by itself.
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
            # Cases that are worse without a ratio speak for themselves.
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
    """Whether a case is in the geomean of an exact metric on the word of a single pair."""
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
