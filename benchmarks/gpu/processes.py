"""Processes of the acceptance: every one ends at its deadline, with all that it started."""

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

#: Marks every process of one acceptance in its environment, so that what is left over can be found.
MARK = "ACCEPTANCE_MARK"
#: Seconds for everything, of which each step names its own.
USUAL_SECONDS = 570.0
#: After a signal that asks for the end, until the one that is not asked about.
_GRACE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended; `late` says that it ran into its deadline."""

    code: int
    out: str
    late: bool


class NoAnswer(Exception):
    """A probe gave no answer; the text says why."""


class Processes:
    """Starts commands with the same variables; what they write for people goes to one log."""

    def __init__(self, variables: Mapping[str, str], folder: Path, log: IO[str]) -> None:
        self._variables = dict(variables)
        self._folder = folder
        self._log = log
        self._running: list[subprocess.Popen[str]] = []

    def start(self, command: Sequence[str], **more: str) -> "subprocess.Popen[str]":
        """A command in a session of its own, its input and output as pipes; `more` are variables."""
        self._log.write(f"$ {' '.join(command)}\n")
        self._log.flush()
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**self._variables, **more},
            cwd=self._folder,
            start_new_session=True,
        )
        self._running.append(process)
        return process

    def run(self, command: Sequence[str], seconds: float, **more: str) -> Ended:
        """A command to its end, or to its deadline: it is interrupted, and killed if that does not help."""
        process = self.start(command, **more)
        late = False
        try:
            out, _ = process.communicate(timeout=max(1.0, seconds))
        except subprocess.TimeoutExpired:
            late = True
            process.send_signal(signal.SIGINT)
            try:
                out, _ = process.communicate(timeout=_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                out = ""
        self.end(process)
        return Ended(process.wait(), out, late)

    def end(self, process: "subprocess.Popen[str]") -> None:
        """Kill a command and all of its session; one that has ended already may have left others."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.wait()
        if process in self._running:
            self._running.remove(process)

    def end_all(self) -> None:
        """Kill what still runs."""
        for process in list(self._running):
            self.end(process)

    def left_over(self, mark: str) -> list[int]:
        """The ids of processes, other than this one, that bear this acceptance's mark."""
        wanted = f"{MARK}={mark}".encode()
        found: list[int] = []
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if wanted in entry.read_bytes().split(b"\0") and int(entry.parent.name) != os.getpid():
                    found.append(int(entry.parent.name))
        return found


class Lines:
    """The lines that a process writes, each waited for until a moment of time.monotonic."""

    def __init__(self, stream: IO[Any]) -> None:
        self._descriptor = stream.fileno()
        self._rest = b""

    def next(self, until: float) -> str:
        """The next line without its end, empty at the end of the output; raises NoAnswer."""
        while b"\n" not in self._rest:
            if not select.select([self._descriptor], [], [], max(0.0, until - time.monotonic()))[0]:
                raise NoAnswer("nothing came in time")
            data = os.read(self._descriptor, 1 << 16)
            if not data:
                return ""
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace")


class ProbeServer:
    """A process that answers probes (see `probe_loop`); one that hangs is killed, the next starts anew."""

    def __init__(self, processes: Processes, command: Sequence[str]) -> None:
        self._processes = processes
        self._command = command
        self._process: subprocess.Popen[str] | None = None
        self._lines: Lines | None = None

    def ask(self, name: str, seconds: float) -> Mapping[str, Any]:
        """The probe's answer; raises NoAnswer."""
        if self._process is None or self._process.poll() is not None:
            self._process = self._processes.start(self._command)
            assert self._process.stdout is not None
            self._lines = Lines(self._process.stdout)
        process, lines = self._process, self._lines
        assert process.stdin is not None and lines is not None
        try:
            process.stdin.write(name + "\n")
            process.stdin.flush()
            line = lines.next(time.monotonic() + seconds)
        except NoAnswer:
            self.close()
            raise NoAnswer(f"no answer within {seconds:.0f} s") from None
        except OSError:
            line = ""
        if not line:
            self.close()
            raise NoAnswer(f"the process of the probes ended with {process.returncode}: see log.txt")
        return dict(json.loads(line))

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._processes.end(self._process)
            self._process = None


@dataclass
class Budget:
    """Seconds that the acceptance may take; the last of them belong to the bundle."""

    seconds: float
    reserve: float
    started: float

    @property
    def left(self) -> float:
        """Seconds left before the reserve."""
        return self.seconds - self.reserve - (time.monotonic() - self.started)

    def of_step(self, seconds: float) -> float:
        """Seconds for a step that usually has so many: more where there are more for everything."""
        return seconds * max(1.0, self.seconds / USUAL_SECONDS)
