"""What the verdict of a session's pairs says of a finding: confirmed, refuted, or honestly unclear."""

from dataclasses import dataclass
from enum import StrEnum

from records.findings import Finding, FindingState
from records.outcomes import OutcomeStatus

from ..comparison.case_results import CaseResult, CaseSide
from ..comparison.verdict import Verdict
from .default_watched_metrics import rules_of


class ConfirmationCause(StrEnum):
    """Why a session confirms a finding, refutes it, or leaves it unclear."""

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
    """What a session says of a finding: its new `state` (confirmed, refuted or unclear) and why.

    `ended` is how the case ended where it did not work. With `rebuilt` a side was built anew.
    """

    finding: Finding
    state: FindingState
    cause: ConfirmationCause
    verdict: Verdict | None = None
    ended: CaseSide | None = None
    rebuilt: bool = False


def judge_finding(one: Finding, result: CaseResult | None, *, rebuilt: bool) -> FindingVerdict:
    """What the pairs of its case, judged by `analysis.comparison`, say of a finding.

    With `rebuilt` a side was built anew and other packages may be installed with its PyTorch: what then does
    not show is not refuted, for it may have been theirs.
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
    """Whether a session shows more than what was confirmed of a drift before; of all else it need not.

    It compares from before the first piece, so the known ones show in it whether there is a new one or not. A
    new one is there where the half of what nights are judged from on is.
    """
    before = one.evidence.confirmed_before
    if before is None or verdict.change is None:
        return True
    return abs(verdict.change) - abs(before) >= rules_of(one.key.metric).log_floor / 2
