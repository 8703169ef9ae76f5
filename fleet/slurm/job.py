"""The folder of a job on the shared file system: its command, and its exit."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from common.atomic_file import write_whole
from runner import journal
from scheduled_jobs.scheduler.child_process import Logs, make_room

_HOST = "hostname"


@dataclass(frozen=True, slots=True)
class Job:
    """A command that runs in `folder`, with `variables` in addition to those of the node.

    `run` is the run that it measures, empty for none, `owner` the process of the head, `data_dir` its data
    folder, `environments` the folder of measured environments. Slurm kills it after `limit_seconds`, and
    sends SIGTERM `warning_seconds` before. Slurm chooses its other `nodes`.
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
        return journal.path_of(Path(self.data_dir), self.run) if self.run else None


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The files of a job. Each is written by one side, so that no lock of the file system is needed:

    the head writes the job, its number and `stop`, the node the logs, the end and `output`.
    """

    path: Path

    @property
    def logs(self) -> Logs:
        """The stderr (sentences) and the stdout (JSON lines) of the command."""
        return Logs(self.path, 1)

    @property
    def output(self) -> Path:
        """The output of the job itself: why its command could not start."""
        return self.path / "slurm.out"

    @property
    def stop(self) -> Path:
        """Exists once the head has stopped the job."""
        return self.path / "stop"

    @property
    def job(self) -> Job | None:
        """The job; None where there is none. Raises OSError where the file system fails."""
        body = _read_json(self.path / "order.json")
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
        """Its exit: `code`, `signal`, `sentence`, `asked` (whether it got SIGTERM), and `seconds` it ran.

        None before its end. Raises OSError where the file system fails.
        """
        return _read_json(self.path / "end.json")

    @property
    def number(self) -> str:
        """Slurm's number of the job; empty where it is not known. Raises OSError."""
        with suppress(FileNotFoundError):
            return (self.path / "number").read_text(encoding="ascii").strip()
        return ""

    def write_job(self, job: Job) -> None:
        """Write the job file, and remove old folders."""
        make_room(self.path)
        # Its variables may hold the password of a package index.
        self.path.chmod(0o700)
        write_whole(
            self.path / "order.json", json.dumps({name: getattr(job, name) for name in job.__slots__})
        )

    def write_number(self, number: str) -> None:
        """Write Slurm's number of the job."""
        write_whole(self.path / "number", number)

    def begin(self) -> bool:
        """Claim the job; false if another process has: a job that was submitted twice runs once."""
        try:
            (self.path / "began").mkdir()
        except FileExistsError:
            return False
        return True

    def write_end(self, end: Mapping[str, Any]) -> None:
        """Write its exit, the last file that the node writes."""
        write_whole(self.path / "end.json", json.dumps(end))


def data_folder(shared: Path, node: str, run: str) -> Path:
    """The data folder of one run on a node, for its resume; it has no other run's journal."""
    return shared / "data" / node / (run or "no-run")


def write_host(folder: Path, name: str) -> None:
    """Write the host name of a node to its folder: its runs have that name."""
    if host_of(folder) != name:
        write_whole(folder / _HOST, name)


def host_of(folder: Path) -> str:
    """The host name of the node of this folder; empty before its first job. Raises OSError."""
    with suppress(FileNotFoundError):
        return (folder / _HOST).read_text(encoding="utf-8").strip()
    return ""


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        # Any other error of the file system is raised: it does not mean that there is no file.
        return None
    return cast("dict[str, Any]", body) if isinstance(body, dict) else None
