"""The queries of the fleet page, cached for a few seconds; they raise `db.errors.DatabaseError`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.components.load import cache, permanent_cache
from dashboard.components.query_params import Query, View, last, unknown_value
from dashboard.runs import capabilities
from dashboard.server.database import by_url, database_at
from db.queue import queries as queue_queries
from db.runs import environments_in_use, queries
from interchange.formats import came_from
from records.environments import EnvironmentUsed
from records.kinds import RunState
from records.runs import RunSummary
from records.tasks import Task


@dataclass(frozen=True, slots=True)
class Fleet(View):
    """The fleet page. `machine` is a name, empty for all of them."""

    machine: str


def chosen(query: Query, machines: Sequence[str]) -> tuple[Fleet, list[str]]:
    """The selection in `query`, and complaints."""
    name = last(query, "machine") or ""
    if not name or name in machines:
        return Fleet(name), []
    return Fleet(""), [unknown_value("machine", name, machines)]


#: The most rows of a list on a page, and the most environments.
ROWS, ENVIRONMENTS = 40, 500
#: The most waiting tasks, and the number of runs searched for environments in use.
TASKS, RUNS = 1000, 2000

last_scheduled_runs = cache(by_url(queue_queries.last_scheduled_runs))


@dataclass(frozen=True, slots=True)
class Able:
    """The telemetry of a machine during a run, by name, and sentences about absent telemetry."""

    present: tuple[str, ...]
    absent: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpenTasks:
    """The running and waiting tasks, oldest first; `newer` is the number of later waiting tasks."""

    running: tuple[Task, ...]
    waiting: tuple[Task, ...]
    newer: int

    @property
    def every(self) -> tuple[Task, ...]:
        """All known schedulers."""
        return *self.running, *self.waiting


@cache
def newest_runs(url: str) -> tuple[RunSummary, ...]:
    """The newest run of each machine, the newest first."""
    database = database_at(url)
    records = queries.run_summaries(database, environments_in_use.newest_of_machines(database).values())
    return tuple(sorted(records.values(), key=lambda run: run.started_at, reverse=True))


@cache
def foreign_runs(url: str) -> Counter[str]:
    """The number of runs that Pyrometer did not measure, by source."""
    return Counter({came_from(each): each.runs for each in queries.foreign_runs(database_at(url))})


@cache
def without_task(url: str) -> frozenset[str]:
    """The running ones among the newest runs of machines that belong to no task: manual runs."""
    going = [run.id for run in newest_runs(url) if run.state == RunState.RUNNING]
    return frozenset(run for run in going if queue_queries.task_of_run(database_at(url), run) is None)


@cache
def open_tasks(url: str, labels: tuple[str, ...] | None = None) -> OpenTasks:
    """The running and the waiting tasks (of some labels, or all) at present."""
    database = database_at(url)
    waiting, newer = queue_queries.waiting_tasks(database, labels=labels, oldest=TASKS)
    return OpenTasks(tuple(queue_queries.running_tasks(database)), tuple(waiting), newer)


@cache
def wait_reasons(url: str) -> dict[int, str]:
    """By running task, the reason why it does not measure yet."""
    database = database_at(url)
    return queue_queries.wait_reasons(database, [task.id for task in queue_queries.running_tasks(database)])


@cache
def environments(url: str) -> list[EnvironmentUsed]:
    """The environments of the newest runs, last used first."""
    return environments_in_use.environments_used(database_at(url), RUNS)


@permanent_cache
def able(url: str, run: str) -> Able | None:
    """The telemetry of the machine of a run; None for a deleted run."""
    record = queries.run_record(database_at(url), run)
    if record is None:
        return None
    return Able(tuple(capabilities.present(record)), tuple(capabilities.absent(record)))
