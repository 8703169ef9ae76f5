"""The seam between deciding what to measure and having it measured somewhere.

An executor takes attempts and tells what happens to them; it decides nothing. The local one runs an
attempt in a thread of this process, which waits on process trees. A fleet's engine fits in behind the
same five methods.
"""

import queue
import threading
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from records.outcomes import Outcome, Planned

from ..session_plan import SessionPlan
from .process import sweep
from .session import Conditions, Session


@dataclass(frozen=True, slots=True)
class Placement:
    """What an attempt needs: GPUs on one node, the node for itself, labels a node must bear."""

    gpus: int = 0
    exclusive: bool = True
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at one session. `token` is the fence: no two attempts share one."""

    token: str
    number: int
    plan: SessionPlan
    placement: Placement = field(default_factory=Placement)


@dataclass(frozen=True, slots=True)
class Entered:
    """A contender entered a phase."""

    token: str
    planned: Planned
    phase: str


@dataclass(frozen=True, slots=True)
class Measured:
    """An outcome is known."""

    token: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt is over: `done`, `cancelled`, `lost` (infrastructure: try again) or `unplaceable`."""

    token: str
    kind: Literal["done", "cancelled", "lost", "unplaceable"]
    detail: str = ""


Event = Entered | Measured | Ended


@dataclass(frozen=True, slots=True)
class Node:
    """A place where attempts run."""

    name: str
    labels: Mapping[str, str]
    free_slots: int


class Executor(Protocol):
    """Runs attempts. Events come at least once and in any order between attempts."""

    def submit(self, attempt: Attempt) -> None:
        """Take an attempt; its end is told by an Ended event."""
        ...

    def cancel(self, token: str) -> None:
        """End an attempt early; unknown and ended ones are ignored."""
        ...

    def events(self, timeout: float) -> Iterator[Event]:
        """What happened since the last call; waits up to `timeout` seconds for the first."""
        ...

    def capacity(self) -> list[Node]:
        """The nodes and their free slots."""
        ...

    def close(self) -> None:
        """Cancel everything and leave no process behind."""
        ...


class LocalExecutor:
    """This machine, one attempt at a time: a machine that measures does nothing else."""

    def __init__(self, conditions: Conditions, node: str) -> None:
        self._conditions = conditions
        self._node = node
        self._events: queue.Queue[Event] = queue.Queue()
        self._waiting: queue.Queue[Attempt | None] = queue.Queue()
        self._lock = threading.Lock()
        self._current: tuple[str, Session] | None = None
        self._cancelled: set[str] = set()
        self._closed = False
        # Supervisors are told of our death by a pipe, not by PR_SET_PDEATHSIG, which would fire when
        # this thread ended.
        self._thread = threading.Thread(target=self._work, name="local-executor", daemon=True)
        self._thread.start()

    def submit(self, attempt: Attempt) -> None:
        """Queue an attempt."""
        self._waiting.put(attempt)

    def cancel(self, token: str) -> None:
        """Kill the attempt's workers if it runs, or forget it if it waits."""
        with self._lock:
            self._cancelled.add(token)
            if self._current and self._current[0] == token:
                self._current[1].cancel()

    def events(self, timeout: float) -> Iterator[Event]:
        """Events in order, as they come."""
        try:
            yield self._events.get(timeout=timeout)
            while True:
                yield self._events.get_nowait()
        except queue.Empty:
            return

    def capacity(self) -> list[Node]:
        """One node, one slot."""
        with self._lock:
            busy = self._current is not None
        return [Node(self._node, {}, 0 if busy else 1)]

    def close(self) -> None:
        """Cancel what runs and what waits, then sweep for anything that still carries this run's token."""
        with self._lock:
            self._closed = True
            if self._current:
                self._cancelled.add(self._current[0])
                self._current[1].cancel()
        self._waiting.put(None)
        self._thread.join(timeout=60)
        sweep(self._conditions.run)

    def _work(self) -> None:
        while (attempt := self._waiting.get()) is not None:
            token = attempt.token
            with self._lock:
                session = Session(attempt.plan, self._conditions, token)
                self._current = (token, session)
                if self._closed or token in self._cancelled:
                    session.cancel()
            try:
                done = session.run(
                    lambda planned, phase, token=token: self._events.put(Entered(token, planned, phase)),
                    lambda outcome, token=token: self._events.put(Measured(token, outcome)),
                )
                ended = Ended(token, "done" if done else "cancelled")
            except OSError as error:
                # No process, no pipe, no room for a log: the machine's fault, not the case's.
                ended = Ended(token, "lost", f"{type(error).__name__}: {error}")
            except Exception as error:
                # A defect of ours: without an end of this attempt, its run would wait for ever.
                at = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{Path(at.filename).name}:{at.lineno}"
                ended = Ended(
                    token, "lost", f"a defect in Pyrometer, {type(error).__name__} at {where}: {error}"
                )
            finally:
                # What outlived a supervisor that was itself killed would disturb whoever is measured next.
                sweep(token)
            with self._lock:
                self._current = None
            self._events.put(ended)
