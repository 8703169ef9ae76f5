"""Findings by cause: those of one night, machine, pair of builds, and direction."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from urllib.parse import urlencode

from analysis.dispatch_difference import CaseDifference
from dashboard.components import wording
from records.findings import Finding, FindingState, FindingTriage
from reports.text.dispatch_text import case_words
from reports.text.finding_text import STATES, describe_change, interval
from reports.text.numbers import percent

#: The most cases in a title or an issue, and the most changes of operators and kernels on a card.
_NAMED = 3
_ISSUES = "https://github.com/pytorch/pytorch/issues/new"
_COMPARE = "https://github.com/pytorch/pytorch/compare"


@dataclass(frozen=True, slots=True)
class FindingCause:
    """Findings with one cause and state, largest change first; there is at least one."""

    items: tuple[Finding, ...]

    @property
    def largest(self) -> Finding:
        """The finding with the largest change."""
        return self.items[0]

    @property
    def cases(self) -> tuple[str, ...]:
        """The keys of its cases, largest change first."""
        return tuple(dict.fromkeys(one.key.case for one in self.items))

    @property
    def confirmed(self) -> bool:
        """Whether a session confirmed it."""
        return self.largest.state == FindingState.CONFIRMED

    @property
    def pairs(self) -> int | None:
        """The pairs behind the largest change; None before it was measured again."""
        verdict = self.largest.evidence.confirmation.verdict
        return verdict.pairs if verdict else None

    @property
    def bisect(self) -> str:
        """The command that finds the build between the two; empty if there is none."""
        return next((each for one in self.items if (each := one.evidence.confirmation.bisect)), "")

    @property
    def tone(self) -> Literal["bad", "good", "quiet"]:
        """Only confirmed findings are good or bad."""
        if not self.confirmed:
            return "quiet"
        return "bad" if self.largest.direction == "worse" else "good"


def causes(findings: Iterable[Finding]) -> list[FindingCause]:
    """Findings of one state by cause, confirmed regressions first, largest change first."""
    by_cause: dict[tuple[str, ...], list[Finding]] = defaultdict(list)
    for one in findings:
        key = (one.at_run, one.machine, one.old_environment, one.new_environment, one.direction)
        # Candidates are separate from confirmed findings: they may be noise.
        by_cause[*key, one.state].append(one)
    cause_list = [
        FindingCause(tuple(sorted(own, key=lambda one: (-abs(one.change), one.id))))
        for own in by_cause.values()
    ]
    return sorted(cause_list, key=_worst_first)


def _worst_first(one: FindingCause) -> tuple[object, ...]:
    return not one.confirmed, one.largest.direction != "worse", -abs(one.largest.change), one.largest.id


def title(cause: FindingCause) -> str:
    """The change: `resnet50 infer: latency rose by 8.0 %`, `5 workloads: up to +8.0 % latency`."""
    workloads = list(dict.fromkeys(wording.case(case).workload for case in cause.cases))
    one = cause.largest
    if len(workloads) > 1:
        return f"{len(workloads)} workloads: up to {percent(one.change)} {_metric(one)}"
    change = describe_change(one.key.metric, one.change)
    return f"{workloads[0]}: {change[0].lower()}{change[1:]}"


def sentence(cause: FindingCause) -> str:
    """The evidence: `Confirmed by 12 pairs, A/B interleaved on bench-1.`"""
    one = cause.largest
    if not cause.confirmed:
        state = STATES[one.state]
        return f"{state[0].upper()}{state[1:]}."
    pairs_text = f"{wording.plural(cause.pairs, 'pair')}" if cause.pairs else "a session"
    parts = [f"Confirmed by {pairs_text}, A/B interleaved on {one.machine}"]
    detection = one.evidence.detected
    if detection and detection.relative:
        parts.append("it is relative to the pinned baseline, which changed as well")
    return f"{'; '.join(parts)}."


def differences(cause: FindingCause) -> list[str]:
    """The differing operators and kernels of the case with the largest change, a line each; empty if not
    recorded.
    """
    body = cause.largest.evidence.confirmation.dispatch
    return case_words(CaseDifference.from_body(body), _NAMED) if body else []


def case_lines(cause: FindingCause, most: int = _NAMED) -> list[str]:
    """Each case with its change, and its values if a session measured them; at most `most` lines and a
    count.
    """
    alone = len({wording.case(case).workload for case in cause.cases}) == 1
    lines = [_case_line(one, alone=alone) for one in cause.items[:most]]
    if (more := len(cause.items) - most) > 0:
        lines.append(f"and {more} more")
    return lines


def _case_line(one: Finding, *, alone: bool) -> str:
    words = wording.case(one.key.case)
    # Parts that all lines have in common are in the title.
    name = " ".join(filter(None, (words.parameters, words.technique))) if alone else words.text
    verdict = one.evidence.confirmation.verdict
    values = ""
    if verdict and verdict.old is not None and verdict.new is not None:
        values = (
            f" {wording.number(verdict.old, verdict.unit)} → {wording.quantity(verdict.new, verdict.unit)}"
        )
    change = interval(one.change, one.low, one.high)
    return f"{name}: {_metric(one)}{values} ({change})"


def first_seen(cause: FindingCause) -> str:
    """The night, the machine and both builds."""
    one = cause.largest
    since = f"night of {one.at:%Y-%m-%d}" if one.shape != "drift" else f"a drift after {one.before:%Y-%m-%d}"
    old, new = (wording.build(each) for each in (one.old_torch_version, one.new_torch_version))
    builds = new if one.old_torch_version == one.new_torch_version else f"{old} → {new}"
    return f"{since} · {wording.hardware(one.key.hardware_label)} on {one.machine} · {builds}"


def marks(cause: FindingCause, now: datetime) -> list[str]:
    """Its triage: `acknowledged by ada`, `muted until 2026-12-01`, `returned`."""
    results: list[str] = []
    for one in cause.items:
        if one.returns_of is not None:
            results.append(f"returned: finding {one.returns_of} was marked as fixed")
        if one.triage != FindingTriage.OPEN:
            results.append(f"{one.triage} by {one.owner}" if one.owner else str(one.triage))
        if one.muted_until is not None and one.muted_until > now:
            results.append(f"muted until {one.muted_until:%Y-%m-%d}")
    return list(dict.fromkeys(results))


def issue_address(cause: FindingCause) -> str:
    """The address of a new issue of PyTorch with the evidence as its text."""
    one = cause.largest
    reproduce = next((each for item in cause.items if (each := item.evidence.confirmation.reproduce)), "")
    commands = [command for command in (reproduce, cause.bisect) if command]
    body = [
        sentence(cause),
        "",
        first_seen(cause),
        "",
        *(f"- {line}" for line in case_lines(cause, 10)),
        *(["", "```", *commands, "```"] if commands else []),
    ]
    subject = f"[performance] {title(cause)} ({one.new_torch_version})"
    return f"{_ISSUES}?{urlencode({'title': subject, 'body': chr(10).join(body)})}"


def commits_address(old: str, new: str) -> str:
    """The commits between two builds of PyTorch by their git hashes; empty if one is unknown or both are
    equal.
    """
    hashes = [
        each for each in (old, new) if len(each) == 40 and all(sign in "0123456789abcdef" for sign in each)
    ]
    return f"{_COMPARE}/{hashes[0]}...{hashes[1]}" if len(set(hashes)) == 2 else ""


def _metric(one: Finding) -> str:
    return wording.metric(one.key.metric).title.lower()


def cause_counts(items: Sequence[FindingCause]) -> str:
    """`2 causes, 9 cases`."""
    cases = sum(len(each.cases) for each in items)
    return f"{wording.plural(len(items), 'cause')}, {wording.plural(cases, 'case')}"
