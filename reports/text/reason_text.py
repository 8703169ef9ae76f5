"""Sentences of the reasons for and against an upgrade, and of cases that are in no geomean."""

from typing import Any

from analysis.comparison.reasons import (
    Alike,
    CaseBeyondLimit,
    CaseBroke,
    CaseDetail,
    CaseRegressed,
    CaseRepaired,
    CaseShaky,
    CaseUnknown,
    Doubtful,
    MeanChange,
    NoMean,
    Reason,
    SlowerShare,
    Unmeasured,
    Worse,
)
from analysis.comparison.upgrade import Exclusion, Upgrade
from analysis.comparison.verdict import Verdict
from analysis.geomean import Geomean
from analysis.metrics import METRICS
from common.text import plural
from records.outcomes import OutcomeStatus

from .numbers import called, change_near, of_cases, percent, share, share_near, word

#: Reasons of a decision that are stored, those that decide first.
_REASONS = 5


def sentence(reason: Reason) -> str:
    """What a reason says."""
    match reason.detail:
        case SlowerShare() as slower:
            return _slower(slower)
        case MeanChange() as mean:
            return _mean(mean)
        case NoMean(metric, "no ratio"):
            return f"{METRICS[metric].title}: no case has a ratio, so there is no geomean"
        case NoMean():
            return "no case has enough pairs for a geomean"
        case Unmeasured() as missing:
            return _unmeasured(missing)
        case Alike(metric, kind, cases, total):
            return f"{of_cases(cases, total)} {'the same' if kind == 'same' else called(kind, metric)}"
        case Worse() as worse:
            return _worse(worse)
        case Doubtful() as doubtful:
            return _doubtful(doubtful)
        case _ as detail:
            return _of_case(detail)


def _of_case(detail: CaseDetail) -> str:
    match detail:
        case CaseRepaired(case, status):
            return f"{case} works now; it was {status}"
        case CaseShaky(case, why, before):
            return f"{case}: {why} in the new environment, {before or 'none'} in the old"
        case CaseBroke() as broke:
            return _broke(broke)
        case CaseRegressed(case, verdict):
            return f"{_about(case, verdict)[0]}: it must not regress"
        case CaseUnknown(case, metric):
            lacking = f"has no {METRICS[metric].title}" if metric else "was not measured"
            return f"{case} must not regress, and {lacking}"
        case CaseBeyondLimit() as beyond:
            return _beyond(beyond)


def decision_body(upgrade: Upgrade) -> dict[str, Any]:
    """What is stored of a verdict: the decision, its first ground, the heaviest reasons, what broke."""
    first = dict.fromkeys([*upgrade.grounds, *upgrade.reasons])
    return {
        "decision": upgrade.decision,
        "because": sentence(upgrade.grounds[0]),
        "reasons": [sentence(reason) for reason in first][:_REASONS],
        "broken": [one.case for one in upgrade.broken],
    }


def exclusion(one: Exclusion) -> str:
    """Why a case is in no geomean."""
    ends = [
        f"{name} ended {end.status}" + (f" ({end.reason})" if end.reason else "")
        for name, end in (("old", one.old), ("new", one.new))
        if end.status != OutcomeStatus.OK
    ]
    if ends:
        return ", ".join(ends)
    if one.verdict is None:
        return f"{one.metric} was not judged"
    return f"{one.verdict.word}: {one.verdict.reason}" if one.verdict.reason else one.verdict.word


def _about(case: str, verdict: Verdict, limit: float | None = None) -> tuple[str, str]:
    """What the pairs of a case say of a metric, and the limit (a logarithm) that they are held against."""
    change, allowed = change_near(verdict.change, verdict.low, verdict.high, limit)
    return f"{case}: {METRICS[verdict.metric].title} {word(verdict)}, {change}, n = {verdict.n}", allowed


