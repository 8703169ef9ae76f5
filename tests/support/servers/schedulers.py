"""Real schedulers with made-up runs: in a process of their own, to be killed, or in a thread."""

import json
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from configuration.settings import Settings, load_settings
from db.connection.engine import Database, open_database
from db.queue.commands import plan_run
from db.queue.queries import task, tasks
from records.tasks import NewTask, Task
from scheduled_jobs.jobs.context import CONTROL_JOBS, JobContext, JobResult
from scheduled_jobs.jobs.measure import measure
from scheduled_jobs.jobs.prune import prune_rows
from scheduled_jobs.scheduler import scheduler as loop
from scheduled_jobs.scheduler import worker_pool
from scheduled_jobs.scheduler.hosts import HostProvider
from scheduled_jobs.scheduler.log import Log
from scheduled_jobs.scheduler.scheduler import SchedulerConfig, Service
from scheduled_jobs.scheduler.worker_pool import Registry, WorkerSlot
from support.builders.journals import a_header
from support.fakes.folder_hosts import FolderHosts
from support.fakes.pyrometer_run import ENVIRONMENT, HEADER, plan
from support.waiting import PATIENCE_SECONDS, until
from workflows.fleet_status import MEASURING

_SUPPORT = Path(__file__).resolve().parents[1]
_ERRORS = "stderr"
#: What stands for `pyrometer`.
NO_COMMAND = (sys.executable, str(_SUPPORT / "fakes/pyrometer_run.py"))


def write_header(folder: Path) -> None:
    """Write what journals of made-up runs begin with to a folder that stands for their data folder."""
    environment = {
        "name": "an environment",
        "python": sys.executable,
        "fingerprint": ENVIRONMENT,
        "facts": {"torch": "2.13.0", "python": "3.12.3"},
    }
    header = a_header("", plan(), environments=(environment,)).to_body()
    (folder / HEADER).write_text(json.dumps(header))


def settings_of(toml: str, folder: Path) -> Settings:
    """The settings that a file says, without the built-in schedules where it has others."""
    (folder / "pyrometer.toml").write_text(toml)
    return load_settings(cwd=folder, environ={})


def nothing_found(task: Any, context: JobContext) -> JobResult:
    """A look at a history that finds nothing."""
    return JobResult("done", {"summary": "nothing moved"})


JOBS: Registry = {"measure": measure, "detect": nothing_found, "prune": prune_rows}


def a_service(
    url: str,
    data_dir: Path,
    settings: Settings | Callable[[], Settings],
    log: Log,
    *,
    machine: str = "here",
    jobs: Registry = JOBS,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    hosts: HostProvider | None = None,
    command: Sequence[str] = NO_COMMAND,
    labels: Sequence[str] = ("lab",),
) -> Service:
    """A service on a machine of that name that does these jobs, there and on these hosts."""
    around = SchedulerConfig(
        settings=settings if callable(settings) else lambda: settings,
        data_dir=data_dir,
        open_database=partial(open_database, url, timeout=1.0),
        machine=machine,
        labels=(machine, *labels),
        jobs=jobs,
        log=log,
        now=now,
        version="test",
        command=(*command, str(data_dir)),
    )
    return Service(around, [WorkerSlot("measuring", MEASURING), WorkerSlot("thinking", CONTROL_JOBS)], hosts)


@contextmanager
def in_thread(service: Service) -> Generator[None]:
    """The service works in a thread until the block ends."""
    stop_requested = threading.Event()
    thread = threading.Thread(target=service.run, args=(stop_requested.is_set,))
    thread.start()
    try:
        yield
    finally:
        stop_requested.set()
        service.wake()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


#: Forks each scheduler from a process that has imported everything: to import takes longer than most tests.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])


