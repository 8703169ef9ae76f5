"""An engine whose nodes are agents in this process."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from fleet.agent import Agent, AgentEngine
from fleet.engine import EngineNode, NodeLost, NodeRefused
from fleet.node_orders import AllocatedNode, Allocation, NodeOrders
from fleet.node_steps import GroupNode


class LocalEngine(AgentEngine):
    """Agents in this process, by the names of their nodes. An order holds its nodes as with a real engine."""

    def __init__(self, agents: Mapping[str, Agent]) -> None:
        self.agents = dict(agents)
        self._released = threading.Condition()
        self._taken: set[str] = set()
        self._orders = NodeOrders(self.call_agent, self._allocate)

    def nodes(self) -> Sequence[EngineNode]:
        reserved = self._orders.reserved_nodes()
        return [EngineNode(name, name, reserved=name in reserved) for name in self.agents]

    def call(self, node: str, method: str, arguments: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
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

    def _allocate(self, node: str, many: int) -> Allocation:
        held: list[str] = []

        def wait(seconds: float) -> Sequence[AllocatedNode] | None:
            if node not in self.agents:
                raise NodeLost(f"there is no node {node}")
            if len(self.agents) < many:
                raise NodeRefused(f"{many} nodes are wanted, and the fleet has {len(self.agents)}")
            with self._released:
                free = [each for each in self.agents if each not in self._taken and each != node]
                if node in self._taken or len(free) < many - 1:
                    self._released.wait(seconds)
                    return None
                held[:] = [node, *free[: many - 1]]
                self._taken.update(held)
            return [AllocatedNode(each, each, "127.0.0.1") for each in held]

        def release() -> None:
            with self._released:
                self._taken.difference_update(held)
                held.clear()
                self._released.notify_all()

        return Allocation(wait, release)
