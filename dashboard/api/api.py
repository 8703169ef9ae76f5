"""The API for programs, `/api/v1`: the queries of the pages, and what programs write; with `openapi.json`."""

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
#: No database has a larger number.
_LARGEST = 2**63 - 1
Offset = Annotated[int, Query(ge=0, le=_LARGEST, description="rows to leave out first")]
Exact = Annotated[str, Query(description="only this one; empty for all", pattern=models.PLAIN)]
Number = Annotated[int, Path(ge=0, le=_LARGEST)]
#: A list whose newest rows come first goes on so: rows that come meanwhile repeat none.
_AFTER = "only rows that come after the one of this id, the last one of the page before"
_NEWEST = "only so many, the newest; more where the oldest of them is one of several environments of its run"
RunAfter = Annotated[str, Query(description=_AFTER, pattern=models.PLAIN)]
NumberAfter = Annotated[int | None, Query(ge=0, le=_LARGEST, description=_AFTER)]
RunName = Annotated[str, Path(description="the run's id", pattern=models.PLAIN)]

Found = TypeVar("Found")

router = APIRouter()


def create_api(trigger: posts.Trigger | None = None) -> FastAPI:
    """The application that is mounted at `PREFIX`; who may ask it is checked before it.

    `trigger` enqueues a schedule; without it none can be triggered.
    """
    api = FastAPI(
        title="Pyrometer",
        version=version("pyrometer"),
        description="Runs, series, findings and verdicts. `Accept: text/csv` turns lists into CSV. A list "
        "names its next page in the header `Link`; every answer to a GET has an `ETag`. A POST takes a token "
        "of its own.",
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

    Ignored, a misspelled filter would answer with the rows that it leaves out.
    """
    route = request.scope["route"].path
    described = request.app.openapi()["paths"][route][request.method.lower()]
    valid = [one["name"] for one in described.get("parameters", ()) if one["in"] == "query"]
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in valid:
            raise HTTPException(422, unknown("parameter", name, valid))
        if given.count(name) > 1:
            raise HTTPException(422, f'parameter "{name}" is given {given.count(name)} times')


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
    found = queries.recent_runs(served_database(), limit=limit + 1, offset=offset, only=only, after=place)
    shown, following = answers.page_after(request, found, limit, lambda one: one.id)
    return answers.rows(request, models.ApiRun, shown, following)


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
    found = queries.measurements_of_run(served_database(), run)
    units = _units()
    each = ({**asdict(one), "unit": units.get(one.metric, "")} for one in found)
    return answers.rows(request, models.ApiMeasurement, each)


@router.get("/runs/{run}/outcomes", response_model=list[models.ApiOutcome])
def outcomes(request: Request, run: RunName) -> Response:
    """How each process of a run ended."""
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
    """The cases that were measured, by key (hardware and preset by their fingerprint)."""
    found = series_queries.series_keys(served_database(), SeriesOnly("", metric, hardware, preset))
    # They are sorted by case.
    every = [_case(case, list(keys)) for case, keys in groupby(found, lambda key: key.case)]
    shown, following = answers.page(request, every[offset : offset + limit + 1], limit, offset)
    return answers.rows(request, models.ApiCase, shown, following)


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
    """What was measured: cases, metrics, hardware and presets (these two by their fingerprint)."""
    found = series_queries.series_keys(served_database(), SeriesOnly(case, metric, hardware, preset))
    shown, following = answers.page(request, found[offset : offset + limit + 1], limit, offset)
    units = _units()
    each = ({**asdict(one), "unit": units.get(one.metric, "")} for one in shown)
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
    """The points of one series, oldest first, so that a point that comes meanwhile is on the last page."""
    key = SeriesKey(case, metric, hardware, "", preset, "")
    before = 0 if newest is None else series_queries.before_newest(served_database(), key, newest)
    found = series_queries.page_of_series(served_database(), key, limit + 1, offset, newest=newest)
    if not found and not series_queries.has_series(served_database(), key):
        raise HTTPException(404, f"there is no such series; GET {PREFIX}/series lists them")
    return answers.rows(request, models.ApiPoint, *answers.page(request, found, limit, offset, before))


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
    found = store.findings(
        served_database(),
        states=[state] if state else None,
        schedule=schedule or None,
        newest=limit + 1,
        offset=offset,
        after=last and (last.found_at, last.id),
    )
    shown, following = answers.page_after(request, found, limit, lambda one: one.id)
    return answers.rows(request, models.ApiFinding, map(_finding, shown), following)


@router.get("/findings/{number}", response_model=models.ApiFinding)
def finding(request: Request, number: Number) -> Response:
    """One finding."""
    found = store.finding(served_database(), number)
    return _finding_answer(request, number, found)


@router.post(
    "/findings/{number}/triage", response_model=models.ApiFinding, dependencies=[posts.needs("triage")]
)
def triage(request: Request, number: Number, entry: models.NewTriage) -> Response:
    """Add an entry to the triage log of a finding; for programs that bring `triage_token`."""
    text, by, now = entry.text.strip(), printable(entry.by).strip(), datetime.now(UTC)
    if problem := triage_complaint(entry.action, text, by):
        raise HTTPException(422, problem)
    if entry.until is not None and (entry.action != "mute" or not now < entry.until < MUTED_BEFORE):
        raise HTTPException(422, "`until` is a moment to come before the year 9999, of the action mute")
    found = store.triage(served_database(), number, entry.action, by, text, entry.until, now)
    return _finding_answer(request, number, found)


def _finding_answer(request: Request, number: int, found: Finding | None) -> Response:
    row = models.ApiFinding.model_validate(_finding(_known_finding(number, found)))
    return answers.body(request, row.model_dump(mode="json"))


@router.get("/verdicts", response_model=list[models.ApiVerdict])
def verdicts(request: Request, limit: Limit = 100, offset: Offset = 0, after: RunAfter = "") -> Response:
    """The newest upgrades first; a page leaves out those that Pyrometer did not measure."""
    place = _place_of_run(after)
    found = queries.upgrade_runs(served_database(), newest=limit + 1, offset=offset, after=place)
    shown, following = answers.page_after(request, found, limit, lambda one: one.id)
    return answers.rows(request, models.ApiVerdict, map(_verdict, upgrade_summaries(shown)), following)


@router.get("/verdicts/{run}", response_model=dict[str, Any])
def verdict(request: Request, run: RunName) -> Response:
    """The decision on an upgrade with everything it rests on, as `--report FILE.json` writes it."""
    stored = _require_run(run, queries.run_summary(served_database(), run))
    counts = tuple(sorted(stored.counts.items()))
    found = _judgement(served_database(), run, counts, stored.state)
    return answers.body(request, found)


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
    """One task of the queue: how far it is, which run it measures, why it failed."""
    found = queue.task(served_database(), number)
    if found is None:
        raise HTTPException(404, f"there is no task {number}")
    return answers.body(request, models.ApiTask.model_validate(found).model_dump(mode="json"))


@lru_cache(maxsize=8)
def _judgement(
    database: Database, run: str, counts: tuple[tuple[str, int], ...], state: str
) -> dict[str, Any]:
    """A verdict as JSON, kept while the run has as many outcomes of each status and the same state."""
    record = _require_run(run, queries.run_record(database, run))
    try:
        comparison = stored_comparison(record.facts)
        if comparison is None:
            raise HTTPException(404, f"run {run} compares no environments")
        found = judge_upgrade(record, comparison, queries.outcomes_of_run(database, run))
    except ValueError as error:
        raise HTTPException(409, f"run {run} cannot be judged: {error}") from error
    return upgrade_json(found)


def _place_of_run(run: str) -> Place | None:
    """Where a list goes on after a run; None without a name. Raises HTTPException for an unknown one."""
    return _require_run(run, queries.place_of_run(served_database(), run)) if run else None


def _known_finding(number: int, found: Finding | None) -> Finding:
    if found is None:
        raise HTTPException(404, f"there is no finding {number}")
    return found


def _require_run(run: str, found: Found | None) -> Found:
    """What was found of a run; raises HTTPException where that is nothing."""
    if found is None:
        raise HTTPException(404, f"no run is named {run}")
    return found


def _units() -> dict[str, str]:
    """By metric, the catalogue's and those of others, its unit."""
    imported = metric_definitions.metric_definitions(served_database())
    return {name: one.unit for name, one in {**imported, **METRICS}.items()}


def _case(case: str, keys: Sequence[SeriesKey]) -> dict[str, Any]:
    """A case with the metrics of its series and the labels of their hardware."""
    return {
        "case": case,
        "metrics": sorted({key.metric for key in keys}),
        "hardware_labels": sorted({key.hardware_label for key in keys}),
    }


def _finding(one: Finding) -> dict[str, Any]:
    """A finding with the fields of its series and its own; changes are ratios, as in the command's JSON."""
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
