"""The head of some nodes: what is triggered there, what became of it, and a scheduler as users start one."""

import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from db.connection.engine import Database
from db.queue.queries import attempts, task, tasks
from db.runs.queries import outcomes_of_run
from records.outcomes import Outcome
from records.tasks import Task, TaskAttempt
from support.servers.ray_fleet import until as wait_until
from support.site import COMMAND

#: Cases of this name are those that are asked for; the canary's are not.
WORKLOAD = "layer"
_CASES = '''"""Layers of every width: as many cases as are asked for, each of them quick."""

import torch
from runner.worker.case import Workload, case
from torch import nn


@case(width=list(range(1, {many} + 1)))
def layer(width):
    """One small layer."""
    return Workload(nn.Linear(width, width), (torch.ones(4, width),), items=4)
'''
_SUITE = """
[suites.{name}]
cases = [{keys}]
replicates = 1
measure_seconds = {seconds}
warm_up_max_seconds = 1
observe_seconds = 0
"""
_SCHEDULE = """
[schedules.{name}]
cron = "0 0 1 1 *"
enabled = false
suite = "{suite}"
case_files = ["cases.py"]
cases = [{cases}]
environments = [{environments}]
machines = [{machines}]
"""


class Head:
    """A head's folder and database; its commands have `variables` for their environment."""

    def __init__(self, home: Path, variables: Mapping[str, str], database: Database, cases: int) -> None:
        self.home, self.variables, self.database, self.cases = home, variables, database, cases

    def trigger(self, schedule: str) -> list[Task]:
        """Have a schedule done now; its tasks."""
        before = {each.id for each in tasks(self.database, schedule=schedule)}
        command = [str(COMMAND), "schedule", "trigger", schedule]
        triggered = subprocess.run(command, cwd=self.home, env=self.variables, capture_output=True, text=True)
        if triggered.returncode:
            raise SystemExit(triggered.stderr)
        return [each for each in tasks(self.database, schedule=schedule) if each.id not in before]

    def now(self, of: Task) -> Task:
        """What a task has come to."""
        return task(self.database, of.id) or of

    def tried(self, of: Task) -> list[TaskAttempt]:
        """The attempts at a task."""
        return attempts(self.database, of.id)

    def measured(self, of: Task) -> list[Outcome]:
        """The outcomes that are stored of a task's run, without the canary's."""
        run = self.now(of).run_id
        found = outcomes_of_run(self.database, run) if run else []
        return [outcome for outcome in found if outcome.case.startswith(f"{WORKLOAD}/")]

    def mirrored(self, of: Task) -> int:
        """Outcomes in the journal of a task's newest run, as far as the head has it."""
        run = next((each.run_id for each in reversed(self.tried(of)) if each.run_id), "none")
        try:
            text = (self.home / ".pyrometer" / "runs" / str(run) / "journal.jsonl").read_text()
        except FileNotFoundError:
            return 0
        return sum(
            '"outcome"' in line and f'"{WORKLOAD}/infer/width=' in line for line in text.splitlines()[1:]
        )

    @contextmanager
    def scheduler(self, *arguments: str) -> Generator[subprocess.Popen[bytes]]:
        """A scheduler, until the block ends."""
        process = self.schedule(*arguments)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(120)

    def schedule(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Begin a scheduler."""
        command = [str(COMMAND), "scheduler", "--log", "json", *arguments]
        with (self.home / "scheduler.log").open("ab") as log:
            return subprocess.Popen(command, cwd=self.home, env=self.variables, stdout=log, stderr=log)


def cases_file(many: int) -> str:
    """A file with so many cases."""
    return _CASES.format(many=many)


def suite(name: str, cases: int, seconds: float) -> str:
    """A suite of the first cases of that file, each measured for some seconds."""
    return _SUITE.format(name=name, keys=_listed(_keys(cases)), seconds=seconds)


def schedule(name: str, of: str, cases: int, environments: Sequence[str], machines: Sequence[str]) -> str:
    """A schedule of the first cases in that suite, which is triggered by hand."""
    # A file's cases are measured besides a suite's, unless it is said which.
    about = {"cases": _keys(cases), "environments": environments, "machines": machines}
    return _SCHEDULE.format(name=name, suite=of, **{key: _listed(each) for key, each in about.items()})


def _keys(cases: int) -> list[str]:
    return [f"{WORKLOAD}/infer/width={width}/eager" for width in range(1, cases + 1)]


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(f'"{each}"' for each in texts)


def until(happened: Callable[[], object], what: str, seconds: float = 900.0) -> float:
    """Wait for something; the moment at which it was seen, on this process's clock."""
    wait_until(happened, what, seconds)
    return time.monotonic()
