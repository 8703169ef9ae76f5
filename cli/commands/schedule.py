"""`pyrometer scheduler` runs the timetable as a service; `schedule` and `tasks` show and change it."""

import json
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from analysis.staleness import eligible_machines, present
from common.interrupts import Interrupts, interruptible
from common.text import printable
from configuration.errors import ConfigurationError
from configuration.schedules import ScheduleSettings, zone
from configuration.settings import Settings, load_settings
from configuration.suggestions import unknown
from db.connection.engine import Database
from db.errors import DatabaseError, DatabaseUnavailable
from db.queue import queries as queue_queries
from db.queue.commands import cancel as cancel_task
from db.runs.queries import run_record
from fleet.hosts import FleetHosts
from fleet.status import engine_of, recently_seen
from records.tasks import SchedulerSeen, Task, TaskAttempt, TaskState
from runner import journal
from runner.telemetry.gpu import probe
from scheduled_jobs.jobs.context import CONTROL_JOBS
from scheduled_jobs.jobs.detect import unwatchable_reason
from scheduled_jobs.jobs.measure import LATEST
from scheduled_jobs.scheduler import planner, timetable
from scheduled_jobs.scheduler.child_process import logs_of
from scheduled_jobs.scheduler.log import Form, Log
from scheduled_jobs.scheduler.process_identity import machine_name
from scheduled_jobs.scheduler.scheduler import SchedulerConfig, Service
from scheduled_jobs.scheduler.worker_pool import WorkerSlot
from workflows.app_context import AppContext
from workflows.errors import UsageError
from workflows.fleet_status import MEASURING, measures, runs_control_jobs
from workflows.planning.resolve_environment import parse_environment
from workflows.planning.select_cases import choose_preset, choose_suite, schedule_devices, unmeasured_gpus

from ..context import FAILED, INTERRUPTED, context, in_one_sentence, say
from ..options import LARGEST, Json, LogForm, Measuring
from ..output.console import report_console, table

SCHEDULER_HELP = """Run the schedules of pyrometer.toml ([schedules.NAME]).

\b
pyrometer scheduler                  until Ctrl-C or SIGTERM
pyrometer scheduler --once           run the due tasks, and end
pyrometer scheduler --no-measuring   only plan, detect and notify: other machines measure

Several schedulers may share a database: each task runs once, on the first scheduler that claims it. A
machine claims tasks without a label, and those with one of its own labels (machine_labels, and its name).
Each measurement runs in a child process. When the scheduler is stopped, finished results are kept, and the
next scheduler on this machine resumes the run. `pyrometer schedule list` shows the next runs.
"""

#: Seconds between two checks whether the settings have changed.
LOOK_SECONDS = 5.0
#: Seconds that `--once` waits for the machines of a fleet to be known.
FLEET_SECONDS = 120.0


def scheduler(
    once: Annotated[bool, typer.Option("--once", help="run the due tasks, and end")] = False,
    measuring: Measuring = True,
    log: LogForm = None,
) -> None:
    """Run the service (the help text is a constant, which keeps its layout)."""
    with in_one_sentence(), interruptible() as interrupts:
        service = serving_of(context(), log, measuring=measuring, wait_for_nodes=once)
        live(service, interrupts, once=once)


def live(
    service: Service,
    interrupts: Interrupts,
    *,
    once: bool = False,
    asked: Callable[[], bool] = lambda: False,
) -> None:
    """Run a service until a signal, or `asked`, ends it; a second signal ends it at once."""
    before = signal.set_wakeup_fd(service.waker, warn_on_full_buffer=False)
    try:
        with interrupts.defer_signals():
            service.run(lambda: interrupts.requested() or asked(), once=once)
    except KeyboardInterrupt:
        say("stopped at once; the next scheduler of this machine resumes its runs")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        signal.set_wakeup_fd(before)


