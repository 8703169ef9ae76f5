"""The agent of a node, which runs orders one at a time and reads their files; the engine that calls it."""

import os
import platform
import re
import threading
import time
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

from common.bounded_files import read_or_empty
from common.text import os_reason
from configuration.data_dirs import resolve_places
from configuration.errors import ConfigurationError
from configuration.settings import Settings, load_settings
from runner import journal
from scheduled_jobs.jobs.context import ChildExit
from scheduled_jobs.scheduler.child_process import (
    OURSELVES,
    PATIENCE_SECONDS,
    Child,
    Logs,
    RunningChild,
    make_room,
)
from scheduled_jobs.scheduler.process_identity import machine_name

from .engine import Chunk, NodeJournal, NodeLost, NodeRefused, Order, OrderPaths, read_chunk
from .journal_mirror import is_run
from .node_probe import NodeProbe
from .node_steps import GroupNode, StepServer

#: The methods that a head may call.
METHODS = frozenset({"describe", "submit", "done", "cancel", "runs", "read", "reserve", "release", "step"})
#: The longest wait of one `done`, and how often it checks whether an order can start.
_MOST_WAIT_SECONDS, _CHECK_SECONDS = 30.0, 0.1
#: A journal that is in use for longer than this is left to the child, which reports it.
_JOURNAL_PATIENCE_SECONDS = PATIENCE_SECONDS + 20.0
#: An order that cannot start for so long has ended.
_BEGIN_SECONDS = 2 * PATIENCE_SECONDS
#: How many orders are kept, the last one included.
_MOST_ORDERS = 8
_REPLACED = "another order has started on this node"
_TOKEN = re.compile(r"[0-9a-f]{32}")
#: In the data folder: a folder for each order, and in it a file with the id of its run.
_CHILDREN, _RUN_FILE = PurePosixPath("fleet/children"), "run"


def order_paths(token: str, run: str) -> OrderPaths:
    """The files of an order on its node, relative to the node's data folder."""
    logs = Logs(Path(_CHILDREN / token), 1)
    return OrderPaths(str(logs.log), str(logs.events), _journal_path(run) if run else "")


def _journal_path(run: str) -> str:
    return f"runs/{run}/{journal.FILE}"


@dataclass(slots=True)
class _AgentOrder:
    """An order: not started, running, or ended. A step is an order `of` another one."""

    command: Sequence[str]
    logs: Logs
    run: str = ""
    journal: Path | None = None
    group: Sequence[GroupNode] = ()
    of: str = ""
    since: float = field(default_factory=time.monotonic)
    child: RunningChild | None = None
    ended: ChildExit | None = None

    @property
    def finished(self) -> bool:
        return self.ended is not None if self.child is None else self.child.wait_for_exit() is not None