def _broke(one: CaseBroke) -> str:
    text = f"{one.case} {'broke' if one.certain else 'may have broken'}: {one.new.status}"
    text += f" ({one.new.reason})" if one.new.reason else ""
    text += "" if one.certain else f" in the new environment, and the old ended {one.old_status}"
    if one.allowed:
        text += ", and may" if one.certain else ", which is allowed"
    return text


def _beyond(one: CaseBeyondLimit) -> str:
    text, limit = _about(one.case, one.verdict, one.limit)
    causes = {
        "limit": f"at most {limit} is allowed",
        "no pair": "no pair counts",
        "too few pairs": one.verdict.reason or f"at most {limit} is allowed",
        "was 0": "it was 0",
        "was 0 in some pairs": "it was 0 in some pairs",
    }
    text += f": {causes[one.cause]}"
    if one.more:
        verb = "is" if one.more == 1 else "are"
        text += f"; {plural(one.more, 'more case')} {verb} beyond that limit too"
    return text


def _slower(one: SlowerShare) -> str:
    worse = called("slower", one.metric)
    proved, possible = (share_near(each, one.allowed) for each in (one.proved, one.possible))
    text = f"{of_cases(one.slower, one.known)} {worse}"
    text += f", {proved} by weight" if one.slower else ""
    if one.doubtful:
        text += f". {one.doubtful} {'is' if one.doubtful == 1 else 'are'} not yet measured precisely enough"
        # With equal weights the reader can count.
        text += "" if one.equal and not one.slower else f", {possible} by weight in all"
    return f"{text} (policy: at most {share(one.allowed)} may be {worse})"


def _mean(one: MeanChange) -> str:
    mean, held = one.mean, one.mean.unreduced
    little = _reduced(mean)
    # The deciding number is always printed next to its limit.
    full = held if little or one.with_pairs else mean
    whole, limit = change_near(full.change, full.low, full.high, one.limit)
    if little:
        change = change_near(mean.change, mean.low, mean.high, None if one.with_pairs else one.limit)[0]
        whole = f"{change}{little}; with every case at its whole weight {whole}"
    over = plural(mean.cases, "case") + (f" and {plural(mean.pairs, 'pair')}" if one.with_pairs else "")
    text = f"{METRICS[one.metric].title} over {over}: {whole}"
    text += f": at most {limit} is allowed" if one.exceeded else ""
    return text if one.proved else f"{text}, which is not proved to be exceeded"


def _reduced(mean: Geomean) -> str:
    """Which cases count less than half in a mean, as a part of a sentence; empty where none does."""
    little = [(case, part) for case, part in mean.reduced if part < 0.5]
    parts = ", ".join(f"{case} ({share_near(part, 1.0)} of its weight)" for case, part in little)
    return f"; too imprecise to count whole: {parts}" if parts else ""


def _worse(one: Worse) -> str:
    text = f"{METRICS[one.metric].title}: {of_cases(one.cases, one.total)} {called('slower', one.metric)}"
    if one.largest:
        case, verdict = one.largest
        change = change_near(verdict.change, verdict.low, verdict.high)[0]
        text += f"; {'next' if one.named else 'largest'}: {case} {change}, n = {verdict.n}"
    if one.material:
        text += f"; {one.material} of them by {share(one.limit)} or more"
    if one.too_many is not None:
        text += f", {share_near(one.too_many, one.allowed)} by weight for certain (policy: at "
        text += f"most {share(one.allowed)} may be)"
    return text


def _doubtful(one: Doubtful) -> str:
    case, verdict = one.largest
    return (
        f"{METRICS[one.metric].title}: {of_cases(one.cases, one.total)} not settled and may be "
        f"{called('slower', one.metric)} by {share(one.limit)} or more; largest: {case} "
        f"{percent(verdict.change)} in {plural(verdict.n, 'pair')}"
    )


def _unmeasured(one: Unmeasured) -> str:
    missing = share_near(one.share, one.allowed)
    text = f"{of_cases(one.cases, one.total, 'have')} no interval, {missing} by weight"
    return f"{text}: at most {share(one.allowed)} may have none"
