"""The process that speaks to Ray for the head: requests come as lines of JSON on stdin, answers go to stdout.

It is one of its own because Ray's driver may abort its process, and takes its actors along: then it is just
started again. A request is {"id", "do": "nodes"} or {"id", "do": "call", "node", "method", "arguments",
"timeout"}; an answer has its id and `ok`, or `error` (lost, silent, refused, away) with a `sentence`. They
come in any order. The first line says {"ready": true} or {"failed": SENTENCE}. It ends when stdin does.
"""

import argparse
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    ActorUnschedulableError,
    RayError,
)
from ray.util import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ..agent_engine import AllocatedNode, NodeOrders
from ..engine import EngineAway, EngineError, NodeLost, NodeRefused, NodeSilent
from .agent import RayAgent
from .processes import SLOT

#: Calls of the head that an agent works on at once, and calls in all: agents of one order call each other.
_AT_ONCE, _IN_ALL = 4, 16
#: Requests that are worked on at once: a thread each, most of which wait for an order's end.
_REQUESTS = 4000
#: How long the head of Ray may take to list the nodes.
_LIST_SECONDS = 10.0
#: How often it is seen whether the node of a placement group that is to be removed still lives.
_REMOVE_SECONDS = 10.0
#: What Ray may take to end in order.
_END_SECONDS = 5.0
#: Ray's own labels begin so; one of them is the id of a node.
_RAYS_OWN, _NODE_LABEL = "ray.io/", "ray.io/node-id"

Answer = dict[str, Any]
#: Lists of nodes are asked for here: one may take for ever.
_LISTS = ThreadPoolExecutor(4, thread_name_prefix="nodes")


class _Actor:
    """The agent of one node as this process has it."""

    def __init__(self, node: str) -> None:
        remote: Any = ray.remote(RayAgent)
        self.handle = remote.options(
            num_cpus=0,
            # What is lost is tried again by our queue, which knows what is stale.
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=_IN_ALL,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        ).remote()
        self._turns = threading.Semaphore(_AT_ONCE)

    def call(self, method: str, arguments: Mapping[str, Any], group: Sequence[Any], timeout: float) -> str:
        """The agent's answer; raises TimeoutError. A call that is late keeps its turn until it is over."""
        if not self._turns.acquire(timeout=timeout):
            raise TimeoutError
        try:
            ended: Future[str] = self.handle.call.remote(method, dict(arguments), list(group)).future()
        except BaseException:
            self._turns.release()
            raise
        ended.add_done_callback(lambda _: self._turns.release())
        return ended.result(timeout)


class _PlacementGroup:
    """The nodes of an order: a bundle with a node's slot each, every one on another node."""

    def __init__(self, node: str, many: int) -> None:
        self._node, self._many, self._is_granted = node, many, False
        self._group = placement_group(
            [{SLOT: 1.0}] * many,
            strategy="STRICT_SPREAD",
            # As many selectors as bundles: the first one is for the node that runs the command.
            bundle_label_selector=[{_NODE_LABEL: node}, *({} for _ in range(many - 1))],
        )

    def granted(self, seconds: float) -> Sequence[AllocatedNode] | None:
        """The nodes, once Ray has given them."""
        if not self._group.wait(seconds):
            there = [each["NodeID"] for each in _alive()]
            if self._node not in there:
                raise NodeLost("Ray does not know it any more")
            if len(there) < self._many:
                raise NodeRefused(f"{self._many} nodes are wanted, and the fleet has {len(there)}")
            return None
        self._is_granted = True
        ids = placement_group_table(self._group)["bundles_to_node_id"]
        nodes = {each["NodeID"]: each for each in ray.nodes()}
        held = [nodes[ids[number]] for number in range(self._many)]
        return [AllocatedNode(each["NodeID"], each["NodeName"], each["NodeManagerAddress"]) for each in held]

    def release(self) -> None:
        """Give them back; a group that Ray has not created yet is removed as soon as it has."""
        if self._is_granted:
            remove_placement_group(self._group)
        else:
            threading.Thread(target=self._remove_later, name="placement group", daemon=True).start()

    def _remove_later(self) -> None:
        # Ray 2.60 loses a node's slot for ever when a group is removed while it is created.
        with suppress(RayError, EngineAway):
            while not self._group.wait(_REMOVE_SECONDS):
                if self._node not in [each["NodeID"] for each in _alive()]:
                    break
            remove_placement_group(self._group)


