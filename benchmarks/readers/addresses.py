"""An address with real content for every page that the dashboard has."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from db.connection.engine import Database
from db.findings import store as findings
from db.runs import queries, series_queries
from db.telemetry import queries as telemetry
from records.runs import RunSummary
from records.series import SeriesKey

Query = Mapping[str, object]

#: Cases on one chart, runs of the list among which the largest is opened, runs on a page of the list.
_CASES, _NEWEST, _A_PAGE = 6, 50, 50


def addresses(database: Database, pages: Mapping[str, str]) -> dict[str, str]:
    """Titles and addresses: each page of the navigation (titles by paths), some with several contents."""
    known = _known(database)
    found: dict[str, str] = {}
    for path, title in pages.items():
        for content, query in known.get(path, {"": {}}).items():
            name = f"{title}, {content}" if content else title
            found[name] = f"/{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
    return found


def _known(database: Database) -> dict[str, dict[str, Query]]:
    """What pages are asked for that show something else without a query."""
    runs = queries.recent_runs(database, limit=_NEWEST)
    series = [key for key in series_queries.series_keys(database) if key.metric == "latency"]
    older = queries.count_runs(database) // _A_PAGE // 2
    known: dict[str, dict[str, Query]] = {}
    if runs:
        known["runs"] = {"the list": {}, "an older page": {"page": max(1, older)}, **_a_run(database, runs)}
        known["runs"] |= {view: {"view": view} for view in ("machines", "schedule")}
    known["compare"] = {"upgrade": {}, "hardware": {"view": "hardware"}}
    explored: dict[str, Query] = {"techniques": {}}
    if series:
        explored |= {f"{_CASES} cases": _trend(series, _CASES), "1 case": _trend(series, 1)}
    if windows := telemetry.windows(database, limit=1):
        window = windows[0]
        replicate = _replicate(window.run, window.case, window.environment, window.replicate)
        explored["utilisation"] = {"view": "utilisation", **replicate}
    known["explore"] = explored
    if found := findings.findings(database, newest=1):
        known["regressions"] = {"the list": {}, "a finding": {"finding": found[0].id}}
    return known


def _a_run(database: Database, runs: Sequence[RunSummary]) -> dict[str, Query]:
    largest = max(runs, key=lambda run: run.planned)
    found: dict[str, Query] = {"a run": {"run": largest.id}}
    sampled = [one for one in queries.outcomes_of_run(database, largest.id) if one.status == "ok"]
    if sampled:
        one = sampled[0]
        found["an outcome"] = _replicate(largest.id, one.case, one.environment, one.replicate)
    return found


def _trend(series: Sequence[SeriesKey], cases: int) -> Query:
    first = series[0]
    place = first.hardware, first.preset
    return {
        "view": "history",
        "metric": first.metric,
        "hardware": first.hardware,
        "preset": first.preset,
        "axis": "date",
        "case": [key.case for key in series if (key.hardware, key.preset) == place][:cases],
    }


def _replicate(run: str, case: str, environment: str, replicate: int) -> Query:
    return {"run": run, "case": case, "environment": environment, "replicate": replicate}
