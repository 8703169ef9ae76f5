"""Why a verdict is open, and why a case gets more pairs or no more, in words."""

from analysis.comparison.sequential_test import Advice
from analysis.comparison.verdict import ChanceInSuite, Doubt, OneSideFirst, TooFewPairs, Verdict

_DOUBTS = {
    Doubt.NO_PAIR: "no pair counts",
    Doubt.MAY_NOT_MATTER: "real, but not proved to matter",
    Doubt.MAY_BE_NOTHING: "it may be nothing, and it may matter",
    Doubt.PAIRS_DISAGREE: "the pairs disagree",
    Doubt.OTHER_WORK: "the two differ in the items of a step",
}


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
        case "settled":
            return f"{word} after {pairs} pairs"
        case "plan used up":
            return f"{word} after all {pairs} pairs"
        case "no room":
            return f"the budget has room for {advice.affordable} of the {pairs} pairs to the next look"
        case "not comparable":
            return open_because(advice.verdict)
        case "look ahead":
            return f"{word} so far: {advice.more} more pairs to the look at {pairs}"
