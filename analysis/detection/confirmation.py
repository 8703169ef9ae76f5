"""The decision of a session's pairs on a finding: confirmed, refuted, or unclear."""

from dataclasses import dataclass
from enum import StrEnum

from records.findings import Finding, FindingState
from records.outcomes import OutcomeStatus

from ..comparison.case_results import CaseResult, CaseSide
from ..comparison.verdict import Verdict
from .default_watched_metrics import rules_of


class ConfirmationCause(StrEnum):
    """The cause why a session confirms a finding, refutes it, or leaves it unclear."""

    SHOWN = "shown"
    OPPOSITE = "opposite"
    KNOWN_BEFORE = "known before"
    NO_DIFFERENCE = "no difference"
    UNDECIDED = "undecided"
    CASE_NOT_MEASURED = "case not measured"
    OLD_ENDED_BADLY = "old ended badly"
    NEW_ENDED_BADLY = "new ended badly"
    NO_PAIR = "no pair"


@dataclass(frozen=True, slots=True)
class FindingVerdict:
    """The result of a session for a finding: its new `state` (confirmed, refuted or unclear) and the cause.

    `ended` is the status of a case that did not work. With `rebuilt` one side was rebuilt.
    """

    finding: Finding
    state: FindingState
    cause: ConfirmationCause
    verdict: Verdict | None = None
    ended: CaseSide | None = None
    rebuilt: bool = False


def judge_finding(one: Finding, result: CaseResult | None, *, rebuilt: bool) -> FindingVerdict:
    """The decision on a finding from the pairs of its case, judged by `analysis.comparison`.

    With `rebuilt` one side was rebuilt and its packages besides PyTorch may differ: a change that is then
    absent is not refuted, because the packages may have caused it.
    """
    if result is None:
        return FindingVerdict(one, FindingState.UNCLEAR, ConfirmationCause.CASE_NOT_MEASURED)
    if not result.works:
        broken, cause = result.new, ConfirmationCause.NEW_ENDED_BADLY
        if result.old.status != OutcomeStatus.OK:
            broken, cause = result.old, ConfirmationCause.OLD_ENDED_BADLY
        return FindingVerdict(one, FindingState.UNCLEAR, cause, ended=broken)
    verdict = result.verdicts.get(one.key.metric)
    if verdict is None:
        return FindingVerdict(one, FindingState.UNCLEAR, ConfirmationCause.NO_PAIR)
    cause = _cause(one, verdict)
    if cause == ConfirmationCause.SHOWN:
        state = FindingState.CONFIRMED
    elif cause == ConfirmationCause.UNDECIDED or rebuilt:
        state = FindingState.UNCLEAR
    else:
        state = FindingState.REFUTED
    return FindingVerdict(one, state, cause, verdict, rebuilt=rebuilt)


def _cause(one: Finding, verdict: Verdict) -> ConfirmationCause:
    if verdict.word == "same":
        return ConfirmationCause.NO_DIFFERENCE
    if verdict.word not in ("faster", "slower"):
        return ConfirmationCause.UNDECIDED
    if (verdict.word == "slower") != (one.direction == "worse"):
        return ConfirmationCause.OPPOSITE
    return ConfirmationCause.SHOWN if _goes_beyond(one, verdict) else ConfirmationCause.KNOWN_BEFORE


def _goes_beyond(one: Finding, verdict: Verdict) -> bool:
    """Whether a session shows more than the confirmed part of a drift; always True for other findings.

    The session compares with a night before the first part, so that it includes the known parts. A new part
    is present if the excess is at least half of the threshold of nights.
    """
    before = one.evidence.confirmed_before
    if before is None or verdict.change is None:
        return True
    return abs(verdict.change) - abs(before) >= rules_of(one.key.metric).log_floor / 2
