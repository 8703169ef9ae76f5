"""Why a verdict is open, why a ratio or a number is missing, and why a case gets more pairs, in words."""

from collections.abc import Mapping

from analysis.comparison.pairs import LeftOut, PairFlaw, SideFlaw
from analysis.comparison.rounds import OWN_CORE
from analysis.comparison.sequential_test import Advice
from analysis.comparison.verdict import ChanceInSuite, Doubt, OneSideFirst, TooFewPairs, Verdict
from analysis.metrics import METRICS
from analysis.speedups import GainRefusal, NoGain

from .numbers import share_near

_DOUBTS = {
    Doubt.NO_PAIR: "no pair counts",
    Doubt.MAY_NOT_MATTER: "real, but not proved to matter",
    Doubt.MAY_BE_NOTHING: "it may be nothing, and it may matter",
    Doubt.PAIRS_DISAGREE: "the pairs disagree",
    Doubt.OTHER_WORK: "the two differ in the items of a step",
}
_PAIR_FLAWS = {
    PairFlaw.OTHER_SESSION: "the two were not measured in one session",
    PairFlaw.OTHER_ITEMS: "the two differ in the items of a step",
    PairFlaw.WAITS: "waits for the next look",
    PairFlaw.BEYOND: "is beyond the plan's last look",
}


def left_out_because(why: LeftOut) -> str:
    """Why a pair does not count."""
    return ", ".join(_side(flaw) if isinstance(flaw, SideFlaw) else _PAIR_FLAWS[flaw] for flaw in why)


def _side(flaw: SideFlaw) -> str:
    words = {
        "not measured": "was not measured",
        "ended": f"ended {flaw.status}",
        "left its CPUs": "left the CPUs it was given",
        "shared its core": had_of_core(flaw.core),
        "not known": f"does not know {flaw.metric}",
        "not above 0": f"has no {flaw.metric} above 0",
    }
    return f"{flaw.side} {words[flaw.cause]}"


def had_of_core(share: float | None) -> str:
    """How much of its core a process had; empty for one that is not known to have shared it."""
    return "" if share is None else f"had {share_near(share, OWN_CORE)} of its core"


def open_because(verdict: Verdict) -> str:
    """Why a verdict is open, or why nothing is compared; empty where its word says all."""
    match verdict.reason:
        case None:
            return ""
        case TooFewPairs(pairs, least):
            return f"{pairs} of at least {least} pairs"
        case OneSideFirst(side, times, pairs):
            return f"the {side} side started first in {times} of {pairs} pairs"
        case ChanceInSuite(p, cases):
            return f"p = {p:.2g} is too little among {cases} cases"
        case Doubt():
            return _DOUBTS[verdict.reason]


def advised(advice: Advice) -> str:
    """Why a case gets more pairs, or no more."""
    word, pairs = advice.verdict.word, advice.pairs
    match advice.cause:
        case "decided":
            return f"{word} after {pairs} pairs"
        case "plan used up":
            return f"{word} after all {pairs} pairs"
        case "not comparable":
            return open_because(advice.verdict)
        case "look ahead":
            return f"{word} so far: {advice.more} more pairs to the look at {pairs}"


_CAUSES: Mapping[NoGain, str] = {
    NoGain.NO_BASELINE: "the baseline was not measured",
    NoGain.NOT_ONE_SESSION: "not comparable: the two were not measured in one session",
    NoGain.NO_PAIR: "no replicate of both ended well",
}


def refusal(found: GainRefusal | None) -> str:
    """Why there is no ratio; empty for None."""
    if found is None:
        return ""
    if found.cause == NoGain.METRIC_UNKNOWN:
        return f"not comparable: {METRICS[found.metric].title} is not known on both sides"
    if found.cause == NoGain.NOT_MEASURED:
        title = METRICS[found.metric].title if found.metric in METRICS else "it"
        return f"{title} is not measured here"
    if found.cause in (NoGain.ENDED, NoGain.LEFT_CPUS):
        whose = " of the baseline" if found.of_baseline else ""
        what = "left the CPUs they were given" if found.status is None else f"ended {found.status}"
        return f"{found.count} of {found.replicates} replicates{whose} {what}"
    return _CAUSES[found.cause]
