"""Engines whose nodes have an agent: orders hold nodes, and begin when those are free."""

import threading
import time
from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from scheduled_jobs.jobs.context import ChildExit

from .agent import Agent, order_paths
from .engine import Chunk, EngineError, EngineNode, NodeJournal, NodeLost, NodeRefused, Order, OrderPaths
from .node_steps import GroupNode

#: One call may take so long, and what it waits for besides; the first one to a node may start its agent.
CALL_SECONDS, DESCRIBE_SECONDS = 10.0, 60.0
#: An order that is not asked for any more gives its nodes back after so long.
_FORGOTTEN_SECONDS = 120.0
_CANCELLED = {"code": None, "signal": None, "sentence": "cancelled before it began"}
_POLL_SECONDS = 2.0


class AgentEngine(ABC):
    """Submits to agents, by calls that return JSON values. `call` is all that a kind of engine has to add."""

    @abstractmethod
    def call(self, node: str, method: str, arguments: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        """What the agent of the node with this id answers within `timeout` seconds; raises EngineError."""

    def describe(self, node: str) -> Mapping[str, Any]:
        """What a node reports about itself."""
        return self.call(node, "describe", {}, DESCRIBE_SECONDS)

    def submit(self, order: Order) -> "AgentHandle":
        """Hand an order over."""
        wanted = {"token": order.token, "arguments": list(order.arguments), "run": order.run}
        self.call(order.node, "submit", {**wanted, "nodes": order.nodes}, CALL_SECONDS)
        return AgentHandle(self, order)

    def runs(self, node: str) -> Sequence[NodeJournal]:
        """The journals of the runs that orders measured on a node."""
        return [NodeJournal(**each) for each in self.call(node, "runs", {}, CALL_SECONDS)["runs"]]

    def read(self, node: str, offsets: Mapping[str, int], *, final: bool) -> Mapping[str, Chunk]:
        """Of each file on a node the bytes from an offset on."""
        files = self.call(node, "read", {"offsets": dict(offsets), "final": final}, CALL_SECONDS)["files"]
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
                raise NodeLost("its agent was started anew, and ended what it ran")
            self.wait_reason = str(answer["wait_reason"])
            if answer["ended"] is not None:
                self._ended = ChildExit(**answer["ended"])
        return self._ended is not None

    def result(self) -> ChildExit:
        """How it ended."""
        while not self.done(_POLL_SECONDS) or self._ended is None:
            pass
        return self._ended

    def cancel(self) -> None:
        """Ask it to keep what it has and end."""
        self._call("cancel", 0.0)

    def _call(self, method: str, wait: float, **arguments: Any) -> Mapping[str, Any]:
        arguments["token"] = self._order.token
        return self._engine.call(self._order.node, method, arguments, CALL_SECONDS + wait)


# -- orders that hold nodes -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AllocatedNode:
    """A node that an order holds: the engine's id, the machine's name, its address for the others."""

    id: str
    name: str
    address: str


class Allocation(Protocol):
    """The nodes of one order, from the wish to have them until they are given back."""

    def granted(self, seconds: float) -> Sequence[AllocatedNode] | None:
        """The nodes, that first which runs the command; None while they are not free, waited for so long.

        Raises NodeLost and NodeRefused when they will never be.
        """
        ...

    def release(self) -> None:
        """Give them back, or want them no longer; may be called again."""
        ...


#: Calls an agent: node, method, arguments, all nodes of an order over several that is submitted, seconds.
CallAgent = Callable[[str, str, Mapping[str, Any], Sequence[AllocatedNode], float], Mapping[str, Any]]


@dataclass(slots=True)
class _HeldOrder:
    node: str
    arguments: Mapping[str, Any]
    allocation: Allocation
    nodes: Sequence[AllocatedNode] | None = None
    submitted: bool = False
    cancelled: bool = False
    polled_at: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)


