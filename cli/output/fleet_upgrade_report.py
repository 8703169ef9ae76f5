"""An upgrade on several machines on a terminal: a line for each change of a task, then the verdicts."""

from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from common.text import printable
from db.connection.engine import Database
from db.runs import queries
from fleet.upgrade_tasks import TaskProgress, follow
from records.tasks import Task, TaskState
from reports import wording
from reports.fleet_upgrade import FLEET_FORMATS, FleetUpgrade, MachineUpgrade, fleet_json
from reports.text.staleness_text import why_it_waits
from workflows.app_context import AppContext
from workflows.errors import UsageError
from workflows.load_run import judge_stored
from workflows.planning.plan_upgrade import UpgradeRequest

from .console import print_event, report_console, table
from .reporter import say
from .upgrade_report import DECISION_STYLES, write_reports


def print_queued(tasks: Sequence[Task], *, as_json: bool) -> None:
    """Print the queued tasks, with the command that follows each."""
    for task in tasks:
        if as_json:
            print_event(report_console(), "queued", {"task": task.id, "machine": task.part})
        else:
            typer.echo(f"task {task.id}: {task.part}; `pyrometer tasks show {task.id}` follows it")


def watch(
    app: AppContext, request: UpgradeRequest, tasks: Sequence[Task], files: Sequence[Path], *, as_json: bool
) -> FleetUpgrade:
    """Wait for the tasks, print the verdicts and write the reports; raises DatabaseError."""
    ended = follow(app, tasks, _Changes(as_json=as_json))
    with app.open_database() as database:
        machines = tuple(machine_upgrade(database, task) for task in ended)
    found = FleetUpgrade(request.old, request.new, machines)
    if as_json:
        print_event(report_console(), "verdict", fleet_json(found))
    else:
        print_fleet_upgrade(report_console(), found)
    write_reports(FLEET_FORMATS, found, files)
    return found


def machine_upgrade(database: Database, task: Task) -> MachineUpgrade:
    """The verdict of an ended task on its machine; raises DatabaseError."""
    if task.state != TaskState.DONE:
        why = f": {task.error}" if task.error else ""
        return MachineUpgrade(task.part, task.id, reason=f"task {task.id} ended {task.state}{why}")
    run = queries.run_record(database, task.run_id or "")
    if run is None:
        return MachineUpgrade(task.part, task.id, reason=f"run {task.run_id} is not in the database")
    try:
        found = judge_stored(run, queries.outcomes_of_run(database, run.id))
    except UsageError as error:
        return MachineUpgrade(task.part, task.id, reason=str(error))
    return MachineUpgrade(task.part, task.id, found, "" if found else f"run {run.id} has no verdict")


def print_fleet_upgrade(console: Console, found: FleetUpgrade) -> None:
    """A row for each machine, worst hardware first, and the worst verdict of all."""
    listed = table("hardware", "machine", "run", "verdict", "because")
    for hardware, one in found.rows:
        decision = one.decision or "unclear"
        verdict = Text(f"{wording.DECISION_SIGNS[decision]} {one.words}", DECISION_STYLES[decision])
        run = one.judged.subject.run if one.judged else "-"
        cells = (hardware.hardware or "-", one.machine, run)
        listed.add_row(*(Text(printable(cell)) for cell in cells), verdict, Text(one.because))
    console.print(listed)
    sign = wording.DECISION_SIGNS[found.decision]
    console.print(Text(f"{sign} {found.headline}", DECISION_STYLES[found.decision]))


class _Changes:
    """Prints the progress of a task whenever its sentence changes."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._printed: dict[int, str] = {}

    def __call__(self, one: TaskProgress) -> None:
        """Report the state of a task."""
        words = _words(one)
        if self._printed.get(one.task.id) == words:
            return
        self._printed[one.task.id] = words
        task = one.task
        if self._as_json:
            body = {
                "task": task.id,
                "machine": task.part,
                "state": task.state,
                "run": task.run_id,
                "text": words,
            }
            print_event(report_console(), "task", body)
        else:
            say(f"{printable(task.part)}: {words}")


def _words(one: TaskProgress) -> str:
    task = one.task
    if one.why is not None:
        return printable(f"waits: {why_it_waits(task, one.why)}")
    if task.state == TaskState.RUNNING:
        run = f", run {task.run_id}" if task.run_id else ""
        return printable(f"runs{run}" + (f", and waits: {one.waits_for}" if one.waits_for else ""))
    return printable(f"{task.state}: {task.error or task.result.get('summary', '')}".removesuffix(": "))
