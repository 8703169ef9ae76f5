"""Sentences for the reasons for and against an upgrade, and for cases that are not in the geomean."""

import math
from collections.abc import Sequence
from typing import Any

from analysis.comparison.verdict import Verdict
from analysis.decision.process_modes import Modes
from analysis.decision.reasons import (
    CaseBeyondLimit,
    CaseBroke,
    CaseDetail,
    CaseRegressed,
    CaseRepaired,
    CaseShaky,
    CaseSlowerUnderLoad,
    CaseUnknown,
    Doubtful,
    MeanChange,
    NoMean,
    NoneBeyondLimit,
    OnlyScreened,
    Reason,
    SimilarCases,
    SlowerInShortPairs,
    SlowerShare,
    UnfinishedUpgrade,
    UnmeasuredShare,
    Worse,
)
from analysis.decision.upgrade import Exclusion, Upgrade
from analysis.metrics import METRICS
from common.text import plural
from records.outcomes import OutcomeStatus

from .numbers import change_near, kind_word, of_cases, percent, share, share_near, word
from .verdict_text import ending, open_because, side_reason

#: The most cases that a sentence names.
_NAMED = 4
#: The most reasons of a decision that are stored, deciding ones first.
_REASONS = 5


def sentence(reason: Reason) -> str:
    """A reason as a sentence."""
    match reason.detail:
        case SlowerShare() as slower:
            return _slower(slower, reason.cases)
        case NoneBeyondLimit(metric, limit, known):
            return f"no case of {known} is {kind_word('slower', metric)} by {share(limit)} or more"
        case MeanChange() as mean:
            return _mean(mean)
        case NoMean(metric, "no ratio"):
            return f"{METRICS[metric].title}: no case has a ratio, so there is no geomean"
        case NoMean():
            return "no case has enough pairs for a geomean"
        case UnmeasuredShare() | OnlyScreened() | SlowerInShortPairs() | UnfinishedUpgrade() as missing:
            return _gap_text(missing)
        case SimilarCases(metric, kind, cases, total):
            return f"{of_cases(cases, total)} {'the same' if kind == 'same' else kind_word(kind, metric)}"
        case Worse() as worse:
            return _worse(worse)
        case Doubtful() as doubtful:
            return _doubtful(doubtful)
        case _ as detail:
            return _of_case(detail)


def _gap_text(detail: UnmeasuredShare | OnlyScreened | SlowerInShortPairs | UnfinishedUpgrade) -> str:
    """The sentence about cases that were not measured, or not enough."""
    match detail:
        case UnmeasuredShare():
            return _unmeasured_text(detail)
        case OnlyScreened():
            return _only_screened(detail)
        case SlowerInShortPairs():
            return _short_pair_text(detail)
        case UnfinishedUpgrade(cases):
            return f"the upgrade has not ended: {plural(cases, 'case')} measured so far"


def _of_case(detail: CaseDetail) -> str:
    match detail:
        case CaseRepaired(case, status):
            return f"{case} works now; it was {status}"
        case CaseShaky(case, new, before, allowed):
            text = f"{case}: {side_reason(new)} in the new environment, {before or 'none'} in the old"
            return f"{text}, which is allowed" if allowed else text
        case CaseBroke() as broke:
            return _broke(broke)
        case CaseRegressed(case, verdict, found):
            return f"{_about(case, verdict)[0]}: it must not regress{modes(found)}"
        case CaseSlowerUnderLoad(case, pairs, least):
            return (
                f"{case}: at least {share(least)} slower, measured under load, in all of "
                f"{plural(pairs, 'pair')} that other programs disturbed"
            )
        case CaseUnknown(case, metric):
            lacking = f"has no {METRICS[metric].title}" if metric else "was not measured"
            return f"{case} must not regress, and {lacking}"
        case CaseBeyondLimit() as beyond:
            return _beyond(beyond)


def decision_body(upgrade: Upgrade) -> dict[str, Any]:
    """The stored form of a verdict: the decision, its main reason, the reasons with the largest weight, the
    broken cases.
    """
    first = dict.fromkeys([*upgrade.grounds, *upgrade.reasons])
    return {
        "decision": upgrade.decision,
        "because": sentence(upgrade.grounds[0]),
        "reasons": [sentence(reason) for reason in first][:_REASONS],
        "broken": [one.case for one in upgrade.broken],
    }


def exclusion(one: Exclusion) -> str:
    """The reason why a case is not in the geomean."""
    ends = [
        f"{name} ended {ending(end)}"
        for name, end in (("old", one.old), ("new", one.new))
        if end.status != OutcomeStatus.OK
    ]
    if ends:
        return ", ".join(ends)
    if one.verdict is None:
        return f"{one.metric} was not judged"
    why = open_because(one.verdict)
    return f"{one.verdict.word}: {why}" if why else one.verdict.word


def _about(case: str, verdict: Verdict, limit: float | None = None) -> tuple[str, str]:
    """The result of a case's pairs for a metric, and its limit (a logarithm)."""
    change, allowed = change_near(verdict.change, verdict.low, verdict.high, limit)
    return f"{case}: {METRICS[verdict.metric].title} {word(verdict)}, {change}, n = {verdict.n}", allowed


