"""The API for programs, `/api/v1`: the queries of the pages, and writes by programs; with `openapi.json`."""

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from itertools import groupby
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.responses import Response

from analysis.decision.comparison import stored_comparison
from analysis.metrics import METRICS
from analysis.ratios import as_ratios
from common.text import printable
from configuration.suggestions import unknown
from dashboard.api import answers, models, posts
from dashboard.server.database import served_database
from dashboard.upgrades.view import UpgradeSummary, upgrade_summaries
from db.connection.engine import Database
from db.connection.statements import Place
from db.errors import DatabaseError, ReadOnly
from db.findings import store
from db.queue import queries as queue
from db.runs import metric_definitions, queries, series_queries
from records.findings import Finding, FindingState
from records.kinds import RunState
from records.runs import RunsOnly
from records.series import SeriesKey, SeriesOnly
from reports.body import upgrade_json
from reports.text.finding_text import MUTED_BEFORE, triage_complaint
from reports.upgrade_report import judge_upgrade

PREFIX = "/api/v1"

Limit = Annotated[int, Query(ge=1, le=1000, description="rows at most")]
#: The largest number of a database column.
_LARGEST = 2**63 - 1
Offset = Annotated[int, Query(ge=0, le=_LARGEST, description="rows to leave out first")]
Exact = Annotated[str, Query(description="filter by this value; empty for all", pattern=models.PLAIN)]
Number = Annotated[int, Path(ge=0, le=_LARGEST)]
#: The position in a list whose newest rows come first; new rows do not make a page repeat others.
_AFTER = "only rows after the one with this id, which is the last of the previous page"
_NEWEST = (
    "only this number of newest points; more if the oldest one is one of several environments of its run"
)
RunAfter = Annotated[str, Query(description=_AFTER, pattern=models.PLAIN)]
NumberAfter = Annotated[int | None, Query(ge=0, le=_LARGEST, description=_AFTER)]
RunName = Annotated[str, Path(description="the run's id", pattern=models.PLAIN)]

Found = TypeVar("Found")

router = APIRouter()


def create_api(trigger: posts.Trigger | None = None) -> FastAPI:
    """The application that is mounted at `PREFIX`; access is checked before it.

    `trigger` enqueues a schedule; without it schedules cannot be triggered.
    """
    api = FastAPI(
        title="Pyrometer",
        version=version("pyrometer"),
        description="Runs, series, findings and verdicts. `Accept: text/csv` turns lists into CSV. The "
        "header `Link` of a list has the address of the next page; every answer to a GET has an `ETag`. "
        "Each kind of POST requires its own token.",
        docs_url=None,
        redoc_url=None,
    )
    for each in (router, posts.router):
        api.include_router(each, dependencies=[Depends(_check_parameters)])
    api.state.trigger = trigger
    api.add_exception_handler(DatabaseError, _unavailable)
    api.add_exception_handler(RequestValidationError, _invalid)
    api.add_middleware(answers.HeadAnswers)
    return api


def _check_parameters(request: Request) -> None:
    """Raise HTTPException for a parameter that the route does not have, or that is given twice.

    If a misspelled filter were ignored, the answer would contain the rows it should leave out.
    """
    route = request.scope["route"].path
    description = request.app.openapi()["paths"][route][request.method.lower()]
    valid = [one["name"] for one in description.get("parameters", ()) if one["in"] == "query"]
    parameter_names = [name for name, _ in request.query_params.multi_items()]
    for name in parameter_names:
        if name not in valid:
            raise HTTPException(422, unknown("parameter", name, valid))
        if parameter_names.count(name) > 1:
            raise HTTPException(422, f'parameter "{name}" is given {parameter_names.count(name)} times')


