"""The view of the Today page and its queries, cached for a few seconds.

All functions that ask raise `db.errors.DatabaseError`.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import streamlit as st

from analysis.staleness import Outage
from dashboard.components.load import cache
from dashboard.components.query_params import Query, View, pick
from dashboard.server.database import by_url, database_at, present_time
from dashboard.today.headlines import METRICS
from dashboard.today.track_status import (
    ServedSchedule,
    TrackStatus,
    served_schedules,
    standings,
    with_results,
)
from db.findings import store as findings
from db.queue import queries as queue_queries
from db.runs import queries, series_queries
from db.runs.series_queries import Lines
from records.findings import Finding, FindingGroup, FindingState
from records.outcomes import OutcomeCount
from records.series import SeriesKey, SeriesPoint
from records.tasks import SchedulerSeen
from workflows.fleet_status import Patience, announced_patience, outages, recent_nights

#: The periods to choose from with their labels; the first is the default.
DAYS = {"1": "a day", "3": "3 days", "7": "a week"}


@dataclass(frozen=True, slots=True)
class TodayView(View):
    """The Today page. `days`: findings that were found or decided within this number of days are new."""

    days: str

    def since(self, now: datetime) -> datetime:
        """The moment from which on a finding is new."""
        return now - timedelta(days=int(self.days))


def chosen(query: Query) -> tuple[TodayView, list[str]]:
    """The selection in `query`, and complaints."""
    complaints: list[str] = []
    return TodayView(pick(query, "days", tuple(DAYS), next(iter(DAYS)), complaints)), complaints


#: The period in which missed nights are counted.
_BACK = timedelta(days=35)
#: The most findings of each kind.
_FINDINGS = 300
#: The lifetime in seconds of cached outcomes and measurements of nights that have ended.
_LONG_SECONDS = 600

_long_cache = st.cache_resource(ttl=_LONG_SECONDS, show_spinner=False, max_entries=128)

_summaries = cache(by_url(queries.run_summaries))
_spent = cache(by_url(queue_queries.attempt_seconds))
findings_of = cache(by_url(findings.findings_of_series))
compared = cache(by_url(queries.comparison_runs))
# For runs that have ended.
_endings = _long_cache(by_url(queries.endings))
lines = _long_cache(by_url(series_queries.lines))


@dataclass(frozen=True, slots=True)
class TodayData:
    """The status of schedules and schedulers.

    `parts` and `silent` are sorted, worst first. `parts` have no results yet, because each takes a query.
    """

    parts: tuple[TrackStatus, ...]
    silent: tuple[Outage, ...]
    seen: tuple[SchedulerSeen, ...]
    plan: tuple[ServedSchedule, ...]
    patience: Patience


@cache
def morning(url: str) -> TodayData:
    """The status of each target of each schedule, and the live schedulers."""
    database, now = database_at(url), present_time(url)
    tasks = recent_nights(database, now)
    missed_runs = queue_queries.missed_runs(database, {task.schedule for task in tasks}, now - _BACK)
    schedulers = queue_queries.schedulers(database)
    waits = announced_patience(schedulers)
    plan = served_schedules(schedulers, now, waits.silent_minutes)
    silent = outages(database, schedulers, now, waits)
    overdue = {one.name: one for one in silent.nights}
    return TodayData(
        parts=tuple(standings(tasks, missed_runs, schedulers, plan, now, waits, overdue)),
        silent=silent.machines,
        seen=tuple(schedulers),
        plan=tuple(plan),
        patience=waits,
    )


def results(url: str, parts: Sequence[TrackStatus]) -> list[TrackStatus]:
    """Parts with their newest run and their coverage, the worst first."""
    newest = [next((task.run_id for task in one.tasks if task.run_id), None) for one in parts]
    summaries = _summaries(url, tuple(run for run in newest if run))
    durations = _spent(url, tuple(one.newest.id for one in parts))
    share = morning(url).patience.disturbed_share
    matches = [with_results(one, summaries, endings(url, one), durations, share) for one in parts]
    return sorted(matches, key=lambda one: one.seriousness)


def endings(url: str, one: TrackStatus) -> dict[str, list[OutcomeCount]]:
    """The outcomes of the cases in the newest ended night of a part and in those before, by run."""
    return _endings(url, one.night.runs) if one.night else {}


@cache
def recent_findings(url: str, days: int) -> tuple[list[Finding], list[Finding], int]:
    """The findings decided within the period, the waiting candidates, and the number of all open
    regressions.
    """
    database, now = database_at(url), datetime.now(UTC)
    since = now - timedelta(days=days)
    return (
        findings.findings(
            database, states=(FindingState.CONFIRMED, FindingState.MACHINE), since=since, newest=_FINDINGS
        ),
        findings.findings(
            database, states=(FindingState.CANDIDATE, FindingState.CONFIRMING), newest=_FINDINGS
        ),
        findings.open_regressions(database, now),
    )


@cache
def still_open(url: str) -> list[Finding]:
    """The confirmed regressions that are neither triaged nor muted, the newest first."""
    return findings.findings(database_at(url), group=(FindingGroup.OPEN, datetime.now(UTC)), newest=_FINDINGS)


@_long_cache
def points_of_runs(url: str, runs: tuple[str, ...]) -> Lines:
    """The measurements of these ended runs in the metrics of headlines."""
    return series_queries.points_of_runs(database_at(url), runs, METRICS)


@cache
def newest_points(url: str, keys: tuple[SeriesKey, ...], newest: int) -> Lines:
    """The newest points of some series, oldest first; of a run with several environments the last one's."""
    alike: dict[tuple[str, ...], dict[str, SeriesKey]] = defaultdict(dict)
    for key in keys:
        alike[key.metric, key.hardware, key.preset][key.case] = key
    result: dict[SeriesKey, dict[str, SeriesPoint]] = defaultdict(dict)
    for of_case in alike.values():
        for point in series_queries.series(database_at(url), list(of_case.values()), newest=newest):
            result[of_case[point.case]][point.run] = point
    return {key: tuple(points.values())[-newest:] for key, points in result.items()}
