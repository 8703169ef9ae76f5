"""The folder of one job on the file system that head and nodes share: what it is to do, how it ended."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from runner import journal
from scheduled_jobs.scheduler.child_process import Logs, make_room

_HOST = "hostname"


@dataclass(frozen=True, slots=True)
class Job:
    """What a job is to do: a command, in a folder, with variables beside those that the node sets.

    `run` is the run that it measures, empty for none. `owner` is the head's process. `data_dir` holds what it
    writes; the environments that it measures lie in `environments`. Slurm ends it after `limit_seconds`, and
    asks it to end `warning_seconds` before. Of its `nodes` Slurm chooses those beside `node`.
    """

    node: str
    run: str
    owner: str
    command: tuple[str, ...]
    folder: str
    variables: Mapping[str, str]
    data_dir: str
    environments: str
    limit_seconds: float
    warning_seconds: float
    nodes: int = 1

    @property
    def journal(self) -> Path | None:
        """The journal of its run; None where it measures none."""
        return Path(self.data_dir) / "runs" / self.run / journal.FILE if self.run else None


@dataclass(frozen=True, slots=True)
class JobFolder:
    """Head and node write different files of it: no lock is needed, which not every file system has.

    The head writes the job, its number and `stop`, the node the logs, the end and `output`.
    """

    path: Path

    @property
    def logs(self) -> Logs:
        """The output of the command, for people and for machines."""
        return Logs(self.path, 1)

    @property
    def output(self) -> Path:
        """The output of the job itself: why its command could not even begin."""
        return self.path / "slurm.out"

    @property
    def stop(self) -> Path:
        """There when the head asked for the end."""
        return self.path / "stop"

    @property
    def job(self) -> Job | None:
        """What is to be done; None where there is no such job. Raises OSError where it cannot be seen."""
        body = _read(self.path / "order.json")
        if body is None:
            return None
        try:
            values: dict[str, Any] = {**body, "command": tuple(body["command"])}
            return Job(**values)
        except (KeyError, TypeError):
            # Another version of Pyrometer wrote it.
            return None

    @property
    def end(self) -> Mapping[str, Any] | None:
        """How it ended: `code`, `signal`, `sentence`, whether it was `asked` to, after how many `seconds`.

        None before it has. Raises OSError where it cannot be seen.
        """
        return _read(self.path / "end.json")

    @property
    def number(self) -> str:
        """Slurm's number of the job; empty where it is not known. Raises OSError."""
        with suppress(FileNotFoundError):
            return (self.path / "number").read_text(encoding="ascii").strip()
        return ""

    def write_job(self, job: Job) -> None:
        """Write the job down, and make room for it."""
        make_room(self.path)
        _write(self.path / "order.json", json.dumps({name: getattr(job, name) for name in job.__slots__}))

    def write_number(self, number: str) -> None:
        """Write Slurm's number down."""
        _write(self.path / "number", number)

    def begin(self) -> bool:
        """Take the job; false where another one took it: what is submitted twice is done once."""
        try:
            (self.path / "began").mkdir()
        except FileExistsError:
            return False
        return True

    def write_end(self, end: Mapping[str, Any]) -> None:
        """Write how it ended; the node writes nothing after that."""
        _write(self.path / "end.json", json.dumps(end))


def data_folder(shared: Path, node: str, run: str) -> Path:
    """The data folder of a run on a node: a resume there finds it, and no other run's journal in it."""
    return shared / "data" / node / (run or "no-run")


def write_host(folder: Path, name: str) -> None:
    """Write down what the node calls itself whose folder this is: its runs know it by that."""
    if host_of(folder) != name:
        _write(folder / _HOST, name)


def host_of(folder: Path) -> str:
    """What the node called itself whose folder this is; empty before its first job. Raises OSError."""
    with suppress(FileNotFoundError):
        return (folder / _HOST).read_text(encoding="utf-8").strip()
    return ""


def _read(path: Path) -> dict[str, Any] | None:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        # Any other trouble of the file system says nothing of what is in it.
        return None
    return cast("dict[str, Any]", body) if isinstance(body, dict) else None


def _write(path: Path, text: str) -> None:
    """Write a file so that it is there as a whole, or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
