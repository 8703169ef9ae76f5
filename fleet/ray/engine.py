"""Ray as the engine of a fleet: a process that speaks to it, kept alive, and asked from any thread."""

import io
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from configuration.tables.fleet import host_and_port

from ..agent_engine import AgentEngine
from ..engine import EngineAway, EngineError, EngineNode, NodeLost, NodeRefused, NodeSilent
from .processes import WRONG_TOKEN, check_installed, check_token, resolve, variables

#: Importing Ray takes seconds, connecting some more.
_START_SECONDS = 90.0
#: A list of nodes takes no longer, or is asked for again later.
_LIST_SECONDS = 20.0
#: The driver answers every call in its time; one that is this late hangs, and another one is started.
_LATE_SECONDS = 30.0
#: Between two drivers: at first, and at most.
_SOON_SECONDS, _LATER_SECONDS = 1.0, 30.0
#: One that lived so long did not die of its start.
_LIVED_SECONDS = 60.0
_END_SECONDS = 10.0
_LOG_BYTES = 1 << 20
_BUFFER_BYTES = 1 << 18

_ERRORS: Mapping[str, type[EngineError]] = {
    "lost": NodeLost,
    "silent": NodeSilent,
    "refused": NodeRefused,
    "away": EngineAway,
}


class RayEngine(AgentEngine):
    """Nodes that joined the Ray head of this machine at `address`, HOST:PORT.

    `token` is the file with the fleet's token; Ray's own output goes to a log in `folder`. RayUnusable.
    """

    def __init__(self, address: str, token: Path, folder: Path) -> None:
        check_installed()
        check_token(token)
        host, port = host_and_port(address)
        ip = resolve(host)
        self._command = [
            *(sys.executable, "-P", "-m", "fleet.ray.driver"),
            *("--address", f"{ip}:{port}", "--ip", ip),
        ]
        self._address, self._variables = address, variables(token)
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "ray-driver.log"
        self._change = threading.Condition()
        self._driver: _Driver | None = None
        self._away = ""
        self._closed = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="ray driver", daemon=True)
        self._keeper.start()

    @property
    def process(self) -> int | None:
        """The process id of the driver that serves now."""
        with self._change:
            return self._driver.pid if self._driver is not None else None

    def nodes(self) -> Sequence[EngineNode]:
        """The nodes that live; the first answer may take as long as Ray takes to start. Raises EngineAway."""
        found = cast("list[dict[str, Any]]", self._ask({"do": "nodes"}, _LIST_SECONDS))
        return [EngineNode(**each) for each in found]

    def call(self, node: str, method: str, arguments: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        """What the agent of a node answers."""
        request = {"do": "call", "node": node, "method": method, "arguments": dict(arguments)}
        return self._ask({**request, "timeout": timeout}, timeout + _LATE_SECONDS)

    def close(self) -> None:
        """Let go of Ray, and with it of the agents: what they measure keeps what it has and ends."""
        self._closed.set()
        with self._change:
            driver = self._driver
            self._change.notify_all()
        if driver is not None:
            driver.end()
        self._keeper.join(_START_SECONDS)

    def _ask(self, request: Mapping[str, Any], patience: float) -> Any:
        driver = self._serving()
        try:
            answer = driver.ask(request, patience)
        except TimeoutError:
            # It answers in time, or not at all any more.
            driver.kill()
            raise EngineAway("the process that speaks to Ray hung, and is started again") from None
        if "ok" in answer:
            return answer["ok"]
        raise _ERRORS.get(answer["error"], EngineAway)(answer["sentence"])

    def _serving(self) -> "_Driver":
        """The driver; waits for one that starts, and raises EngineAway where the last one could not."""
        with self._change:
            self._change.wait_for(
                lambda: self._driver is not None or self._away or self._closed.is_set(), _START_SECONDS
            )
            if self._closed.is_set():
                raise EngineAway("the engine is closed")
            if self._driver is None:
                raise EngineAway(self._away or "Ray has not started yet")
            return self._driver

    def _keep(self) -> None:
        """Have a driver, one after the other, until we are closed."""
        pause = _SOON_SECONDS
        while not self._closed.is_set():
            began = time.monotonic()
            try:
                self._live()
            except OSError as error:
                self._become(None, f"Ray cannot be spoken to: {error.strerror or error}")
            lived = time.monotonic() - began > _LIVED_SECONDS
            pause = _SOON_SECONDS if lived else min(pause * 2, _LATER_SECONDS)
            self._closed.wait(pause)

    def _live(self) -> None:
        """One life of a driver; raises OSError where none can be started."""
        with self._open_log() as log:
            log_end = log.seek(0, os.SEEK_END)
            driver = _Driver(self._command, self._variables, log.fileno())
        if driver.is_ready(_START_SECONDS, self._closed.is_set):
            self._become(driver, "")
            # `close` sees this driver from now on, and ends it.
            if not self._closed.is_set():
                driver.wait()
        driver.end()
        why = driver.why()
        with self._log.open("rb") as log:
            log.seek(log_end)
            if WRONG_TOKEN.encode() in log.read():
                # Ray's own error says only that it cannot connect.
                why = f"the head at {self._address} refuses our token"
        self._become(None, f"{why}; its log is {self._log}")

    def _become(self, driver: "_Driver | None", away: str) -> None:
        with self._change:
            self._driver, self._away = driver, away
            self._change.notify_all()

    def _open_log(self) -> Any:
        with suppress(OSError):
            if self._log.stat().st_size > _LOG_BYTES:
                self._log.unlink()
        return self._log.open("ab")


class _Driver:
    """One life of the process that speaks to Ray."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], log: int) -> None:
        # In a session of its own: a terminal's Ctrl-C is ours to answer. Not in our folder, which Ray would
        # have every worker search for modules.
        self._process = subprocess.Popen(
            command,
            env=dict(environ),
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None
        self._requests = self._process.stdin.fileno()
        os.set_blocking(self._requests, False)
        self.pid = self._process.pid
        self._ids = itertools.count(1)
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._waiting: dict[int, Future[Mapping[str, Any]]] = {}
        self._began: Future[str] = Future()
        self._reader = threading.Thread(target=self._read, name="answers of Ray", daemon=True)
        self._reader.start()

    def is_ready(self, patience: float, given_up: Callable[[], bool]) -> bool:
        """Wait until it serves; false for one that cannot, does not in time, or is not wanted any more."""
        give_up = time.monotonic() + patience
        while time.monotonic() < give_up and not given_up():
            with suppress(TimeoutError):
                return self._began.result(0.2) == ""
        return False

    def ask(self, request: Mapping[str, Any], patience: float) -> Mapping[str, Any]:
        """Its answer; raises EngineAway when it dies, and TimeoutError when nothing comes."""
        answer: Future[Mapping[str, Any]] = Future()
        number = next(self._ids)
        line = json.dumps({"id": number, **request}).encode() + b"\n"
        with self._lock:
            self._waiting[number] = answer
        try:
            if self._process.poll() is not None:
                raise EngineAway(self.why())
            self._write(line, patience)
            return answer.result(patience)
        except TimeoutError:
            # An OSError as well, to Python.
            raise
        except OSError:
            raise EngineAway(self.why()) from None
        finally:
            with self._lock:
                self._waiting.pop(number, None)

    def why(self) -> str:
        """One sentence on how it ended."""
        failed = self._began.result() if self._began.done() else ""
        return failed or self._how()

    def wait(self) -> None:
        """Wait for its end."""
        self._process.wait()
        self._reader.join()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def end(self) -> None:
        """End it: in order, if it can."""
        with self._writing:
            cast(Any, self._process.stdin).close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()

    def _write(self, line: bytes, patience: float) -> None:
        """Hand a request over. Raises OSError where it is dead, TimeoutError where it does not read."""
        give_up = time.monotonic() + patience
        # Not select: a head with a thousand tasks has descriptors that select cannot tell apart.
        poller = select.poll()
        with self._writing:
            if cast(Any, self._process.stdin).closed:
                raise BrokenPipeError
            poller.register(self._requests, select.POLLOUT)
            while line:
                if not poller.poll(max(0.0, give_up - time.monotonic()) * 1000):
                    raise TimeoutError
                line = line[os.write(self._requests, line) :]

    def _read(self) -> None:
        # Without a buffer of its own each byte of an answer would be a call of the kernel.
        answers = io.BufferedReader(cast(Any, self._process.stdout), _BUFFER_BYTES)
        for line in answers:
            try:
                answer = json.loads(line)
            except ValueError:
                # Killed in the middle of it.
                continue
            if "id" not in answer:
                if not self._began.done():
                    self._began.set_result(str(answer.get("failed", "")))
                continue
            with self._lock:
                waiting = self._waiting.get(answer["id"])
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)
        self._process.wait()
        answers.close()
        if not self._began.done():
            self._began.set_result(self._how())
        with self._lock:
            # Who asks from now on sees that it is dead.
            left = [waiting for waiting in self._waiting.values() if not waiting.done()]
        for waiting in left:
            waiting.set_exception(EngineAway(self.why()))

    def _how(self) -> str:
        code = self._process.poll()
        if code is None:
            return "Ray does not answer"
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        return f"the process that speaks to Ray {how}"
