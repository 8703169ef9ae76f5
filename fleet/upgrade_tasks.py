"""One upgrade on every machine that has a label: a task for each, followed until all have ended."""

import getpass
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from analysis.staleness import EligibleMachines, WaitReason, eligible_machines, present
from configuration.settings import Settings
from db.connection.engine import Database
from db.errors import DatabaseUnavailable
from db.queue import queries as queue_queries
from records.tasks import NewTask, Task, TaskState
from scheduled_jobs.jobs.measure import LATEST
from scheduled_jobs.jobs.upgrade import task_spec
from scheduled_jobs.scheduler.planner import MANUAL, plan_now
from workflows.app_context import AppContext
from workflows.errors import UsageError
from workflows.fleet_status import fleet_status, measures
from workflows.planning.plan_upgrade import UpgradeRequest, check_judged, choose_policy, pairs_plan, waivers
from workflows.planning.resolve_environment import parse_environment
from workflows.planning.select_cases import choose_preset, choose_suite

from .status import recently_seen

#: What stands for a schedule in the queue; none in pyrometer.toml can have that name.
SCHEDULE = "upgrade:on"
#: How often the queue is read while tasks are followed.
LOOK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """A task as it stands: `why` it waits before it began; what it `waits_for` once it runs, if anything."""

    task: Task
    why: WaitReason | None = None
    waits_for: str = ""

    @property
    def finished(self) -> bool:
        """Whether it has ended."""
        return self.task.state not in (TaskState.WAITING, TaskState.RUNNING)


def queue_upgrade(app: AppContext, request: UpgradeRequest, labels: Sequence[str]) -> list[Task]:
    """Queue the upgrade for every machine that has one of the labels, and return the tasks, by machine.

    Raises UsageError for a label that no machine with a running scheduler has, and for a request that no
    machine could carry out; then nothing is queued. Raises DatabaseError.
    """
    named = request.waived_by or not request.waive
    spec = task_spec(request if named else replace(request, waived_by=getpass.getuser()))
    _check(app.settings, request)
    with app.open_database() as database:
        now = datetime.now(UTC)
        machines = _match_labels(_live_machines(database, now), labels)
        new = [NewTask(machine, "upgrade", spec, label=machine) for machine in machines]
        due_at = plan_now(database, SCHEDULE, MANUAL, new, now)
        queued = (each for each in queue_queries.scheduled_runs(database, SCHEDULE) if each.due_at == due_at)
        return sorted(next(queued).tasks, key=lambda task: task.part)


def _check(settings: Settings, request: UpgradeRequest) -> None:
    """Raise UsageError for what each machine would refuse."""
    check_judged(request.also)
    choose_policy(settings, request.policy)
    pairs_plan(request.pairs)
    waivers(request.waive, request.because)
    choose_preset(settings, request.preset)
    choose_suite(settings, request.suite, list(request.cases), own_cases=False)
    for text in (request.old, request.new):
        if text != LATEST:
            parse_environment(settings, text)


def _live_machines(database: Database, now: datetime) -> EligibleMachines:
    """The machines with a running scheduler that measures."""
    schedulers, now = queue_queries.schedulers(database), queue_queries.shared_time(database, now)
    living = present(recently_seen(schedulers, now))
    return eligible_machines(filter(measures, living))


def _match_labels(living: EligibleMachines, labels: Sequence[str]) -> list[str]:
    """The machines that have one of the labels, by name; raises UsageError for a label that none has."""
    if not living.every:
        raise UsageError("no running scheduler measures: start one with `pyrometer scheduler`")
    for label in labels:
        if not label or not living.of(label):
            names = ", ".join(sorted(living.by_label))
            raise UsageError(
                f'no machine with a running scheduler has the label "{label}": known labels are {names}'
            )
    return sorted({machine for label in labels for machine in living.of(label)})


def follow(app: AppContext, tasks: Sequence[Task], report: Callable[[TaskProgress], None]) -> list[Task]:
    """Wait until all tasks have ended, and return them as they ended; `report` receives each at each look.

    A database that is away is waited for.
    """
    away = False
    with app.open_database() as database:
        while True:
            try:
                found = progress(database, tasks, datetime.now(UTC))
            except DatabaseUnavailable as error:
                if not away:
                    app.reporter.note(f"{error}; it is waited for")
                away = True
            else:
                away = False
                for one in found:
                    report(one)
                if all(one.finished for one in found):
                    return [one.task for one in found]
            time.sleep(LOOK_SECONDS)


def progress(database: Database, tasks: Sequence[Task], now: datetime) -> list[TaskProgress]:
    """How far these tasks are, in their order; raises DatabaseError."""
    current = [queue_queries.task(database, task.id) or task for task in tasks]
    schedulers = queue_queries.schedulers(database)
    open_tasks = [
        *queue_queries.running_tasks(database),
        *(task for task in current if task.state == TaskState.WAITING),
    ]
    reporting = recently_seen(schedulers, queue_queries.shared_time(database, now))
    status = fleet_status(schedulers, reporting, open_tasks, now)
    reasons = {task.id: why for task, why in status.waiting}
    wait_reasons = queue_queries.wait_reasons(database, [task.id for task in current])
    return [TaskProgress(task, reasons.get(task.id), wait_reasons.get(task.id, "")) for task in current]
