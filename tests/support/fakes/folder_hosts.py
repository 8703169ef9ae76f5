"""Hosts that are folders of this machine, each with files of its own.

A folder NODES/NAME is a host while `host.json` lies in it, with its labels and whether it is drained.
"""

import json
import shutil
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner import journal
from scheduled_jobs.jobs.context import ChildExit, ChildLost, JobStopped, OnEvent
from scheduled_jobs.scheduler.child_process import Logs, run_child
from scheduled_jobs.scheduler.hosts import HostStatus
from support.fakes.pyrometer_run import HEADER

_STATUS = "host.json"


def come(nodes: Path, name: str, *labels: str, drained: bool = False) -> None:
    """Add a host, or change its labels or whether it is drained."""
    folder = nodes / name
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(nodes.parent / HEADER, folder / HEADER)
    # A reader sees it whole.
    (folder / "new").write_text(json.dumps({"labels": [name, *labels], "drained": drained}))
    (folder / "new").replace(folder / _STATUS)


def go(nodes: Path, name: str) -> None:
    """Have a host vanish, with what runs there."""
    (nodes / name / _STATUS).unlink()


class _Ending(threading.Event):
    """Set when a stop is requested, or the host is gone."""

    def __init__(self, stop: threading.Event, said: Path) -> None:
        super().__init__()
        self._stop, self._said = stop, said

    def is_set(self) -> bool:
        return self._stop.is_set() or not self._said.exists()


@dataclass(frozen=True)
class FolderHost:
    """One of them. `command` stands for `pyrometer`, `data_dir` is the service's."""

    folder: Path
    labels: tuple[str, ...]
    data_dir: Path
    command: Sequence[str]

    @property
    def machine(self) -> str:
        return self.folder.name

    def run(
        self,
        arguments: Sequence[str],
        logs: Logs,
        stop: threading.Event,
        on_event: OnEvent,
        run: str,
        nodes: int = 1,
    ) -> ChildExit:
        ending = _Ending(stop, self.folder / _STATUS)
        try:
            return run_child([*self.command, str(self.folder), *arguments], logs, ending, on_event)
        except JobStopped:
            if stop.is_set():
                raise
            raise ChildLost(f"{self.machine} is gone") from None
        finally:
            self._bring(run)

    def _bring(self, run: str) -> None:
        """Copy a run's journal to where the service looks for it."""
        measured = self.folder / "runs" / run / journal.FILE
        if measured.exists():
            there = self.data_dir / "runs" / run / journal.FILE
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(measured, there)


class FolderHosts:
    """All that are there now."""

    def __init__(self, nodes: Path, data_dir: Path, command: Sequence[str]) -> None:
        self._nodes, self._data_dir, self._command = nodes, data_dir, command
        self.closed = False

    def look(self) -> list[HostStatus]:
        found: list[HostStatus] = []
        for said in sorted(self._nodes.glob(f"*/{_STATUS}")):
            with suppress(FileNotFoundError):
                body: Mapping[str, Any] = json.loads(said.read_text())
                host = FolderHost(said.parent, tuple(body["labels"]), self._data_dir, self._command)
                found.append(HostStatus(host, {"folder": str(said.parent)}, body["drained"]))
        return found

    def problems(self) -> Sequence[str]:
        return ()

    def close(self) -> None:
        self.closed = True