def serving_of(
    app_context: AppContext, form: Form | None, *, measuring: bool, wait_for_nodes: bool = False
) -> Service:
    """The service with the settings of this folder; with `wait_for_nodes` it waits until the machines of its
    fleet are known.

    Raises UsageError for a schedule that cannot run, JobError for a fleet that cannot be reached, and
    DatabaseError.
    """
    # The notification library has a hundred services; other commands should not wait for its import.
    from scheduled_jobs.jobs.registry import JOBS

    check_schedules(app_context.settings)
    # An unreachable database may return; a wrong schema or URL is an error at once.
    with suppress(DatabaseUnavailable):
        app_context.open_database().close()

    def now() -> datetime:
        return datetime.now(UTC)

    log = Log(form or ("plain" if sys.stdout.isatty() else "json"), now)
    machine = machine_name()
    labels = tuple(dict.fromkeys((machine, *app_context.settings.machine_labels)))
    if measuring:
        log_devices(log, app_context.settings, labels)
    around = SchedulerConfig(
        settings=Reread(app_context.settings, log),
        data_dir=app_context.places.data_dir,
        open_database=app_context.open_database,
        machine=machine,
        labels=labels,
        jobs=JOBS,
        log=log,
        now=now,
        version=version("pyrometer"),
    )
    slots = [WorkerSlot("measuring", MEASURING)] if measuring else []
    return Service(
        around,
        [*slots, WorkerSlot("thinking", CONTROL_JOBS)],
        fleet_of(app_context, log, wait_for_nodes=wait_for_nodes),
    )


def log_devices(log: Log, settings: Settings, labels: Collection[str]) -> None:
    """Log what each schedule measures on this machine, and a warning if none measures its GPU."""
    gpus = [gpu.name for gpu in probe.examine().gpus if not gpu.mig_of]
    devices = schedule_devices(settings, labels, gpus)
    for each in devices:
        log("measures", each.sentence, {"schedule": each.schedule})
    if sentence := unmeasured_gpus(devices, gpus):
        log("measures", sentence, level="warning")


def fleet_of(app_context: AppContext, log: Log, *, wait_for_nodes: bool) -> FleetHosts | None:
    """The machines that measure for this one if a fleet is configured; raises JobError."""
    if app_context.settings.fleet.engine == "none":
        return None
    engine, data_dir = engine_of(app_context), app_context.places.data_dir
    hosts = FleetHosts(engine, data_dir, app_context.open_database, lambda sentence: log("fleet", sentence))
    if wait_for_nodes and not hosts.wait_until_known(FLEET_SECONDS):
        log("fleet", f"not all of its machines are known after {FLEET_SECONDS:g} s", level="warning")
    return hosts


def check_schedules(settings: Settings) -> None:
    """Raise UsageError for the first schedule with an unknown suite, preset, environment or metric."""
    for name, schedule in settings.schedules.items():
        environments = [schedule.old, schedule.new] if schedule.job == "upgrade" else schedule.environments
        try:
            choose_preset(settings, schedule.preset)
            choose_suite(settings, schedule.suite, list(schedule.cases or ()), bool(schedule.case_files))
            for text in environments:
                if text and text != LATEST:
                    parse_environment(settings, text)
        except UsageError as error:
            raise UsageError(f"schedule {name}: {error}") from None
        if why := unwatchable_reason(schedule.watch or ()):
            raise UsageError(f"schedule {name} {why}")


