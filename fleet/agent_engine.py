"""The engine of nodes that have an agent: an order is handed to the agent of its node."""

from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any

from scheduled_jobs.jobs.context import ChildExit

from .agent import order_paths
from .engine import Chunk, NodeJournal, NodeLost, Order, OrderPaths

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
        wanted = {"token": order.token, "arguments": list(order.arguments), "run": order.run}
        self.call(order.node, "submit", {**wanted, "nodes": order.nodes}, _CALL_SECONDS)
        return AgentHandle(self, order)

    def runs(self, node: str) -> Sequence[NodeJournal]:
        """The journals of the runs that orders measured on a node."""
        return [NodeJournal(**each) for each in self.call(node, "runs", {}, _CALL_SECONDS)["runs"]]

    def read(self, node: str, offsets: Mapping[str, int], *, final: bool) -> Mapping[str, Chunk]:
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