def _invalid(request: Request, error: Exception) -> Response:
    """422 with where each mistake is and what is expected there, but not the value.

    That may be a number or a text that no answer can hold: NaN, or half of a surrogate pair.
    """
    assert isinstance(error, RequestValidationError)
    each = [{name: one[name] for name in ("type", "loc", "msg")} for one in error.errors()]
    sent = request.headers.get("content-type", "none")
    if each[0]["loc"] == ("body",) and not sent.startswith("application/json"):
        # Then the body is not read as JSON, and what it is taken for does not explain that.
        message = f"Input should be application/json, not {sent}"
        each = [{"type": "content_type", "loc": ("header", "content-type"), "msg": message}]
    # The name of a field may be such a text, too: this way it is escaped.
    return Response(json.dumps({"detail": each}), 422, media_type="application/json")


def _unavailable(request: Request, error: Exception) -> Response:
    if not isinstance(error, ReadOnly):
        return JSONResponse({"detail": str(error)}, 503)
    way_out = "Start the dashboard with an account that writes; docker-compose.yml takes it from .env:"
    return JSONResponse({"detail": f"{error} {way_out} PYROMETER_DASHBOARD_ACCOUNT=writer."}, 409)


@router.get("/runs", response_model=list[models.ApiRun])
def runs(
    request: Request,
    suite: Exact = "",
    machine: Exact = "",
    state: RunState | None = None,
    limit: Limit = 100,
    offset: Offset = 0,
    after: RunAfter = "",
) -> Response:
    """The newest runs first."""
    only, place = RunsOnly(suite, machine, state or ""), _place_of_run(after)
    summaries = queries.recent_runs(served_database(), limit=limit + 1, offset=offset, only=only, after=place)
    page_rows, following = answers.page_after(request, summaries, limit, lambda one: one.id)
    return answers.rows(request, models.ApiRun, page_rows, following)


@router.get("/runs/{run}", response_model=models.ApiRun)
def run(request: Request, run: RunName) -> Response:
    """One run."""
    return answers.body(
        request, models.ApiRun.row(_require_run(run, queries.run_summary(served_database(), run)))
    )


@router.get("/runs/{run}/measurements", response_model=list[models.ApiMeasurement])
def measurements(request: Request, run: RunName) -> Response:
    """Every metric of every case of a run."""
    _require_run(run, queries.run_summary(served_database(), run))
    measurements_of_run = queries.measurements_of_run(served_database(), run)
    units = _units()
    each = ({**asdict(one), "unit": units.get(one.metric, "")} for one in measurements_of_run)
    return answers.rows(request, models.ApiMeasurement, each)


@router.get("/runs/{run}/outcomes", response_model=list[models.ApiOutcome])
def outcomes(request: Request, run: RunName) -> Response:
    """The outcome of each process of a run."""
    _require_run(run, queries.run_summary(served_database(), run))
    return answers.rows(request, models.ApiOutcome, queries.outcomes_of_run(served_database(), run))


@router.get("/cases", response_model=list[models.ApiCase])
def cases(
    request: Request,
    metric: Exact = "",
    hardware: Exact = "",
    preset: Exact = "",
    limit: Limit = 1000,
    offset: Offset = 0,
) -> Response:
    """The measured cases, by key (hardware and preset by fingerprint)."""
    found = series_queries.series_keys(served_database(), SeriesOnly("", metric, hardware, preset))
    # They are sorted by case.
    every = [_case(case, list(keys)) for case, keys in groupby(found, lambda key: key.case)]
    page_rows, following = answers.page(request, every[offset : offset + limit + 1], limit, offset)
    return answers.rows(request, models.ApiCase, page_rows, following)


@router.get("/series", response_model=list[models.ApiSeries])
def series(
    request: Request,
    case: Exact = "",
    metric: Exact = "",
    hardware: Exact = "",
    preset: Exact = "",
    limit: Limit = 1000,
    offset: Offset = 0,
) -> Response:
    """The measured series: case, metric, hardware and preset (the last two by fingerprint)."""
    keys = series_queries.series_keys(served_database(), SeriesOnly(case, metric, hardware, preset))
    page_rows, following = answers.page(request, keys[offset : offset + limit + 1], limit, offset)
    units = _units()
    each = ({**asdict(one), "unit": units.get(one.metric, "")} for one in page_rows)
    return answers.rows(request, models.ApiSeries, each, following)