@dataclass
class Process:
    """A scheduler as a process, and what it said."""

    process: ForkServerProcess
    said: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])

    def events(self, name: str) -> list[Mapping[str, Any]]:
        """The events of that name so far."""
        return [each for each in list(self.said) if each["event"] == name]

    def wait_for(self, name: str, **about: object) -> Mapping[str, Any]:
        """The first event of that name that says this."""

        def found() -> Mapping[str, Any] | None:
            return next((e for e in self.events(name) if about.items() <= e.items()), None)

        return until(found, f"{name} {about}")

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def wait(self) -> int:
        """Wait for the end; answers the exit code."""
        self.process.join(PATIENCE_SECONDS)
        assert self.process.exitcode is not None
        return self.process.exitcode

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait; answers the exit code."""
        self.send(number)
        return self.wait()


@contextmanager
def scheduler(url: str, data_dir: Path, *arguments: str, machine: str = "here") -> Generator[Process]:
    """A scheduler in the folder `data_dir` that is killed in the end, if it still lives."""
    data_dir.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(_SUPPORT.parent))
        forkserver.ensure_running()
    reader, writer = _FORKS.Pipe(duplex=False)
    process = _FORKS.Process(target=_be_one, args=(writer, url, str(data_dir), machine, *arguments))
    process.start()
    writer.close()
    made = Process(process)

    def listen() -> None:
        with open(reader.fileno(), closefd=False) as lines:
            made.said.extend(map(json.loads, lines))

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        yield made
    finally:
        process.kill()
        process.join()
        listener.join()
        reader.close()
        sys.stderr.write((data_dir / _ERRORS).read_text())


def _be_one(writer: Connection, url: str, data_dir: str, *arguments: str) -> None:
    """Be a scheduler whose output goes into a pipe and whose errors go into a file."""
    os.chdir(data_dir)
    with open(_ERRORS, "a") as errors:
        os.dup2(errors.fileno(), 2)
    os.dup2(writer.fileno(), 1)
    writer.close()
    main(url, data_dir, *arguments)


def executions(data_dir: Path) -> list[str]:
    """What was carried out, run and case."""
    path = data_dir / "executions"
    return path.read_text().splitlines() if path.exists() else []


def executions_of(run: str | None) -> list[str]:
    """What is carried out of a run that is measured once."""
    return [f"{run} {one.case}" for one in plan()]


def wait_until_midway(data_dir: Path) -> None:
    """Wait until a patient run has measured two of its cases."""
    until(lambda: len(executions(data_dir)) == 2, "two cases are measured")


def enqueue(database: Database, kind: str, *labels: str) -> list[Task]:
    """Have something measured on machines of each label; answers the tasks."""
    now = datetime.now(UTC)
    new = [NewTask(f"{kind}@{at}", "measure", {"track": kind}, label) for at, label in enumerate(labels)]
    assert plan_run(database, "night", now, "by hand", new, now)
    return sorted(
        (each for each in tasks(database, schedule="night") if each.due_at == now), key=lambda each: each.id
    )


class Installation:
    """A folder with data, in which schedulers run, and their database."""

    def __init__(self, folder: Path, url: str, database: Database) -> None:
        self.data_dir, self.url, self.database = folder / "data", url, database
        self.data_dir.mkdir()
        write_header(self.data_dir)

    def now(self, enqueued: Task) -> Task:
        """The task as it stands."""
        found = task(self.database, enqueued.id)
        assert found is not None
        return found

    def over(self, enqueued: Task) -> Task:
        """The task once it is over."""
        until(lambda: self.now(enqueued).state not in ("waiting", "running"), "the task is over")
        return self.now(enqueued)

    def go_on(self) -> None:
        """Let patient runs go on."""
        (self.data_dir / "go-on").touch()


def main(url: str, folder: str, machine: str, *arguments: Sequence[str]) -> None:
    """Be a scheduler until SIGTERM; with a folder `nodes` in DATA_DIR the head of those hosts."""
    stop_requested = threading.Event()
    data_dir = Path(folder)
    nodes = data_dir / "nodes"
    # Tests do not have all night.
    loop.TICK_SECONDS, loop.BEAT_SECONDS, worker_pool.REST_SECONDS = 0.2, 0.4, 0.2
    service = a_service(
        url,
        data_dir,
        settings_of((data_dir / "pyrometer.toml").read_text(), data_dir),
        Log("json", lambda: datetime.now(UTC)),
        machine=machine,
        hosts=FolderHosts(nodes, data_dir, NO_COMMAND) if nodes.is_dir() else None,
    )

    def ask(*_: object) -> None:
        stop_requested.set()
        service.wake()

    signal.signal(signal.SIGTERM, ask)
    service.run(stop_requested.is_set, once="once" in arguments)
