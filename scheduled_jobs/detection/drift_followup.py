"""Follow up findings that were decided, by later nights and findings.

A confirmed change that continues is noted. A refuted or unclear one whose series stays off its old level is
measured once more.
"""

from collections.abc import Sequence
from datetime import datetime

from analysis.detection.drift_followup import further, stays_off
from analysis.detection.nights import NightValue, Rules, early
from analysis.metrics import METRICS
from db.findings.store import REPEATABLE, RepeatRequest
from records.evidence import ComparedRuns, Continuation
from records.findings import Finding, FindingState, FindingTriage
from reports.text.numbers import percent

from .findings import MachineSeries, compared_runs, newest_other


def continuations(
    series: MachineSeries,
    findings: Sequence[Finding],
    nights: Sequence[NightValue],
    control: Sequence[NightValue | None] | None,
    rules: Rules,
    now: datetime,
) -> dict[int, Continuation]:
    """The continuations to record, by finding, of a series with these `findings`, of any state.

    A continuation is recorded once, and again when it has increased by a detectable amount. `now` is aware.
    The change by nights is not a measurement in pairs.
    """
    found: dict[int, Continuation] = {}
    for one in findings:
        if one.state == FindingState.CONFIRMED and one.triage != FindingTriage.FIXED:
            later = [each for each in findings if _follows(each, one)]
            new = (
                _by_finding(one, later, now)
                if later
                else _by_nights(one, series, nights, control, rules, now)
            )
            if new:
                found[one.id] = new
    return found


def _follows(other: Finding, one: Finding) -> bool:
    """Whether it is a later change of the series in the same direction, which covers all nights since."""
    decided = other.state in (FindingState.CONFIRMED, FindingState.MACHINE)
    return decided and other.direction == one.direction and (other.at, other.id) > (one.at, one.id)


def _by_finding(one: Finding, later: Sequence[Finding], now: datetime) -> Continuation | None:
    """The newest finding of the drift that began with this one."""
    pieces = [
        each for each in later if each.state == FindingState.CONFIRMED and each.evidence.began_as == one.id
    ]
    newest = max(pieces, key=lambda each: (each.at, each.id), default=None)
    before = one.evidence.goes_on
    if newest is None or (before and before.finding == newest.id):
        return None
    run = newest.evidence.new_run or newest.at_run
    return Continuation(newest.change, newest.at.isoformat(), now.isoformat(), run, finding=newest.id)


def _by_nights(
    one: Finding,
    series: MachineSeries,
    nights: Sequence[NightValue],
    control: Sequence[NightValue | None] | None,
    rules: Rules,
    now: datetime,
) -> Continuation | None:
    """The difference of the newest nights from those right after the change, if larger than the recorded
    one.
    """
    start = series.places.get(one.evidence.new_run or one.at_run)
    before = one.evidence.goes_on
    moved = further(nights, start, rules, control) if start is not None else None
    if moved is None or not moved.clear(one.change, (before and before.further) or 0.0):
        return None
    newest = series.points[-1].at
    return Continuation(
        change=one.change + moved.change,
        night=newest.started_at.isoformat(),
        noted_at=now.isoformat(),
        run=newest.run,
        further=moved.change,
    )


#: A later finding of the series in one of these states explains the level.
_EXPLAINS = (FindingState.CANDIDATE, FindingState.CONFIRMING, FindingState.CONFIRMED, FindingState.MACHINE)


def findings_to_repeat(
    series: MachineSeries,
    findings: Sequence[Finding],
    nights: Sequence[NightValue],
    control: Sequence[NightValue | None] | None,
    rules: Rules,
) -> dict[int, RepeatRequest]:
    """The sessions to repeat, by finding, of a series with these `findings`, of any state.

    A comparison may have used unsuitable nights. So the second one is between an early night of the level
    before the change and the newest.
    """
    found: dict[int, RepeatRequest] = {}
    for one in findings:
        explained = any(other.at > one.at and other.state in _EXPLAINS for other in findings)
        if one.state not in REPEATABLE or one.evidence.repeated or explained:
            continue
        since, index = (series.places.get(run) for run in (compared_runs(one).level_run, one.at_run))
        if since is None or index is None:
            continue
        size = stays_off(nights, since, index, rules, control)
        first = early(since, index)
        new = newest_other(series, first, index, len(series.points) - 1)
        if new is None or not size or (size > 0) != _rises(one):
            continue
        old, last = series.points[first].at, series.points[new].at
        level = series.points[since].at.run
        reason = f"{one.state} once, but its newest nights stay off the old level by {percent(size)}"
        sides = ComparedRuns(old.run, old.environment, last.run, last.environment, level)
        found[one.id] = RepeatRequest(size, sides, reason)
    return found


def _rises(one: Finding) -> bool:
    """Whether a change in the direction of a finding makes its metric larger."""
    return (one.direction == "worse") != (METRICS[one.key.metric].better == "higher")