class Agent:
    """Runs commands of `pyrometer` in `folder`, which holds the node's pyrometer.toml.

    `command` starts this program, `variables` are the whole environment of its children (None: that of this
    process). Methods take and return JSON values, may be called from any thread, and are idempotent: a head
    repeats a call whose answer was lost. Raises NodeRefused with one sentence.

    An order starts at a call of `done`, and ends the order before it; one that was replaced never starts.
    """

    def __init__(
        self,
        folder: Path,
        command: Sequence[str] = OURSELVES,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._folder, self._command, self._variables = folder.absolute(), tuple(command), variables
        self._lock = threading.RLock()
        self._orders: dict[str, _AgentOrder] = {}
        #: The order that owns this node, and its former owners: a late call restores none of them.
        self._owner = ""
        self._former: set[str] = set()
        self._probe = NodeProbe(lambda arguments, logs: self._start((*self._command, *arguments), logs))

    def answer(
        self, method: str, arguments: Mapping[str, Any], group: Sequence[GroupNode] = ()
    ) -> Mapping[str, Any]:
        """Call a method by name; `group` are the nodes of an order over several that is submitted.

        Raises NodeRefused, also for an error on the node.
        """
        if method not in METHODS:
            raise NodeRefused(f"an agent of version {version('pyrometer')} does not know {method!r}")
        try:
            return getattr(self, method)(**arguments, **({"group": group} if group else {}))
        except NodeRefused:
            raise
        except ConfigurationError as error:
            raise NodeRefused(str(error)) from error
        except OSError as error:
            raise NodeRefused(os_reason(error)) from error
        except (TypeError, ValueError) as error:
            raise NodeRefused(f"{method} does not take these arguments: {error}") from error

    def describe(self) -> dict[str, Any]:
        """The facts of this node, with the last report of its doctor, which an idle node starts when due."""
        settings, data_dir = self._load_configuration()
        with self._lock:
            reserved = self._owner and self._owner not in self._orders
            idle = not reserved and all(order.finished for order in self._orders.values())
            if idle:
                self._probe.start_if_due(data_dir / "fleet")
        return {
            "machine": machine_name(),
            "labels": list(settings.machine_labels),
            "version": version("pyrometer"),
            "python": platform.python_version(),
            "folder": str(self._folder),
            "idle": idle,
            "notes": _notes(),
            **self._probe.report(data_dir / "fleet"),
        }

    def submit(
        self, token: str, arguments: Sequence[str], run: str, group: Sequence[GroupNode] = ()
    ) -> dict[str, Any]:
        """Accept an order, once for each token; it starts at a call of `done`.

        With a `group`, PYROMETER_NODES_FILE lists these nodes to its command, this one first.
        """
        with self._lock:
            if token in self._former:
                raise NodeRefused(_REPLACED)
            if token not in self._orders:
                command = (*self._command, *map(str, arguments))
                self._orders[token] = self._order(token, command, run, group=group)
        return {}

    def done(self, token: str, seconds: float = 0.0) -> dict[str, Any]:
        """Start an order if it can start, and wait at most `seconds` for its end.

        `wait_reason` is why it has not started, `ended` its exit, `unknown` that the agent does not know it.
        """
        give_up = time.monotonic() + min(seconds, _MOST_WAIT_SECONDS)
        order = self._orders.get(token)
        if order is None:
            return {"unknown": True, "wait_reason": "", "ended": None}
        while (wait_reason := self._begin(token, order)) and time.monotonic() < give_up:
            time.sleep(_CHECK_SECONDS)
        ended = order.ended
        if order.child is not None:
            ended = order.child.wait_for_exit(max(0.0, give_up - time.monotonic()))
        body = None if ended is None else asdict(ended)
        return {"unknown": False, "wait_reason": wait_reason, "ended": body}

    def cancel(self, token: str) -> dict[str, Any]:
        """Have an order store its results and end; one that has not started never does."""
        with self._lock:
            order = self._orders.get(token)
            if order is None:
                order = self._orders[token] = self._order(token, (), "")
            if order.child is not None:
                order.child.terminate()
            elif order.ended is None:
                order.ended = ChildExit(None, None, "cancelled before it began")
        return {}

    def runs(self) -> dict[str, Any]:
        """The journals of the runs that orders measured on this node, as far back as logs are kept."""
        _, data_dir = self._load_configuration()
        found: list[dict[str, Any]] = []
        files = (data_dir / _CHILDREN).glob(f"*/{_RUN_FILE}")
        for run in sorted({read_or_empty(each).strip() for each in files}):
            path = data_dir / _journal_path(run)
            if run and path.exists():
                body = {"run": run, "path": _journal_path(run), "size": path.stat().st_size}
                found.append({**body, "in_use": journal.in_use(path)})
        return {"runs": found}

    def read(self, offsets: Mapping[str, int], final: bool) -> dict[str, Any]:
        """The bytes of each file from its offset on, as base64, and whether `more` follow."""
        _, data_dir = self._load_configuration()
        found: list[dict[str, Any]] = []
        for name, at in offsets.items():
            chunk = read_chunk(data_dir / _check_path(name), at, final=final)
            found.append({"data": b64encode(chunk.data).decode(), "more": chunk.more})
        return {"files": found}

    def reserve(self, token: str) -> dict[str, Any]:
        """Reserve this node for the steps of an order; `wait_reason` is why it is not free yet."""
        with self._lock:
            return {"wait_reason": self._claim(token)}

    def release(self, token: str) -> dict[str, Any]:
        """End a reservation; steps that still run are killed."""
        with self._lock:
            self._end_others("", of=token)
            if self._owner == token:
                self._owner = ""
                self._former.add(token)
        return {}

    def step(self, token: str, step: str, command: Sequence[str]) -> dict[str, Any]:
        """Start a command for the order that reserved this node; `step` is the token of the command."""
        with self._lock:
            if self._owner != token:
                raise NodeRefused("this node is not reserved for that order")
            if step not in self._orders:
                made = self._orders[step] = self._order(step, tuple(map(str, command)), "", of=token)
                self._run(made)
        return {}

    def close(self) -> None:
        """Have what runs store its results and end, as the end of this process would."""
        with self._lock:
            self._probe.stop()
            self._end_others("")

    # -- starting -------------------------------------------------------------------------

    def _order(
        self,
        token: str,
        command: Sequence[str],
        run: str,
        *,
        group: Sequence[GroupNode] = (),
        of: str = "",
    ) -> _AgentOrder:
        if not _TOKEN.fullmatch(token):
            raise NodeRefused(f"{token!r} is not the token of an order")
        if run and not is_run(run):
            raise NodeRefused(f"{run!r} is not the id of a run")
        _, data_dir = self._load_configuration()
        for each in [each for each, other in self._orders.items() if other.finished][: -_MOST_ORDERS + 1]:
            del self._orders[each]
            self._former.add(each)
            self._owner = "" if self._owner == each else self._owner
        path = data_dir / _journal_path(run) if run else None
        return _AgentOrder(command, Logs(data_dir / _CHILDREN / token, 1), run, path, group, of)

    def _begin(self, token: str, order: _AgentOrder) -> str:
        """Start an order that has not started; returns why it cannot yet."""
        with self._lock:
            if order.child is not None or order.ended is not None:
                return ""
            wait_reason = self._claim(token) or self._writer(order)
            if not wait_reason:
                self._run(order)
            elif time.monotonic() - order.since > _BEGIN_SECONDS:
                order.ended = ChildExit(None, None, f"it could not start: {wait_reason}")
            return wait_reason

    def _claim(self, token: str) -> str:
        """Make an order the owner of this node; returns what has to end first, which is terminated."""
        if token in self._former:
            raise NodeRefused(_REPLACED)
        if self._owner and self._owner != token:
            self._former.add(self._owner)
        self._owner = token
        if self._end_others(token):
            return "the order before it stores its results and ends"
        return "" if self._probe.stop() else "the machine is examined: its doctor is terminated"

    def _end_others(self, token: str, *, of: str = "") -> bool:
        """Terminate all but an order and its steps, or only the steps `of` one; whether any still runs."""
        alive = False
        for name, other in self._orders.items():
            if other.finished or (token and token in (name, other.of)) or (of and other.of != of):
                continue
            if other.child is None:
                other.ended = ChildExit(None, None, _REPLACED)
                self._former.add(name)
            else:
                other.child.terminate()
                alive = True
        return alive

    @staticmethod
    def _writer(order: _AgentOrder) -> str:
        """Whether a child of an earlier agent still writes: it ends by itself, but not at once."""
        waited = time.monotonic() - order.since
        path = order.journal if waited < _JOURNAL_PATIENCE_SECONDS else None
        if path is not None and path.exists() and journal.in_use(path):
            return f"another process writes to the journal of run {order.run}"
        return ""

    def _run(self, order: _AgentOrder) -> None:
        server: StepServer | None = None
        try:
            make_room(order.logs.folder)
            (order.logs.folder / _RUN_FILE).write_text(order.run)
            if order.group:
                server = StepServer(order.logs.folder.name, order.group)
            variables = server.variables if server is not None else {}
            child = self._start(order.command, order.logs, variables, kill=bool(order.of))
            order.child = RunningChild(child, server.close if server is not None else None)
        except OSError as error:
            if server is not None:
                server.close()
            order.ended = ChildExit(None, None, f"it cannot be started: {os_reason(error)}")

    def _start(
        self,
        command: Sequence[str],
        logs: Logs,
        added: Mapping[str, str] | None = None,
        *,
        kill: bool = False,
    ) -> Child:
        variables = self._variables
        if added:
            variables = {**(os.environ if variables is None else variables), **added}
        patience = 0.0 if kill else PATIENCE_SECONDS
        return Child(command, logs, self._folder, variables, patience_seconds=patience)

    def _load_configuration(self) -> tuple[Settings, Path]:
        """The node's current settings, and its data folder."""
        environ = os.environ if self._variables is None else self._variables
        settings = load_settings(cwd=self._folder, environ=environ)
        return settings, resolve_places(settings, environ=environ).data_dir


def _check_path(name: str) -> PurePosixPath:
    """The path of a file that heads may read, a log of an order or a journal; raises NodeRefused."""
    path = PurePosixPath(name)
    is_log = path.parts[:2] == _CHILDREN.parts and len(path.parts) == 4
    is_journal = path.parts[:1] == ("runs",) and path.name == journal.FILE and len(path.parts) == 3
    if not (is_log or is_journal) or ".." in path.parts:
        raise NodeRefused(f"{name!r} is not a file of an order")
    return path


def _notes() -> list[str]:
    """What about this process would disturb a measurement, in sentences."""
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    if niceness <= 0:
        return []
    return [f"measurements on this node would have niceness {niceness}, like its agent: start that with 0"]


#: A call may take so long, in addition to what it waits for; `describe` may start the agent of a node.
_CALL_SECONDS, _DESCRIBE_SECONDS = 10.0, 60.0
_POLL_SECONDS = 2.0


class AgentEngine(ABC):
    """Submits to agents by calls that return JSON values; `call` is what a concrete engine adds."""

    @abstractmethod
    def call(self, node: str, method: str, arguments: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        """The answer of the agent of the node with this id, within `timeout` seconds; raises EngineError."""

    def describe(self, node: str) -> Mapping[str, Any]:
        """The facts that a node reports."""
        return self.call(node, "describe", {}, _DESCRIBE_SECONDS)

    def submit(self, order: Order) -> "AgentHandle":
        """Submit an order."""
        request = {"token": order.token, "arguments": list(order.arguments), "run": order.run}
        self.call(order.node, "submit", {**request, "nodes": order.nodes}, _CALL_SECONDS)
        return AgentHandle(self, order)

    def runs(self, node: str) -> Sequence[NodeJournal]:
        """The journals of the runs that orders measured on a node."""
        return [NodeJournal(**each) for each in self.call(node, "runs", {}, _CALL_SECONDS)["runs"]]

    def read_files(self, node: str, offsets: Mapping[str, int], *, final: bool) -> Mapping[str, Chunk]:
        """The bytes of each file on a node from its offset on."""
        files = self.call(node, "read", {"offsets": dict(offsets), "final": final}, _CALL_SECONDS)["files"]
        chunks = [Chunk(b64decode(each["data"]), bool(each["more"])) for each in files]
        return dict(zip(offsets, chunks, strict=True))


class AgentHandle:
    """An order with the agent of its node."""

    def __init__(self, engine: AgentEngine, order: Order) -> None:
        self._engine, self._order = engine, order
        self._ended: ChildExit | None = None
        self.wait_reason = ""

    @property
    def paths(self) -> OrderPaths:
        """Its files."""
        return order_paths(self._order.token, self._order.run)

    def done(self, seconds: float = 0.0) -> bool:
        """Whether it has ended."""
        if self._ended is None:
            answer = self._call("done", seconds, seconds=seconds)
            if answer["unknown"]:
                raise NodeLost("its agent restarted, and ended what it ran")
            self.wait_reason = str(answer["wait_reason"])
            if answer["ended"] is not None:
                self._ended = ChildExit(**answer["ended"])
        return self._ended is not None

    def result(self) -> ChildExit:
        """Its exit."""
        while not self.done(_POLL_SECONDS) or self._ended is None:
            pass
        return self._ended

    def cancel(self) -> None:
        """Have it store its results and end."""
        self._call("cancel", 0.0)

    def _call(self, method: str, wait: float, **arguments: Any) -> Mapping[str, Any]:
        arguments["token"] = self._order.token
        return self._engine.call(self._order.node, method, arguments, _CALL_SECONDS + wait)
