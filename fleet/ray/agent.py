"""The agent of a node as an actor of Ray's: runs where the node is, with the node's own Pyrometer."""

import json
import os
import traceback
from pathlib import Path
from typing import Any

from ..agent import Agent
from ..engine import AgentRefused
from .processes import ENVIRONMENT, FOLDER


class RayAgent:
    """Hands calls on to the agent of this node; answers are JSON, which the head hands on as it is."""

    def __init__(self) -> None:
        environ = json.loads(os.environ[ENVIRONMENT])
        self._agent = Agent(Path(os.environ[FOLDER]), variables=environ)

    def call(self, method: str, arguments: dict[str, Any]) -> str:
        """What the agent answers as `ok`, or one sentence why it will not as `refused`."""
        try:
            return json.dumps({"ok": self._agent.answer(method, arguments)})
        except AgentRefused as error:
            return json.dumps({"refused": str(error)})
        except Exception as error:
            # Ray would send the exception itself, which the head may not be able to make again.
            traceback.print_exc()
            return json.dumps({"refused": f"a defect in Pyrometer: {type(error).__name__}: {error}"})
