"""Writes of programs with a token of the matching role: results, and triggers of schedules."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request
from fastapi.responses import JSONResponse
from starlette.responses import Response

from dashboard.api import models
from dashboard.auth.login_page import CHALLENGE
from dashboard.auth.middleware import ROLES
from dashboard.auth.policy import Role
from dashboard.server.database import served_database
from db.connection.engine import Database
from db.queue import queries as queue
from interchange.errors import BadFile, SourcePlace
from interchange.foreign_runs import machine_called
from interchange.importers.submission import Gpu
from records.machines import Machine
from records.tasks import Task, TaskState
from workflows.errors import JobError, NoSuchSchedule
from workflows.transfer import import_runs

#: Enqueues the tasks of a schedule and returns their fire time. Raises JobError or DatabaseError.
Trigger = Callable[[Database, str], datetime]

#: The most bytes of results, checked by the server: as objects they take many times that.
MAX_RESULTS = 4 << 20
#: The most tasks of a schedule.
_MOST_TASKS = 10_000
_TOKEN = "requires `Authorization: Bearer` with the {role}_token of [dashboard]"

Label = Annotated[str, Query(max_length=200, pattern=models.LABEL)]
ScheduleName = Annotated[str, Path(description="as in pyrometer.toml", pattern=models.PLAIN)]

router = APIRouter()


def needs(role: Role) -> Any:
    """The dependency of a route that only programs with the token of this role may use."""

    def check(request: Request) -> None:
        roles = request.scope.get(ROLES, ())
        if role not in roles:
            # Without a token that the server knows, it is for the sender to bring one.
            status, challenge = (403, None) if roles else (401, CHALLENGE)
            raise HTTPException(status, f"{role} {_TOKEN.format(role=role)}", challenge)

    return Depends(check)


async def _content(request: Request) -> bytes:
    return await request.body()


_RESULTS = "an object or a list of them, as docs/import.md describes it for `pyrometer submit`"


@router.post(
    "/submit",
    response_model=models.ApiSubmission,
    dependencies=[needs("submit")],
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"description": _RESULTS}}},
        }
    },
)
def submit(machine: Label, hardware: Label, content: Annotated[bytes, Depends(_content)]) -> Response:
    """Store results as `pyrometer submit --machine --hardware` does; requires `submit_token`.

    Storing them twice changes nothing. 422: nothing was stored; 409: values that contradict stored ones were
    not stored.
    """

    def build_machine(gpus: Sequence[Gpu]) -> Machine:
        # White space is stripped as for the options of the command: it would make another machine.
        return machine_called(machine.strip(), hardware.strip())

    place = SourcePlace("body")
    try:
        text = content.decode("utf-8-sig")
        runs, import_result = import_runs.submit(text, place, None, served_database(), build_machine)
    except UnicodeDecodeError as error:
        bad = BadFile(place, f"is not UTF-8 text: {error.reason} at byte {error.start}")
        raise HTTPException(422, f"{bad}; nothing was stored") from None
    except BadFile as error:
        raise HTTPException(422, f"{error}; nothing was stored") from None
    aside = [str(problem) for problem in import_result.set_aside]
    if not import_result.held.runs:
        raise HTTPException(422, f"{aside[0]}; nothing was stored")
    return JSONResponse(
        {"runs": list(runs), "new": asdict(import_result.new), "set_aside": aside}, 409 if aside else 200
    )


@router.post(
    "/schedules/{schedule}/trigger",
    response_model=models.ApiTrigger,
    status_code=202,
    dependencies=[needs("trigger")],
)
def trigger(request: Request, schedule: ScheduleName) -> Response:
    """Enqueue the tasks of a schedule now, unless some wait already; requires `trigger_token`."""
    database = served_database()
    waiting = queue.tasks(database, schedule=schedule, state=TaskState.WAITING, newest=_MOST_TASKS)
    if waiting:
        return _tasks(200, waiting)
    enqueue: Trigger | None = request.app.state.trigger
    if enqueue is None:
        raise HTTPException(404, "this server has no schedules")
    try:
        due_at = enqueue(database, schedule)
    except NoSuchSchedule as error:
        raise HTTPException(404, str(error)) from error
    except JobError as error:
        raise HTTPException(409, str(error)) from error
    every = queue.tasks(database, schedule=schedule, newest=_MOST_TASKS)
    return _tasks(202, [task for task in every if task.due_at == due_at])


def _tasks(status: int, tasks: Sequence[Task]) -> Response:
    rows = [models.ApiTask.model_validate(one).model_dump(mode="json") for one in tasks]
    return JSONResponse({"queued": status == 202, "tasks": rows}, status)
