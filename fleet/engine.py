"""The interface of a fleet's engine: it runs orders on its nodes, and reads their files.

* EngineError
  * EngineAway    the engine itself cannot be reached
  * NodeLost      the node is dead, or the engine no longer knows it or the order
  * NodeSilent    the node did not answer in time; the call may have been carried out
  * NodeRefused   the node, or the engine for it, refused
"""

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from runner import journal
from scheduled_jobs.jobs.context import ChildExit


class EngineError(Exception):
    """Base of the errors of an engine; the text is one sentence for users."""


class EngineAway(EngineError):
    """The engine cannot be reached; nothing is known about the nodes."""


class NodeLost(EngineError):
    """The node is dead or unknown to the engine, or does not know the order: its work is lost."""


class NodeSilent(EngineError):
    """No answer in time. It is unknown whether the call was carried out: repeat it."""


class NodeRefused(EngineError):
    """The node was reached and refused; the text is the reason."""


@dataclass(frozen=True, slots=True)
class EngineNode:
    """A node that is alive, as the engine lists it.

    `id` is the engine's, and changes when the node restarts; `name` is the machine's, and does not. A node
    that is `reserved` for another order or another user gets only tasks that name it.
    """

    id: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    reserved: bool = False


def new_token() -> str:
    """A unique name for an order: 32 hexadecimal digits."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Order:
    """A command of `pyrometer` to run on a node.

    `node` is the engine's id of the node, `arguments` follow `pyrometer` on the command line, `run` is the id
    of the run that it measures (empty: none). The engine allocates `nodes` nodes, `node` among them, and
    lists them to the command in PYROMETER_NODES_FILE.
    """

    node: str
    arguments: tuple[str, ...]
    run: str = ""
    nodes: int = 1
    token: str = field(default_factory=new_token)


@dataclass(frozen=True, slots=True)
class OrderPaths:
    """The files of an order on its node, for `Engine.read_files`; `journal` is empty without a run."""

    log: str
    events: str
    journal: str = ""


@dataclass(frozen=True, slots=True)
class NodeJournal:
    """The journal of a run on a node: path for `Engine.read_files`, bytes, whether it is being written."""

    run: str
    path: str
    size: int
    in_use: bool


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some bytes of a file, and whether `more` follow."""

    data: bytes
    more: bool


class Handle(Protocol):
    """A submitted order. Every method may be called again, also after an error."""

    @property
    def paths(self) -> OrderPaths:
        """Its files; complete once it is done."""
        ...

    @property
    def wait_reason(self) -> str:
        """Why it had not started at the last `done`, in a sentence; empty once it runs."""
        ...

    def done(self, seconds: float = 0.0) -> bool:
        """Whether it has ended; waits at most `seconds` for that. An order may start only during this call.

        Raises EngineAway, NodeSilent and NodeRefused, and NodeLost when it will never end by itself.
        """
        ...

    def result(self) -> ChildExit:
        """Its exit; waits for it. Raises what `done` raises."""
        ...

    def cancel(self) -> None:
        """Have it store its results and end; if not started, it never starts. Raises what `done` raises."""
        ...


class Engine(Protocol):
    """Runs orders on nodes. Its methods may be called from several threads at once."""

    def nodes(self) -> Sequence[EngineNode]:
        """The nodes that are alive; raises EngineAway."""
        ...

    def describe(self, node: str) -> Mapping[str, Any]:
        """The facts that the node with this id reports, as JSON values; raises EngineError.

        Among them are `labels`, `idle`, and `examined`: whether its doctor has reported.
        """
        ...

    def submit(self, order: Order) -> Handle:
        """Submit an order; submitted again, it still runs once. Raises EngineError."""
        ...

    def runs(self, node: str) -> Sequence[NodeJournal]:
        """The journals of the runs that orders measured on a node; raises EngineError."""
        ...

    def read_files(self, node: str, offsets: Mapping[str, int], *, final: bool) -> Mapping[str, Chunk]:
        """The bytes of each file on a node from its offset on, a bounded number; none of a missing file.

        The last line of a journal, if it has no newline, may still be taken back: it is read only when
        `final`. Raises EngineError.
        """
        ...

    def close(self) -> None:
        """Release the engine: calls in progress raise EngineAway."""
        ...


#: The most bytes of a chunk: one MiB as base64.
CHUNK_BYTES = 768 << 10
_BLOCK_BYTES = 64 << 10


def read_chunk(path: Path, at: int, *, final: bool) -> Chunk:
    """The bytes of a file from `at` on, up to CHUNK_BYTES; none of a file that does not exist.

    Unless `final`, the last line of a journal is not read before it has a newline: it may be taken back.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return Chunk(b"", more=False)
    try:
        end = os.fstat(descriptor).st_size
        if path.name == journal.FILE and not final:
            end = _after_last_newline(descriptor, at, end)
        data = os.pread(descriptor, max(0, min(CHUNK_BYTES, end - at)), at)
        return Chunk(data, more=at + len(data) < end)
    finally:
        os.close(descriptor)


def _after_last_newline(descriptor: int, at: int, end: int) -> int:
    """The end of the last whole line after `at`; `at` where there is none."""
    while end > at:
        start = max(at, end - _BLOCK_BYTES)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return at
