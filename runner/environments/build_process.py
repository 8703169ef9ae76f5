"""A command of a build: under the supervisor, its output in a log that is read as it grows."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from common.bounded_files import read_or_empty
from common.processes import SupervisedProcess
from common.text import has_credentials, without_credentials

_LOOK_SECONDS = 0.25
_PATIENCE_SECONDS = 30.0


class BuildCancelled(Exception):
    """The build was cancelled."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended: its exit code (None when it was killed), what it printed, the least room left.

    `free_bytes` is the smallest free space seen on the log's disk while it ran: a program that fills a disk
    often removes what it wrote when it fails.
    """

    code: int | None
    output: str
    free_bytes: int


def run(
    command: Sequence[str],
    log: Path,
    variables: Mapping[str, str],
    deadline_seconds: float,
    on_line: Callable[[str], None] = lambda line: None,
    cancelled: threading.Event | None = None,
) -> CommandResult:
    """Run a command to its end; when this process dies, the supervisor kills all of it.

    `on_line` is called with each line that is printed. Raises BuildCancelled once `cancelled` is set.
    pip prints the password of `name @ address`: others may read the log when it has been taken out.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        log.unlink()
    log.touch(0o600)
    process = SupervisedProcess(command, log, variables=variables, deadline_seconds=deadline_seconds)
    lines, free = _Lines(log, on_line), _free(log.parent)
    try:
        while not process.has_ended(_LOOK_SECONDS):
            if cancelled is not None and cancelled.is_set():
                raise BuildCancelled
            lines.report_new()
            free = min(free, _free(log.parent))
    finally:
        report = process.end(_PATIENCE_SECONDS)
        lines.publish()
    lines.report_new()
    return CommandResult(report.get("exit_code"), lines.text or str(report.get("failed", "")), free)


class _Lines:
    """The lines of a file that grows."""

    def __init__(self, path: Path, on_line: Callable[[str], None]) -> None:
        self._path, self._on_line = path, on_line
        self._reported = 0

    def report_new(self) -> None:
        """Report the lines that are new."""
        text = self.text
        whole = text[: text.rfind("\n") + 1]
        for line in whole[self._reported :].splitlines():
            self._on_line(line)
        self._reported = len(whole)

    def publish(self) -> None:
        """Take user and password out of the addresses in the file, and let others read it."""
        printed = self._output
        # A full disk costs the log, not the build.
        with suppress(OSError):
            if has_credentials(printed):
                self._path.write_text(without_credentials(printed), encoding="utf-8")
            self._path.chmod(0o644)

    @property
    def text(self) -> str:
        """The whole output, its addresses without user and password."""
        return without_credentials(self._output)

    @property
    def _output(self) -> str:
        return read_or_empty(self._path)


def _free(folder: Path) -> int:
    try:
        return psutil.disk_usage(str(folder)).free
    except OSError:
        return 0
