"""What speaks for and against an upgrade, by a policy."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from common.text import plural

from ..geomean import Geomean
from ..metrics import METRICS, PEAK_MEMORY
from ..words import called, change_beside, of_cases, share, share_beside, word
from .case_results import CaseResult
from .policy import Policy
from .thresholds import threshold_of
from .verdict import Verdict

Decision = Literal["no-go", "unclear", "go"]
Kind = Literal[
    "broke",
    "guarded",
    "worst",
    "share",
    "overall",
    "compile",
    "memory",
    "shaky",
    "unmeasured",
    "repaired",
    "gained",
]

_SPEAKS: tuple[Decision, ...] = ("no-go", "unclear", "go")
#: In order of weight: correctness first.
_KINDS: tuple[Kind, ...] = (
    "broke",
    "guarded",
    "worst",
    "share",
    "overall",
    "memory",
    "compile",
    "shaky",
    "unmeasured",
    "repaired",
    "gained",
)


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: for which decision it speaks, of which kind, in a sentence.

    `cases` are those it is about, `metric` what it is about there; `weight` is by how much it counts among
    reasons of its kind. A `warning` speaks for `go` and is nothing to pass over.
    """

    speaks: Decision
    kind: Kind
    text: str
    cases: tuple[str, ...] = ()
    metric: str = ""
    weight: float = 0.0
    warning: bool = False


def ordered(found: Iterable[Reason]) -> list[Reason]:
    """Reasons by weight: no-go, unclear, warnings, go; in each correctness first, much before little."""

    def _key(one: Reason) -> tuple[int, bool, int, float, str]:
        return _SPEAKS.index(one.speaks), not one.warning, _KINDS.index(one.kind), -one.weight, one.text

    return sorted(found, key=_key)


def worsening(verdict: Verdict) -> tuple[float, float]:
    """By how much the metric is worse at least and at most, as logarithms; infinite where unknown."""
    if verdict.low is None or verdict.high is None:
        # Between 0 and another number there is no ratio, yet there may be a verdict.
        known = {"slower": (math.inf, math.inf), "same": (0.0, 0.0), "faster": (-math.inf, -math.inf)}
        return known.get(verdict.word, (-math.inf, math.inf))
    low, high = sorted((verdict.low * verdict.cost, verdict.high * verdict.cost))
    return low, high


def could_be_slower(verdict: Verdict) -> bool:
    """Whether nothing rules out that it is worse by the threshold."""
    return verdict.word not in ("faster", "same") and worsening(verdict)[1] >= verdict.threshold


