"""Calls to one node, made again and again until they are answered, or nobody answered for too long."""

import threading
import time
from collections.abc import Mapping
from typing import Any

from scheduled_jobs.jobs.context import ChildLost

from .engine import AgentRefused, Engine, EngineAway, NodeLost, NodeSilent

#: A node that does not answer for so long is lost to us, by our own clock that nobody sets.
SILENT_SECONDS = 60.0
#: One call may take so long, and what it waits for besides.
CALL_SECONDS = 10.0
#: Between two tries.
PAUSE_SECONDS = 1.0
#: Between two failures no more than this counts: while we slept ourselves, nobody was silent.
_MOST_BETWEEN_SECONDS = 15.0


class RetryPolicy:
    """How long something fails without a success between."""

    def __init__(self) -> None:
        self._spent = 0.0
        self._at = time.monotonic()

    def well(self) -> None:
        """It succeeded."""
        self._spent, self._at = 0.0, time.monotonic()

    def failed(self) -> bool:
        """It failed again; answers whether that goes on for too long."""
        now = time.monotonic()
        self._spent += min(now - self._at, _MOST_BETWEEN_SECONDS)
        self._at = now
        return self._spent >= SILENT_SECONDS


class Line:
    """The agent of one node, called `machine`, for one child; `stop` cuts its pauses short."""

    def __init__(self, engine: Engine, node: str, machine: str, stop: threading.Event) -> None:
        self._engine, self._node, self._machine, self._stop = engine, node, machine, stop
        self._patience = RetryPolicy()

    def ask(self, method: str, *, wait: float = 0.0, **arguments: Any) -> Mapping[str, Any]:
        """What the agent answers, which may take `wait` seconds for a reason of its own; raises ChildLost."""
        while True:
            try:
                answer = self._engine.call(self._node, method, arguments, CALL_SECONDS + wait)
            except NodeLost as error:
                raise ChildLost(f"node {self._machine} is lost: {error}") from error
            except AgentRefused as error:
                raise ChildLost(f"node {self._machine}: {error}") from error
            except (NodeSilent, EngineAway) as error:
                if self._patience.failed():
                    raise ChildLost(
                        f"node {self._machine} was silent for {SILENT_SECONDS:g} s: {error}"
                    ) from error
                self.pause()
            else:
                self._patience.well()
                return answer

    def pause(self, seconds: float = -1.0) -> None:
        """Rest before the next call; no longer than until somebody asks for the end, if nobody did yet."""
        seconds = PAUSE_SECONDS if seconds < 0 else seconds
        if self._stop.is_set():
            time.sleep(seconds)
        else:
            self._stop.wait(seconds)
