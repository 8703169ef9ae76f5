"""What the pages ask the database, each question with other arguments every time."""

from collections.abc import Callable
from typing import Any

from db.connection.engine import Database
from db.runs import metric_definitions, queries, series_queries, traces
from db.runs import releases as runs_releases
from db.telemetry import queries as telemetry
from records.series import SeriesKey

from .history import CASES, MACHINES, History, Night, case, environment

#: A question is called with a number that rises; its answer is not empty.
Question = Callable[[int], Any]

#: Runs on a page of the list, as the Runs page has them.
_A_PAGE = 50
#: What the Utilisation page looks for the newest telemetry in.
_WINDOWS = 2000
#: Points of a series: two years of nights; and of each of eight series on a chart, as the Trends page has it.
_NEWEST, _OF_EIGHT = 730, 250


def questions(database: Database, history: History) -> dict[str, Question]:
    """By name. Answers are what the pages wait for, records and all."""
    keys = [key for key in series_queries.series_keys(database) if key.metric == "latency"]
    runs = MACHINES * history.count
    return {
        "runs: how many": lambda _: queries.count_runs(database),
        "runs: newest": lambda _: queries.latest_run_id(database),
        "runs: first page": lambda _: queries.recent_runs(database, limit=_A_PAGE),
        "runs: any page": lambda n: queries.recent_runs(
            database, limit=_A_PAGE, offset=n * 7919 % max(1, runs - _A_PAGE)
        ),
        "run: summary": lambda n: queries.run_summary(database, _any(history, n).run),
        "run: all about it": lambda n: queries.run_record(database, _any(history, n).run),
        "run: outcomes": lambda n: queries.outcomes_of_run(database, _any(history, n).run),
        "run: measurements": lambda n: queries.measurements_of_run(database, _any(history, n).run),
        "run: samples": lambda n: queries.samples(database, *_outcome(history, n)),
        "overview: headlines": lambda _: series_queries.headlines(database, "latency"),
        "trends: series to choose": lambda _: series_queries.series_keys(database),
        "trends: one series": lambda n: series_queries.series(database, _chosen(keys, n, 1), newest=_NEWEST),
        "trends: eight series": lambda n: series_queries.series(
            database, _chosen(keys, n, 8), newest=_OF_EIGHT
        ),
        "no page: eight series, 730 points": lambda n: series_queries.series(
            database, _chosen(keys, n, 8), newest=_NEWEST
        ),
        "releases: all": lambda _: runs_releases.releases(database),
        "releases: two, all cases": lambda n: runs_releases.release_points(
            database, [_version(history, n), _version(history, n + 1)], "latency"
        ),
        "utilisation: newest windows": lambda _: telemetry.windows(database, limit=_WINDOWS),
        "utilisation: windows of a run": lambda n: telemetry.windows(
            database, run=_newest(history, n).run, limit=20_000
        ),
        "utilisation: a recording": lambda n: telemetry.recording(
            database, *_outcome(history, n, newest=True), "GPU-0"
        ),
        "traces: of a workload": lambda n: traces.operator_tables(
            database, workload=case(n % CASES).rpartition("/")[0]
        ),
        "traces: of a run": lambda n: traces.operator_tables(
            database, run=f"{history.night(0, 0).run}-trace"
        ),
        "metrics from outside": lambda _: metric_definitions.metric_definitions(database),
    }


def _any(history: History, number: int) -> Night:
    return history.night(number * 7919 % history.count, number % MACHINES)


def _newest(history: History, number: int) -> Night:
    return history.night(history.count - 1, number % MACHINES)


def _outcome(history: History, number: int, *, newest: bool = False) -> tuple[str, str, str, int]:
    night = _newest(history, number) if newest else _any(history, number)
    return night.run, case(number % CASES), environment(night.release).fingerprint, number % 3


def _version(history: History, number: int) -> str:
    return environment(number % history.releases).torch_version


def _chosen(keys: list[SeriesKey], number: int, many: int) -> list[SeriesKey]:
    return [keys[(number * 13 + each * 29) % len(keys)] for each in range(many)]
