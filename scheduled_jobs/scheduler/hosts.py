"""Where a lane's children run: on this machine, or at places that come and go."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..jobs.context import ChildExit, OnEvent
from .child_process import OURSELVES, Logs, run_child


class Host(Protocol):
    """Where a lane's children run.

    `machine` is its name: what its runs' owner says, and what it can be asked by. `labels` are all that it
    can be asked by, its name included.
    """

    @property
    def machine(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...

    def run(
        self, arguments: Sequence[str], logs: Logs, stop: threading.Event, on_event: OnEvent, run: str
    ) -> ChildExit:
        """Have what stands behind `pyrometer` on a command line done there, to its end.

        `run` is the run that it measures, empty for none. When this returns, or raises Stopped, the logs are
        on this machine, and so is the run's journal. Raises Stopped once the child has ended because `stop`
        was set, and ChildLost where the place was lost under it.
        """
        ...


@dataclass(frozen=True, slots=True)
class LocalHost:
    """This machine. `command` is how this program is started as a child."""

    machine: str
    labels: tuple[str, ...]
    command: Sequence[str] = OURSELVES

    def run(
        self, arguments: Sequence[str], logs: Logs, stop: threading.Event, on_event: OnEvent, run: str
    ) -> ChildExit:
        """A child of this process: its logs and its journal are written where they belong."""
        return run_child([*self.command, *arguments], logs, stop, on_event)


@dataclass(frozen=True, slots=True)
class HostStatus:
    """A place that is there now. `facts` are what it tells of itself, as plain JSON values.

    A `drained` one finishes what it has and takes nothing new; when it is gone after that, nobody misses it.
    One with `only_labels` takes just now what asks for one of these labels, and nothing else.
    """

    place: Host
    facts: Mapping[str, Any]
    drained: bool = False
    only_labels: tuple[str, ...] = ()


class HostProvider(Protocol):
    """A source of places that come and go."""

    def look(self) -> Sequence[HostStatus]:
        """Those that are there now, each machine once. It is asked often: quick, and it raises nothing."""
        ...

    def problems(self) -> Sequence[str]:
        """Why some that are there are not used, a sentence each; as quick."""
        ...

    def close(self) -> None:
        """Let go of what it takes to look."""
        ...
