"""The hosts of a fleet: a thread polls the engine and its nodes, and keeps what it found."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from db.connection.engine import Database
from fleet.status import drained_nodes
from scheduled_jobs.scheduler.hosts import HostStatus

from .engine import Engine, EngineError, EngineNode
from .journal_mirror import fetch
from .remote_host import RemoteHost

#: How often the engine lists its nodes.
REFRESH_SECONDS = 2.0
#: How often a node describes itself: once its doctor has reported; before that, while busy; and idle.
DESCRIBED_SECONDS, BUSY_SECONDS, RETRY_SECONDS = 300.0, 60.0, 10.0
_CLOSE_SECONDS = 20.0
#: How many nodes are polled at once.
_POLLS = 16
#: How many sentences are remembered, so as to report none twice.
_MOST_REPORTED = 1000


@dataclass(slots=True)
class _KnownNode:
    """A node that is online. `facts` is None until it has described itself.

    `problem` is one sentence on why it is not used, `fetched` whether the head has all of its journals;
    `losses` counts the children that were lost on it.
    """

    node: EngineNode
    facts: Mapping[str, Any] | None = None
    problem: str = ""
    fetched: bool = False
    is_polled: bool = False
    due_at: float = 0.0
    losses: int = 0


class FleetHosts:
    """The hosts on an engine's nodes (a `HostProvider`); `report` receives sentences for the log.

    A node becomes a host once it has described itself and its journals were fetched, and stays one while the
    engine lists it. After a child was lost on it, it has to describe itself again. `close` also closes the
    engine.
    """

    def __init__(
        self,
        engine: Engine,
        data_dir: Path,
        open_database: Callable[[], Database],
        report: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._engine, self._data_dir, self._open_database = engine, data_dir, open_database
        self._report_sentence = report
        self._lock = threading.Lock()
        self._entries: dict[str, _KnownNode] = {}
        self._hosts: dict[str, RemoteHost] = {}
        self._drained: frozenset[str] = frozenset()
        self._namesakes: tuple[str, ...] = ()
        self._reported: set[str] = set()
        #: Why the engine is away; empty while it is not.
        self.away = ""
        self._closed = threading.Event()
        self._has_polled = threading.Event()
        self._pool = ThreadPoolExecutor(_POLLS, thread_name_prefix="node")
        self._thread = threading.Thread(target=self._live, name="fleet", daemon=True)
        self._thread.start()

    def look(self) -> Sequence[HostStatus]:
        """The hosts that are online, by name; none while the engine is away."""
        with self._lock:
            online = [] if self.away else sorted(self._entries.items())
            return [
                HostStatus(
                    self._hosts[name],
                    entry.facts,
                    name in self._drained,
                    _names(name, entry.facts) if entry.node.reserved else (),
                )
                for name, entry in online
                if entry.facts is not None
            ]

    def problems(self) -> tuple[str, ...]:
        """Why online nodes are not used, a sentence each, or why the engine is away."""
        if away := self.away:
            return (_offline_reason(away),)
        with self._lock:
            return (*(entry.problem for entry in self._entries.values() if entry.problem), *self._namesakes)

    def wait_until_known(self, seconds: float) -> bool:
        """Wait until the engine is there and every node was polled once; false after so many seconds."""
        give_up = time.monotonic() + seconds
        while not self._is_known():
            if time.monotonic() > give_up:
                return False
            self._closed.wait(0.05)
        return True

    def close(self) -> None:
        """Stop polling, and close the engine."""
        self._closed.set()
        self._engine.close()
        self._thread.join(_CLOSE_SECONDS)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def refresh(self) -> None:
        """List the engine's nodes, and poll those that are due."""
        try:
            nodes = self._engine.nodes()
        except EngineError as error:
            self._report(_offline_reason(str(error)), again=not self.away)
            self.away = str(error) or "the engine is away"
            self._has_polled.set()
            return
        if self.away:
            self._report("the fleet's engine is back", again=True)
        self.away = ""
        due = self._take(nodes)
        for name in due:
            self._pool.submit(self._poll, name)
        self._has_polled.set()

    def _live(self) -> None:
        while not self._closed.is_set():
            try:
                self.refresh()
            except Exception as error:
                # The thread must continue: without it the hosts would never change again.
                self._report(f"a defect in Pyrometer: {type(error).__name__}: {error}")
            self._closed.wait(REFRESH_SECONDS)

    def _is_known(self) -> bool:
        if self.away or not self._has_polled.is_set():
            return False
        with self._lock:
            return all(
                each.facts is not None or (each.problem and not each.is_polled)
                for each in self._entries.values()
            )

    def _take(self, nodes: Sequence[EngineNode]) -> list[str]:
        """Take over the engine's list, and return the names of the nodes to be polled now."""
        off = drained_nodes(self._data_dir)
        now = time.monotonic()
        with self._lock:
            online, self._namesakes = _by_name(
                nodes, {name: each.node.id for name, each in self._entries.items()}
            )
            self._drained = off
            entries: dict[str, _KnownNode] = {}
            for name, node in online.items():
                before = self._entries.get(name)
                if before is None or (before.node.id, before.node.labels) != (node.id, node.labels):
                    before = _KnownNode(node)
                before.node = node
                entries[name] = before
            self._entries = entries
            due = [name for name, each in entries.items() if not each.is_polled and now >= each.due_at]
            for name in due:
                entries[name].is_polled = True
        for sentence in self._namesakes:
            self._report(sentence)
        return due

    def _poll(self, name: str) -> None:
        """Have a node describe itself, and fetch its journals before it is used for the first time."""
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                return
            losses, fetched = entry.losses, entry.fetched
        facts, labels, problem, idle = None, list[str](), "", False
        try:
            facts = dict(self._engine.describe(entry.node.id))
            idle, labels = bool(facts.pop("idle", False)), _labels(entry.node, facts)
            fetched = fetched or self._fetch(entry.node)
        except EngineError as error:
            facts, problem = None, f"node {name} is not used: {error}"
        except Exception as error:
            facts = None
            problem = f"node {name} is not used, by a defect in Pyrometer: {type(error).__name__}: {error}"
        with self._lock:
            entry.is_polled = False
            if entry.losses != losses:
                # A child was lost on it meanwhile: its facts are from before that.
                return
            if facts is not None:
                self._update(name, entry.node.id, labels)
            before, entry.facts, entry.problem, entry.fetched = entry.problem, facts, problem, fetched
            entry.due_at = time.monotonic() + _next(facts, idle, fetched)
        if problem:
            self._report(problem)
        elif before:
            self._reported.discard(before)

    def _fetch(self, node: EngineNode) -> bool:
        """Complete the mirrors of its journals; returns whether none is left for the next time."""
        fetched = fetch(self._engine, node.id, self._data_dir, self._open_database)
        for sentence in fetched.notes:
            self._report(f"node {node.name}: {sentence}")
        return not fetched.left

    def _update(self, name: str, node: str, labels: Sequence[str]) -> None:
        if name not in self._hosts:
            self._hosts[name] = RemoteHost(self._engine, name, self._data_dir, lambda: self._distrust(name))
        self._hosts[name].update(node, labels)

    def _distrust(self, name: str) -> None:
        """Use a node that lost a child only after it has described itself, and its journals were fetched."""
        with self._lock:
            entry = self._entries.get(name)
            if entry is not None:
                entry.facts, entry.fetched, entry.due_at, entry.losses = None, False, 0.0, entry.losses + 1
                entry.problem = f"node {name} is not used before it describes itself: a task was lost on it"

    def _report(self, sentence: str, *, again: bool = False) -> None:
        if again or sentence not in self._reported:
            if len(self._reported) >= _MOST_REPORTED:
                self._reported.clear()
            self._reported.add(sentence)
            self._report_sentence(sentence)


