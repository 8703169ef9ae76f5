"""How a case ended in one environment, as a sentence."""

from analysis.comparison.case_results import CaseResult, CaseSide, NotMeasured

_NOT_MEASURED = {
    NotMeasured.NO_REPLICATE: "it was not measured",
    NotMeasured.NO_FULL_PAIR: "no full pair was measured yet",
}


def side_reason(side: CaseSide) -> str:
    """Why a case did not end `ok`, or which of its replicates did not; empty where all did."""
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
    """How a case ended, with the reason: `crashed (2 of 6 replicates: signal 11)`."""
    reason = side_reason(side)
    return f"{side.status} ({reason})" if reason else side.status


def ran_alone(result: CaseResult) -> str:
    """How many processes were not alive together with their partner, and why; empty where all were."""
    alone = result.alone
    if alone is None:
        return ""
    return f"{alone.count} of {alone.processes} processes had to run alone: {alone.circumstances}"


def in_cycles(result: CaseResult, word: str) -> str:
    """Whether a case that a GPU runs slower or faster (`word`) does so in cycles of its clock.

    Empty for any other word, and where its cycles are not known.
    """
    cycles = result.verdicts.get("step_cycles")
    if cycles is None or word not in ("slower", "faster"):
        return ""
    if cycles.word == word:
        return f"{word} in SM cycles too"
    return (
        "the same in SM cycles: the clock differs" if cycles.word == "same" else f"{cycles.word} in SM cycles"
    )
