"""Refuted findings whose series stays off its old level all the same: measured once more, not for ever."""

from collections.abc import Sequence

from analysis.detection.drift_followup import stays_off
from analysis.detection.nights import NightValue, Rules, early
from analysis.metrics import METRICS
from db.findings.store import Reopened
from records.evidence import ComparedRuns
from records.findings import Finding, FindingState
from reports.text.numbers import percent

from .findings import MachineSeries, compared_runs, newest_other

#: A later finding of the series in one of these states explains the level.
_EXPLAINS = (FindingState.CANDIDATE, FindingState.CONFIRMING, FindingState.CONFIRMED, FindingState.MACHINE)


def findings_to_repeat(
    series: MachineSeries,
    known: Sequence[Finding],
    nights: Sequence[NightValue],
    control: Sequence[NightValue | None] | None,
    rules: Rules,
) -> dict[int, Reopened]:
    """The sessions to repeat, by finding, of a series with these `known` findings, of any state.

    A comparison may have been unlucky in its nights. So the second one is between an early night of the level
    that was left and the newest.
    """
    found: dict[int, Reopened] = {}
    for one in known:
        explained = any(other.at > one.at and other.state in _EXPLAINS for other in known)
        if one.state != FindingState.REFUTED or one.evidence.repeated or explained:
            continue
        since, index = (series.places.get(run) for run in (compared_runs(one).level_run, one.at_run))
        if since is None or index is None:
            continue
        size = stays_off(nights, since, index, rules, control)
        first = early(since, index)
        new = newest_other(series, first, index, len(series.points) - 1)
        if new is None or not size or (size > 0) != _rises(one):
            continue
        old, last = series.points[first], series.points[new]
        level = series.points[since].run
        reason = f"refuted once, but its newest nights stay off the old level by {percent(size)}"
        sides = ComparedRuns(old.run, old.environment, last.run, last.environment, level)
        found[one.id] = Reopened(size, sides, reason)
    return found


def _rises(one: Finding) -> bool:
    """Whether a change in the direction of a finding makes its metric larger."""
    return (one.direction == "worse") != (METRICS[one.key.metric].better == "higher")
