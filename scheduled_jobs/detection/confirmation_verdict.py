"""What a session of pairs says of a finding: confirmed, refuted, or honestly unclear."""

from dataclasses import dataclass

from analysis.comparison.case_results import CaseResult
from analysis.comparison.comparison import Comparison
from analysis.comparison.verdict import Verdict
from analysis.detection.default_watched_metrics import rules_of
from records.findings import Finding
from records.outcomes import OutcomeStatus
from workflows.run_header import Header
from workflows.session_queue import without_again

from .rebuild_environment import EnvironmentChoice


@dataclass(frozen=True, slots=True)
class FindingVerdict:
    """What a session says of a finding: `confirmed`, `refuted` or `unclear`, and why in a few words."""

    finding: Finding
    state: str
    reason: str
    verdict: Verdict | None = None


def judge_finding(one: Finding, result: CaseResult | None, *, rebuilt: bool) -> FindingVerdict:
    """What the pairs of its case say of a finding.

    With `rebuilt` a side was built anew and other packages may be installed with its PyTorch: what then does
    not show is not refuted, for it may have been theirs.
    """
    if result is None:
        return FindingVerdict(one, "unclear", "the session did not measure the case")
    if not result.works:
        side, name = (result.old, "old") if result.old.status != OutcomeStatus.OK else (result.new, "new")
        why = f"{side.status} ({side.reason})" if side.reason else side.status
        return FindingVerdict(one, "unclear", f"in the {name} environment the case ended {why}")
    verdict = result.verdicts.get(one.key.metric)
    if verdict is None:
        return FindingVerdict(one, "unclear", f"no pair of the session has {one.key.metric}")
    if verdict.word in ("faster", "slower"):
        if (verdict.word == "slower") != (one.direction == "worse"):
            against = "the session shows the opposite"
        elif _goes_beyond(one, verdict):
            return FindingVerdict(one, "confirmed", "the session shows it too", verdict)
        else:
            against = "the session shows no more than what was confirmed before"
    elif verdict.word == "same":
        against = "the session shows no difference that matters"
    else:
        return FindingVerdict(one, "unclear", verdict.reason or verdict.word, verdict)
    if rebuilt:
        return FindingVerdict(one, "unclear", f"{against}, but a side had to be built anew", verdict)
    return FindingVerdict(one, "refuted", against, verdict)


def _goes_beyond(one: Finding, verdict: Verdict) -> bool:
    """Whether a session shows more than what was confirmed of a drift before; of all else it need not.

    It compares from before the first piece, so the known ones show in it whether there is a new one or not. A
    new one is there where the half of what nights are judged from on is.
    """
    known = one.evidence.confirmed_before
    if known is None or verdict.change is None:
        return True
    return abs(verdict.change) - abs(known) >= rules_of(one.key.metric).log_floor / 2


def environment_mismatch(
    old: EnvironmentChoice, new: EnvironmentChoice, header: Header, comparison: Comparison
) -> str:
    """Why what was compared are not the two environments that were meant; empty where they are.

    One that was built anew passes with another fingerprint, but for another build of PyTorch.
    """
    if without_again(comparison.new) == without_again(comparison.old):
        return "what stands for the old and the new environment today is one and the same"
    bodies = {str(each["fingerprint"]): each["facts"] for each in header.environments}
    for side, fingerprint in ((old, comparison.old), (new, comparison.new)):
        meant, facts = side.environment, bodies[fingerprint]
        build = (facts.get("torch"), facts.get("torch_git"))
        alike = side.rebuilt and build == (meant.torch_version, meant.facts.get("torch_git"))
        if fingerprint != meant.fingerprint and not alike:
            gone = f"environment {meant.name} (torch {meant.torch_version}) is gone"
            return f"{gone}: {side.text} is another today"
    return ""
