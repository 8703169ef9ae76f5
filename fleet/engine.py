"""What a fleet needs of the engine that carries it: which nodes there are, and calls to the agent of each.

* EngineError
  * EngineAway    the engine itself cannot be reached
  * NodeLost      the node is dead, or the engine knows it no more
  * NodeSilent    the node did not answer in time; the call may have been carried out
  * AgentRefused  the agent answered that it will not
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class EngineError(Exception):
    """Base of what an engine raises; its text is one sentence for people."""


class EngineAway(EngineError):
    """The engine cannot be reached; nothing is said of the nodes."""


class NodeLost(EngineError):
    """The node is dead, or gone from the engine: whatever ran on it is given up."""


class NodeSilent(EngineError):
    """No answer in time. Whether the call was carried out is not known: it is made again."""


class AgentRefused(EngineError):
    """The agent of the node was reached, and says why it does not do this."""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node that lives, as the engine tells it.

    `id` is the engine's, another one after the node was started anew; `name` is the machine's, and stays.
    """

    id: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


class Engine(Protocol):
    """Carries calls to nodes. All of it may be called from several threads at once."""

    def nodes(self) -> Sequence[NodeSeen]:
        """The nodes that live; raises EngineAway."""
        ...

    def call(self, node: str, method: str, arguments: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        """Have the agent of the node with this id do something, and answer what it answers.

        `method` is one of the agent's, `arguments` and answer are JSON values. Raises EngineAway, NodeLost,
        NodeSilent after `timeout` seconds, and AgentRefused.
        """
        ...

    def close(self) -> None:
        """Let go of the engine: calls under way raise EngineAway."""
        ...
