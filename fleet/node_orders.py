"""Orders that hold nodes of an agent engine: each is given to its agent once all of its nodes are free."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .engine import EngineError, NodeLost, NodeRefused

#: An order that is no longer polled gives its nodes back after so long.
_ABANDONED_SECONDS = 120.0
#: How long the agent of a node may take to release it.
_RELEASE_SECONDS = 10.0
_CANCELLED = {"code": None, "signal": None, "sentence": "cancelled before it began"}


@dataclass(frozen=True, slots=True)
class AllocatedNode:
    """A node that an order holds: the engine's id, the machine's name, its address for the other nodes."""

    id: str
    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Allocation:
    """The request of one order for nodes, until they are released.

    `wait` waits at most so many seconds for them. It returns them, first the one that runs the command, or
    None while some are in use; it raises NodeLost and NodeRefused when the request cannot be met. `release`
    gives them back, or withdraws the request; it may be called again.
    """

    wait: Callable[[float], Sequence[AllocatedNode] | None]
    release: Callable[[], None]


#: Calls an agent: node, method, arguments, all nodes of an order over several that is submitted, seconds.
CallAgent = Callable[[str, str, Mapping[str, Any], Sequence[AllocatedNode], float], Mapping[str, Any]]


@dataclass(slots=True)
class _HeldOrder:
    node: str
    arguments: Mapping[str, Any]
    allocation: Allocation
    nodes: Sequence[AllocatedNode] = ()
    is_submitted: bool = False
    is_cancelled: bool = False
    polled_at: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)


class NodeOrders:
    """Passes calls on to agents; an order is submitted to its agent once its nodes are allocated.

    `allocate` requests nodes: the id of the one that runs the command, and their number. A node has one order
    at a time: a new order for it releases the nodes of the former one. May be used from any thread.
    """

    def __init__(self, agent: CallAgent, allocate: Callable[[str, int], Allocation]) -> None:
        self._agent, self._allocate = agent, allocate
        self._lock = threading.Lock()
        self._orders: dict[str, _HeldOrder] = {}

    def reserved_nodes(self) -> frozenset[str]:
        """The ids of the nodes that orders hold besides the one that runs the command.

        Orders that are no longer polled are released first.
        """
        now = time.monotonic()
        self._release_all(lambda order: now - order.polled_at > _ABANDONED_SECONDS)
        with self._lock:
            return frozenset(node.id for order in self._orders.values() for node in order.nodes[1:])

    def call(self, node: str, method: str, arguments: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        """The answer of an agent, or that for an order which its agent does not know yet."""
        if method == "submit":
            self._accept(node, arguments)
            return {}
        order = self._orders.get(str(arguments.get("token")))
        if order is None or method not in ("done", "cancel"):
            return self._agent(node, method, arguments, (), timeout)
        if method == "cancel":
            order.is_cancelled = True
            return self._agent(node, method, arguments, (), timeout) if order.is_submitted else {}
        order.polled_at = time.monotonic()
        with order.lock:
            return self._poll(order, arguments, timeout)

    def _accept(self, node: str, arguments: Mapping[str, Any]) -> None:
        token = str(arguments["token"])
        if token in self._orders:
            return
        self._release_all(lambda order: order.node == node)
        own = {name: value for name, value in arguments.items() if name != "nodes"}
        with self._lock:
            self._orders[token] = _HeldOrder(node, own, self._allocate(node, int(arguments["nodes"])))

    def _poll(self, order: _HeldOrder, arguments: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        try:
            reason = "" if order.is_submitted else self._submit(order, float(arguments["seconds"]), timeout)
            if reason:
                ended = _CANCELLED if order.is_cancelled else None
                answer: Mapping[str, Any] = {"unknown": False, "wait_reason": reason, "ended": ended}
            else:
                answer = self._agent(order.node, "done", arguments, (), timeout)
        except (NodeLost, NodeRefused):
            self._release(arguments["token"])
            raise
        if answer["unknown"] or answer["ended"] is not None:
            self._release(arguments["token"])
        return answer

    def _submit(self, order: _HeldOrder, seconds: float, timeout: float) -> str:
        """Give an order to its agent if its nodes are free; returns what it waits for.

        Starting the agents of several nodes takes longer than one call may: the next call continues.
        """
        if order.is_cancelled:
            return "it is cancelled"
        give_up = time.monotonic() + timeout
        order.nodes = order.nodes or order.allocation.wait(seconds) or ()
        if not order.nodes:
            return "its nodes have other orders"
        token = {"token": order.arguments["token"]}
        for node in order.nodes[1:]:
            if reason := self._agent(node.id, "reserve", token, (), timeout)["wait_reason"]:
                return f"node {node.name}: {reason}"
            if time.monotonic() > give_up:
                return "the agents of its nodes start"
        group = order.nodes if len(order.nodes) > 1 else ()
        self._agent(order.node, "submit", order.arguments, group, timeout)
        order.is_submitted = True
        if order.is_cancelled:
            # Cancelled while its agent did not know it.
            self._agent(order.node, "cancel", token, (), timeout)
        return ""

    def _release_all(self, applies: Callable[[_HeldOrder], bool]) -> None:
        with self._lock:
            found = [token for token, order in self._orders.items() if applies(order)]
        for token in found:
            self._release(token)

    def _release(self, token: str) -> None:
        """Release the nodes of an order. A node that does not answer is claimed by its next order."""
        with self._lock:
            order = self._orders.pop(token, None)
        if order is None:
            return
        for node in order.nodes[1:]:
            try:
                self._agent(node.id, "release", {"token": token}, (), _RELEASE_SECONDS)
            except EngineError:
                continue
        order.allocation.release()