def _offline_reason(why: str) -> str:
    return f"the fleet's engine is away: {why}"


def _by_name(
    nodes: Sequence[EngineNode], before: Mapping[str, str]
) -> tuple[dict[str, EngineNode], tuple[str, ...]]:
    """The node of each name, preferring the one that had it `before`; sentences on unusable nodes."""
    found: dict[str, EngineNode] = {}
    problems: list[str] = []
    for node in sorted(nodes, key=lambda each: (before.get(each.name) != each.id, each.id)):
        if not node.name or "/" in node.name:
            problems.append(f"node {node.name!r} is not used: a machine's name is not empty and has no slash")
        elif node.name in found:
            problems.append(f"another node called {node.name} is not used: each needs a name of its own")
        else:
            found[node.name] = node
    return found, tuple(problems)


def _next(facts: Mapping[str, Any] | None, idle: bool, fetched: bool) -> float:
    """In how many seconds a node is polled again."""
    if facts is None:
        return RETRY_SECONDS
    if fetched and facts.get("examined"):
        return DESCRIBED_SECONDS
    return RETRY_SECONDS if idle else BUSY_SECONDS


def _names(name: str, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """The engine's name of a node, and the name that the node reports."""
    return tuple(dict.fromkeys((name, str(facts.get("machine") or name))))


def _labels(node: EngineNode, facts: Mapping[str, Any]) -> list[str]:
    """The labels of a node: the engine's, as `key=value` and as `value`, and those that the node reports."""
    engines = [text for key, value in node.labels.items() if value for text in (f"{key}={value}", value)]
    own = [str(label) for label in facts.get("labels", ())]
    return [*engines, *own]