def reasons(results: Sequence[CaseResult], overall: Geomean, policy: Policy) -> list[Reason]:
    """All reasons, in no order. The verdicts of `results` are those that stand over the suite."""
    return [
        *_correctness(results, policy),
        *(reason for result in results if result.works for reason in _of_case(result, policy)),
        *_unguarded(results, policy),
        *_share(results, policy),
        _overall(results, overall, policy),
        *_unmeasured(results, policy),
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
            text = f"{result.case} works now; it was {result.old.status}"
            yield Reason("go", "repaired", text, case, weight=weight)
        elif result.works and result.failed[1] > result.failed[0]:
            before = str(result.failed[0] or "none")
            text = f"{result.case}: {result.new.reason} in the new environment, {before} in the old"
            yield Reason("unclear", "shaky", text, case, weight=weight)


def _broke(result: CaseResult, policy: Policy) -> Reason:
    forgiven = policy.forgives(result.case)
    text = f"{result.case} {'broke' if result.broke else 'may have broken'}: {result.new.status}"
    text += f" ({result.new.reason})" if result.new.reason else ""
    text += "" if result.broke else f" in the new environment, and the old ended {result.old.status}"
    if forgiven:
        text += ", and may" if result.broke else ", which is allowed"
    speaks: Decision = "go" if forgiven else "no-go" if result.broke else "unclear"
    return Reason(speaks, "broke", text, (result.case,), weight=policy.weight(result.case))


def _of_case(result: CaseResult, policy: Policy) -> Iterable[Reason]:
    guarded = policy.guards(result.case)
    named = (policy.metric, *policy.worst)
    for metric in dict.fromkeys((*named, *(PEAK_MEMORY if guarded else ()))):
        verdict = result.verdicts.get(metric)
        if verdict is None:
            continue
        size = policy.weight(result.case) * max(0.0, verdict.change * verdict.cost if verdict.change else 0.0)
        case = ((result.case,), metric, size)
        if guarded and could_be_slower(verdict) and (verdict.word == "slower" or metric in named):
            text = f"{about(result.case, verdict)[0]}: it must not regress"
            yield _reason(verdict.word == "slower", "guarded", text, *case)
        # Cases without a number have a share of their own.
        known = (verdict.word != "no data" and not _of_too_few(verdict, policy)) or measured(result, policy)
        if known and metric in policy.worst and (found := _beyond(verdict, policy)):
            told, limit = about(result.case, verdict, math.log1p(policy.worst[metric]) * verdict.cost)
            why = found[1] or f"at most {limit} is allowed"
            yield _reason(found[0], "worst", f"{told}: {why}", *case)


def _beyond(verdict: Verdict, policy: Policy) -> tuple[bool, str] | None:
    """Whether it is proved that a metric is worse than `worst` allows, and why; None where it is within.

    Where its numbers say why, it has no words.
    """
    limit = math.log1p(policy.worst[verdict.metric])
    near, far = worsening(verdict)
    exact = threshold_of(verdict.metric, policy.thresholds).exact
    if verdict.word == "no data":
        return False, "no pair counts"
    if _of_too_few(verdict, policy):
        return False, verdict.reason
    if verdict.word == "slower" and near == math.inf:
        return True, "it was 0"
    if verdict.word == "unclear" and exact and verdict.change is None:
        # Of one pair without a difference nothing is feared.
        return (False, "it was 0 in some pairs") if verdict.n > 1 or verdict.old != verdict.new else None
    if not (verdict.n and limit < far < math.inf) or negligible(verdict, far, policy):
        return None
    # Who sets a threshold above the limit has not lifted the limit.
    proved = verdict.word in ("slower", "same") and near > limit and not negligible(verdict, near, policy)
    return proved, ""


def leaves_open(verdict: Verdict, policy: Policy) -> bool:
    """Whether a metric with a limit in `worst` may yet be beyond it, and is not proved to be."""
    found = _beyond(verdict, policy)
    return found is not None and not found[0]


def _of_too_few(verdict: Verdict, policy: Policy) -> bool:
    """Whether a metric that varies has pairs that are no ground for any interval."""
    exact = threshold_of(verdict.metric, policy.thresholds).exact
    return verdict.word == "unclear" and verdict.low is None and not exact


def negligible(verdict: Verdict, worse: float, policy: Policy) -> bool:
    """Whether a metric called the same, worse by that logarithm, is worse within its absolute threshold."""
    absolute = threshold_of(verdict.metric, policy.thresholds).absolute
    if verdict.word != "same" or verdict.old is None or not absolute:
        return False
    return verdict.old * abs(math.expm1(worse * verdict.cost)) <= absolute


def _reason(proved: bool, kind: Kind, text: str, cases: tuple[str, ...], metric: str, size: float) -> Reason:
    return Reason("no-go" if proved else "unclear", kind, text, cases, metric, size)


def about(case: str, verdict: Verdict, limit: float | None = None) -> tuple[str, str]:
    """What the pairs of a case say of a metric, and the limit (a logarithm) that they are held against."""
    told, allowed = change_beside(verdict.change, verdict.low, verdict.high, limit)
    return f"{case}: {METRICS[verdict.metric].title} {word(verdict)}, {told}, n = {verdict.n}", allowed


def _unguarded(results: Sequence[CaseResult], policy: Policy) -> Iterable[Reason]:
    """Cases that must not regress, and of which nothing is known."""
    for result in results:
        if policy.guards(result.case) and _without_number(result, policy) and not result.works:
            text = f"{result.case} must not regress, and was not measured"
            yield Reason(
                "unclear", "guarded", text, (result.case,), policy.metric, policy.weight(result.case)
            )
        elif policy.guards(result.case) and result.works and policy.metric not in result.verdicts:
            text = f"{result.case} must not regress, and has no {METRICS[policy.metric].title}"
            yield Reason(
                "unclear", "guarded", text, (result.case,), policy.metric, policy.weight(result.case)
            )


def _share(results: Sequence[CaseResult], policy: Policy) -> Iterable[Reason]:
    known = {result.case: result.verdicts[policy.metric] for result in results if measured(result, policy)}
    total = math.fsum(policy.weight(case) for case in known)
    slower = tuple(case for case, verdict in known.items() if verdict.word == "slower")
    doubtful = tuple(
        case for case, verdict in known.items() if verdict.word == "unclear" and could_be_slower(verdict)
    )
    if not slower and not doubtful:
        return
    proved, possible = (
        math.fsum(policy.weight(case) for case in cases) / total for cases in (slower, slower + doubtful)
    )
    # A share of exactly what is allowed is allowed, however the sum was rounded.
    allowed = policy.slower_share + 1e-9
    speaks: Decision = "no-go" if proved > allowed else "unclear" if possible > allowed else "go"
    worse = called("slower", policy.metric)
    shares = [share_beside(one, policy.slower_share) for one in (proved, possible)]
    text = f"{of_cases(len(slower), len(known))} {worse}"
    text += f", {shares[0]} by weight" if slower else ""
    if doubtful:
        text += f". {len(doubtful)} {'is' if len(doubtful) == 1 else 'are'} not yet measured precisely enough"
        # Of equal weights everybody can count.
        text += f", {shares[1]} by weight in all" if policy.weights or slower else ""
    text += f" (policy: at most {share(policy.slower_share)} may be {worse})"
    about = slower if speaks == "no-go" else doubtful or slower
    yield Reason(speaks, "share", text, about, policy.metric, proved)


def _overall(results: Sequence[CaseResult], overall: Geomean, policy: Policy) -> Reason:
    if overall.change is None or overall.low is None or overall.high is None:
        if any(measured(result, policy) for result in results) and policy.overall >= 0:
            # Cases that are worse without a ratio speak for themselves.
            text = f"{METRICS[policy.metric].title}: no case has a ratio, so there is no geomean"
            return Reason("go", "overall", text, metric=policy.metric)
        return Reason("unclear", "overall", "no case has enough pairs for a geomean", metric=policy.metric)
    cost = -1 if METRICS[policy.metric].better == "higher" else 1
    held = overall.unreduced
    assert held.low is not None and held.high is not None
    near, far = sorted((held.low * cost, held.high * cost))
    limit = math.log1p(policy.overall)
    proved = near > limit and not any(_of_one_pair(result, policy) for result in results)
    speaks: Decision = "no-go" if proved else "unclear" if far > limit else "go"
    told, allowed = change_beside(held.change, held.low, held.high, limit * cost)
    over = f"{plural(overall.cases, 'case')} and {plural(overall.pairs, 'pair')}"
    limited = "" if speaks == "go" else f": at most {allowed} is allowed"
    little = reduced(overall)
    if little:
        shown = change_beside(overall.change, overall.low, overall.high)[0]
        told = f"{shown}{little}; with every case at its whole weight {told}"
    text = f"{METRICS[policy.metric].title} over {over}: {told}{limited}"
    return Reason(speaks, "overall", text, metric=policy.metric, weight=abs(overall.change))


def reduced(mean: Geomean) -> str:
    """Which cases count less than half in a mean, as a part of a sentence; empty where none does."""
    little = [(case, part) for case, part in mean.reduced if part < 0.5]
    parts = ", ".join(f"{case} ({share_beside(part, 1.0)} of its weight)" for case, part in little)
    return f"; too imprecise to count whole: {parts}" if parts else ""


def _of_one_pair(result: CaseResult, policy: Policy) -> bool:
    """Whether a case is in the geomean of an exact metric on the word of a single pair."""
    verdict = result.verdicts.get(policy.metric)
    return result.works and verdict is not None and verdict.n == 1 and verdict.low is not None


def _without_number(result: CaseResult, policy: Policy) -> bool:
    decided = result.broke or result.repaired or result.never_worked
    return not decided and not measured(result, policy)


def _unmeasured(results: Sequence[CaseResult], policy: Policy) -> Iterable[Reason]:
    cases = tuple(result.case for result in results if _without_number(result, policy))
    if not cases:
        return
    total = math.fsum(policy.weight(result.case) for result in results)
    missing, limit = math.fsum(policy.weight(case) for case in cases) / total, policy.unmeasured_share
    speaks: Decision = "unclear" if missing > limit + 1e-9 else "go"
    text = (
        f"{of_cases(len(cases), len(results), 'have')} no interval, {share_beside(missing, limit)} by weight"
    )
    text += f": at most {share(limit)} may have none"
    yield Reason(speaks, "unmeasured", text, cases, policy.metric, missing)


def _gains(results: Sequence[CaseResult], policy: Policy) -> Iterable[Reason]:
    verdicts: Mapping[str, Verdict] = {
        result.case: result.verdicts[policy.metric] for result in results if measured(result, policy)
    }
    for kind in ("faster", "same"):
        cases = tuple(case for case, verdict in verdicts.items() if verdict.word == kind)
        if cases:
            said = "the same" if kind == "same" else called(kind, policy.metric)
            text = f"{of_cases(len(cases), len(verdicts))} {said}"
            yield Reason("go", "gained", text, cases, policy.metric, float(kind == "faster"))