class Reread:
    """The present settings of the file; an error in it is reported once, and the old settings stay in use."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings, self._log = settings, log
        self._state = _file_state(settings.file)
        self._looked = time.monotonic()

    def __call__(self) -> Settings:
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return self._settings
        self._looked = time.monotonic()
        state = _file_state(self._settings.file)
        if state == self._state:
            return self._settings
        self._state = state
        try:
            settings = load_settings(self._settings.file)
            check_schedules(settings)
        except (ConfigurationError, UsageError) as error:
            self._log("settings refused", f"{error}; the old settings stay in use", level="warning")
        else:
            self._settings = settings
            self._log("settings read again")
        return self._settings


def _file_state(file: Path | None) -> tuple[int, int] | None:
    """Properties of a file that change when it is written."""
    try:
        found = file.stat() if file is not None else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size) if found is not None else None


app = typer.Typer(help="List the schedules, or trigger one now.", no_args_is_help=True)
tasks_app = typer.Typer(help="List, show and cancel the tasks of the scheduler.", no_args_is_help=True)

_NEXT = 3
_OPEN = (TaskState.WAITING, TaskState.RUNNING)


@app.command("list")
def list_schedules(as_json: Json = False) -> None:
    """List all schedules, also the built-in ones: next runs, last result, waiting tasks."""
    with in_one_sentence():
        app_context = context(reading=True)
        check_schedules(app_context.settings)
        rows = _rows(app_context, datetime.now(UTC))
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    listed = table("schedule", "job", "cron", "next runs", "last", "waiting", "")
    for row in rows:
        following = "\n".join(row["next"]) or "-"
        waits = ", ".join(f"{count} {state}" for state, count in row["open"].items()) or "-"
        waits = "\n".join([waits, *map(printable, row["waits_for"])])
        note = "built in" if row["built_in"] else "" if row["enabled"] else "not enabled"
        cells = (row["schedule"], row["job"], row["cron"], following, row["last_result"], waits, note)
        listed.add_row(*map(escape, cells))
    console = report_console()
    console.print(listed)
    console.print(f"times of {app_context.settings.timezone}", style="dim")


def _rows(app_context: AppContext, now: datetime) -> list[dict[str, Any]]:
    settings, local_zone = app_context.settings, zone(app_context.settings.timezone)
    try:
        with app_context.open_database() as database:
            last = queue_queries.last_of_each(database)
            waiting, _ = queue_queries.waiting_tasks(database, oldest=LARGEST)
            open_tasks = [*waiting, *queue_queries.running_tasks(database)]
            reasons = queue_queries.wait_reasons(database, [task.id for task in open_tasks])
    except DatabaseError as error:
        say(f"note: {error}")
        last, open_tasks, reasons = {}, [], {}
    return [
        {
            **_row(name, settings.schedules.get(name), local_zone, now),
            **_state(name, last, open_tasks, local_zone),
        }
        | {
            "waits_for": [
                reasons[task.id] for task in open_tasks if task.schedule == name and task.id in reasons
            ]
        }
        | {"built_in": name in settings.built_in_schedules}
        for name in planner.names(settings)
    ]


def _row(name: str, schedule: ScheduleSettings | None, local_zone: tzinfo, now: datetime) -> dict[str, Any]:
    """A schedule with its next fire times; a follow-up schedule is not in pyrometer.toml."""
    if schedule is None:
        job, _, followed = name.partition(":")
        return {"schedule": name, "job": job, "cron": f"after {followed}", "enabled": True, "next": []}
    moments = timetable.next_fire_times(schedule.cron, local_zone, now, _NEXT) if schedule.enabled else []
    return {
        "schedule": name,
        "job": schedule.job,
        "cron": schedule.cron,
        "enabled": schedule.enabled,
        "next": [f"{moment.astimezone(local_zone):%a %Y-%m-%d %H:%M %Z}" for moment in moments],
        "next_utc": [moment.isoformat() for moment in moments],
    }


def _state(
    name: str, last: Mapping[tuple[str, str], Task], open_tasks: Iterable[Task], local_zone: tzinfo
) -> dict[str, Any]:
    """The result of a schedule's newest ended run, and its waiting or running tasks."""
    ended = [task for (of, _), task in last.items() if of == name]
    newest = max((task.due_at for task in ended), default=None)
    latest = [task for task in ended if task.due_at == newest]
    own = [task.state for task in open_tasks if task.schedule == name]
    return {
        "last": [_body(task) for task in latest],
        "last_result": _last_result(latest, local_zone),
        "open": {state: own.count(state) for state in _OPEN if state in own},
    }


def _last_result(tasks: Sequence[Task], local_zone: tzinfo) -> str:
    if not tasks:
        return "never"
    states = [task.state for task in tasks]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    when = f"{tasks[0].due_at.astimezone(local_zone):%Y-%m-%d %H:%M}"
    return f"{when}  {counted if len(tasks) > 1 else states[0]}"


