"""Slurm as the engine of a fleet: what an agent does on a node is done by jobs and a shared file system.

No process of ours lives on a node but while a job runs. A job's files are read where it writes them; Slurm is
asked only what becomes of the job.
"""

import math
import os
import shlex
import sys
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from configuration.tables.slurm import SlurmSettings
from runner import journal
from scheduled_jobs.scheduler.child_process import OURSELVES, PATIENCE_SECONDS
from scheduled_jobs.scheduler.process_identity import machine_name, this_process

from ..engine import AgentRefused, EngineAway, NodeLost, NodeSeen, NodeSilent
from ..file_chunks import PIECE_BYTES, Piece, piece
from .commands import Slurm, SlurmAway, SlurmRefused
from .job import JobFolder, Order, data_folder, host_of
from .queue import SlurmQueue

#: So long before its time limit a job is asked to end: what a child needs to keep what it has, and some more.
_WARNING_SECONDS = PATIENCE_SECONDS + 45.0
#: How often a look that waits looks.
_LOOK_SECONDS = 1.0
#: What goes with a job of the head's variables, whatever else is wished.
_VARIABLES = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SLURM_CONF", "TZ", "USER")
#: Variables of ours that no node needs: they speak of the database, of pages and of people.
_HEADS_OWN = ("ALERTS", "DASHBOARD", "DATABASE", "DATA_DIR", "FLEET", "SLURM", "TEST")


