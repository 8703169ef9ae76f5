"""Members that torch.distributed.run starts, on this node or on several: a torchrun a node, a store for all.

The leader serves a TCPStore. Orders and answers are its keys, members wait at it for a common start, and each
node agent (`node_agent`) writes a heartbeat there every second, and how its ranks ended. A node is reached by
the command that the engine gave for it: when that ends, or is killed, so does all that it started.
"""

import contextlib
import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch

from ..prepared_case import UnsupportedCase
from ..variables import relevant_variables
from .channels import FOREVER, client
from .members import LEAVE_SECONDS, LOOK_SECONDS, GroupSpec, MemberFailed, Members
from .node_agent import TOKEN

#: A node without a heartbeat for this long is lost.
DEAD_SECONDS = 10.0
#: How long a node may take to start Python and import torch.
_START_SECONDS = 120.0
#: How long torchrun may take to learn how a rank ended, once another one has failed.
_GRACE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node: its name, its address, and the prefix of a command for it (empty: this machine)."""

    name: str
    address: str
    command: tuple[str, ...]


#: The only node of a case on one machine.
THIS = NodeSpec("", "127.0.0.1", ())


class TorchrunMembers(Members):
    """As many members on each node; the first node is this machine. Raises MemberFailed, UnsupportedCase.

    `cpus` are those that members on other nodes keep to, by number; none: all there.
    """

    def __init__(self, spec: GroupSpec, nodes: tuple[NodeSpec, ...], cpus: Collection[int]) -> None:
        super().__init__(spec)
        self._nodes = nodes
        self._each = spec.count // len(nodes)
        self.one_clock = len(nodes) == 1
        self.host = nodes[0].address
        self._about: list[dict[str, Any]] = [{} for _ in nodes]
        self._beats = [time.monotonic() + _START_SECONDS] * len(nodes)
        self._ended: dict[int, dict[str, Any]] = {}
        self._orders = [0] * spec.count
        self._inbox: queue.SimpleQueue[tuple[str, int, dict[str, Any]]] = queue.SimpleQueue()
        self._answers: dict[int, dict[str, Any]] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._store: Any = torch.distributed.TCPStore(  # pyright: ignore[reportPrivateImportUsage]
            self.host, 0, None, True, wait_for_workers=False
        )
        for kind, many in (("node", len(nodes)), ("rank", spec.count)):
            for number in range(many):
                threading.Thread(target=self._listen, args=(kind, number), daemon=True).start()
        try:
            self._start(cpus)
            for hello in self._next({*range(spec.count)}).values():
                self.pids[hello["rank"]] = hello["pid"]
        except BaseException:
            self._kill()
            raise
        self.shares = tuple(tuple(share) for about in self._about for share in about["shares"])
        self.interface = self._about[0]["interface"]

    @property
    def own(self) -> range:
        """The numbers of the members on this machine."""
        return range(self._each)

    def node_of(self, number: int) -> str:
        """The name of the node of a member that is on another machine."""
        return "" if number in self.own else self._nodes[number // self._each].name

    def local_number(self, number: int) -> int:
        """A member's number among those of its node."""
        return number % self._each

    def facts(self) -> dict[str, Any]:
        """The other nodes, and the network interface of the ranks."""
        if len(self._nodes) == 1:
            return {}
        others = zip(self._nodes[1:], self._about[1:], strict=True)
        return {
            "nodes": [
                {"name": node.name, "address": node.address, "interface": about["interface"]}
                for node, about in others
            ],
            "interface": self.interface,
        }

    def soon(self) -> int:
        """A moment for all on one machine; over several, members wait for each other at the store (0)."""
        return super().soon() if self.one_clock else 0

    def order_one(self, number: int, do: str, **details: Any) -> None:
        """Order one member to do something."""
        self._store.set(f"order/{number}/{self._orders[number]}", json.dumps({"do": do, **details}))
        self._orders[number] += 1

    def receive(self, numbers: Collection[int]) -> dict[int, Any]:
        """The next answer of each of these members."""
        return {number: received["done"] for number, received in self._next(numbers).items()}

    def close(self) -> None:
        """Have all members leave; one that does not is killed."""
        self.order("leave")
        give_up = time.monotonic() + LEAVE_SECONDS
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, give_up - time.monotonic()))
        self._kill()

    # -- starting -------------------------------------------------------------------------

    def _start(self, cpus: Collection[int]) -> None:
        with socket.create_server((self.host, 0), family=_family(self.host)) as free:
            port = free.getsockname()[1]
        spec = self.spec
        order = {"word": spec.word, "each": spec.each, "threads": spec.threads, "count": self._each}
        order |= {"nodes": len(self._nodes), "host": self.host, "port": port, "store": self._store.port}
        about_all = {**order, "variables": relevant_variables(os.environ)}
        for number, node in enumerate(self._nodes):
            own = about_all | {"node": number, "cpus": sorted(cpus) if node.command else []}
            command = (sys.executable, "-I", sys.argv[0], "node", "--order", json.dumps(own))
            try:
                self._processes.append(
                    subprocess.Popen(
                        (*_command_prefix(node), *command), stdin=subprocess.PIPE, stdout=sys.stderr
                    )
                )
            except OSError as error:
                raise self._unreachable(number, error.strerror or str(error)) from error

    def _unreachable(self, number: int, why: str) -> MemberFailed:
        return MemberFailed("lost", f"node {self._nodes[number].name} cannot be reached: {why}")

    # -- listening ------------------------------------------------------------------------

    def _listen(self, kind: str, number: int) -> None:
        """Forward the messages of one rank or node in order; runs in its own thread with its own client."""
        with contextlib.suppress(RuntimeError):
            store, count = client(self.host, self._store.port), 0
            while True:
                key = f"{kind}/{number}/{count}"
                store.wait([key], FOREVER)
                body = json.loads(store.get(key))
                if kind == "node":
                    # When it comes, not when it is read: while others are measured nothing here is.
                    self._beats[number] = time.monotonic()
                self._inbox.put((kind, number, body))
                store.delete_key(key)
                count += 1

    def _next(self, numbers: Collection[int]) -> dict[int, dict[str, Any]]:
        """The next word of each of these members; raises MemberFailed for one that fails or dies."""
        while missing := {*numbers} - self._answers.keys():
            if not self._take(LOOK_SECONDS):
                self._check_nodes(missing)
            for number in numbers:
                if "failed" in self._answers.get(number, {}):
                    raise self._cause(number)
        return {number: self._answers.pop(number) for number in numbers}

    def _take(self, seconds: float) -> bool:
        """Read one message of any member; whether there was one within so many seconds."""
        try:
            kind, number, body = self._inbox.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return False
        if kind == "rank":
            self._answers[number] = body
            return True
        if "started" in body:
            self._about[number] = body["started"]
        if "ended" in body:
            self._ended[number] = body["ended"]
        return not body.get("alive")

    def _check_nodes(self, waited_for: Collection[int]) -> None:
        """Raise MemberFailed for a node whose torchrun or command has ended, or without a heartbeat."""
        for number, process in enumerate(self._processes):
            ranks = [rank for rank in waited_for if rank // self._each == number]
            if number in self._ended or (ranks and process.poll() is not None):
                self._drain()
                if number in self._ended or not {*ranks} <= self._answers.keys():
                    raise self._node_end(number)
            if not self.one_clock and time.monotonic() - self._beats[number] > DEAD_SECONDS:
                if not self._about[number]:
                    raise self._unreachable(number, f"nothing within {_START_SECONDS + DEAD_SECONDS:g} s")
                name = self.name(number * self._each) if number else self._nodes[0].name
                raise MemberFailed("lost", f"{name}: the connection was lost (no answer)")

    def _drain(self) -> None:
        give_up = time.monotonic() + LOOK_SECONDS
        while (left := give_up - time.monotonic()) > 0:
            self._take(left)

    def _node_end(self, number: int) -> MemberFailed:
        """How what ran on a node ended: as its agent reported, or by the exit code of its command."""
        ended = self._ended.get(number)
        if ended is None:
            code = self._processes[number].poll()
            if not self._about[number]:
                return self._unreachable(number, f"its command ended with code {code}; the log says more")
            first = self.name(number * self._each)
            return MemberFailed("lost", f"{first}: its node was lost (its command ended with code {code})")
        if unsupported := ended.get("unsupported"):
            raise UnsupportedCase(
                unsupported if number == 0 else f"node {self._nodes[number].name}: {unsupported}"
            )
        if ranks := ended["ranks"]:
            rank, (status, how) = next(iter(ranks.items()))
            return MemberFailed(status, f"{self.name(int(rank))} {how}")
        where = f" on {self._nodes[number].name}" if number else ""
        return MemberFailed("crashed", f"torchrun{where} ended before every rank was done: {ended['reason']}")

    def _cause(self, number: int) -> MemberFailed:
        """The cause, once one member has failed: a dead member before what others make of its death."""
        failed = self._answers[number]["failed"]
        give_up = time.monotonic() + (_GRACE_SECONDS if failed["status"] != "unsupported" else 0.0)
        while not self._dead() and (left := give_up - time.monotonic()) > 0:
            self._take(min(left, LOOK_SECONDS))
        dead = self._dead()
        return self._node_end(dead[0]) if dead else self.member_failure(number, failed)

    def _dead(self) -> list[int]:
        """Nodes with a rank that died, or whose command did."""
        died = [number for number, ended in self._ended.items() if ended.get("ranks")]
        exits = [k for k, process in enumerate(self._processes) if process.poll() and k not in self._ended]
        return died or exits

    def _kill(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            # Its end is the order to leave for whatever a killed command leaves behind.
            with contextlib.suppress(OSError):
                process.stdin.close()
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


def _command_prefix(node: NodeSpec) -> tuple[str, ...]:
    """The prefix of a command for a node: the engine's own, which need not hand on the token by itself."""
    if not node.command:
        return ()
    token = os.environ.get(TOKEN)
    return (*node.command, "env", *([] if token is None else [f"{TOKEN}={token}"]))


def _family(host: str) -> socket.AddressFamily:
    return socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
