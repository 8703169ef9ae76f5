"""Slurm as the engine of a fleet: an order is a job, and its files are on a shared file system.

Nothing of Pyrometer runs on a node outside of a job. Files are read where the job writes them; Slurm is asked
only for the state of the job.
"""

import math
import os
import shlex
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from common.text import os_reason
from configuration.schema import SlurmSettings
from runner import journal
from scheduled_jobs.jobs.context import ChildExit
from scheduled_jobs.scheduler.child_process import OURSELVES, PATIENCE_SECONDS
from scheduled_jobs.scheduler.process_identity import machine_name, this_process

from ..engine import (
    Chunk,
    EngineAway,
    EngineNode,
    NodeJournal,
    NodeLost,
    NodeRefused,
    NodeSilent,
    Order,
    OrderPaths,
    read_chunk,
)
from .commands import Slurm, SlurmAway, SlurmRefused
from .job import Job, JobFolder, data_folder, host_of
from .queue import SlurmQueue

#: How long before its time limit a job gets SIGTERM: enough for a child to store its results.
_WARNING_SECONDS = PATIENCE_SECONDS + 45.0
#: How often `done` reads the job's folder while it waits.
POLL_SECONDS = 1.0
#: Variables of the head that every job gets.
_VARIABLES = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SLURM_CONF", "TZ", "USER")
#: Prefixes of PYROMETER_ variables that no node needs, some with secrets.
_HEAD_VARIABLES = ("ALERTS", "DASHBOARD", "DATABASE", "DATA_DIR", "FLEET", "SLURM", "TEST")


class SlurmEngine:
    """Submits jobs to a Slurm cluster. Its methods may be called from several threads at once.

    `shared` is a folder that head and nodes see, `environments` the head's folder of environments, `folder`
    where commands start, `config` their settings file (None: none). `command` starts this program.
    """

    def __init__(
        self,
        settings: SlurmSettings,
        shared: Path,
        environments: Path,
        config: Path | None,
        *,
        command: Sequence[str] = OURSELVES,
        folder: Path | None = None,
    ) -> None:
        self._settings, self._shared = settings, shared
        self._environments, self._config = environments, config
        self._folder = Path.cwd() if folder is None else folder
        self._python = str(settings.python or sys.executable)
        self._command = (self._python, *command[1:]) if tuple(command) == OURSELVES else tuple(command)
        self._slurm = Slurm(settings.partition)
        self._owner = this_process(machine_name())
        self.queue = SlurmQueue(self._slurm, shared, self._owner)

    def nodes(self) -> Sequence[EngineNode]:
        """The nodes that take jobs; raises EngineAway. Jobs of dead heads are cancelled.

        A node is reserved while other jobs have it and one with the same labels is free: our job names its
        node, so that a run can be resumed there, and would wait for it.
        """
        with _engine_errors():
            rows = self.queue.nodes.get()
            # Without the file system the nodes are still known; the sweep is repeated later.
            with suppress(OSError):
                self.queue.sweep()
        free = {row.labels for row in rows if row.is_free}
        reserved = {
            row.name for row in rows if not row.is_free and row.labels in free
        } - self.queue.nodes_of_ours
        return [EngineNode(row.name, row.name, {}, row.name in reserved) for row in rows if row.is_online]

    def describe(self, node: str) -> Mapping[str, Any]:
        """The facts of a node in Slurm; nothing can be examined there outside of a job."""
        with _engine_errors():
            row = next((row for row in self.queue.nodes.get() if row.name == node), None)
        if row is None:
            raise NodeLost(f"Slurm knows no node {node}")
        home, host = self._shared / "data" / node, ""
        # Runs know the machine by its host name, which may differ from its name in Slurm.
        with suppress(OSError):
            host = host_of(home)
        return {
            "machine": host or node,
            "labels": [*row.labels, *([host] if host else [])],
            "version": version("pyrometer"),
            "python": ".".join(map(str, sys.version_info[:3])),
            "folder": str(home),
            "notes": [],
            "examined": False,
            "hardware": "",
            "gpus": [],
            "capabilities": [],
            "environments": [],
            "cannot": [],
        }

    def submit(self, order: Order) -> "SlurmHandle":
        """Submit a job, once for each token, with exclusive nodes."""
        with _engine_errors(order.node):
            job = self.queue.poll(order.token)
            if not job.number:
                row = self.queue.find(order.token) if self.queue.job(order.token) is not None else None
                job.write_number(self.sbatch(job, order) if row is None else row.number)
        return SlurmHandle(self.queue, order)

    def sbatch(self, folder: JobFolder, order: Order) -> str:
        """Write the job file, submit the job, and return its number."""
        job = Job(
            node=order.node,
            run=order.run,
            owner=str(self._owner),
            command=(*self._command, *order.arguments),
            folder=str(self._folder),
            variables=self._variables(),
            data_dir=str(data_folder(self._shared, order.node, order.run)),
            environments=str(self._environments),
            limit_seconds=self._minutes * 60.0,
            warning_seconds=_WARNING_SECONDS,
            nodes=order.nodes,
        )
        folder.write_job(job)
        settings = self._settings
        options = [
            f"--job-name={self.queue.name(order.token)}",
            *(f"--nodes={job.nodes}", f"--ntasks={job.nodes}", f"--nodelist={job.node}"),
            # Whole nodes: two runs on one node disturb each other.
            *("--exclusive", "--mem=0"),
            # The queue of Pyrometer repeats what is lost.
            "--no-requeue",
            f"--time={self._minutes}",
            f"--signal=B:TERM@{_WARNING_SECONDS:.0f}",
            f"--output={folder.output}",
            f"--chdir={self._folder}",
        ]
        options += [] if settings.partition is None else [f"--partition={settings.partition}"]
        options += [] if settings.account is None else [f"--account={settings.account}"]
        program = [self._python, "-P", "-m", "fleet.slurm.node", str(folder.path)]
        script = f"#!/bin/sh\nexec {shlex.join(program)}\n"
        return self._slurm.submit(script, [*options, *settings.arguments], job.variables)

    def runs(self, node: str) -> Sequence[NodeJournal]:
        """The journals of a node on the shared file system."""
        found: list[NodeJournal] = []
        with _engine_errors():
            measured = self.queue.active_runs()
            for path in sorted((self._shared / "data" / node).glob(f"*/runs/*/{journal.FILE}")):
                with suppress(OSError):
                    run, size = path.parent.name, path.stat().st_size
                    found.append(NodeJournal(run, str(path), size, run in measured))
        return found

    def read_files(self, node: str, offsets: Mapping[str, int], *, final: bool) -> Mapping[str, Chunk]:
        """The bytes of each file from its offset on; raises NodeSilent where the file system fails."""
        for path in offsets:
            if not Path(path).is_relative_to(self._shared) or ".." in Path(path).parts:
                raise NodeRefused(f"{path} is not a file of an order")
        with _engine_errors():
            return {path: read_chunk(Path(path), at, final=final) for path, at in offsets.items()}

    def close(self) -> None:
        """Nothing to release: jobs continue until a head cancels them."""

    @property
    def _minutes(self) -> int:
        return math.ceil(self._settings.time_limit_hours * 60)

    def _variables(self) -> dict[str, str]:
        """The environment of a job. It is stored in a file and by Slurm, so it has no secrets."""
        names = {*_VARIABLES, *self._settings.environment}
        found = {name: value for name, value in os.environ.items() if name in names or _goes_with_jobs(name)}
        return found | ({} if self._config is None else {"PYROMETER_CONFIG": str(self._config)})


