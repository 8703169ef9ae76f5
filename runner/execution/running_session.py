"""A session that is measured in a thread of its own, so that its run can follow it and cancel it."""

import queue
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from records.outcomes import Outcome, Planned

from ..session_plan import SessionPlan
from .process import sweep
from .session import Conditions, Session

#: How long killed workers may take to be gone before a session is closed without them.
_CLOSE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Entered:
    """A contender entered a phase."""

    planned: Planned
    phase: str


@dataclass(frozen=True, slots=True)
class Measured:
    """An outcome is known."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The session is over: `done`, `cancelled` or `lost` (infrastructure: try again)."""

    kind: Literal["done", "cancelled", "lost"]
    detail: str = ""


Event = Entered | Measured | SessionEnded


class RunningSession:
    """One attempt at a session. It starts at once; a SessionEnded is the last of its events.

    `token` marks its processes: no two attempts share one.
    """

    def __init__(self, plan: SessionPlan, conditions: Conditions, token: str) -> None:
        self.token = token
        self._session = Session(plan, conditions, token)
        self._events: queue.Queue[Event] = queue.Queue()
        # Supervisors learn of our death from a pipe, not from PR_SET_PDEATHSIG, which is sent when this
        # thread ends.
        self._thread = threading.Thread(target=self._measure, name="session", daemon=True)
        self._thread.start()

    def __enter__(self) -> "RunningSession":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def events(self, timeout: float) -> Iterator[Event]:
        """Events since the last call, in order; waits up to `timeout` seconds for the first."""
        try:
            yield self._events.get(timeout=timeout)
            while True:
                yield self._events.get_nowait()
        except queue.Empty:
            return

    def cancel(self) -> None:
        """Kill its workers; a session that has ended is left alone."""
        self._session.cancel()

    def close(self) -> None:
        """Cancel it if it runs, and wait until its processes are gone."""
        self._session.cancel()
        self._thread.join(timeout=_CLOSE_SECONDS)

    def _measure(self) -> None:
        try:
            done = self._session.run(
                lambda planned, phase: self._events.put(Entered(planned, phase)),
                lambda outcome: self._events.put(Measured(outcome)),
            )
            ended = SessionEnded("done" if done else "cancelled")
        except OSError as error:
            # No process, no pipe, no space for a log: the machine failed, not the case.
            ended = SessionEnded("lost", f"{type(error).__name__}: {error}")
        except Exception as error:
            # A defect of Pyrometer: without an end of this attempt its run would wait for ever.
            at = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(at.filename).name}:{at.lineno}"
            ended = SessionEnded("lost", f"a defect in Pyrometer, {type(error).__name__} at {where}: {error}")
        finally:
            # What survives a supervisor that was itself killed would disturb the next session.
            sweep(self.token)
        self._events.put(ended)
