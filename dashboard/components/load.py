"""What the pages know: the answers of `db.runs.queries`, kept for a few seconds.

`url` is the database's; it is part of every key under which an answer is kept. All of them raise
`db.errors.DatabaseError`, which `app.py` turns into one sentence.
"""

from collections.abc import Collection, Sequence
from itertools import count

import streamlit as st

from analysis.detection.default_watched_metrics import judged_by
from analysis.operators import unlike
from dashboard.components import tables, wording
from dashboard.server.database import by_url, database_at
from db.connection.engine import check_fits
from db.findings import store as findings_store
from db.runs import coverage, queries, series_queries, traces
from db.runs import metric_definitions as metrics
from db.telemetry import queries as telemetry
from records.findings import FindingState, FindingTriage
from records.kinds import RunCategory, RunSource
from records.outcomes import OperatorTable, Outcome, OutcomeStatus
from records.runs import Run, RunsOnly, RunSummary
from records.series import MeasurementConditions, SeriesKey
from records.telemetry import Recording, TelemetryWindow

#: Seconds that an answer is shown again without asking: short enough to watch a run fill up.
FRESH_SECONDS = 10
#: The metric that every case of ours has: where it has points, something was measured.
EVERY_CASE = "latency_floor"

#: Windows among which the newest runs with telemetry are looked for, and of one run at most.
_LISTED_WINDOWS, _WINDOWS_OF_A_RUN = 2000, 20_000

#: Findings of a kind in the list at most: what is older is on the command line.
MOST_FINDINGS = 2000

#: Points of one series at most, which is nights of more than two years; and of all on one chart, which has
#: no room for more.
NEWEST_POINTS, CHART_POINTS = 1000, 2000
#: By default the nights of some months: a page has them much sooner.
RECENT_POINTS, RECENT_ON_CHART = 120, 360

#: For answers of some seconds ago. All readers share one, which is never changed: copying thousands of
#: records takes as long as a query.
cache = st.cache_resource(ttl=FRESH_SECONDS, show_spinner=False, max_entries=64)
#: For what does not change any more.
permanent_cache = st.cache_data(show_spinner=False, max_entries=256)
#: Runs among which own ones are looked for, so many at a time: years of imports may lie above them.
_SEARCHED_RUNS, _RUNS_AT_ONCE = 10_000, 500
#: Own runs, and runs of any kind, that say where the trends page opens.
_OPENING_RUNS = 3

fits = cache(by_url(check_fits))
recent_runs = cache(by_url(queries.recent_runs))
count_runs = cache(by_url(queries.count_runs))
suites_and_machines = cache(by_url(queries.suites_and_machines))
latest_run_id = cache(by_url(queries.latest_run_id))
outcomes = cache(by_url(queries.outcomes_of_run))
measurements = cache(by_url(queries.measurements_of_run))
operator_tables = cache(by_url(traces.operator_tables))
#: Where schedules measured, by hardware and preset (fingerprints), the most nights first.
scheduled_places = cache(by_url(coverage.most_nights))
foreign_presets = cache(by_url(coverage.foreign_presets))
headlines = cache(by_url(series_queries.headlines))
metric_definitions = cache(by_url(metrics.metric_definitions))


def every_run(url: str, only: RunsOnly) -> list[RunSummary]:
    """All runs of a kind, newest first, queried anew and in parts: for a file with all of them."""
    found: dict[str, RunSummary] = {}
    for offset in count(0, _RUNS_AT_ONCE):
        part = queries.recent_runs(database_at(url), limit=_RUNS_AT_ONCE, offset=offset, only=only)
        # One that began meanwhile moves the others on: what comes again is there already.
        found |= {run.id: run for run in part}
        if len(part) < _RUNS_AT_ONCE:
            break
    return list(found.values())


@cache
def own_runs(url: str, limit: int) -> list[RunSummary]:
    """The newest runs that Pyrometer measured itself."""
    found: list[RunSummary] = []
    for offset in range(0, _SEARCHED_RUNS, _RUNS_AT_ONCE):
        page = queries.recent_runs(database_at(url), limit=_RUNS_AT_ONCE, offset=offset)
        found += [run for run in page if run.source == RunSource.MEASURED]
        if len(found) >= limit or len(page) < _RUNS_AT_ONCE:
            break
    return found[:limit]


def suite_command(url: str) -> str:
    """The run of the suite for the device that was measured last: `gpu` where it has a GPU, else `cpu`.

    Runs of other tools do not say what device the machine of the reader has: both are named.
    """
    newest = next(iter(own_runs(url, 1)), None)
    if newest is None and queries.foreign_runs(database_at(url)):
        return "pyrometer run --suite gpu   # without a GPU: --suite cpu"
    record = None if newest is None else queries.run_record(database_at(url), newest.id)
    on_gpu = record is not None and record.machine.hardware.facts.get("gpus")
    return f"pyrometer run --suite {'gpu' if on_gpu else 'cpu'}"


def sources(url: str, runs: Sequence[RunSummary]) -> dict[str, str]:
    """What was imported, by run, of those that were and say so."""
    return _sources(url, tuple(run.id for run in runs if run.source == RunSource.IMPORTED))


@permanent_cache
def _sources(url: str, run_ids: tuple[str, ...]) -> dict[str, str]:
    records = [queries.run_record(database_at(url), run_id) for run_id in run_ids]
    return {record.id: name for record in records if record is not None and (name := tables.source(record))}


@cache
def measured_places(url: str, *, techniques: bool = False) -> list[MeasurementConditions]:
    """Where Pyrometer itself measured cases, or those under a technique, the newest first."""
    found = coverage.places(database_at(url), EVERY_CASE, techniques=techniques)
    return [place for place in found if place.source == RunSource.MEASURED]


