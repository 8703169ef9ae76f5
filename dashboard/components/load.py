"""The queries of the pages: results of `db.runs.queries`, cached for a few seconds.

`url` is that of the database and part of every cache key. All of them raise `db.errors.DatabaseError`, which
`app.py` turns into one sentence.
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

#: The lifetime of cached results in seconds: short enough to watch the progress of a run.
FRESH_SECONDS = 10
#: A metric that every measured case has: its points show what was measured.
EVERY_CASE = "latency_floor"

#: The most windows searched for the newest runs with telemetry, and the most of one run.
_LISTED_WINDOWS, _WINDOWS_OF_A_RUN = 2000, 20_000

#: The most findings of a kind in the list; the command line lists older ones.
MOST_FINDINGS = 2000

#: The most points of one series, which are nights of more than two years, and the most of one chart.
NEWEST_POINTS, CHART_POINTS = 1000, 2000
#: The default number of points, nights of some months, which load much faster.
RECENT_POINTS, RECENT_ON_CHART = 120, 360

#: Caches results for some seconds. All readers share an object, which is never changed: copying thousands of
#: records takes as long as a query.
cache = st.cache_resource(ttl=FRESH_SECONDS, show_spinner=False, max_entries=64)
#: Caches results that no longer change.
permanent_cache = st.cache_data(show_spinner=False, max_entries=256)
#: The number of runs searched at a time for runs that Pyrometer measured; imports of years may be newer.
_SEARCHED_RUNS, _RUNS_AT_ONCE = 10_000, 500
#: The numbers of own runs and of all runs that decide where the trends page opens.
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
    result: dict[str, RunSummary] = {}
    for offset in count(0, _RUNS_AT_ONCE):
        part = queries.recent_runs(database_at(url), limit=_RUNS_AT_ONCE, offset=offset, only=only)
        # A run that begins meanwhile shifts the others: skip repeated ones.
        result |= {run.id: run for run in part}
        if len(part) < _RUNS_AT_ONCE:
            break
    return list(result.values())


@cache
def own_runs(url: str, limit: int) -> list[RunSummary]:
    """The newest runs that Pyrometer measured itself."""
    results: list[RunSummary] = []
    for offset in range(0, _SEARCHED_RUNS, _RUNS_AT_ONCE):
        page = queries.recent_runs(database_at(url), limit=_RUNS_AT_ONCE, offset=offset)
        results += [run for run in page if run.source == RunSource.MEASURED]
        if len(results) >= limit or len(page) < _RUNS_AT_ONCE:
            break
    return results[:limit]


def suite_command(url: str) -> str:
    """The command for the suite of the device that was measured last: `gpu` if it has a GPU, else `cpu`.

    After runs of other tools both are named, because the device of the reader's machine is unknown.
    """
    newest = next(iter(own_runs(url, 1)), None)
    if newest is None and queries.foreign_runs(database_at(url)):
        return "pyrometer run --suite gpu   # without a GPU: --suite cpu"
    record = None if newest is None else queries.run_record(database_at(url), newest.id)
    on_gpu = record is not None and record.machine.hardware.facts.get("gpus")
    return f"pyrometer run --suite {'gpu' if on_gpu else 'cpu'}"


def sources(url: str, runs: Sequence[RunSummary]) -> dict[str, str]:
    """The imported file by run, for imported runs that name it."""
    return _sources(url, tuple(run.id for run in runs if run.source == RunSource.IMPORTED))


@permanent_cache
def _sources(url: str, run_ids: tuple[str, ...]) -> dict[str, str]:
    records = [queries.run_record(database_at(url), run_id) for run_id in run_ids]
    return {record.id: name for record in records if record is not None and (name := tables.source(record))}


@cache
def measured_places(url: str, *, techniques: bool = False) -> list[MeasurementConditions]:
    """The hardware and presets under which Pyrometer measured cases, or cases under a technique, newest
    first.
    """
    result = coverage.places(database_at(url), EVERY_CASE, techniques=techniques)
    return [place for place in result if place.source == RunSource.MEASURED]


def last_measured(url: str, hardware: Collection[str]) -> dict[str, str]:
    """The machine and time of the last measurement of some hardware (fingerprints), as text."""
    result: dict[str, str] = {}
    for place in measured_places(url):
        if (
            place.hardware in hardware
            and place.hardware not in result
            and (stored_run := run(url, place.run))
        ):
            moment = wording.timestamp(place.started_at)
            result[place.hardware] = f"last measured on {stored_run[0].machine.name}, {moment}"
    return result


@cache
def opening_places(url: str) -> list[tuple[str, str]]:
    """The hardware and presets (fingerprints) that a page may open with, best first: those with the most
    nights, then those of the newest runs, own runs first.

    A single run on another machine has no history. Where nothing is our own, those with the longest series.
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
    """The cases of a metric on some hardware under a preset (fingerprints), most important first: those with
    an open confirmed finding on the metric, or on the watched one from which it follows, newest first; then
    those with the most points.

    Nights are judged; where no schedule measured, of as many points those come first that lie furthest apart.
    """
    findings = findings_store.findings(
        database_at(url),
        states=(FindingState.CONFIRMED,),
        triage=(FindingTriage.OPEN, FindingTriage.ACKNOWLEDGED),
        newest=MOST_FINDINGS,
    )
    keys = [one.key for one in findings if one.key.metric == judged_by(metric)]
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
    """The outcomes of `runs` that are not ok, in their order."""
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
    """The samples of one replicate in nanoseconds, block by block; empty without samples."""
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
    """The rows of a window; None if they were pruned."""
    return telemetry.recording(
        database_at(url), window.run, window.case, window.environment, window.replicate, window.device
    )


@cache
def series_keys(url: str) -> tuple[SeriesKey, ...]:
    """Every series there is."""
    return tuple(series_queries.series_keys(database_at(url)))


def newest_points(series: int, *, recent: bool = False) -> int:
    """The most points of each series on a chart; with `recent` only those of the last nights."""
    of_each, of_all = (RECENT_POINTS, RECENT_ON_CHART) if recent else (NEWEST_POINTS, CHART_POINTS)
    # Not more than without `recent`.
    most = min(of_each, of_all // max(1, series), NEWEST_POINTS, CHART_POINTS // max(1, series))
    return max(1, most)
