"""Hosts on which worker slots run their children: this machine, or nodes of a fleet."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..jobs.context import ChildExit, OnEvent
from .child_process import OURSELVES, Logs, run_child


class Host(Protocol):
    """A machine on which children run.

    `machine` is its name, which is also the owner of its runs. `labels` are those that tasks can require,
    including its name.
    """

    @property
    def machine(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...

    def run(
        self,
        arguments: Sequence[str],
        logs: Logs,
        stop: threading.Event,
        on_event: OnEvent,
        run: str,
        nodes: int = 1,
    ) -> ChildExit:
        """Run `pyrometer` with these arguments on the host, to its end.

        `run` is the id of the run that it measures, empty for none. The engine of the host provides `nodes`
        nodes including this one, if it can. When this returns, or raises JobStopped, the logs and the run's
        journal are on this machine. Raises JobStopped once the child has ended because `stop` was set, and
        ChildLost if the host was lost.
        """
        ...


@dataclass(frozen=True, slots=True)
class LocalHost:
    """This machine. `command` is how this program is started as a child."""

    machine: str
    labels: tuple[str, ...]
    command: Sequence[str] = OURSELVES

    def run(
        self,
        arguments: Sequence[str],
        logs: Logs,
        stop: threading.Event,
        on_event: OnEvent,
        run: str,
        nodes: int = 1,
    ) -> ChildExit:
        """Run it as a child of this process, which writes its logs and its journal in place."""
        return run_child([*self.command, *arguments], logs, stop, on_event)


@dataclass(frozen=True, slots=True)
class HostStatus:
    """A host that is online now; `facts` are what it reports about itself, as JSON values.

    `drained`: it finishes its task and takes no new one, and is not missing when it leaves. With
    `only_labels` it takes only tasks with one of these labels for now.
    """

    host: Host
    facts: Mapping[str, Any]
    drained: bool = False
    only_labels: tuple[str, ...] = ()


class HostProvider(Protocol):
    """A source of hosts that join and leave."""

    def look(self) -> Sequence[HostStatus]:
        """The hosts that are online now, each machine once. Called often: fast, raises nothing."""
        ...

    def problems(self) -> Sequence[str]:
        """Why online hosts are not used, one sentence each; as fast."""
        ...

    def close(self) -> None:
        """Release its resources."""
        ...