@app.command("trigger")
def trigger(
    name: Annotated[str, typer.Argument(help="a schedule, or detect:NAME")],
    as_json: Json = False,
) -> None:
    """Trigger a schedule now. A running scheduler runs its tasks; this command does not wait for them."""
    with in_one_sentence():
        app_context = context()
        check_schedules(app_context.settings)
        with app_context.open_database() as database:
            now = datetime.now(UTC)
            moment = planner.trigger_schedule(database, app_context.settings, name, now)
            planned = queue_queries.scheduled_runs(database, name)
            own = [task for run in planned if run.due_at == moment for task in run.tasks]
            schedulers, now = queue_queries.schedulers(database), queue_queries.shared_time(database, now)
            alive = present(recently_seen(schedulers, now))
    if as_json:
        typer.echo(
            json.dumps({"schedule": name, "due_at": moment.isoformat(), "tasks": [_body(t) for t in own]})
        )
    for task in own:
        if not as_json:
            what = f" {task.part}" if task.part else ""
            typer.echo(f"task {task.id}: {task.job}{what} waits; `pyrometer tasks show {task.id}` follows it")
    for sentence in _wait_reasons(own, alive):
        say(f"note: {sentence}")


def _wait_reasons(tasks: Collection[Task], alive: Sequence[SchedulerSeen]) -> list[str]:
    """The reason why tasks will wait: no scheduler is running, or none that runs such jobs has a label."""
    if not alive:
        return ["no scheduler is running: start one with `pyrometer scheduler`"]
    able = {True: list(filter(measures, alive)), False: list(filter(runs_control_jobs, alive))}
    kinds = sorted({(task.job in MEASURING, task.label) for task in tasks})
    return [
        f"no scheduler{' that measures' if alone else ''} is running"
        + (f' on a machine with the label "{label}"' if label else "")
        for alone, label in kinds
        if not eligible_machines(able[alone]).of(label)
    ]


@tasks_app.command("list")
def list_tasks(
    schedule: Annotated[str | None, typer.Option(help="only tasks of this schedule")] = None,
    state: Annotated[
        str | None,
        typer.Option(help="only tasks in this state: waiting, running, done, failed, lost or cancelled"),
    ] = None,
    newest: Annotated[int, typer.Option(min=1, max=LARGEST, help="largest number of tasks")] = 30,
    as_json: Json = False,
) -> None:
    """List the newest tasks: waiting, running and ended."""
    with in_one_sentence():
        if state is not None and state not in tuple(TaskState):
            raise UsageError(unknown("state", state, tuple(TaskState)))
        app_context = context(reading=True)
        with app_context.open_database() as database:
            found = queue_queries.tasks(
                database, schedule=schedule, state=None if state is None else TaskState(state), newest=newest
            )
            reasons = queue_queries.wait_reasons(database, [task.id for task in found])
            spent = queue_queries.attempt_seconds(database, [task.id for task in found])
    if as_json:
        for task in found:
            typer.echo(
                json.dumps(
                    {**_body(task), **_attempt_times(spent.get(task.id)), "waits_for": reasons.get(task.id)}
                )
            )
        return
    if not found:
        typer.echo("no tasks")
        return
    local_zone = zone(app_context.settings.timezone)
    listed = table("task", "schedule", "part", "job", "due", "state", "took", "run", "result")
    for task in found:
        # The last output of a child process may be any text.
        text = printable(task.error or reasons.get(task.id) or str(task.result.get("summary", "")))
        due = f"{task.due_at.astimezone(local_zone):%Y-%m-%d %H:%M}"
        what = (str(task.id), task.schedule, task.part, task.job, due, task.state)
        listed.add_row(*map(escape, (*what, _took(spent.get(task.id)), task.run_id or "-", text)))
    console = report_console()
    console.print(listed)
    console.print(f"times of {app_context.settings.timezone}", style="dim")


@tasks_app.command("show")
def show(
    task_id: Annotated[int, typer.Argument(metavar="TASK", max=LARGEST, help="the number of a task")],
    as_json: Json = False,
) -> None:
    """Show one task: its settings, attempts, run and logs, and why it failed."""
    with in_one_sentence():
        app_context = context(reading=True)
        with app_context.open_database() as database:
            task = _task(database, task_id)
            tried = queue_queries.attempts(database, task_id)
            stored = bool(task.run_id) and run_record(database, str(task.run_id)) is not None
    folder = logs_of(app_context.places.data_dir, task.id, 1).folder
    logs = sorted(str(path) for path in folder.glob("attempt-*.log"))
    if as_json:
        attempted = [_attempt_body(one) for one in tried]
        typer.echo(json.dumps({**_body(task), "attempted": attempted, "logs": logs}, indent=2))
        return
    begun = bool(task.run_id) and journal.path_of(app_context.places.data_dir, str(task.run_id)).exists()
    for line in _task_lines(task, tried, logs, zone(app_context.settings.timezone), begun=begun or stored):
        typer.echo(printable(line))


