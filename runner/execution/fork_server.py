"""Workers forked from a process that has imported torch: they start in milliseconds instead of seconds.

For fingerprints, which are not timed, and for the short pairs of a screen. Forked workers have the address
space of their server in common; a pair that counts is one of processes of their own.
"""

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from common.processes import SupervisedProcess, descendants, oom_kills
from common.supervisor import BoundedLog

from ..worker.case_key import CaseKey
from .process import Launch, worker_environment

#: Axes that take effect when the case is built. Others change how the process starts, or start more of them.
_AFTER_START = {"precision", "layout", "checkpoint", "optimizer"}
_ANSWER_BYTES = 64
#: How long a server may take to answer, and to end; and what workers left behind, to die.
_ANSWER_SECONDS, _END_SECONDS, _STRAYS_SECONDS = 60.0, 30.0, 5.0


def may_fork(key: CaseKey, device: str) -> bool:
    """Whether a worker of this case may be forked. CUDA does not work in a forked process."""
    return device == "cpu" and all(axis in _AFTER_START for axis, _ in key.technique)


class _Output:
    """What one worker prints, copied into a log of bounded size until it is closed."""

    def __init__(self, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = BoundedLog(str(log))
        self._source, self.sink = os.pipe()
        self._closed, self._close = os.pipe()
        self._thread = threading.Thread(target=self._copy, name="worker's output", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Copy what has been printed, and end the log; a process that still prints is not waited for."""
        os.close(self._close)
        self._thread.join()
        os.close(self._closed)
        os.close(self._source)
        self._log.close()

    def _copy(self) -> None:
        poller = select.poll()
        for descriptor in (self._source, self._closed):
            poller.register(descriptor, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poller.poll()}
            # More than a pipe holds.
            data = os.read(self._source, 1 << 20) if self._source in ready else b""
            self._log.write(data)
            if self._closed in ready or not data:
                return


class ForkedProcess:
    """A worker that was forked, with what `SupervisedProcess` offers of one that was started."""

    def __init__(self, server: "_ForkServer", worker: int, output: _Output) -> None:
        self._server = server
        self._worker = worker
        self._output = output
        self._lock = threading.Lock()
        self._ended = False
        self._oom_kills = oom_kills()
        #: Readable once the worker has ended.
        self._pidfd = os.pidfd_open(worker)

    @property
    def pid(self) -> int:
        """The process id of the server's supervisor: the worker is below it."""
        return self._server.root

    def fileno(self) -> int:
        """A descriptor that is readable once the worker has ended."""
        return self._pidfd

    def has_ended(self, seconds: float | None = 0.0) -> bool:
        """Whether the worker has ended; waits for that at most so long, None without limit."""
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        return bool(poller.poll(None if seconds is None else seconds * 1000))

    def kill(self) -> None:
        """Kill the worker and its process group; safe to call from another thread, and more than once."""
        with self._lock:
            if self._ended:
                return
            # Its group has its own number, once it has one.
            for send in (os.killpg, os.kill):
                with suppress(ProcessLookupError):
                    send(self._worker, signal.SIGKILL)

    def stop_sampling(self) -> None:
        """The memory of a forked worker, which shares pages with its server, is not sampled."""

    def end(self, patience_seconds: float | None = None) -> dict[str, Any]:
        """End the worker if it still runs after so long; answers how it ended, as a supervisor reports it."""
        if not self.has_ended(patience_seconds):
            self.kill()
        status = self._server.wait(self._worker)
        with self._lock:
            self._ended = True
            os.close(self._pidfd)
        self._output.close()
        if status is None:
            return {"failed": "the process that it was forked from was killed"}
        return {
            "pid": self._worker,
            "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            "oom_killed": oom_kills() > self._oom_kills,
        }


class _ForkServer:
    """One server under its supervisor; raises OSError where it does not get ready."""

    def __init__(self, launch: Launch, log: Path, *, profiler: bool) -> None:
        self._lock = threading.Lock()
        self._control, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [launch.python, "-I", str(launch.harness.path), "fork", "--control", str(its.fileno())]
        log.parent.mkdir(parents=True, exist_ok=True)
        with its:
            self._process = SupervisedProcess(
                [*command, *(("--profiler",) if profiler else ())],
                log,
                cpus=launch.cpus,
                own_cpus=launch.own_cpus,
                keep=(its.fileno(),),
                variables=worker_environment(launch),
            )
        self._control.settimeout(_ANSWER_SECONDS)
        try:
            if self._control.recv(_ANSWER_BYTES) != b"ready":
                raise ConnectionResetError("the server ended before it was ready")
        except OSError:
            self.close()
            raise
        #: The server itself: what else is below its supervisor was left there by workers.
        self._own = frozenset(pid for pid, _ in descendants(self.root))

    @property
    def root(self) -> int:
        """The supervisor's process id."""
        return self._process.pid

    def fork(self, log: Path, to_worker: int, from_worker: int) -> ForkedProcess:
        """A worker that reads and writes these descriptors and logs to this file; raises OSError."""
        output = _Output(log)
        try:
            with self._lock:
                socket.send_fds(self._control, [b"fork"], [to_worker, from_worker, output.sink])
                return ForkedProcess(self, int(self._answer()), output)
        except BaseException:
            output.close()
            raise
        finally:
            os.close(output.sink)

    def wait(self, worker: int) -> int | None:
        """The status of a worker that has ended or was killed; None where the server is gone."""
        with self._lock:
            try:
                self._control.send(f"wait {worker}".encode())
                return int(self._answer())
            except OSError:
                # A late answer would pass for that to the next order.
                self._control.close()
                return None

    def end_strays(self) -> None:
        """Kill what workers have left behind; none may be running."""
        give_up = time.monotonic() + _STRAYS_SECONDS
        while time.monotonic() < give_up:
            strays = [pid for pid, _ in descendants(self.root) if pid not in self._own]
            if not strays:
                return
            for pid in strays:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)

    def close(self) -> None:
        """End the server and whatever it forked."""
        self._process.kill()
        self._process.end(_END_SECONDS)
        self._control.close()

    def _answer(self) -> bytes:
        if answer := self._control.recv(_ANSWER_BYTES):
            return answer
        raise ConnectionResetError("the server has ended")


class ForkServers:
    """A server for each kind of start: interpreter, variables and CPUs. `token` marks their processes.

    Where none gets ready, `fork` returns None, and the worker is started by itself, which then says why. With
    `profiler` their workers use the profiler.
    """

    def __init__(self, folder: Path, token: str, *, profiler: bool = False) -> None:
        self._folder = folder
        self._token = token
        self._profiler = profiler
        self._lock = threading.Lock()
        self._locks: dict[Hashable, threading.Lock] = {}
        self._servers: dict[Hashable, _ForkServer | None] = {}
        self._generation = 0

    def renew(self, generation: int) -> None:
        """Fork workers from new servers if the last ones were forked for another `generation`."""
        if generation != self._generation:
            self.close()
        self._generation = generation

    def fork(self, launch: Launch, to_worker: int, from_worker: int) -> ForkedProcess | None:
        """A worker as `launch` describes it, None where none can be forked; several threads may call it."""
        kind = launch.python, launch.harness.path, launch.cpus, *sorted(launch.variables.items())
        with self._lock:
            lock = self._locks.setdefault(kind, threading.Lock())
        with lock:
            try:
                if kind not in self._servers:
                    self._servers[kind] = None
                    log = self._folder / f"fork-server-{len(self._servers)}.log"
                    marked = replace(launch, token=self._token)
                    self._servers[kind] = _ForkServer(marked, log, profiler=self._profiler)
                server = self._servers[kind]
                return None if server is None else server.fork(launch.log, to_worker, from_worker)
            except OSError:
                if (broken := self._servers[kind]) is not None:
                    broken.close()
                self._servers[kind] = None
                return None

    def end_strays(self) -> None:
        """Kill what forked workers have left in sessions of their own; none may be running."""
        for server in self._servers.values():
            if server is not None:
                server.end_strays()

    def close(self) -> None:
        """End all servers; the next worker starts a new one."""
        for server in self._servers.values():
            if server is not None:
                server.close()
        self._servers.clear()
