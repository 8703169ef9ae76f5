"""The process that speaks to Ray for the head: orders come as lines of JSON on stdin, answers go to stdout.

It is one of its own because Ray's driver may abort its process, and takes its actors along: then it is just
started again. An order is {"id", "do": "nodes"} or {"id", "do": "call", "node", "method", "arguments",
"timeout"}; an answer has its id and `ok`, or `error` (lost, silent, refused, away) with a `sentence`. They
come in any order. The first line says {"ready": true} or {"failed": SENTENCE}. It ends when stdin does.
"""

import argparse
import asyncio
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import ray
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    ActorUnschedulableError,
    RayError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from .agent import RayAgent
from .processes import SLOT

#: Calls that an agent works on at once; more wait for their turn here.
_AT_ONCE = 4
#: How long the head of Ray may take to say who is there.
_LIST_SECONDS = 10.0
#: What Ray may take to end in order.
_END_SECONDS = 5.0
#: Ray's own labels begin so.
_RAYS_OWN = "ray.io/"

Answer = dict[str, Any]


class _Held:
    """The agent of one node as this process holds it. What becomes of a call belongs to the loop's thread."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.turns = asyncio.Semaphore(_AT_ONCE)

    async def call(self, method: str, arguments: Mapping[str, Any]) -> str:
        """The agent's answer. A call that nobody waits for any more keeps its turn until it is over."""
        await self.turns.acquire()
        loop, waiting = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

        def over(ended: Future[str]) -> None:
            self.turns.release()
            error = ended.exception()
            if not waiting.done():
                waiting.set_exception(error) if error else waiting.set_result(ended.result())

        def called(ended: Future[str]) -> None:
            loop.call_soon_threadsafe(over, ended)

        try:
            ended = self.actor.call.remote(method, dict(arguments)).future()
        except BaseException:
            self.turns.release()
            raise
        ended.add_done_callback(called)
        return str(await waiting)


class Driver:
    """Answers orders. An agent that only `looks` takes no slot, so it can stand beside another head's."""

    def __init__(self, *, looks: bool) -> None:
        self._resources = {} if looks else {SLOT: 1}
        self._actor = ray.remote(RayAgent)
        self._held: dict[str, _Held] = {}

    async def answer(self, order: Mapping[str, Any]) -> Answer:
        """What becomes of an order."""
        calls = order["do"] == "call"
        try:
            if not calls:
                return {"ok": await _nodes()}
            async with asyncio.timeout(order["timeout"]):
                return await self._call(order["node"], order["method"], order["arguments"])
        except TimeoutError:
            if calls:
                return _error("silent", f"no answer within {order['timeout']:g} s")
            return _error("away", f"Ray does not say within {_LIST_SECONDS:g} s who is there")
        except RayError as error:
            return _error("away", f"Ray: {_lines(error)[0]}")

    async def _call(self, node: str, method: str, arguments: Mapping[str, Any]) -> Answer:
        held = self._held.get(node)
        if held is None:
            held = self._held[node] = _Held(self._begin(node))
        try:
            text = await held.call(method, arguments)
        except ActorUnavailableError:
            return _error("silent", "the connection to it broke")
        except (ActorDiedError, ActorUnschedulableError) as error:
            if self._held.get(node) is held:
                del self._held[node]
            if all(each["id"] != node for each in await _nodes()):
                return _error("lost", "Ray knows it no more")
            if getattr(error, "actor_init_failed", False):
                return _error("refused", f"its agent cannot begin: {_lines(error)[-1]}")
            return _error("silent", "its agent died, and is started again")
        answer = json.loads(text)
        return {"ok": answer["ok"]} if "ok" in answer else _error("refused", answer["refused"])

    def _begin(self, node: str) -> Any:
        return self._actor.options(
            num_cpus=0,
            resources=self._resources,
            # Whoever tries again is our queue, which knows what is stale.
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=_AT_ONCE,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        ).remote()


async def _nodes() -> list[Answer]:
    """The nodes that live and measure; raises TimeoutError."""
    found = await asyncio.wait_for(asyncio.to_thread(ray.nodes), _LIST_SECONDS)
    return [
        {
            "id": each["NodeID"],
            "name": each["NodeName"],
            "labels": {key: text for key, text in each["Labels"].items() if not key.startswith(_RAYS_OWN)},
        }
        for each in found
        if each["Alive"] and each["Resources"].get(SLOT)
    ]


def _error(kind: str, sentence: str) -> Answer:
    return {"error": kind, "sentence": sentence}


def _lines(error: BaseException) -> list[str]:
    return [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]


async def _serve(driver: Driver, write: Callable[[Answer], None]) -> None:
    """Answer what comes until stdin ends."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    under_way: set[asyncio.Task[None]] = set()

    async def one(line: bytes) -> None:
        order = json.loads(line)
        write({"id": order["id"], **await driver.answer(order)})

    def take(line: bytes) -> None:
        task = loop.create_task(one(line))
        under_way.add(task)
        task.add_done_callback(under_way.discard)

    def read() -> None:
        for line in sys.stdin.buffer:
            loop.call_soon_threadsafe(take, line)
        # Whatever Ray waits for, this process ends with whoever holds it.
        end = threading.Timer(_END_SECONDS, os._exit, (1,))
        end.daemon = True
        end.start()
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=read, name="orders", daemon=True).start()
    await ended.wait()


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
    parser.add_argument("--looks", action="store_true", help="take no slot of a node")
    options = parser.parse_args()
    out = os.dup(1)
    os.dup2(2, 1)

    def write(answer: Answer) -> None:
        left = json.dumps(answer).encode() + b"\n"
        while left:
            left = left[os.write(out, left) :]

    if failed := _connect(options.address, options.ip):
        write({"failed": failed})
        sys.exit(1)
    write({"ready": True})
    asyncio.run(_serve(Driver(looks=options.looks), write))
    ray.shutdown()


if __name__ == "__main__":
    main()
