"""A worker as the controller holds it: started under the supervisor, spoken to over private pipes."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import psutil

from common.bounded_files import tail
from common.processes import SupervisedProcess

from ..nodes import Node
from ..worker.messages import Message, ProtocolError, parse
from ..worker.variables import relevant_variables
from .harness import Harness

#: Set in every worker's environment: what carries it belongs to that attempt and may be killed.
TOKEN_VARIABLE = "PYROMETER_TOKEN"
#: What must never reach a measured process: our own settings, credentials included.
_OURS = "PYROMETER_"
_LOG_TAIL_BYTES = 4000
#: The longest line a worker may send: ten million samples.
_LINE_BYTES = 128 << 20
#: How long `sweep` goes on against processes that fork or do not die at once.
_SWEEP_SECONDS = 5.0


class WorkerGone(Exception):
    """The worker is dead; `WorkerProcess.close()` reports how."""


class WorkerTimeout(Exception):
    """No answer within the time allowed."""


class RunningProcess(Protocol):
    """What holds a live worker: a `SupervisedProcess`, or a `ForkedProcess`."""

    @property
    def pid(self) -> int:
        """The process below which everything is measured."""
        ...

    def fileno(self) -> int:
        """A descriptor that is readable once the worker has ended."""
        ...

    def has_ended(self, seconds: float | None = 0.0) -> bool:
        """Whether the worker has ended; waits for that at most so long."""
        ...

    def kill(self) -> None:
        """Kill the worker and what it started."""
        ...

    def stop_sampling(self) -> None:
        """Sample its memory no longer."""
        ...

    def end(self, patience_seconds: float | None = None) -> dict[str, Any]:
        """End it if it still runs after so long; answers how it ended."""
        ...


#: Forks a worker for a launch, which reads from the first descriptor and writes to the second one; None where
#: it cannot.
Fork = Callable[["Launch", int, int], RunningProcess | None]


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything one worker needs. `cpus` and `own_cpus` are the worker's and the supervisor's.

    `prefix` stands before the worker's command and ends by executing it; `facts` say in the outcome how
    the worker was started. `nodes` are those that a case over several has. With `fork` the worker is forked
    where that can be.
    """

    python: str
    harness: Harness
    variables: Mapping[str, str]
    cpus: tuple[int, ...]
    own_cpus: tuple[int, ...]
    log: Path
    deadline_seconds: float
    token: str
    prefix: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    nodes: tuple[Node, ...] = ()
    fork: Fork | None = None


class WorkerProcess:
    """A live worker. Use as a context manager: leaving it leaves no process behind."""

    def __init__(self, launch: Launch, mode: str = "serve") -> None:
        self._log = launch.log
        to_worker, self._send = os.pipe()
        self._receive, from_worker = os.pipe()
        self._buffer = bytearray()
        self._exit: dict[str, Any] | None = None
        try:
            forked = launch.fork(launch, to_worker, from_worker) if launch.fork is not None else None
            self._process = forked or _start_worker(launch, mode, to_worker, from_worker)
        finally:
            for descriptor in (to_worker, from_worker):
                os.close(descriptor)

    def __enter__(self) -> "WorkerProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.close()

    @property
    def root(self) -> int:
        """The supervisor's process id: everything below it is measured."""
        return self._process.pid

    def send(self, message: Message) -> None:
        """Send one message; raises WorkerGone when the worker no longer reads."""
        try:
            os.write(self._send, (message.to_json() + "\n").encode())
        except BrokenPipeError as error:
            raise WorkerGone from error

    def receive(self, timeout: float) -> Message:
        """The next message; raises WorkerGone, WorkerTimeout after `timeout` seconds, or ProtocolError."""
        give_up = time.monotonic() + timeout
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > _LINE_BYTES:
                raise ProtocolError(f"a line longer than {_LINE_BYTES >> 20} MiB")
            left = give_up - time.monotonic()
            if left <= 0:
                raise WorkerTimeout
            ready, _, _ = select.select([self._receive, self._process], [], [], left)
            if self._receive in ready:
                data = os.read(self._receive, 1 << 20)
                if not data:
                    raise WorkerGone
                self._buffer += data
            elif self._process in ready:
                # The worker is dead, though a grandchild may still hold its end of the pipe.
                raise WorkerGone
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            return parse(line.decode())
        except UnicodeDecodeError as error:
            raise ProtocolError("not UTF-8") from error

    def ends(self, seconds: float) -> bool:
        """Whether the worker's end is reported within `seconds`."""
        return self._process.has_ended(seconds)

    def stop_sampling(self) -> None:
        """Have the supervisor sample the tree's memory no longer."""
        self._process.stop_sampling()

    def kill(self) -> None:
        """Have the whole tree killed; safe to call from another thread, and more than once."""
        self._process.kill()

    def close(self, patience: float = 30.0) -> dict[str, Any]:
        """Wait for the end and answer the supervisor's report; kills the supervisor if it does not end."""
        if self._exit is not None:
            return self._exit
        os.close(self._send)
        self._process.has_ended(patience)
        self._exit = self._process.end(patience)
        os.close(self._receive)
        return self._exit

    def log_tail(self) -> str:
        """The end of what the worker printed."""
        return tail(self._log, _LOG_TAIL_BYTES)


def _start_worker(launch: Launch, mode: str, to_worker: int, from_worker: int) -> RunningProcess:
    """A worker in an interpreter of its own."""
    launch.log.parent.mkdir(parents=True, exist_ok=True)
    command = [
        *(*launch.prefix, launch.python, "-I", str(launch.harness.path), mode),
        *("--in", str(to_worker), "--out", str(from_worker)),
    ]
    return SupervisedProcess(
        command,
        launch.log,
        deadline_seconds=launch.deadline_seconds,
        sample_memory=True,
        cpus=launch.cpus,
        own_cpus=launch.own_cpus,
        keep=(to_worker, from_worker),
        variables=worker_environment(launch),
    )


def worker_environment(launch: Launch) -> dict[str, str]:
    """The measured process's variables: this process's without our settings, the preset's on top.

    What changes a measurement comes from the preset alone, which is stored and resumed; it took over what
    it wanted of the shell's when it was made.
    """
    return {**inherited_variables(), **launch.variables, TOKEN_VARIABLE: launch.token}


def inherited_variables() -> dict[str, str]:
    """This process's variables without our settings and without what changes a measurement."""
    relevant = relevant_variables(os.environ)
    return {k: v for k, v in os.environ.items() if not k.startswith(_OURS) and k not in relevant}


def sweep(token_prefix: str) -> list[int]:
    """Kill every process whose token begins with `token_prefix`; answers their pids.

    The second line of defence: it finds what outlived a supervisor that was itself killed.
    """
    killed: set[int] = set()
    give_up = time.monotonic() + _SWEEP_SECONDS
    # Again until none is found: one of them may have forked while the others were being killed.
    while (found := list(_processes_with_token(token_prefix))) and time.monotonic() < give_up:
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        time.sleep(0.005)
    return sorted(killed)


def _processes_with_token(token_prefix: str) -> Iterator[int]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            token = process.environ().get(TOKEN_VARIABLE)
            if token is not None and token.startswith(token_prefix) and process.pid != os.getpid():
                yield process.pid
