"""The seam of a fleet: an engine takes orders for its nodes, and has their files read.

* EngineError
  * EngineAway    the engine itself cannot be reached
  * NodeLost      the node is dead, or the engine does not know it or the order any more
  * NodeSilent    the node did not answer in time; the call may have been carried out
  * NodeRefused   the node, or the engine for it, answered that it will not
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from scheduled_jobs.jobs.context import ChildExit


class EngineError(Exception):
    """Base of what an engine raises; its text is one sentence for people."""


class EngineAway(EngineError):
    """The engine cannot be reached; nothing is known of the nodes."""


class NodeLost(EngineError):
    """The node is dead or unknown to the engine, or does not know the order: what ran there is given up."""


class NodeSilent(EngineError):
    """No answer in time. Whether the call was carried out is not known: it is made again."""


class NodeRefused(EngineError):
    """The node was reached, and the text is why it does not do this."""


@dataclass(frozen=True, slots=True)
class EngineNode:
    """A node that lives, as the engine lists it.

    `id` is the engine's, another one after the node was started anew; `name` is the machine's, and stays. A
    node that is `reserved` for another order, or another user, is to get only what asks for it by name.
    """

    id: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    reserved: bool = False


def new_token() -> str:
    """A name for an order that no other order has: 32 hexadecimal digits."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Order:
    """A command of `pyrometer` for a node.

    `node` is the engine's id of the node that it runs on, `arguments` follow `pyrometer` on the command line,
    `run` is the id of the run that it measures, empty for none. The engine gives it `nodes` nodes, `node`
    among them: PYROMETER_NODES_FILE names them to the command.
    """

    node: str
    arguments: tuple[str, ...]
    run: str = ""
    nodes: int = 1
    token: str = field(default_factory=new_token)


@dataclass(frozen=True, slots=True)
class OrderPaths:
    """The files of an order on its node, as `Engine.read` takes them; `journal` is empty without a run."""

    log: str
    events: str
    journal: str = ""


@dataclass(frozen=True, slots=True)
class NodeJournal:
    """The journal of a run on a node: its path for `Engine.read`, its size in bytes, if it is written to."""

    run: str
    path: str
    size: int
    in_use: bool


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some bytes of a file, and whether there are `more` behind them."""

    data: bytes
    more: bool


class Handle(Protocol):
    """An order that was submitted. Every method may be called again, also after an error."""

    @property
    def paths(self) -> OrderPaths:
        """Its files. They are complete once it is done."""
        ...

    @property
    def wait_reason(self) -> str:
        """What it waited for at the last `done`, in a sentence; empty once it runs."""
        ...

    def done(self, seconds: float = 0.0) -> bool:
        """Whether it has ended; waits for that so long at most. An order may begin only when this is called.

        Raises EngineAway, NodeSilent and NodeRefused, and NodeLost when nothing more will come of it.
        """
        ...

    def result(self) -> ChildExit:
        """How it ended; waits until it has. Raises as `done` does."""
        ...

    def cancel(self) -> None:
        """Ask it to keep what it has and end; what has not begun never begins. Raises as `done` does."""
        ...


class Engine(Protocol):
    """Carries out orders on nodes. All of it may be called from several threads at once."""

    def nodes(self) -> Sequence[EngineNode]:
        """The nodes that live; raises EngineAway."""
        ...

    def describe(self, node: str) -> Mapping[str, Any]:
        """What the node with this id reports about itself, as JSON values; raises EngineError.

        Among them are `labels`, `idle`, and `examined`: whether its doctor has reported.
        """
        ...

    def submit(self, order: Order) -> Handle:
        """Hand an order over. Submitted twice it is carried out once. Raises EngineError."""
        ...

    def runs(self, node: str) -> Sequence[NodeJournal]:
        """The journals of the runs that orders measured on a node; raises EngineError."""
        ...

    def read(self, node: str, offsets: Mapping[str, int], *, final: bool) -> Mapping[str, Chunk]:
        """Of each file on a node the bytes from an offset on, a bounded number; none of a missing file.

        Unless it is `final`, what stands in a journal behind its last newline may still be taken back, and
        is not there. Raises EngineError.
        """
        ...

    def close(self) -> None:
        """Let go of the engine: calls under way raise EngineAway."""
        ...
