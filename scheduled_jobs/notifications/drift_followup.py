"""Reported changes that continued since: their size now, and since when."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from records.findings import Finding, FindingState


@dataclass(frozen=True, slots=True)
class ContinuedChange:
    """A confirmed change that was `reported` with one size since the night of `since`, and is `change` `now`.

    Both are log ratios of new to old, the first one measured in pairs, the second by the nights since.
    """

    finding: int
    case: str
    metric: str
    machine: str
    direction: str
    reported: float
    change: float
    since: datetime
    now: datetime


def going_on(findings: Iterable[Finding], since: datetime, until: datetime) -> tuple[ContinuedChange, ...]:
    """Those of which it was noted after `since` and until `until` that they go on, the largest first.

    Silenced ones are left out, and those with a later finding, which was measured in pairs itself.
    """
    found = [
        _goes_on(one)
        for one in findings
        if one.state == FindingState.CONFIRMED
        and not one.silenced(until)
        and since < (_noted_at(one) or since) <= until
    ]
    return tuple(sorted(found, key=lambda one: (one.direction != "worse", -abs(one.change), one.finding)))


def _noted_at(one: Finding) -> datetime | None:
    noted = one.evidence.goes_on
    return None if noted is None or noted.finding is not None else datetime.fromisoformat(noted.noted_at)


def _goes_on(one: Finding) -> ContinuedChange:
    noted = one.evidence.goes_on
    assert noted is not None
    return ContinuedChange(
        finding=one.id,
        case=one.key.case,
        metric=one.key.metric,
        machine=one.machine,
        direction=one.direction,
        reported=one.change,
        change=noted.change,
        since=one.at,
        now=datetime.fromisoformat(noted.night),
    )
