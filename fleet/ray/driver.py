"""The process that connects to Ray for the head (`fleet.ray.engine` says why): answers requests from stdin.

A request is a line of JSON, {"id", "do": "nodes"} or {"id", "do": "call", "node", "method", "arguments",
"timeout"}. Its answer on stdout has the same id, and `ok` or the name of an `error` with a `sentence`;
answers come in any order. The first line is {"failed": SENTENCE}, empty once Ray is connected. The process
ends with its stdin.
"""

import argparse
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, ActorUnschedulableError, RayError
from ray.util import get_placement_group, placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from scheduled_jobs.scheduler.process_identity import dead_process, machine_name, this_process

from ..engine import EngineAway, EngineError, NodeLost, NodeRefused, NodeSilent, new_token
from ..node_orders import AllocatedNode, Allocation, NodeOrders
from .agent import RayAgent
from .processes import SLOT

#: Calls of the head that an agent works on at once, and calls in all: agents of one order call each other.
_HEAD_CALLS, _ALL_CALLS = 4, 16
#: Requests that are answered at once: a thread each, most of which wait for the end of an order.
_REQUESTS = 4000
#: How long Ray may take to list the nodes.
_LIST_SECONDS = 10.0
#: How often a placement group that is to be removed is checked.
_REMOVE_SECONDS = 10.0
#: The prefix of Ray's own labels; one of them is the id of a node.
_RAY_LABELS, _NODE_LABEL = "ray.io/", "ray.io/node-id"
#: Where the names of placement groups are looked up.
_NAMESPACE = "pyrometer"

Answer = dict[str, Any]
#: Ray has no timeout for a list of nodes.
_LISTS = ThreadPoolExecutor(4, thread_name_prefix="nodes")


class _NodeAgent:
    """The agent of one node: an actor of this driver."""

    def __init__(self, node: str) -> None:
        remote: Any = ray.remote(RayAgent)
        self.actor = remote.options(
            num_cpus=0,
            # Our queue repeats what is lost, and knows which attempt is stale.
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=_ALL_CALLS,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        ).remote()
        self._turns = threading.Semaphore(_HEAD_CALLS)

    def call(self, method: str, arguments: Mapping[str, Any], group: Sequence[Any], timeout: float) -> str:
        """The agent's answer; raises TimeoutError. A late call keeps its turn until it is over."""
        if not self._turns.acquire(timeout=timeout):
            raise TimeoutError
        try:
            ended: Future[str] = self.actor.call.remote(method, dict(arguments), list(group)).future()
        except BaseException:
            self._turns.release()
            raise
        ended.add_done_callback(lambda _: self._turns.release())
        return ended.result(timeout)


class _PlacementGroup:
    """The nodes of an order: a bundle with the slot of a node each, every one on another node.

    It is detached, for Ray 2.60 loses the slot of a node for ever when a group is removed while it is
    created, as with the driver that requested it. Its name is the driver and the node of the command.
    """

    def __init__(self, node: str, many: int) -> None:
        self._node, self._many = node, many
        self._group = placement_group(
            [{SLOT: 1.0}] * many,
            strategy="STRICT_SPREAD",
            name=f"{this_process(machine_name())} {node} {new_token()}",
            lifetime="detached",
            # As many selectors as bundles: the first one is for the node that runs the command.
            bundle_label_selector=[{_NODE_LABEL: node}, *({} for _ in range(many - 1))],
        )

    def wait(self, seconds: float) -> Sequence[AllocatedNode] | None:
        """The nodes, once Ray has created the group."""
        if not self._group.wait(seconds):
            alive = [each["NodeID"] for each in _alive()]
            if self._node not in alive:
                raise NodeLost("Ray does not know it any more")
            if len(alive) < self._many:
                raise NodeRefused(f"{self._many} nodes are wanted, and the fleet has {len(alive)}")
            return None
        ids = placement_group_table(self._group)["bundles_to_node_id"]
        nodes = {each["NodeID"]: each for each in ray.nodes()}
        held = [nodes[ids[number]] for number in range(self._many)]
        return [AllocatedNode(each["NodeID"], each["NodeName"], each["NodeManagerAddress"]) for each in held]

    def release(self) -> None:
        """Remove the group."""
        _remove(self._group, self._node)


def _remove(group: Any, node: str) -> None:
    """Remove a placement group as soon as Ray has created it, or does not know its first node any more."""

    def wait_and_remove() -> None:
        with suppress(RayError, EngineAway):
            while not group.wait(_REMOVE_SECONDS) and node in [each["NodeID"] for each in _alive()]:
                pass
            remove_placement_group(group)

    if group.wait(0):
        remove_placement_group(group)
    else:
        threading.Thread(target=wait_and_remove, name="placement group", daemon=True).start()