class SlurmHandle:
    """An order as a job of Slurm."""

    def __init__(self, queue: SlurmQueue, order: Order) -> None:
        self._queue, self._order = queue, order
        self._ended: ChildExit | None = None
        self._sizes = [0, 0, 0]
        self.wait_reason = ""

    @property
    def paths(self) -> OrderPaths:
        """Its files, on the shared file system."""
        folder, job = self._queue.folder(self._order.token), self._queue.job(self._order.token)
        journal_file = job.journal if job is not None else None
        return OrderPaths(str(folder.logs.log), str(folder.logs.events), str(journal_file or ""))

    def done(self, seconds: float = 0.0) -> bool:
        """Whether it has ended; raises NodeLost when Slurm has ended it and its files no longer grow."""
        if self._ended is None:
            with _engine_errors(self._order.node):
                self._poll(time.monotonic() + seconds)
        return self._ended is not None

    def result(self) -> ChildExit:
        """Its exit."""
        while not self.done(POLL_SECONDS) or self._ended is None:
            pass
        return self._ended

    def cancel(self) -> None:
        """Have the job store its results and end; one that waits is cancelled."""
        with _engine_errors(self._order.node):
            self._queue.stop(self._order.token)

    def _poll(self, give_up: float) -> None:
        token = self._order.token
        folder, job = self._queue.poll(token), self._queue.job(token)
        if job is None:
            raise NodeLost(f"there is no job in {folder.path} any more")
        while (end := folder.end) is None and time.monotonic() < give_up:
            time.sleep(POLL_SECONDS)
        if end is not None:
            self._ended = self._queue.exit(token, job, end)
            return
        sizes = [_size(path) for path in (self.paths.log, self.paths.events, self.paths.journal)]
        grown, self._sizes = sizes != self._sizes, sizes
        lost, self.wait_reason = self._queue.status(token, job)
        if grown:
            # It was alive a moment ago, whatever Slurm reports; what it wrote is read first.
            self._queue.note_growth(token)
        elif lost and not folder.stop.exists():
            raise NodeLost(lost)
        elif lost:
            self._ended = ChildExit(None, None, lost)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size if path else 0
    except FileNotFoundError:
        return 0


@contextmanager
def _engine_errors(node: str = "") -> Generator[None]:
    """Raise errors of Slurm or the shared file system as errors of an engine."""
    try:
        yield
    except SlurmAway as error:
        raise EngineAway(str(error)) from error
    except SlurmRefused as error:
        raise NodeRefused(f"Slurm refuses a job on {node}: {error}") from error
    except OSError as error:
        raise NodeSilent(os_reason(error)) from error


def _goes_with_jobs(name: str) -> bool:
    """Whether a PYROMETER_ variable changes how a job measures."""
    setting = name.removeprefix("PYROMETER_")
    return setting != name and not setting.startswith(_HEAD_VARIABLES)