class NodeOrders:
    """Passes calls on to agents; an order is submitted to its agent once it holds all of its nodes.

    `allocate` wants nodes: the id of that which runs the command, and how many. A node has one order at a
    time: the next one for it has the former give its nodes back.
    """

    def __init__(self, agent: CallAgent, allocate: Callable[[str, int], Allocation]) -> None:
        self._agent, self._allocate = agent, allocate
        self._lock = threading.Lock()
        self._held: dict[str, _HeldOrder] = {}

    def reserved(self) -> frozenset[str]:
        """The ids of the nodes that an order holds beside that which runs its command.

        What is not asked for any more gives its nodes back before.
        """
        now = time.monotonic()
        self._drop_where(lambda held: now - held.polled_at > _FORGOTTEN_SECONDS)
        with self._lock:
            return frozenset(node.id for held in self._held.values() for node in (held.nodes or ())[1:])

    def call(self, node: str, method: str, arguments: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        """What an agent answers, or what is known of an order before its agent is."""
        if method == "submit":
            self._take(node, arguments)
            return {}
        held = self._held.get(str(arguments.get("token")))
        if held is None or method not in ("done", "cancel"):
            return self._agent(node, method, arguments, (), timeout)
        if method == "cancel":
            held.cancelled = True
            return self._agent(node, method, arguments, (), timeout) if held.submitted else {}
        held.polled_at = time.monotonic()
        with held.lock:
            return self._done(held, arguments, timeout)

    def _take(self, node: str, arguments: Mapping[str, Any]) -> None:
        token = str(arguments["token"])
        if token in self._held:
            return
        self._drop_where(lambda held: held.node == node)
        with self._lock:
            wanted = {name: value for name, value in arguments.items() if name != "nodes"}
            self._held[token] = _HeldOrder(node, wanted, self._allocate(node, int(arguments["nodes"])))

    def _done(self, held: _HeldOrder, arguments: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        token = str(arguments["token"])
        try:
            wait_reason = (
                "" if held.submitted else self._submitted(held, float(arguments["seconds"]), timeout)
            )
            if wait_reason:
                ended = _CANCELLED if held.cancelled else None
                answer: Mapping[str, Any] = {"unknown": False, "wait_reason": wait_reason, "ended": ended}
            else:
                answer = self._agent(held.node, "done", arguments, (), timeout)
        except (NodeLost, NodeRefused):
            self._drop(token)
            raise
        if answer["unknown"] or answer["ended"] is not None:
            self._drop(token)
        return answer

    def _submitted(self, held: _HeldOrder, seconds: float, timeout: float) -> str:
        """Hand an order to its agent, if its nodes are free; answers what it waits for.

        Agents that have to be started take their time: all of it must not become one long call.
        """
        if held.cancelled:
            return "it is cancelled"
        give_up = time.monotonic() + timeout
        held.nodes = held.nodes or held.allocation.granted(seconds)
        if held.nodes is None:
            return "its nodes have other orders"
        others = held.nodes[1:]
        for node in others:
            token = {"token": held.arguments["token"]}
            if way := self._agent(node.id, "reserve", token, (), timeout)["way"]:
                return f"node {node.name}: {way}"
            if time.monotonic() > give_up:
                return "its nodes get ready"
        self._agent(held.node, "submit", held.arguments, held.nodes if others else (), timeout)
        held.submitted = True
        if held.cancelled:
            # It was while the agent did not know it yet.
            self._agent(held.node, "cancel", {"token": held.arguments["token"]}, (), timeout)
        return ""

    def _drop_where(self, applies: Callable[[_HeldOrder], bool]) -> None:
        with self._lock:
            found = [token for token, held in self._held.items() if applies(held)]
        for token in found:
            self._drop(token)

    def _drop(self, token: str) -> None:
        """Give the nodes of an order back. A node that does not answer is claimed by its next order."""
        with self._lock:
            held = self._held.pop(token, None)
        if held is None:
            return
        for node in (held.nodes or ())[1:]:
            try:
                self._agent(node.id, "release", {"token": token}, (), CALL_SECONDS)
            except EngineError:
                continue
        held.allocation.release()


# -- the local engine -------------------------------------------------------------------------


class LocalEngine(AgentEngine):
    """Nodes that are agents in this process, by name: what the other engines are held to."""

    def __init__(self, agents: Mapping[str, Agent]) -> None:
        self.agents = dict(agents)
        self._free = threading.Condition()
        self._taken: set[str] = set()
        self._orders = NodeOrders(self.call_agent, lambda node, many: _LocalAllocation(self, node, many))

    def nodes(self) -> Sequence[EngineNode]:
        """All of them."""
        reserved = self._orders.reserved()
        return [EngineNode(name, name, reserved=name in reserved) for name in self.agents]

    def call(self, node: str, method: str, arguments: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        """What the agent of a node answers."""
        return self._orders.call(node, method, arguments, timeout)

    def call_agent(
        self,
        node: str,
        method: str,
        arguments: Mapping[str, Any],
        nodes: Sequence[AllocatedNode],
        timeout: float,
    ) -> Mapping[str, Any]:
        """One call to an agent."""
        if node not in self.agents:
            raise NodeLost(f"there is no node {node}")
        group = [GroupNode(each.name, each.address, self.agents[each.id].answer) for each in nodes]
        return self.agents[node].answer(method, arguments, group)

    def close(self) -> None:
        """End what runs."""
        for agent in self.agents.values():
            agent.close()

    def take(self, node: str, many: int) -> Sequence[AllocatedNode] | None:
        """Have a node and others taken, if so many are free."""
        with self._free:
            if node not in self.agents:
                raise NodeLost(f"there is no node {node}")
            if len(self.agents) < many:
                raise NodeRefused(f"{many} nodes are wanted, and the fleet has {len(self.agents)}")
            free = [each for each in self.agents if each not in self._taken and each != node][: many - 1]
            if node in self._taken or len(free) < many - 1:
                return None
            self._taken.update((node, *free))
            return [AllocatedNode(each, each, "127.0.0.1") for each in (node, *free)]

    def give_back(self, nodes: Sequence[AllocatedNode]) -> None:
        """Have nodes free again."""
        with self._free:
            self._taken.difference_update(node.id for node in nodes)
            self._free.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until a node is given back, for so long at most."""
        with self._free:
            self._free.wait(seconds)


class _LocalAllocation:
    def __init__(self, engine: LocalEngine, node: str, many: int) -> None:
        self._engine, self._node, self._many = engine, node, many
        self._nodes: Sequence[AllocatedNode] = ()

    def granted(self, seconds: float) -> Sequence[AllocatedNode] | None:
        found = self._engine.take(self._node, self._many)
        if found is None:
            self._engine.wait(seconds)
        self._nodes = found or ()
        return found

    def release(self) -> None:
        self._engine.give_back(self._nodes)
        self._nodes = ()