class Driver:
    """Answers requests; may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._actors: dict[str, _Actor] = {}
        self._orders = NodeOrders(self._call, _PlacementGroup)

    def answer(self, request: Mapping[str, Any]) -> Answer:
        """What becomes of a request."""
        try:
            if request["do"] == "nodes":
                return {"ok": self._nodes()}
            wanted = (request["node"], request["method"], request["arguments"], request["timeout"])
            return {"ok": self._orders.call(*wanted)}
        except NodeLost as error:
            return _error("lost", str(error))
        except NodeSilent as error:
            return _error("silent", str(error))
        except NodeRefused as error:
            return _error("refused", str(error))
        except EngineError as error:
            return _error("away", str(error))
        except RayError as error:
            return _error("away", f"Ray: {_lines(error)[0]}")

    def _nodes(self) -> list[Answer]:
        reserved = self._orders.reserved()
        return [
            {
                "id": each["NodeID"],
                "name": each["NodeName"],
                "labels": {
                    key: text for key, text in each["Labels"].items() if not key.startswith(_RAYS_OWN)
                },
                "reserved": each["NodeID"] in reserved,
            }
            for each in _alive()
        ]

    def _call(
        self,
        node: str,
        method: str,
        arguments: Mapping[str, Any],
        nodes: Sequence[AllocatedNode],
        timeout: float,
    ) -> Mapping[str, Any]:
        actor = self._actor(node)
        group = [(each.name, each.address, self._actor(each.id).handle) for each in nodes]
        try:
            answer = json.loads(actor.call(method, arguments, group, timeout))
        except (TimeoutError, FutureTimeout):
            raise NodeSilent(f"no answer within {timeout:g} s") from None
        except ActorUnavailableError:
            raise NodeSilent("the connection to it broke") from None
        except (ActorDiedError, ActorUnschedulableError) as error:
            with self._lock:
                if self._actors.get(node) is actor:
                    del self._actors[node]
            if all(each["NodeID"] != node for each in _alive()):
                raise NodeLost("Ray does not know it any more") from None
            if getattr(error, "actor_init_failed", False):
                raise NodeRefused(f"its agent cannot begin: {_lines(error)[-1]}") from None
            raise NodeSilent("its agent died, and is started again") from None
        if "ok" not in answer:
            raise NodeRefused(answer["refused"])
        return answer["ok"]

    def _actor(self, node: str) -> _Actor:
        with self._lock:
            if node not in self._actors:
                self._actors[node] = _Actor(node)
            return self._actors[node]


def _alive() -> list[Answer]:
    """The nodes that live and measure, as Ray describes them; raises EngineAway."""
    try:
        found: list[Answer] = _LISTS.submit(ray.nodes).result(_LIST_SECONDS)
    except FutureTimeout:
        raise EngineAway(f"Ray does not list the nodes within {_LIST_SECONDS:g} s") from None
    return [each for each in found if each["Alive"] and each["Resources"].get(SLOT)]


def _error(kind: str, sentence: str) -> Answer:
    return {"error": kind, "sentence": sentence}


def _lines(error: BaseException) -> list[str]:
    return [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]


def _serve(driver: Driver, write: Callable[[Answer], None]) -> None:
    """Answer what comes until stdin ends."""
    pool = ThreadPoolExecutor(_REQUESTS, thread_name_prefix="request")

    def one(line: bytes) -> None:
        request = json.loads(line)
        write({"id": request["id"], **driver.answer(request)})

    for line in sys.stdin.buffer:
        pool.submit(one, line)
    # Whatever Ray waits for, this process ends with that which holds it.
    end = threading.Timer(_END_SECONDS, os._exit, (1,))
    end.daemon = True
    end.start()
    ray.shutdown()
    os._exit(0)


def _connect(address: str, ip: str) -> str:
    """Become a driver; answers in one sentence why not, empty when it is one."""
    try:
        # The head's own node is found by its address: this process lives beside it.
        ray.init(address=address, _node_ip_address=ip, log_to_driver=False, logging_level=logging.ERROR)
    except (RayError, ConnectionError, RuntimeError, ValueError, OSError) as error:
        return f"no head at {address} takes us: {_lines(error)[0]}"
    return ""


def main() -> None:
    """Connect and serve; only what this process says may stand on its stdout."""
    parser = argparse.ArgumentParser(prog="ray_driver", description=__doc__)
    parser.add_argument("--address", required=True, help="IP:PORT of the head")
    parser.add_argument("--ip", required=True, help="the head's address, which is this machine's")
    options = parser.parse_args()
    out, writing = os.dup(1), threading.Lock()
    os.dup2(2, 1)

    def write(answer: Answer) -> None:
        left = json.dumps(answer).encode() + b"\n"
        with writing:
            while left:
                left = left[os.write(out, left) :]

    if failed := _connect(options.address, options.ip):
        write({"failed": failed})
        sys.exit(1)
    write({"ready": True})
    _serve(Driver(), write)


if __name__ == "__main__":
    main()