@router.get("/series/points", response_model=list[models.ApiPoint])
def points(
    request: Request,
    case: Annotated[str, Query(pattern=models.PLAIN)],
    metric: Annotated[str, Query(pattern=models.PLAIN)],
    hardware: Annotated[str, Query(description="fingerprint of the hardware", pattern=models.PLAIN)],
    preset: Annotated[str, Query(description="fingerprint of the preset", pattern=models.PLAIN)],
    newest: Annotated[int | None, Query(ge=1, le=_LARGEST, description=_NEWEST)] = None,
    limit: Limit = 1000,
    offset: Offset = 0,
) -> Response:
    """The points of one series, oldest first, so that a new point is on the last page."""
    key = SeriesKey(case, metric, hardware, "", preset, "")
    before = 0 if newest is None else series_queries.before_newest(served_database(), key, newest)
    rows = series_queries.page_of_series(served_database(), key, limit + 1, offset, newest=newest)
    if not rows and not series_queries.has_series(served_database(), key):
        raise HTTPException(404, f"there is no such series; GET {PREFIX}/series lists them")
    return answers.rows(request, models.ApiPoint, *answers.page(request, rows, limit, offset, before))


@router.get("/findings", response_model=list[models.ApiFinding])
def findings(
    request: Request,
    state: FindingState | None = None,
    schedule: Exact = "",
    limit: Limit = 100,
    offset: Offset = 0,
    after: NumberAfter = None,
) -> Response:
    """The newest findings first."""
    last = None if after is None else _known_finding(after, store.finding(served_database(), after))
    records = store.findings(
        served_database(),
        states=[state] if state else None,
        schedule=schedule or None,
        newest=limit + 1,
        offset=offset,
        after=last and (last.found_at, last.id),
    )
    page_rows, following = answers.page_after(request, records, limit, lambda one: one.id)
    return answers.rows(request, models.ApiFinding, map(_finding, page_rows), following)


@router.get("/findings/{number}", response_model=models.ApiFinding)
def finding(request: Request, number: Number) -> Response:
    """One finding."""
    record = store.finding(served_database(), number)
    return _finding_answer(request, number, record)


@router.post(
    "/findings/{number}/triage", response_model=models.ApiFinding, dependencies=[posts.needs("triage")]
)
def triage(request: Request, number: Number, entry: models.NewTriage) -> Response:
    """Add an entry to the triage log of a finding; requires `triage_token`."""
    text, by, now = entry.text.strip(), printable(entry.by).strip(), datetime.now(UTC)
    if problem := triage_complaint(entry.action, text, by):
        raise HTTPException(422, problem)
    if entry.until is not None and (entry.action != "mute" or not now < entry.until < MUTED_BEFORE):
        raise HTTPException(422, "`until` is a future moment before the year 9999, for the action mute")
    record = store.triage(served_database(), number, entry.action, by, text, entry.until, now)
    return _finding_answer(request, number, record)


def _finding_answer(request: Request, number: int, finding: Finding | None) -> Response:
    row = models.ApiFinding.model_validate(_finding(_known_finding(number, finding)))
    return answers.body(request, row.model_dump(mode="json"))


@router.get("/verdicts", response_model=list[models.ApiVerdict])
def verdicts(request: Request, limit: Limit = 100, offset: Offset = 0, after: RunAfter = "") -> Response:
    """The upgrades that Pyrometer measured, newest first."""
    place = _place_of_run(after)
    upgrades = queries.upgrade_runs(served_database(), newest=limit + 1, offset=offset, after=place)
    page_rows, following = answers.page_after(request, upgrades, limit, lambda one: one.id)
    return answers.rows(request, models.ApiVerdict, map(_verdict, upgrade_summaries(page_rows)), following)


