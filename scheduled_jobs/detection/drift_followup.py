"""Confirmed changes that go on: what later nights and later findings of their series say of them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from analysis.detection.drift_followup import further
from analysis.detection.nights import NightValue, Rules
from records.facts import Facts
from records.findings import Finding

from .findings import BEGAN_AS, MachineSeries

#: The part of a finding's evidence that says so.
GOES_ON = "goes_on"


def going_on(
    series: MachineSeries,
    known: Sequence[Finding],
    nights: Sequence[NightValue],
    control: Sequence[NightValue | None] | None,
    rules: Rules,
    now: datetime,
) -> dict[int, Facts]:
    """What is to be noted, by finding, of a series whose `known` findings these are, of any state.

    Nothing is where nothing is new: a change that goes on is noted once, and again when it has gone on by as
    much as it takes to be seen. `now` is aware. Nights are not pairs: what they say is no measurement.
    """
    noted: dict[int, Facts] = {}
    for one in known:
        if one.state == "confirmed" and one.triage != "fixed":
            told: Mapping[str, Any] = one.evidence.get(GOES_ON) or {}
            later = [each for each in known if _follows(each, one)]
            new = (
                _by_finding(one, later, told)
                if later
                else _by_nights(one, series, told, nights, control, rules)
            )
            if new:
                noted[one.id] = {GOES_ON: {**new, "noted_at": now.isoformat()}}
    return noted


def _follows(other: Finding, one: Finding) -> bool:
    """Whether it is a later change of the series, the same way: that speaks for all nights since."""
    settled = other.state in ("confirmed", "machine")
    return settled and other.direction == one.direction and (other.at, other.id) > (one.at, one.id)


def _by_finding(one: Finding, later: Sequence[Finding], told: Mapping[str, Any]) -> dict[str, Any] | None:
    """The newest finding of the drift that this one was the beginning of."""
    pieces = [each for each in later if each.state == "confirmed" and each.evidence.get(BEGAN_AS) == one.id]
    newest = max(pieces, key=lambda each: (each.at, each.id), default=None)
    if newest is None or told.get("finding") == newest.id:
        return None
    run = str(newest.evidence.get("new_run") or newest.at_run)
    return {"change": newest.change, "finding": newest.id, "run": run, "night": newest.at.isoformat()}


def _by_nights(
    one: Finding,
    series: MachineSeries,
    told: Mapping[str, Any],
    nights: Sequence[NightValue],
    control: Sequence[NightValue | None] | None,
    rules: Rules,
) -> dict[str, Any] | None:
    """How far the newest nights are off those right after the change, where that is more than was noted."""
    start = series.places.get(str(one.evidence.get("new_run") or one.at_run))
    moved = further(nights, start, rules, control) if start is not None else None
    if moved is None or not moved.clear(one.change, float(told.get("further") or 0.0)):
        return None
    newest = series.points[-1]
    return {
        "change": one.change + moved.change,
        "further": moved.change,
        "run": newest.run,
        "night": newest.started_at.isoformat(),
    }
