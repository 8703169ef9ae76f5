"""The machines of a fleet as places: a thread of its own knows who is there, and is asked at any time."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from db.connection.engine import Database
from scheduled_jobs.scheduler.hosts import HostStatus

from .drain import drained
from .engine import Engine, EngineError, NodeSeen
from .journal_sync import fetch
from .remote_host import RemoteHost

#: How often the engine is asked which nodes there are.
REFRESH_SECONDS = 2.0
#: How often a node tells of itself: all is told; there is something left to tell, and it has work; or none.
DESCRIBED_SECONDS, BUSY_SECONDS, RETRY_SECONDS = 300.0, 60.0, 10.0
_DESCRIBE_SECONDS = 20.0
#: So many nodes are met at once.
_AT_ONCE = 16
#: So many sentences are not said twice.
_MOST_SAID = 1000


@dataclass(slots=True)
class _Met:
    """A node that is there, and how well we know it. `facts` is None until it has told of itself.

    `trouble` is one sentence on why it is not used; `fetched` whether all journals of it are here; `losses`
    counts the children that were lost on it.
    """

    node: NodeSeen
    facts: Mapping[str, Any] | None = None
    trouble: str = ""
    fetched: bool = False
    asking: bool = False
    due_at: float = 0.0
    losses: int = 0


class FleetHosts:
    """The places of an engine's nodes (a `service.places.Places`); `say` hears a sentence now and then.

    A node is a place once it has told of itself and its journals were fetched, and until the engine knows it
    no more; when a child was lost on it, it has to tell again. `close` closes the engine as well.
    """

    def __init__(
        self,
        engine: Engine,
        data_dir: Path,
        open_database: Callable[[], Database],
        say: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._engine, self._data_dir, self._open_database, self._say = engine, data_dir, open_database, say
        self._lock = threading.Lock()
        self._met: dict[str, _Met] = {}
        self._places: dict[str, RemoteHost] = {}
        self._drained: frozenset[str] = frozenset()
        self._namesakes: tuple[str, ...] = ()
        self._said: set[str] = set()
        #: Why the engine is away; empty while it is there.
        self.away = ""
        self._closed = threading.Event()
        self._looked = threading.Event()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="node")
        self._thread = threading.Thread(target=self._live, name="fleet", daemon=True)
        self._thread.start()

    def look(self) -> Sequence[HostStatus]:
        """The places that are there now, by name; none while the engine is away."""
        with self._lock:
            there = [] if self.away else sorted(self._met.items())
            return [
                HostStatus(self._places[name], met.facts, name in self._drained)
                for name, met in there
                if met.facts is not None
            ]

    def problems(self) -> tuple[str, ...]:
        """Why nodes that are there are not used, a sentence each, or why nobody knows of any."""
        if away := self.away:
            return (_away(away),)
        with self._lock:
            return (*(met.trouble for met in self._met.values() if met.trouble), *self._namesakes)

    def settle(self, seconds: float) -> bool:
        """Wait for the engine, and until every node was asked once, so long at most; whether that is so."""
        give_up = time.monotonic() + seconds
        while not self._settled():
            if time.monotonic() > give_up:
                return False
            self._closed.wait(0.05)
        return True

    def close(self) -> None:
        """Look no more, and let go of the engine."""
        self._closed.set()
        self._engine.close()
        self._thread.join(_DESCRIBE_SECONDS)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def refresh(self) -> None:
        """Ask the engine who is there, and have those tell of themselves whose time it is."""
        try:
            nodes = self._engine.nodes()
        except EngineError as error:
            self._tell(_away(str(error)), again=not self.away)
            self.away = str(error) or "the engine is away"
            self._looked.set()
            return
        if self.away:
            self._tell("the fleet's engine is back", again=True)
        self.away = ""
        due = self._take(nodes)
        for name in due:
            self._pool.submit(self._meet, name)
        self._looked.set()

    def _live(self) -> None:
        while not self._closed.is_set():
            try:
                self.refresh()
            except Exception as error:
                # Whoever looks would see the same for ever, and nobody would know why.
                self._tell(f"a defect in Pyrometer: {type(error).__name__}: {error}")
            self._closed.wait(REFRESH_SECONDS)

    def _settled(self) -> bool:
        if self.away or not self._looked.is_set():
            return False
        with self._lock:
            return all(
                met.facts is not None or (met.trouble and not met.asking) for met in self._met.values()
            )

    def _take(self, nodes: Sequence[NodeSeen]) -> list[str]:
        """Know who is there, and answer who is to be asked now."""
        off = drained(self._data_dir)
        now = time.monotonic()
        with self._lock:
            there, self._namesakes = _by_name(nodes, {name: met.node.id for name, met in self._met.items()})
            self._drained = off
            met: dict[str, _Met] = {}
            for name, node in there.items():
                before = self._met.get(name)
                same = before is not None and before.node == node
                met[name] = before if before is not None and same else _Met(node)
            self._met = met
            due = [name for name, each in met.items() if not each.asking and now >= each.due_at]
            for name in due:
                met[name].asking = True
        for sentence in self._namesakes:
            self._tell(sentence)
        return due

    def _meet(self, name: str) -> None:
        """Have a node tell of itself; before it is used for the first time, its journals are fetched."""
        with self._lock:
            met = self._met.get(name)
            if met is None:
                return
            losses, fetched = met.losses, met.fetched
        facts, labels, trouble, idle = None, list[str](), "", False
        try:
            facts = dict(self._engine.call(met.node.id, "describe", {}, _DESCRIBE_SECONDS))
            idle, labels = bool(facts.pop("idle", False)), _labels(met.node, facts)
            fetched = fetched or self._fetch(met.node)
        except EngineError as error:
            facts, trouble = None, f"node {name} is not used: {error}"
        except Exception as error:
            facts = None
            trouble = f"node {name} is not used, by a defect in Pyrometer: {type(error).__name__}: {error}"
        with self._lock:
            met.asking = False
            if met.losses != losses:
                # A child was lost on it since it was asked: what it told is from before that.
                return
            if facts is not None:
                self._place(name, met.node.id, labels)
            before, met.facts, met.trouble, met.fetched = met.trouble, facts, trouble, fetched
            met.due_at = time.monotonic() + _next(facts, idle, fetched)
        if trouble:
            self._tell(trouble)
        elif before:
            self._said.discard(before)

    def _fetch(self, node: NodeSeen) -> bool:
        """Bring over what the node has more; whether nothing of it is left for another time."""
        fetched = fetch(self._engine, node.id, self._data_dir, self._open_database)
        for sentence in fetched.said:
            self._tell(f"node {node.name}: {sentence}")
        return not fetched.left

    def _place(self, name: str, node: str, labels: Sequence[str]) -> None:
        place = self._places.get(name)
        if place is None:
            place = RemoteHost(self._engine, name, self._data_dir, lambda: self._distrust(name))
            self._places[name] = place
        place.told(node, labels)

    def _distrust(self, name: str) -> None:
        """A node that lost a child gets no other before it has answered again, and what it has is here."""
        with self._lock:
            met = self._met.get(name)
            if met is not None:
                met.facts, met.fetched, met.due_at, met.losses = None, False, 0.0, met.losses + 1
                met.trouble = f"node {name} is not used before it tells of itself: a task was lost on it"

    def _tell(self, sentence: str, *, again: bool = False) -> None:
        if again or sentence not in self._said:
            if len(self._said) >= _MOST_SAID:
                self._said.clear()
            self._said.add(sentence)
            self._say(sentence)


def _away(why: str) -> str:
    return f"the fleet's engine is away: {why}"


def _by_name(
    nodes: Sequence[NodeSeen], before: Mapping[str, str]
) -> tuple[dict[str, NodeSeen], tuple[str, ...]]:
    """Each name's node, that one first which had it before; sentences on those that cannot be used."""
    found: dict[str, NodeSeen] = {}
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
    """In how many seconds a node is to tell of itself again."""
    if facts is None:
        return RETRY_SECONDS
    if fetched and facts.get("examined"):
        return DESCRIBED_SECONDS
    return RETRY_SECONDS if idle else BUSY_SECONDS


def _labels(node: NodeSeen, facts: Mapping[str, Any]) -> list[str]:
    """What a node can be asked by: what its engine says, as `key=value` and as `value`, and what it says."""
    engines = [text for key, value in node.labels.items() if value for text in (f"{key}={value}", value)]
    own = [str(label) for label in facts.get("labels", ())]
    return [*engines, *own]