@router.get("/verdicts/{run}", response_model=dict[str, Any])
def verdict(request: Request, run: RunName) -> Response:
    """The decision on an upgrade with its whole report, as `--report FILE.json` writes it."""
    summary = _require_run(run, queries.run_summary(served_database(), run))
    counts = tuple(sorted(summary.counts.items()))
    judgement = _judgement(served_database(), run, counts, summary.state)
    return answers.body(request, judgement)


@router.get("/machines", response_model=list[models.ApiMachine])
def machines(request: Request) -> Response:
    """The schedulers of all machines."""
    return answers.rows(request, models.ApiMachine, queue.schedulers(served_database()))


@router.get("/schedules", response_model=list[models.ApiSchedule])
def schedules(request: Request) -> Response:
    """The newest run of each schedule."""
    return answers.rows(request, models.ApiSchedule, queue.last_scheduled_runs(served_database()))


@router.get("/tasks/{number}", response_model=models.ApiTask)
def task(request: Request, number: Number) -> Response:
    """One task of the queue: its state, its run, and its error."""
    record = queue.task(served_database(), number)
    if record is None:
        raise HTTPException(404, f"there is no task {number}")
    return answers.body(request, models.ApiTask.model_validate(record).model_dump(mode="json"))


@lru_cache(maxsize=8)
def _judgement(
    database: Database, run: str, counts: tuple[tuple[str, int], ...], state: str
) -> dict[str, Any]:
    """A verdict as JSON, cached while the state of the run and the counts of its outcomes are unchanged."""
    record = _require_run(run, queries.run_record(database, run))
    try:
        comparison = stored_comparison(record.facts)
        if comparison is None:
            raise HTTPException(404, f"run {run} compares no environments")
        judgement = judge_upgrade(record, comparison, queries.outcomes_of_run(database, run))
    except ValueError as error:
        raise HTTPException(409, f"run {run} cannot be judged: {error}") from error
    return upgrade_json(judgement)


def _place_of_run(run: str) -> Place | None:
    """The position in a list after a run; None without a run. Raises HTTPException for an unknown one."""
    return _require_run(run, queries.place_of_run(served_database(), run)) if run else None


def _known_finding(number: int, finding: Finding | None) -> Finding:
    if finding is None:
        raise HTTPException(404, f"there is no finding {number}")
    return finding


def _require_run(run: str, result: Found | None) -> Found:
    """The result of a query for a run; raises HTTPException if there is none."""
    if result is None:
        raise HTTPException(404, f"no run is named {run}")
    return result


def _units() -> dict[str, str]:
    """The unit of each metric, of the catalogue and imported ones."""
    imported_metrics = metric_definitions.metric_definitions(served_database())
    return {name: one.unit for name, one in {**imported_metrics, **METRICS}.items()}


def _case(case: str, keys: Sequence[SeriesKey]) -> dict[str, Any]:
    """A case with the metrics of its series and the labels of their hardware."""
    return {
        "case": case,
        "metrics": sorted({key.metric for key in keys}),
        "hardware_labels": sorted({key.hardware_label for key in keys}),
    }


def _finding(one: Finding) -> dict[str, Any]:
    """A finding with the fields of its series; changes are ratios, as in the JSON of the command."""
    own = {field.name: getattr(one, field.name) for field in fields(one)}
    row: dict[str, Any] = as_ratios({**asdict(one.key), **own})
    return row


def _verdict(one: UpgradeSummary) -> dict[str, Any]:
    """An upgrade with its two environments and its decision."""
    run = one.run
    return {
        **{name: getattr(run, name) for name in models.ApiVerdict.model_fields if hasattr(run, name)},
        "old": one.old.torch_version or one.old.name,
        "new": one.new.torch_version or one.new.name,
        "decision": one.decision,
        "because": one.because,
    }
