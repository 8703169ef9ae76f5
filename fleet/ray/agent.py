"""The agent of a node as a Ray actor, which runs on the node with the node's own Pyrometer."""

import json
import os
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from ..agent import Agent
from ..engine import NodeRefused, NodeSilent
from ..node_steps import AgentCall, GroupNode
from .processes import ENVIRONMENT, FOLDER

#: How long a call to the agent of another node may take, in addition to what it waits for.
_CALL_SECONDS = 30.0


class RayAgent:
    """Passes calls to the agent of this node; answers are JSON."""

    def __init__(self) -> None:
        environ = json.loads(os.environ[ENVIRONMENT])
        self._agent = Agent(Path(os.environ[FOLDER]), variables=environ)

    def call(self, method: str, arguments: dict[str, Any], group: Sequence[tuple[str, str, Any]] = ()) -> str:
        """The agent's answer as `ok`, or one sentence on why it refuses as `refused`.

        `group` are the nodes of an order over several: name, address and actor of each.
        """
        nodes = [GroupNode(name, address, _call_of(actor)) for name, address, actor in group]
        try:
            return json.dumps({"ok": self._agent.answer(method, arguments, nodes)})
        except NodeRefused as error:
            return json.dumps({"refused": str(error)})
        except Exception as error:
            # Ray would send the exception itself, which the head may be unable to unpickle.
            traceback.print_exc()
            return json.dumps({"refused": f"a defect in Pyrometer: {type(error).__name__}: {error}"})


def _call_of(actor: Any) -> AgentCall:
    """A call of the agent of another node; this process does not import Ray's errors."""

    def call(method: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        future: Future[str] = actor.call.remote(method, dict(arguments)).future()
        try:
            answer = json.loads(future.result(_CALL_SECONDS + float(arguments.get("seconds", 0.0))))
        except Exception as error:
            raise NodeSilent(f"{type(error).__name__}: {error}".splitlines()[0]) from error
        if "ok" not in answer:
            raise NodeRefused(answer["refused"])
        return answer["ok"]

    return call