def last_measured(url: str, hardware: Collection[str]) -> dict[str, str]:
    """Where and when each of some hardware (fingerprints) was measured last, in words."""
    found: dict[str, str] = {}
    for place in measured_places(url):
        if place.hardware in hardware and place.hardware not in found and (known := run(url, place.run)):
            moment = wording.timestamp(place.started_at)
            found[place.hardware] = f"last measured on {known[0].machine.name}, {moment}"
    return found


@cache
def opening_places(url: str) -> list[tuple[str, str]]:
    """The hardware and the preset (fingerprints) that a page opens with, the best first.

    Those with the most nights, then those of the newest runs, our own first: a single run on another machine
    has no history to show. Where nothing is our own, those with the longest series.
    """
    nights, own = scheduled_places(url), own_runs(url, _OPENING_RUNS)
    if not (nights or own):
        return coverage.longest_series(database_at(url))
    runs = dict.fromkeys(run.id for run in (*own, *recent_runs(url, limit=_OPENING_RUNS)))
    records = (queries.run_record(database_at(url), run_id) for run_id in runs)
    newest = [(each.machine.hardware.fingerprint, each.preset.fingerprint) for each in records if each]
    return list(dict.fromkeys([*nights, *newest]))


@cache
def leading_cases(url: str, metric: str, hardware: tuple[str, ...], preset: str) -> list[str]:
    """The cases of a metric on some hardware under a preset (fingerprints), what matters most first.

    Those with a confirmed finding on the metric, or on the watched one that it follows from, that is still
    open, the newest first; then those with most points. Nights are judged; where no schedule measured, of as
    many points those come first that lie furthest apart.
    """
    found = findings_store.findings(
        database_at(url),
        states=(FindingState.CONFIRMED,),
        triage=(FindingTriage.OPEN, FindingTriage.ACKNOWLEDGED),
        newest=MOST_FINDINGS,
    )
    keys = [one.key for one in found if one.key.metric == judged_by(metric)]
    matching = [key.case for key in keys if key.hardware in hardware and key.preset == preset]
    nights = any((each, preset) in scheduled_places(url) for each in hardware)
    # Of files of other tools, which may be of many years, all points count.
    own = preset not in foreign_presets(url)
    extents = coverage.case_extents(database_at(url), metric, hardware, preset, recent=own)

    def usefulness(case: str) -> tuple[int, float, str]:
        return -extents[case].points, 0.0 if nights else -extents[case].ratio, case

    return list(dict.fromkeys([*matching, *sorted(extents, key=usefulness)]))


@cache
def runs_by_category(url: str) -> dict[RunCategory, int]:
    """How many runs there are of each category."""
    return {each: queries.count_runs(database_at(url), RunsOnly(category=each)) for each in RunCategory}


@cache
def run(url: str, run_id: str) -> tuple[Run, RunSummary] | None:
    """One run as it was stored, with its row in the list of runs."""
    record = queries.run_record(database_at(url), run_id)
    summary = queries.run_summary(database_at(url), run_id)
    return None if record is None or summary is None else (record, summary)


def failures(url: str, runs: Sequence[RunSummary]) -> list[tuple[RunSummary, Outcome]]:
    """What did not end ok in `runs`, in their order."""
    return [
        (summary, outcome)
        for summary in runs
        if set(summary.counts) - {OutcomeStatus.OK}
        for outcome in outcomes(url, summary.id)
        if outcome.status != OutcomeStatus.OK
    ]


@cache
def samples(
    url: str, run_id: str, case: str, environment: str, replicate: int
) -> tuple[tuple[int, ...], ...]:
    """The samples of one replicate in nanoseconds, block by block; empty where there are none."""
    return queries.samples(database_at(url), run_id, case, environment, replicate) or ()


@cache
def like_tables(url: str, run_id: str, case: str) -> tuple[OperatorTable | None, list[OperatorTable]]:
    """The operator table of a case in a run, and those that may be subtracted from it, newest first."""
    own = next(iter(traces.operator_tables(database_at(url), run=run_id, case=case)), None)
    if own is None:
        return None, []
    tables = traces.operator_tables(database_at(url), workload=own.workload, like=run_id)
    return own, [table for table in tables if table != own and not unlike(own, table)]


@cache
def newest_windows(url: str) -> list[TelemetryWindow]:
    """The windows of the newest runs that have any, newest run first."""
    return telemetry.windows(database_at(url), limit=_LISTED_WINDOWS)


@cache
def windows(url: str, run_id: str) -> list[TelemetryWindow]:
    """Every window of a run, one per replicate and device, newest first."""
    return telemetry.windows(database_at(url), run=run_id, limit=_WINDOWS_OF_A_RUN)


@cache
def recording(url: str, window: TelemetryWindow) -> Recording | None:
    """The rows of a window; None when they are not kept any more."""
    return telemetry.recording(
        database_at(url), window.run, window.case, window.environment, window.replicate, window.device
    )


@cache
def series_keys(url: str) -> tuple[SeriesKey, ...]:
    """Every series there is."""
    return tuple(series_queries.series_keys(database_at(url)))


def newest_points(series: int, *, recent: bool = False) -> int:
    """How many points each of so many series has on a chart at most; `recent`: the last nights will do."""
    of_each, of_all = (RECENT_POINTS, RECENT_ON_CHART) if recent else (NEWEST_POINTS, CHART_POINTS)
    # As many as without that wish, where those are fewer.
    most = min(of_each, of_all // max(1, series), NEWEST_POINTS, CHART_POINTS // max(1, series))
    return max(1, most)
