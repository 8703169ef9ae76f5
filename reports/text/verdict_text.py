"""Sentences about the status of a case, an open verdict, a missing number, and the need for more pairs."""

from collections.abc import Mapping

from analysis.comparison.case_results import CaseResult, CaseSide, NotMeasured
from analysis.comparison.pairs import LeftOut, PairFlaw, SideFlaw
from analysis.comparison.rounds import OWN_CORE
from analysis.comparison.sequential_test import Advice
from analysis.comparison.verdict import ChanceInSuite, Doubt, OneSideFirst, TooFewPairs, Verdict
from analysis.metrics import METRICS
from analysis.speedups import GainRefusal, NoGain

from .numbers import share_near

_DOUBTS = {
    Doubt.NO_PAIR: "no pair counts",
    Doubt.MAY_NOT_MATTER: "real, but not proved to exceed the threshold",
    Doubt.MAY_BE_NOTHING: "neither a change nor its absence is proved",
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
    """The reason why a pair does not count."""
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
    """The share of its core that a process had; empty if sharing is not known."""
    return "" if share is None else f"had {share_near(share, OWN_CORE)} of its core"


def open_because(verdict: Verdict) -> str:
    """The reason why a verdict is open or nothing is compared; empty without a further reason."""
    match verdict.reason:
        case None:
            return ""
        case TooFewPairs(pairs, least):
            return f"{pairs} of at least {least} pairs"
        case OneSideFirst(side, times, pairs):
            return f"the {side} side started first in {times} of {pairs} pairs"
        case ChanceInSuite(p, cases):
            return f"p = {p:.2g} is not significant among {cases} cases"
        case Doubt():
            return _DOUBTS[verdict.reason]


def describe_advice(advice: Advice) -> str:
    """The reason why a case gets more pairs, or no more."""
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
    NoGain.NO_PAIR: "no pair of replicates is ok",
}


def refusal(found: GainRefusal | None) -> str:
    """The reason why there is no ratio; empty for None."""
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


_NOT_MEASURED = {
    NotMeasured.NO_REPLICATE: "it was not measured",
    NotMeasured.NO_FULL_PAIR: "no full pair was measured yet",
}


def side_reason(side: CaseSide) -> str:
    """The reason why a case did not end `ok`, or its failed replicates; empty if all ended `ok`."""
    if side.not_measured is not None:
        return _NOT_MEASURED[side.not_measured]
    if side.broken:
        counted = ", ".join(f"{status} ({count})" for status, count in side.broken)
        ended = side.broken[0][0] if len(side.broken) == 1 else counted
        total = sum(count for _, count in side.broken)
        return f"{total} of {side.replicates} replicates ended {ended}"
    count = f"{side.count} of {side.replicates} replicates" if side.count else ""
    return ": ".join(filter(None, (count, side.reason)))


def ending(side: CaseSide) -> str:
    """The status of a case, with the reason: `crashed (2 of 6 replicates: signal 11)`."""
    reason = side_reason(side)
    return f"{side.status} ({reason})" if reason else side.status


def ran_alone(result: CaseResult) -> str:
    """The number of processes that did not run together with their partner, with the reason; empty if all
    did.
    """
    alone = result.alone
    if alone is None:
        return ""
    return f"{alone.count} of {alone.processes} processes had to run alone: {alone.circumstances}"


def in_cycles(result: CaseResult, word: str) -> str:
    """Whether a case that is slower or faster on a GPU (`word`) also is in cycles of the SM clock.

    Empty for any other word, and if the cycles are not known.
    """
    cycles = result.verdicts.get("step_cycles")
    if cycles is None or word not in ("slower", "faster"):
        return ""
    if cycles.word == word:
        return f"{word} in SM cycles too"
    return (
        "the same in SM cycles: the clock differs" if cycles.word == "same" else f"{cycles.word} in SM cycles"
    )