def _remove_abandoned() -> None:
    """Remove the placement groups of drivers that are dead."""
    me = this_process(machine_name())
    for each in placement_group_table().values():
        owner, _, rest = each["name"].partition(" ")
        if each["state"] != "REMOVED" and dead_process(owner, me) is not None:
            # Another driver may have removed it meanwhile.
            with suppress(ValueError):
                _remove(get_placement_group(each["name"]), rest.partition(" ")[0])


class Driver:
    """Answers requests; may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._agents: dict[str, _NodeAgent] = {}
        self._orders = NodeOrders(self._call, _allocate)

    def answer(self, request: Mapping[str, Any]) -> Answer:
        """The answer to a request, without its id."""
        try:
            if request["do"] == "nodes":
                return {"ok": self._nodes()}
            call = (request["node"], request["method"], request["arguments"], request["timeout"])
            return {"ok": self._orders.call(*call)}
        except EngineError as error:
            return {"error": type(error).__name__, "sentence": str(error)}
        except RayError as error:
            return {"error": EngineAway.__name__, "sentence": f"Ray: {_lines(error)[0]}"}

    def _nodes(self) -> list[Answer]:
        reserved = self._orders.reserved_nodes()
        return [
            {
                "id": each["NodeID"],
                "name": each["NodeName"],
                "labels": {
                    key: text for key, text in each["Labels"].items() if not key.startswith(_RAY_LABELS)
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
        agent = self._agent(node)
        group = [(each.name, each.address, self._agent(each.id).actor) for each in nodes]
        try:
            answer = json.loads(agent.call(method, arguments, group, timeout))
        except TimeoutError:
            raise NodeSilent(f"no answer within {timeout:g} s") from None
        except ActorUnavailableError:
            raise NodeSilent("the connection to it broke") from None
        except (ActorDiedError, ActorUnschedulableError) as error:
            with self._lock:
                if self._agents.get(node) is agent:
                    del self._agents[node]
            if all(each["NodeID"] != node for each in _alive()):
                raise NodeLost("Ray does not know it any more") from None
            if getattr(error, "actor_init_failed", False):
                raise NodeRefused(f"its agent cannot begin: {_lines(error)[-1]}") from None
            raise NodeSilent("its agent died, and is started again") from None
        if "ok" not in answer:
            raise NodeRefused(answer["refused"])
        return answer["ok"]

    def _agent(self, node: str) -> _NodeAgent:
        with self._lock:
            if node not in self._agents:
                self._agents[node] = _NodeAgent(node)
            return self._agents[node]


def _allocate(node: str, many: int) -> Allocation:
    group = _PlacementGroup(node, many)
    return Allocation(group.wait, group.release)


def _alive() -> list[Answer]:
    """The nodes that are alive and measure, as Ray describes them; raises EngineAway."""
    try:
        found: list[Answer] = _LISTS.submit(ray.nodes).result(_LIST_SECONDS)
    except TimeoutError:
        raise EngineAway(f"Ray does not list the nodes within {_LIST_SECONDS:g} s") from None
    return [each for each in found if each["Alive"] and each["Resources"].get(SLOT)]


def _lines(error: BaseException) -> list[str]:
    return [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]


def _serve(driver: Driver, write: Callable[[Answer], None]) -> None:
    """Answer requests until stdin ends."""
    pool = ThreadPoolExecutor(_REQUESTS, thread_name_prefix="request")

    def answer(line: bytes) -> None:
        request = json.loads(line)
        write({"id": request["id"], **driver.answer(request)})

    for line in sys.stdin.buffer:
        pool.submit(answer, line)
    # Without Ray's shutdown and the threads that wait for nodes: the head has ended, and nothing is stored.
    os._exit(0)


def _connect(address: str, ip: str) -> str:
    """Connect to the head of Ray; returns in one sentence why that failed, empty where it has not."""
    try:
        # The head's own node is found by its address: this process runs on the same machine.
        ray.init(
            address=address,
            namespace=_NAMESPACE,
            _node_ip_address=ip,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
        _remove_abandoned()
    except (RayError, ConnectionError, RuntimeError, ValueError, OSError) as error:
        return f"no head at {address} takes us: {_lines(error)[0]}"
    return ""


def main() -> None:
    """Connect and serve; stdout is for answers alone."""
    parser = argparse.ArgumentParser(prog="ray_driver", description=__doc__)
    parser.add_argument("--address", required=True, help="IP:PORT of the head")
    parser.add_argument("--ip", required=True, help="the head's address, which is this machine's")
    options = parser.parse_args()
    out, writing = os.dup(1), threading.Lock()
    os.dup2(2, 1)

    def write(answer: Answer) -> None:
        data = json.dumps(answer).encode() + b"\n"
        with writing:
            while data:
                data = data[os.write(out, data) :]

    failed = _connect(options.address, options.ip)
    write({"failed": failed})
    if failed:
        sys.exit(1)
    _serve(Driver(), write)


if __name__ == "__main__":
    main()