def _task_lines(
    task: Task, tried: Sequence[TaskAttempt], logs: Sequence[str], local_zone: tzinfo, *, begun: bool
) -> Iterable[str]:
    def moment(when: datetime | None) -> str:
        return f"{when.astimezone(local_zone):%Y-%m-%d %H:%M:%S %Z}" if when else "-"

    yield f"task {task.id}: {task.job} of schedule {task.schedule}" + (f", {task.part}" if task.part else "")
    yield f"  state      {task.state}"
    yield f"  due        {moment(task.due_at)}"
    yield f"  asks       {'machine ' + task.label if task.label else 'any machine'}"
    for key, value in task.spec.items():
        if value not in (None, "", []):
            yield f"  {key:10} {value if isinstance(value, str) else json.dumps(value)}"
    if task.run_id:
        report = f": `pyrometer report {task.run_id}` shows it" if begun else ", which has not begun"
        yield f"  run        {task.run_id}{report}"
    if summary := task.result.get("summary"):
        yield f"  result     {summary}"
    if task.error:
        yield f"  error      {task.error}"
    for one in tried:
        by = one.owner.partition("/")[0]
        how = one.ended or "running"
        detail = f": {one.detail}" if one.detail else ""
        began = moment(one.started_at)
        lasted = f"from {began} to {moment(one.ended_at)}" if one.ended_at else f"since {began}"
        yield f"  attempt {one.number} by {by} {lasted}: {how}{detail}"
    for path in logs:
        yield f"  log        {path}"


@tasks_app.command("cancel")
def cancel(
    task_id: Annotated[int, typer.Argument(metavar="TASK", max=LARGEST, help="the number of a task")],
    as_json: Json = False,
) -> None:
    """Cancel a task that waits or runs; what it has measured is kept."""
    with in_one_sentence():
        app_context = context()
        with app_context.open_database() as database:
            before = _task(database, task_id)
            ended = cancel_task(database, task_id, datetime.now(UTC))
    if as_json:
        typer.echo(json.dumps({"task": task_id, "cancelled": ended}))
    elif ended:
        later = "; its scheduler stops it within seconds" if before.state == TaskState.RUNNING else ""
        typer.echo(f"task {task_id} is cancelled{later}")
    else:
        say(f"pyrometer: task {task_id} has already ended: {before.state}")
    if not ended:
        raise typer.Exit(FAILED)


def _task(database: Database, task_id: int) -> Task:
    task = queue_queries.task(database, task_id)
    if task is None:
        newest = [str(one.id) for one in queue_queries.tasks(database, newest=8)]
        raise UsageError(unknown("task", str(task_id), newest))
    return task


def _took(spent: tuple[float, int] | None) -> str:
    """The total duration of all ended attempts, and their number if there is more than one."""
    if spent is None:
        return "-"
    seconds, times = spent
    text = str(timedelta(seconds=round(seconds)))
    return text if times == 1 else f"{text} in {times} attempts"


def _attempt_times(spent: tuple[float, int] | None) -> dict[str, Any]:
    """The same as JSON values; seconds."""
    return {"took_seconds": spent[0] if spent else None, "attempts_over": spent[1] if spent else 0}


def _body(task: Task) -> dict[str, Any]:
    """A task as plain JSON values."""
    return {
        "task": task.id,
        "schedule": task.schedule,
        "due_at": task.due_at.isoformat(),
        "part": task.part,
        "job": task.job,
        "spec": dict(task.spec),
        "label": task.label,
        "state": task.state,
        "attempts": task.attempts,
        "run": task.run_id,
        "owner": task.owner,
        "started_at": _iso(task.started_at),
        "ended_at": _iso(task.ended_at),
        "result": dict(task.result),
        "error": task.error,
    }


def _attempt_body(one: TaskAttempt) -> dict[str, Any]:
    return {
        "number": one.number,
        "owner": one.owner,
        "started_at": one.started_at.isoformat(),
        "ended_at": _iso(one.ended_at),
        "ended": one.ended,
        "detail": one.detail,
        "run": one.run_id,
    }


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
