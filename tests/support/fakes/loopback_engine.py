"""A local engine whose nodes are folders, with real agents in this process; it loses answers at will."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fleet.agent import Agent
from fleet.engine import EngineAway, EngineNode, NodeLost, NodeRefused, NodeSilent
from fleet.node_orders import AllocatedNode
from runner import journal
from support.fakes.local_engine import LocalEngine
from support.servers.schedulers import NO_COMMAND, write_header


class Node:
    """A folder with a pyrometer.toml, data of its own, and an agent whose `pyrometer` measures nothing."""

    def __init__(self, folder: Path, name: str, *labels: str, command: Sequence[str] = NO_COMMAND) -> None:
        self.folder, self.name, self.data_dir = folder / name, name, folder / name / "data"
        self.data_dir.mkdir(parents=True)
        write_header(self.data_dir)
        (self.folder / "pyrometer.toml").write_text(
            f'data_dir = "data"\nmachine_labels = {json.dumps(list(labels))}\n'
        )
        self._command = (*command, str(self.data_dir))
        self.agent = self._agent()

    def _agent(self) -> Agent:
        return Agent(self.folder, self._command)

    def start_anew(self) -> None:
        """Have the agent be gone with what it knows, and another one in its place."""
        before, self.agent = self.agent, self._agent()
        before.close()

    def go_on(self) -> None:
        """Let patient runs go on."""
        (self.folder / "go-on").touch()

    def journal(self, run: str) -> Path:
        return self.data_dir / "runs" / run / journal.FILE


class LoopbackEngine(LocalEngine):
    """A local engine that carries calls to its agents as JSON, and loses some.

    Of every `lost_every` calls the answer of one is lost after it was carried out; one of `twice_every` is
    carried out twice, and one of `late_every` only behind the third call after it. `gone` and `silent` name
    nodes; `away` is why there is no engine.
    """

    def __init__(self, *nodes: Node) -> None:
        super().__init__({})
        self.own_nodes = {node.name: node for node in nodes}
        self.labels: dict[str, Mapping[str, str]] = {}
        self.lost_every = self.twice_every = self.late_every = 0
        self.gone: set[str] = set()
        self.silent: set[str] = set()
        self.away = ""
        self.calls: list[tuple[str, str]] = []
        self.largest = 0
        self.closed = False
        #: Called before each call, with its method.
        self.before: Callable[[str], object] = lambda method: None
        self._late: list[tuple[int, Callable[[], object]]] = []
        self._calls_lock = threading.Lock()

    def nodes(self) -> Sequence[EngineNode]:
        self._check()
        alive = [name for name in self.own_nodes if name not in self.gone]
        return [EngineNode(f"id-{name}", name, self.labels.get(name, {})) for name in alive]

    def call(self, node: str, method: str, arguments: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        name = node.removeprefix("id-")
        self.before(method)
        self._check()
        self.agents = {each: there.agent for each, there in self.own_nodes.items()}
        if name in self.gone:
            raise NodeLost("its machine is gone")
        return super().call(name, method, arguments, timeout)

    def call_agent(
        self,
        node: str,
        method: str,
        arguments: Mapping[str, Any],
        nodes: Sequence[AllocatedNode],
        timeout: float,
    ) -> Mapping[str, Any]:
        if node in self.silent:
            raise NodeSilent(f"no answer to {method}")
        with self._calls_lock:
            self.calls.append((node, method))
            number = len(self.calls)
            due = [each for each in self._late if each[0] <= number]
            self._late = [each for each in self._late if each[0] > number]

        text = json.dumps(arguments)

        def carry() -> Mapping[str, Any]:
            agent = self.agents[node]
            found = LocalEngine.call_agent(self, node, method, json.loads(text), nodes, timeout)
            answer = json.dumps(found)
            if self.own_nodes[node].agent is not agent:
                raise NodeSilent("the agent died over it")
            self.largest = max(self.largest, len(answer))
            return dict(json.loads(answer))

        for _, late in due:
            with suppress(NodeRefused):
                late()
        if self._hits(self.late_every, number):
            with self._calls_lock:
                self._late.append((number + 3, carry))
            raise NodeSilent("it is on its way")
        answer = carry()
        if self._hits(self.twice_every, number):
            with suppress(NodeRefused):
                answer = carry()
        if self._hits(self.lost_every, number):
            raise NodeSilent("the answer was lost")
        return answer

    def close(self) -> None:
        self.closed, self.away = True, "it is closed"

    def _check(self) -> None:
        if self.away:
            raise EngineAway(self.away)

    @staticmethod
    def _hits(every: int, number: int) -> bool:
        return bool(every) and number % every == 0
