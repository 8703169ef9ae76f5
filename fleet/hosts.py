"""The hosts of a fleet: a thread of its own knows which nodes there are, and is asked at any time."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from db.connection.engine import Database
from scheduled_jobs.scheduler.hosts import HostStatus
from workflows.drained_nodes import drained

from .engine import Engine, EngineError, EngineNode
from .journal_sync import fetch
from .remote_host import RemoteHost

#: How often the engine is asked which nodes there are.
REFRESH_SECONDS = 2.0
#: How often a node is asked to describe itself: its doctor has reported; it has not, and has work; or none.
DESCRIBED_SECONDS, BUSY_SECONDS, RETRY_SECONDS = 300.0, 60.0, 10.0
_CLOSE_SECONDS = 20.0
#: So many nodes are asked at once.
_AT_ONCE = 16
#: So many sentences are not reported twice.
_MOST_REPORTED = 1000


@dataclass(slots=True)
class _KnownNode:
    """A node that is there. `facts` is None until it has described itself.

    `problem` is one sentence on why it is not used; `fetched` whether all journals of it are here; `losses`
    counts the children that were lost on it.
    """

    node: EngineNode
    facts: Mapping[str, Any] | None = None
    problem: str = ""
    fetched: bool = False
    asking: bool = False
    due_at: float = 0.0
    losses: int = 0


class FleetHosts:
    """The hosts of an engine's nodes (a `HostProvider`); `report` receives a sentence now and then.

    A node is a host once it has described itself and its journals were fetched, and until the engine does not
    know it any more; when a child was lost on it, it has to describe itself again. `close` closes the engine
    as well.
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
        self._known: dict[str, _KnownNode] = {}
        self._hosts: dict[str, RemoteHost] = {}
        self._drained: frozenset[str] = frozenset()
        self._namesakes: tuple[str, ...] = ()
        self._reported: set[str] = set()
        #: Why the engine is away; empty while it is there.
        self.away = ""
        self._closed = threading.Event()
        self._looked = threading.Event()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="node")
        self._thread = threading.Thread(target=self._live, name="fleet", daemon=True)
        self._thread.start()

    def look(self) -> Sequence[HostStatus]:
        """The hosts that are there now, by name; none while the engine is away."""
        with self._lock:
            there = [] if self.away else sorted(self._known.items())
            return [
                HostStatus(
                    self._hosts[name],
                    known.facts,
                    name in self._drained,
                    _names(name, known.facts) if known.node.reserved else (),
                )
                for name, known in there
                if known.facts is not None
            ]

    def problems(self) -> tuple[str, ...]:
        """Why nodes that are there are not used, a sentence each, or why none is known."""
        if away := self.away:
            return (_away(away),)
        with self._lock:
            return (*(known.problem for known in self._known.values() if known.problem), *self._namesakes)

    def settle(self, seconds: float) -> bool:
        """Wait for the engine, and until every node was asked once, so long at most; whether that is so."""
        give_up = time.monotonic() + seconds
        while not self._is_settled():
            if time.monotonic() > give_up:
                return False
            self._closed.wait(0.05)
        return True

    def close(self) -> None:
        """Look no more, and let go of the engine."""
        self._closed.set()
        self._engine.close()
        self._thread.join(_CLOSE_SECONDS)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def refresh(self) -> None:
        """Ask the engine for its nodes, and those that are due to describe themselves."""
        try:
            nodes = self._engine.nodes()
        except EngineError as error:
            self._report(_away(str(error)), again=not self.away)
            self.away = str(error) or "the engine is away"
            self._looked.set()
            return
        if self.away:
            self._report("the fleet's engine is back", again=True)
        self.away = ""
        due = self._take(nodes)
        for name in due:
            self._pool.submit(self._ask, name)
        self._looked.set()

    def _live(self) -> None:
        while not self._closed.is_set():
            try:
                self.refresh()
            except Exception as error:
                # The thread must go on: without it the hosts would stay as they are for ever.
                self._report(f"a defect in Pyrometer: {type(error).__name__}: {error}")
            self._closed.wait(REFRESH_SECONDS)

    def _is_settled(self) -> bool:
        if self.away or not self._looked.is_set():
            return False
        with self._lock:
            return all(
                each.facts is not None or (each.problem and not each.asking) for each in self._known.values()
            )

    def _take(self, nodes: Sequence[EngineNode]) -> list[str]:
        """Take up the nodes that there are, and answer the names of those to be asked now."""
        off = drained(self._data_dir)
        now = time.monotonic()
        with self._lock:
            there, self._namesakes = _by_name(
                nodes, {name: each.node.id for name, each in self._known.items()}
            )
            self._drained = off
            known: dict[str, _KnownNode] = {}
            for name, node in there.items():
                before = self._known.get(name)
                if before is None or (before.node.id, before.node.labels) != (node.id, node.labels):
                    before = _KnownNode(node)
                before.node = node
                known[name] = before
            self._known = known
            due = [name for name, each in known.items() if not each.asking and now >= each.due_at]
            for name in due:
                known[name].asking = True
        for sentence in self._namesakes:
            self._report(sentence)
        return due

    def _ask(self, name: str) -> None:
        """Have a node describe itself; before it is used for the first time, its journals are fetched."""
        with self._lock:
            known = self._known.get(name)
            if known is None:
                return
            losses, fetched = known.losses, known.fetched
        facts, labels, problem, idle = None, list[str](), "", False
        try:
            facts = dict(self._engine.describe(known.node.id))
            idle, labels = bool(facts.pop("idle", False)), _labels(known.node, facts)
            fetched = fetched or self._fetch(known.node)
        except EngineError as error:
            facts, problem = None, f"node {name} is not used: {error}"
        except Exception as error:
            facts = None
            problem = f"node {name} is not used, by a defect in Pyrometer: {type(error).__name__}: {error}"
        with self._lock:
            known.asking = False
            if known.losses != losses:
                # A child was lost on it since it was asked: what it reported is from before that.
                return
            if facts is not None:
                self._update(name, known.node.id, labels)
            before, known.facts, known.problem, known.fetched = known.problem, facts, problem, fetched
            known.due_at = time.monotonic() + _next(facts, idle, fetched)
        if problem:
            self._report(problem)
        elif before:
            self._reported.discard(before)

    def _fetch(self, node: EngineNode) -> bool:
        """Bring over what the node has more; whether nothing of it is left for another time."""
        fetched = fetch(self._engine, node.id, self._data_dir, self._open_database)
        for sentence in fetched.notes:
            self._report(f"node {node.name}: {sentence}")
        return not fetched.left

    def _update(self, name: str, node: str, labels: Sequence[str]) -> None:
        if name not in self._hosts:
            self._hosts[name] = RemoteHost(self._engine, name, self._data_dir, lambda: self._distrust(name))
        self._hosts[name].update(node, labels)

    def _distrust(self, name: str) -> None:
        """A node that lost a child gets no other before it has answered again, and what it has is here."""
        with self._lock:
            known = self._known.get(name)
            if known is not None:
                known.facts, known.fetched, known.due_at, known.losses = None, False, 0.0, known.losses + 1
                known.problem = f"node {name} is not used before it describes itself: a task was lost on it"

    def _report(self, sentence: str, *, again: bool = False) -> None:
        if again or sentence not in self._reported:
            if len(self._reported) >= _MOST_REPORTED:
                self._reported.clear()
            self._reported.add(sentence)
            self._report_sentence(sentence)


