"""The verdict on an upgrade from the verdicts of all cases."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..comparison.case_results import CaseResult, CaseSide
from ..comparison.false_discovery_rate import control
from ..comparison.plan import Plan
from ..comparison.policy import Policy, Waiver
from ..comparison.verdict import Verdict
from ..geomean import CONFIDENCE, Geomean, geomean
from ..robust_mean import Location
from .policy_rules import negligible, reasons
from .reasons import (
    CaseBeyondLimit,
    CaseDetail,
    Decision,
    MeanChange,
    NoMean,
    OnlyScreened,
    Reason,
    SlowerInShortPairs,
    SlowerShare,
    UnfinishedUpgrade,
    UnmeasuredShare,
    sort_reasons,
)
from .scorecard import Scorecard, limit_reasons, metric_score, scorecard
from .suite_decision import SuiteDecision
from .suite_pairs import judge_cases
from .what_would_decide import PairsToDecide, pairs_to_decide

#: The metrics with their own tables besides the deciding one.
TABLES: Mapping[str, tuple[str, ...]] = {
    "compile time": ("compile_cold", "compile_warm"),
    "memory": (
        "rss_peak_steady",
        "rss_peak",
        "cuda_peak_allocated",
        "cuda_peak_reserved",
        "cuda_peak_allocated_compile",
        "cuda_peak_reserved_compile",
    ),
    "first call": ("first_call", "cold_start"),
    "GPU": ("device_time", "step_cycles", "request_latency", "sustained_throughput"),
    "new shape": ("new_shape", "known_shape"),
    "graph breaks": ("graph_breaks", "recompiles", "cudagraph_skips"),
}


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A case that is not in the geomean: its status if it did not work, else the verdict on the metric."""

    case: str
    old: CaseSide
    new: CaseSide
    metric: str
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class Table:
    """One metric over all cases with a verdict on it, with the geomean of those with a ratio.

    The geomean of an exact metric has no interval.
    """

    title: str
    metric: str
    verdicts: Mapping[str, Verdict]
    geomean: Geomean


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The verdict on an upgrade with its evidence.

    `reasons` are in order of weight, those for the decision first. `to_decide` are the pairs that would
    decide an `unclear` one. `verdicts` are those on the metric that decides, false discoveries controlled. A
    case is either in `overall` or in `exclusions`. `scorecard` has pass rate, latency, compile time and
    memory. `suite` is the decision on all cases together in the deciding metric, None if that is exact or no
    case has enough pairs. `blockers` are the cases that cause a `no-go` by themselves, without which the
    decision would be `without_blockers`. `waived` cases are not judged. `screened` cases passed a screen:
    they are not judged either, and with any of them the decision is not `go`.
    """

    decision: Decision
    reasons: tuple[Reason, ...]
    to_decide: tuple[PairsToDecide, ...]
    verdicts: Mapping[str, Verdict]
    overall: Geomean
    techniques: Mapping[str, Geomean]
    broken: tuple[CaseResult, ...]
    repaired: tuple[CaseResult, ...]
    exclusions: tuple[Exclusion, ...]
    tables: tuple[Table, ...]
    scorecard: Scorecard
    suite: SuiteDecision | None = None
    blockers: tuple[str, ...] = ()
    without_blockers: Decision | None = None
    waived: tuple[Waiver, ...] = ()
    screened: tuple[CaseResult, ...] = ()

    @property
    def only_screened(self) -> bool:
        """Whether only the screened cases prevent a decision."""
        return self.decision == "unclear" and all(reason.kind == "screened" for reason in self.grounds)

    @property
    def warnings(self) -> tuple[Reason, ...]:
        """The warnings, largest weight first."""
        return tuple(reason for reason in self.reasons if reason.warning)

    @property
    def grounds(self) -> tuple[Reason, ...]:
        """The reasons for the decision, largest weight first; at least one."""
        speaking = tuple(reason for reason in self.reasons if reason.speaks == self.decision)
        if self.decision != "go":
            return speaking
        # A permission of single cases does not justify a go; a property of all cases does.
        order = ("worst", "share", "overall")
        kept = [reason for reason in speaking if reason.kind in order and not reason.warning]
        return tuple(sorted(kept, key=lambda reason: order.index(reason.kind))) or speaking


def decide(
    results: Sequence[CaseResult],
    policy: Policy | None = None,
    plan: Plan | None = None,
    waivers: Sequence[Waiver] = (),
    also: Sequence[str] = (),
) -> Upgrade:
    """The verdict on an upgrade from every case of a suite, each named once (raises ValueError otherwise).

    A reason supports `no-go`, `unclear` or `go`; the decision is the first of these that any reason supports.
    So `go` means that every violation of the policy is ruled out, and `no-go` that a violation was proved.
    Cases that were not measured or not decided make it `unclear`. Cases in `waivers` are left out. The
    metrics `also` get tables besides the usual ones.
    """
    policy, plan = policy or Policy(), plan or Plan()
    if len({result.case for result in results}) < len(results):
        raise ValueError("a case is judged once")
    waived = tuple(one for one in waivers if any(one.matches(result.case) for result in results))
    results = [result for result in results if not any(one.matches(result.case) for one in waived)]
    upgrade = replace(_decide_cases(results, policy, plan, also), waived=waived)
    others, rest = results, upgrade
    while against := _single_cases(rest):
        others = [result for result in others if result.case not in against]
        if not others:
            return upgrade
        rest = _decide_cases(others, policy, plan)
    if rest.decision == "no-go" or len(others) == len(results):
        return upgrade
    left = {result.case for result in others}
    blockers = tuple(result.case for result in results if result.case not in left)
    return replace(upgrade, blockers=blockers, without_blockers=rest.decision)


def leave_open(upgrade: Upgrade, cases: int) -> Upgrade:
    """The verdict before the upgrade has ended, with outcomes of so many cases: no `go` yet, but `unclear`.

    Nor is it `only_screened`: other cases may follow. A `no-go` stands: what was proved of a case remains so.
    """
    if upgrade.decision == "go" or upgrade.only_screened:
        reason = Reason("unclear", "unfinished", UnfinishedUpgrade(cases))
        return replace(upgrade, decision="unclear", reasons=(reason, *upgrade.reasons))
    if upgrade.without_blockers == "go":
        return replace(upgrade, without_blockers="unclear")
    return upgrade


def _single_cases(upgrade: Upgrade) -> set[str]:
    """The cases that each cause a no-go by themselves."""
    against = [reason for reason in upgrade.reasons if reason.speaks == "no-go"]
    return {case for reason in against if isinstance(reason.detail, CaseDetail) for case in reason.cases}


def _decide_cases(
    every: Sequence[CaseResult], policy: Policy, plan: Plan, also: Sequence[str] = ()
) -> Upgrade:
    """The decision on these cases; if some of them were only screened, by the rules for single cases."""
    screened = tuple(result for result in every if result.only_screened)
    results = [result for result in every if not result.only_screened]
    judged = _control_verdicts(results, policy, plan)
    scores = {metric: metric_score(metric, own, _mean(own, policy)) for metric, own in judged.items()}
    results = [
        replace(r, verdicts={metric: judged[metric][r.case] for metric in r.verdicts}) if r.works else r
        for r in results
    ]
    verdicts = judged.get(policy.metric, {})
    suite = judge_cases(verdicts, policy, plan, single_cases=bool(screened))
    overall = _overall(suite, verdicts, policy)
    if policy.metric in scores:
        scores[policy.metric] = replace(scores[policy.metric], mean=overall)
    found = [*reasons(results, overall, suite, policy, screened), *limit_reasons(scores, policy)]
    found += _mode_warnings(suite, verdicts, policy)
    if screened:
        only = Reason("unclear", "screened", OnlyScreened(len(screened), len(every)))
        found = [only, *filter(_of_single_cases, found)]
    found = sort_reasons(found)
    decision = found[0].speaks
    return Upgrade(
        decision=decision,
        reasons=tuple(found),
        to_decide=pairs_to_decide(found, results, overall, policy, plan) if decision == "unclear" else (),
        verdicts=verdicts,
        overall=overall,
        techniques=_by_technique(results, verdicts, policy),
        broken=tuple(r for r in results if r.broke),
        repaired=tuple(r for r in results if r.repaired),
        exclusions=tuple(
            Exclusion(r.case, r.old, r.new, policy.metric, r.verdicts.get(policy.metric))
            for r in results
            if r.case not in verdicts or not verdicts[r.case].has_ratio
        ),
        tables=_tables(judged, policy, also),
        scorecard=scorecard([*results, *screened], scores, found, policy),
        suite=None if screened else suite,
        screened=screened,
    )


def _mode_warnings(
    suite: SuiteDecision | None, verdicts: Mapping[str, Verdict], policy: Policy
) -> Iterable[Reason]:
    """Cases that pairs within a mode clear, and whose new processes may be in the slow mode oftener."""
    named = suite.rule("worst").cases if suite else ()
    for one in suite.cases if suite else ():
        if one.modes and one.modes.has_more_slow and one.case not in named:
            verdict, size = verdicts[one.case], policy.weight(one.case)
            limit = math.log1p(policy.worst.get(policy.metric, policy.case)) * verdict.cost
            detail = CaseBeyondLimit(one.case, verdict, limit, "slow mode", modes=one.modes)
            yield Reason("go", "worst", detail, (one.case,), policy.metric, size, warning=True)


def _of_single_cases(reason: Reason) -> bool:
    """Whether a reason is independent of the other cases of the suite."""
    return isinstance(reason.detail, CaseDetail | SlowerInShortPairs | UnmeasuredShare) or (
        reason.speaks == "go" and not isinstance(reason.detail, SlowerShare | NoMean | MeanChange)
    )


def _overall(suite: SuiteDecision | None, verdicts: Mapping[str, Verdict], policy: Policy) -> Geomean:
    """The mean of the deciding metric: that of the suite decision if there is one."""
    if suite is None or suite.mean.change is None:
        return _mean(verdicts, policy)
    cost = next(iter(verdicts.values())).cost
    low, change, high = sorted(
        cost * (each or 0.0) for each in (suite.mean.low, suite.mean.change, suite.mean.high)
    )
    typical = None
    if suite.random_effects.change is not None:
        ends = (suite.random_effects.low, suite.random_effects.change, suite.random_effects.high)
        first, middle, last = sorted(cost * (each or 0.0) for each in ends)
        typical = middle, first, last
    return Geomean(change, low, high, len(suite.cases), suite.pairs, CONFIDENCE, typical)


def _control_verdicts(
    results: Sequence[CaseResult], policy: Policy, plan: Plan
) -> dict[str, dict[str, Verdict]]:
    """By metric and case, the verdicts of all working cases; each metric is a separate family of tests."""
    families: dict[str, dict[str, Verdict]] = defaultdict(dict)
    for result in results:
        for metric, verdict in result.verdicts.items() if result.works else ():
            families[metric][result.case] = verdict
    return {metric: control(family, policy.false_discovery_rate, plan) for metric, family in families.items()}


def _mean(verdicts: Mapping[str, Verdict], policy: Policy) -> Geomean:
    """The geomean over the cases with a ratio.

    A single pair of an exact metric is included only if that metric decides, because its reasons mention it.
    """
    each = [
        (one, policy.weight(case))
        for case, one in verdicts.items()
        if one.has_ratio and (one.metric == policy.metric or not one.too_few)
    ]
    if not each or any(one.location for one, _ in each):
        return geomean((one.location, policy.weight(case)) for case, one in verdicts.items() if one.location)
    low, mean, high = (
        geomean((Location(_ends(one, policy)[at], 0.0, 1, one.n, 0), weight) for one, weight in each)
        for at in range(3)
    )
    return replace(mean, low=low.change, high=high.change, confidence=None)


def _ends(verdict: Verdict, policy: Policy) -> tuple[float, float, float]:
    """The value of an exact metric in a geomean: 0 for a difference below the threshold."""
    low, change, high = verdict.low or 0.0, verdict.change or 0.0, verdict.high or 0.0
    if negligible(verdict, change * verdict.cost, policy):
        return 0.0, 0.0, 0.0
    return low, change, high


def _by_technique(
    results: Sequence[CaseResult], verdicts: Mapping[str, Verdict], policy: Policy
) -> dict[str, Geomean]:
    groups: dict[str, dict[str, Verdict]] = defaultdict(dict)
    for result in results:
        if result.case in verdicts and verdicts[result.case].has_ratio:
            groups[result.technique][result.case] = verdicts[result.case]
    return {technique: _mean(group, policy) for technique, group in sorted(groups.items())}


def _tables(
    judged: Mapping[str, Mapping[str, Verdict]], policy: Policy, also: Sequence[str]
) -> tuple[Table, ...]:
    usual = {policy.metric, *(metric for metrics in TABLES.values() for metric in metrics)}
    others = tuple(metric for metric in dict.fromkeys(also) if metric not in usual)
    tables: list[Table] = []
    for title, metrics in (*TABLES.items(), ("also measured", others)):
        for metric in metrics:
            if verdicts := judged.get(metric):
                mean = _mean(verdicts, policy)
                if not any(verdict.location for verdict in verdicts.values()):
                    mean = replace(mean, low=None, high=None)
                tables.append(Table(title, metric, verdicts, mean))
    return tuple(tables)