class SlurmEngine:
    """Calls to nodes of a Slurm cluster. All of it may be called from several threads at once.

    `shared` is where head and nodes meet, `environments` the head's, `folder` and `config` are where the
    commands start and the file with their settings, None for none. `command` is how this program is started.
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
        #: The nodes that others have while one that is asked by the same labels is free.
        self.left_to_others: frozenset[str] = frozenset()
        self._hosts: dict[str, str] = {}

    def nodes(self) -> Sequence[NodeSeen]:
        """The nodes that take jobs; raises EngineAway. What dead heads left in the queue is cancelled."""
        try:
            rows = self.queue.nodes.get()
            # A file system that is away says nothing of the nodes; it is swept once that is back.
            with suppress(OSError):
                self.queue.sweep()
        except SlurmAway as error:
            raise EngineAway(str(error)) from error
        free = {row.labels for row in rows if row.free}
        taken = {row.name for row in rows if not row.free and row.labels in free}
        self.left_to_others = frozenset(taken - self.queue.nodes_of_ours)
        return [NodeSeen(row.name, row.name) for row in rows if row.there]

    def names(self, node: str) -> tuple[str, ...]:
        """What Slurm calls a node, and what it called itself when it last told of itself; never waits."""
        return tuple(name for name in (node, self._hosts.get(node)) if name)

    def call(self, node: str, method: str, arguments: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        """What an agent on that node would answer.

        Raises EngineAway, NodeLost and AgentRefused, and NodeSilent where the shared file system fails.
        """
        done = {
            "describe": self._describe,
            "start": self._start,
            "look": self._look,
            "stop": self._stop,
            "runs": self._runs,
            "read": self._read,
        }
        try:
            return done[method](node, **arguments)
        except SlurmAway as error:
            raise EngineAway(str(error)) from error
        except SlurmRefused as error:
            raise AgentRefused(f"Slurm refuses a job on {node}: {error}") from error
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            raise NodeSilent(f"{error.strerror or error}{where}") from error

    def close(self) -> None:
        """Let go of it; jobs go on until a head cancels them."""

    def _describe(self, node: str) -> dict[str, Any]:
        row = next((row for row in self.queue.nodes.get() if row.name == node), None)
        if row is None:
            raise NodeLost(f"Slurm knows no node {node}")
        # By this name a run's machine is measured again, and Slurm may have another one for it.
        with suppress(OSError):
            self._hosts[node] = host_of(self._shared / "data" / node)
        return {
            "machine": node,
            "labels": [*row.labels, *self.names(node)[1:]],
            "version": version("pyrometer"),
            "python": ".".join(map(str, sys.version_info[:3])),
            "folder": str(self._shared / "data" / node),
            # A node is somebody's until a job of ours has it: nothing can be tried there before.
            "notes": [],
            "examined": False,
            "hardware": "",
            "gpus": [],
            "capabilities": [],
            "environments": [],
            "cannot": [],
        }

    def _start(
        self, node: str, token: str, arguments: Sequence[str], run: str, after: str = "", nodes: int = 1
    ) -> dict[str, Any]:
        """Submit a job for a child, once for each token; Slurm keeps its nodes for it alone."""
        job = self.queue.watch(token)
        if not job.number:
            row = self.queue.find(token) if self.queue.order(token) is not None else None
            if row is None:
                order = self._order(node, arguments, run, nodes)
                job.give(order)
                number = self._submit(job, token, order)
            else:
                number = row.number
            job.tell_number(number)
        return {"begun": True, "why": ""}

    def _order(self, node: str, arguments: Sequence[str], run: str, nodes: int) -> Order:
        return Order(
            node=node,
            run=run,
            owner=str(self._owner),
            command=(*self._command, *arguments),
            folder=str(self._folder),
            variables=self._variables(),
            data_dir=str(data_folder(self._shared, node, run)),
            environments=str(self._environments),
            limit_seconds=self._minutes * 60.0,
            warning_seconds=_WARNING_SECONDS,
            nodes=nodes,
        )

    @property
    def _minutes(self) -> int:
        return math.ceil(self._settings.time_limit_hours * 60)

    def _submit(self, job: JobFolder, token: str, order: Order) -> str:
        settings = self._settings
        options = [
            f"--job-name={self.queue.name(token)}",
            *(f"--nodes={order.nodes}", f"--ntasks={order.nodes}", f"--nodelist={order.node}"),
            # All of each node for nobody else: two that measure together measure each other.
            *("--exclusive", "--mem=0"),
            # Whoever retries is the queue of Pyrometer.
            "--no-requeue",
            f"--time={self._minutes}",
            f"--signal=B:TERM@{_WARNING_SECONDS:.0f}",
            f"--output={job.output}",
            f"--chdir={self._folder}",
        ]
        options += [] if settings.partition is None else [f"--partition={settings.partition}"]
        options += [] if settings.account is None else [f"--account={settings.account}"]
        program = [self._python, "-P", "-m", "fleet.slurm.node", str(job.path)]
        script = f"#!/bin/sh\nexec {shlex.join(program)}\n"
        return self._slurm.submit(script, [*options, *settings.arguments], order.variables)

    def _variables(self) -> dict[str, str]:
        """What goes with a job: it is written down, and Slurm keeps it, so nothing may be secret."""
        wanted = {*_VARIABLES, *self._settings.environment}
        found = {name: value for name, value in os.environ.items() if name in wanted or _travels(name)}
        return found | ({} if self._config is None else {"PYROMETER_CONFIG": str(self._config)})

    def _look(
        self,
        node: str,
        token: str,
        log_at: int,
        events_at: int,
        journal_at: int,
        most: int = PIECE_BYTES,
        seconds: float = 0.0,
    ) -> dict[str, Any]:
        """What is new in the files of a job, as the agent tells it; a job that waits says why in its log."""
        job, order = self.queue.watch(token), self.queue.order(token)
        nothing = {"log": "", "events": "", "journal": "", "more": False, "ended": None, "last": ""}
        if order is None:
            never = {"code": None, "signal": None, "sentence": "stopped before it began"}
            stopped = self.queue.stopped(token)
            return {**nothing, "ended": never if stopped else None, "unknown": not stopped}
        give_up = time.monotonic() + seconds
        while (end := job.end) is None and time.monotonic() < give_up:
            time.sleep(_LOOK_SECONDS)
        # Asked before the files are read: what is in them then is all that will ever be.
        ended, lost = None, ""
        if end is None:
            lost = self.queue.lost(token, order)
        else:
            ended = self._ended(job, order, end, token)
        log, events = _log(job, log_at, most), piece(job.logs.events, events_at, most)
        kept = Piece("", more=False)
        if order.journal is not None:
            kept = piece(order.journal, journal_at, most, settled=end is not None)
        if log.text or events.text or kept.text:
            self.queue.heard(token)
        elif lost and not job.stop.exists():
            raise NodeLost(lost)
        elif lost:
            ended = {"code": None, "signal": None, "sentence": lost}
        more = log.more or events.more or kept.more
        return {
            **nothing,
            "log": log.text,
            "events": events.text,
            "journal": kept.text,
            "more": more,
            "ended": None if more else ended,
            "unknown": False,
        }

    def _ended(
        self, job: JobFolder, order: Order, end: Mapping[str, Any], token: str
    ) -> dict[str, Any] | None:
        """The end that a job told; None while Slurm is about to say why it was asked to end."""
        sentence = str(end["sentence"])
        if end["asked"] and not job.stop.exists():
            sentence = self.queue.why_asked(token, order, float(end["seconds"]))
            if not sentence:
                return None
        return {"code": end["code"], "signal": end["signal"], "sentence": sentence}

    def _stop(self, node: str, token: str) -> dict[str, Any]:
        """Ask a job to keep what it has and end; one that waits is taken out of the queue."""
        self.queue.stop(token)
        return {}

    def _runs(self, node: str) -> dict[str, Any]:
        """The runs that lie here of a node, with the sizes of their journals."""
        measured = self.queue.measured()
        found: list[dict[str, Any]] = []
        for path in sorted((self._shared / "data" / node).glob(f"*/runs/*/{journal.FILE}")):
            with suppress(OSError):
                run, size = path.parent.name, path.stat().st_size
                found.append({"run": run, "size": size, "in_use": run in measured})
        return {"runs": found}

    def _read(self, node: str, run: str, at: int, most: int = PIECE_BYTES) -> dict[str, Any]:
        """Bytes of a run's journal from `at` on, and its size."""
        path = data_folder(self._shared, node, run) / "runs" / run / journal.FILE
        if Path(run).name != run or not path.exists():
            raise AgentRefused(f"there is no run {run} of {node}")
        found = piece(path, at, most, settled=run not in self.queue.measured())
        return {"data": found.text, "more": found.more, "size": path.stat().st_size}


def _travels(name: str) -> bool:
    """Whether a variable of ours says how it is measured."""
    ours = name.removeprefix("PYROMETER_")
    return ours != name and not ours.startswith(_HEADS_OWN)


def _log(job: JobFolder, at: int, most: int) -> Piece:
    """What the head said of the queue, and behind it what the command said."""
    said = job.queue.read_bytes() if job.queue.exists() else b""
    if at >= len(said):
        return piece(job.logs.log, at - len(said), most)
    text = said[at : at + most]
    return Piece(b64encode(text).decode(), more=job.logs.log.exists() or len(said) > at + most)