def _broke(one: CaseBroke) -> str:
    text = f"{one.case} {'broke' if one.certain else 'may have broken'}: {ending(one.new)}"
    text += "" if one.certain else f" in the new environment, and the old one ended {one.old_status}"
    if one.allowed:
        text += ", and may" if one.certain else ", which is allowed"
    return text


def _beyond(one: CaseBeyondLimit) -> str:
    text, limit = _about(one.case, one.verdict, one.limit)
    causes = {
        "limit": f"at most {limit} is allowed",
        "no pair": "no pair counts",
        "too few pairs": open_because(one.verdict) or f"at most {limit} is allowed",
        "was 0": "it was 0",
        "was 0 in some pairs": "it was 0 in some pairs",
        "slow mode": "within a mode it is no slower, and new processes may be in the slow one oftener",
    }
    text += f": {causes[one.cause]}"
    if one.more:
        verb = "is" if one.more == 1 else "are"
        text += f"; {plural(one.more, 'more case')} {verb} beyond that limit too"
    if one.among:
        text += f", which is not proved to be exceeded among {plural(one.among, 'case')}"
    return text + modes(one.modes)


def modes(found: Modes | None) -> str:
    """The note that processes are in two modes, as a part of a sentence; empty if they are not."""
    if found is None or not found.split:
        return ""
    return (
        f"; in two modes: {found.old_slow} of {found.pairs} old and {found.new_slow} of {found.pairs} new "
        f"processes are slower by {percent(math.log(found.slower)).lstrip('+')}"
    )


def _slower(one: SlowerShare, cases: Sequence[str]) -> str:
    worse = f"{kind_word('slower', one.metric)} by {share(one.limit)} or more"
    policy = (
        f"(policy: at most {share(one.allowed)} of the cases{'' if one.most is not None else ', by weight'})"
    )
    named = ", ".join(cases[:_NAMED]) + (", ..." if len(cases) > _NAMED else "")
    if one.state == "broken":
        return f"at least {of_cases(len(cases), one.known)} {worse}: {named} {policy}"
    if one.most is None:
        many = f"cases of at most {share(one.allowed)} of the weight"
    else:
        many = f"at most {one.most} of {plural(one.known, 'case')}" if one.most else "no case"
    if one.state == "kept":
        return f"{many} can be {worse}"
    if one.most is None:
        many = f"cases of more than {share(one.allowed)} of the weight"
    else:
        many = f"more than {one.most} of {plural(one.known, 'case')}" if one.most else "a case"
    return f"{many} may be {worse}; the least certain: {named} {policy}"


def _mean(one: MeanChange) -> str:
    mean = one.mean
    whole, limit = change_near(mean.change, mean.low, mean.high, one.limit)
    over = plural(mean.cases, "case") + (f" and {plural(mean.pairs, 'pair')}" if one.with_pairs else "")
    text = f"{METRICS[one.metric].title} over {over}: {whole}"
    text += f": at most {limit} is allowed" if one.exceeded else ""
    return text if one.proved else f"{text}, which is not proved to be exceeded"


def _worse(one: Worse) -> str:
    text = f"{METRICS[one.metric].title}: {of_cases(one.cases, one.total)} {kind_word('slower', one.metric)}"
    if one.largest:
        case, verdict = one.largest
        change = change_near(verdict.change, verdict.low, verdict.high)[0]
        text += f"; {'next' if one.named else 'largest'}: {case} {change}, n = {verdict.n}"
    if one.material:
        text += f"; {one.material} of them by {share(one.limit)} or more"
    if one.too_many is not None:
        text += f", certainly {share_near(one.too_many, one.allowed)} by weight (policy: at "
        text += f"most {share(one.allowed)} may be)"
    return text


def _doubtful(one: Doubtful) -> str:
    case, verdict = one.largest
    text = (
        f"{METRICS[one.metric].title}: {of_cases(one.cases, one.total)} undecided and may be "
        f"{kind_word('slower', one.metric)} by {share(one.limit)} or more"
    )
    largest = f"largest: {case} {percent(verdict.change)} in {plural(verdict.n, 'pair')}"
    if one.few == one.cases:
        return f"{text}; {largest}, too few for a verdict"
    if one.few:
        verb = "has" if one.few == 1 else "have"
        largest = f"{one.few} of them {verb} too few pairs for a verdict; of the others the {largest}"
    return f"{text}; {largest}"


def _only_screened(one: OnlyScreened) -> str:
    return (
        f"{of_cases(one.cases, one.total)} only screened: no difference above {share(one.limit)} was seen, "
        f"which is not a proof; a slow-down by {share(one.missed_limit)} is missed in at most "
        f"{share(one.missed_share)} of cases, a smaller one more often"
    )


def _short_pair_text(one: SlowerInShortPairs) -> str:
    named = ", ".join(f"{case} {percent(change)}" for case, change in one.cases[:_NAMED])
    more = ", ..." if len(one.cases) > _NAMED else ""
    slower = (
        f"{of_cases(len(one.cases), one.total, 'were')} slower by {share(one.limit)} or more in short pairs"
    )
    return f"{slower}, with too few full pairs for an interval: {named}{more}"


def _unmeasured_text(one: UnmeasuredShare) -> str:
    missing = share_near(one.share, one.allowed)
    text = f"{of_cases(one.cases, one.total, 'have')} no interval, {missing} by weight"
    return f"{text}: at most {share(one.allowed)} may have none"
