"""The nodes of a run over several, as the engine that started it hands them over: a file of JSON."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from common.bounded_files import bounded_bytes

from .errors import NodeFailed
from .execution.harness import Harness
from .machine import MachineFacts
from .preset import MachinePreset

if TYPE_CHECKING:
    # It starts a worker, which knows nodes.
    from .environment import MeasuredEnvironment

#: How long a node may take to start two interpreters and import torch.
_PROBE_SECONDS = 180.0
#: A file of nodes is no larger.
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its name, its address for the others, and the prefix of a command for it.

    The first of a run is the machine that the run was started on; its command may be empty.
    """

    name: str
    address: str
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeMachines:
    """The nodes of one run, and what the machines of all but the first are."""

    nodes: tuple[Node, ...] = ()
    machines: tuple[MachineFacts, ...] = ()

    def facts(self) -> list[dict[str, Any]]:
        """The machines that take part besides this one, for the run's header."""
        return [
            {
                "address": node.address,
                "name": node.name,
                "fingerprint": machine.fingerprint,
                "hardware_label": machine.hardware_label,
                "hardware_fingerprint": machine.hardware_fingerprint,
                "conditions": dict(machine.conditions),
            }
            for node, machine in zip(self.nodes[1:], self.machines, strict=True)
        ]


def read_nodes(file: Path) -> tuple[Node, ...]:
    """The nodes in a file; raises NodeFailed for what is none."""
    try:
        found: Any = json.loads(bounded_bytes(file, _MOST_BYTES))
        nodes = tuple(_node(each) for each in found)
    except OSError as error:
        raise NodeFailed(f"the file of nodes {file} cannot be read: {error.strerror or error}") from error
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise NodeFailed(
            f"{file} is no list of nodes, each with a name, an address and a command: {error}"
        ) from error
    if not nodes or len({node.name for node in nodes}) < len(nodes):
        raise NodeFailed(f"{file} names no node, or one twice")
    if bare := [node.name for node in nodes[1:] if not node.command]:
        raise NodeFailed(f"{file} says no command by which node {bare[0]} is reached")
    return nodes


def write(file: Path, nodes: Sequence[Node]) -> None:
    """The inverse of `read_nodes`."""
    file.write_text(json.dumps([asdict(node) for node in nodes], indent=1) + "\n")


def _node(body: Any) -> Node:
    command = body.get("command", [])
    if not isinstance(command, list):
        raise ValueError("command is a list of words")
    words = cast("list[object]", command)
    name, address = body["name"], body["address"]
    if not all(isinstance(text, str) and text for text in (name, address)):
        raise ValueError("name and address are text")
    return Node(name, address, tuple(str(word) for word in words))


def inspect(
    nodes: tuple[Node, ...],
    environment: "MeasuredEnvironment",
    harness: Harness,
    preset: MachinePreset,
    gpus: int,
) -> NodeMachines:
    """What the machines of the other nodes are; raises NodeFailed for one that cannot measure the same.

    `environment` is the one measured here, `gpus` how many devices are computed on on each node.
    """
    order = {
        "python": environment.python,
        "harness": str(harness.path),
        "preset": {**asdict(preset), "variables": dict(preset.variables)},
        "gpus": gpus,
    }
    return NodeMachines(nodes, tuple(_machine(node, order, environment.facts) for node in nodes[1:]))


def _machine(node: Node, order: Mapping[str, Any], environment: Mapping[str, Any]) -> MachineFacts:
    command = [*node.command, sys.executable, "-I", "-m", "runner.node_facts", json.dumps(order)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PROBE_SECONDS,
        )
        body: dict[str, Any] = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}
    except OSError as error:
        raise NodeFailed(f"node {node.name} cannot be reached: {error.strerror or error}") from error
    except subprocess.TimeoutExpired as error:
        raise NodeFailed(f"node {node.name} does not answer within {_PROBE_SECONDS:g} s") from error
    except (ValueError, IndexError) as error:
        raise NodeFailed(f"node {node.name} answered something else") from error
    if not body:
        last = (done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"])[-1]
        raise NodeFailed(f"node {node.name} cannot be reached: {last}")
    if why := body.get("failed") or _difference(body, environment, order["gpus"]):
        raise NodeFailed(f"node {node.name}: {why}")
    return MachineFacts(**body["machine"])


def _difference(body: Mapping[str, Any], environment: Mapping[str, Any], gpus: int) -> str:
    """Why a node cannot measure the same, a sentence; empty if it can."""
    local = version("pyrometer")
    if body["version"] != local:
        return f"it has Pyrometer {body['version']}, and {local} measures here: both need the same"
    if len(body["environment"]["devices"]) < gpus:
        return f"its PyTorch sees {len(body['environment']['devices'])} GPUs, and {gpus} are computed on here"
    return environment_difference(body["environment"], environment)


def environment_difference(remote: Mapping[str, Any], local: Mapping[str, Any]) -> str:
    """Which part of an environment differs from ours, a sentence; empty where none does."""
    if remote["fingerprint"] == local["fingerprint"]:
        return ""
    for word in ("torch", "python"):
        if remote.get(word) != local.get(word):
            return f"its environment has {word} {remote.get(word)}, and {local.get(word)} measures here"
    packages = {*remote.get("packages", ())} ^ {*local.get("packages", ())}
    if packages:
        return f"its environment has other packages ({sorted(packages)[0]} is on one side only)"
    return "its environment has another build of the same torch"