def _away(why: str) -> str:
    return f"the fleet's engine is away: {why}"


def _by_name(
    nodes: Sequence[EngineNode], before: Mapping[str, str]
) -> tuple[dict[str, EngineNode], tuple[str, ...]]:
    """Each name's node, that one first which had it before; sentences on those that cannot be used."""
    found: dict[str, EngineNode] = {}
    odd: list[str] = []
    for node in sorted(nodes, key=lambda each: (before.get(each.name) != each.id, each.id)):
        if not node.name or "/" in node.name:
            odd.append(f"node {node.name!r} is not used: a machine's name is not empty and has no slash")
        elif node.name in found:
            odd.append(f"another node called {node.name} is not used: each needs a name of its own")
        else:
            found[node.name] = node
    return found, tuple(odd)


def _next(facts: Mapping[str, Any] | None, idle: bool, fetched: bool) -> float:
    """In how many seconds a node is to describe itself again."""
    if facts is None:
        return RETRY_SECONDS
    if fetched and facts.get("examined"):
        return DESCRIBED_SECONDS
    return RETRY_SECONDS if idle else BUSY_SECONDS


def _names(name: str, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """The engine's name of a node, and its own."""
    return tuple(dict.fromkeys((name, str(facts.get("machine") or name))))


def _labels(node: EngineNode, facts: Mapping[str, Any]) -> list[str]:
    """The labels of a node: its engine's, as `key=value` and as `value`, and its own."""
    engines = [text for key, value in node.labels.items() if value for text in (f"{key}={value}", value)]
    own = [str(label) for label in facts.get("labels", ())]
    return [*engines, *own]
