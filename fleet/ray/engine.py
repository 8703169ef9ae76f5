"""Ray as the engine of a fleet: calls go to a driver process, which is started again when it dies.

Ray runs in a process of its own because its native code ends the process that called `ray.init`: when it has
lost the head for a minute, and on failed internal checks. A scheduler must outlive both. The environment of
that process (token, ports, usage statistics) is Ray's alone, and no other part of Pyrometer imports Ray. The
public alternatives are larger: Ray Client needs a server with a process for each client, Ray Jobs needs the
dashboard, whose port runs code for whatever reaches it.

Requests and answers are lines of JSON, matched by an id (`fleet.ray.driver`).
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

from configuration.schema import host_and_port

from ..agent import AgentEngine
from ..engine import EngineAway, EngineError, EngineNode, NodeLost, NodeRefused, NodeSilent
from .processes import WRONG_TOKEN, check_installed, check_token, resolve, variables

#: Importing Ray and connecting take seconds; a driver that needs longer than this is killed.
_START_SECONDS = 90.0
#: The least time between two starts of a driver.
_RESTART_SECONDS = 20.0
#: A list of nodes takes no longer, or is requested again later.
_LIST_SECONDS = 20.0
#: The driver answers every call within its timeout; one that is this much later hangs, and is killed.
_LATE_SECONDS = 30.0
_LOG_BYTES = 1 << 20

_ERRORS: Mapping[str, type[EngineError]] = {
    kind.__name__: kind for kind in (EngineAway, NodeLost, NodeRefused, NodeSilent)
}


class RayEngine(AgentEngine):
    """The nodes that joined the Ray head of this machine at `address`, HOST:PORT.

    `token` is the file with the fleet's token; Ray's own output goes to a log in `folder`. Raises RayUnusable
    where Ray is not installed, or the token or the address is unusable.
    """

    def __init__(self, address: str, token: Path, folder: Path) -> None:
        check_installed()
        check_token(token)
        host, port = host_and_port(address)
        ip = resolve(host)
        self._command = (
            *(sys.executable, "-P", "-m", "fleet.ray.driver"),
            *("--address", f"{ip}:{port}", "--ip", ip),
        )
        self._address, self._variables = address, variables(token)
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "ray-driver.log"
        self._lock = threading.Lock()
        self._driver: _DriverProcess | None = None
        self._is_closed = False

    @property
    def process(self) -> int | None:
        """The process id of the newest driver; None before the first call."""
        return self._driver.pid if self._driver is not None else None

    def nodes(self) -> Sequence[EngineNode]:
        """The nodes that are alive; the first call waits for Ray to start. Raises EngineAway."""
        found = cast("list[dict[str, Any]]", self._request({"do": "nodes"}, _LIST_SECONDS))
        return [EngineNode(**each) for each in found]

    def call(self, node: str, method: str, arguments: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        """The answer of a node's agent."""
        request = {"do": "call", "node": node, "method": method, "arguments": dict(arguments)}
        return self._request({**request, "timeout": timeout}, timeout + _LATE_SECONDS)

    def close(self) -> None:
        """End the driver, and with it the agents: what they measure is stored and ends."""
        with self._lock:
            self._is_closed = True
        if self._driver is not None:
            self._driver.kill()

    def _request(self, request: Mapping[str, Any], timeout: float) -> Any:
        answer = self._ready_driver().request(request, timeout)
        if "ok" in answer:
            return answer["ok"]
        raise _ERRORS[answer["error"]](answer["sentence"])

    def _ready_driver(self) -> "_DriverProcess":
        """A driver that serves; raises EngineAway with the reason where there is none."""
        with self._lock:
            if self._is_closed:
                raise EngineAway("the engine is closed")
            if self._driver is None or (
                self._driver.has_ended() and time.monotonic() - self._driver.started_at >= _RESTART_SECONDS
            ):
                try:
                    self._driver = _DriverProcess(self._command, self._variables, self._log, self._address)
                except OSError as error:
                    raise EngineAway(f"Ray cannot be started: {error.strerror or error}") from error
            driver = self._driver
        driver.wait_until_ready()
        return driver


class _DriverProcess:
    """A driver from its start to its end."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], log: Path, address: str) -> None:
        self._log, self._address = log, address
        with suppress(OSError):
            if log.stat().st_size > _LOG_BYTES:
                log.unlink()
        with log.open("ab") as file:
            self._log_start = file.tell()
            # In a session of its own, so that Ctrl-C in a terminal ends it only after the scheduler's work.
            # Not in our folder: Ray's workers would search that for modules.
            self._process = subprocess.Popen(
                command,
                env=dict(environ),
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
            )
        self.pid, self.started_at = self._process.pid, time.monotonic()
        self._requests = cast("IO[bytes]", self._process.stdin)
        self._ids = itertools.count(1)
        self._writing = threading.Lock()
        self._answers: dict[int, Future[Mapping[str, Any]]] = {}
        #: Why it cannot serve, empty once it does; and how it ended.
        self._ready, self._end = Future[str](), Future[str]()
        threading.Thread(target=self._read_answers, name="ray driver", daemon=True).start()

    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def wait_until_ready(self) -> None:
        """Wait until it is connected; raises EngineAway where it is not."""
        try:
            why = self._ready.result(max(0.0, self.started_at + _START_SECONDS - time.monotonic()))
        except TimeoutError:
            self.kill()
            why = f"Ray has not started within {_START_SECONDS:g} s"
        if why:
            raise EngineAway(why)

    def request(self, request: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        """Its answer; raises EngineAway where it dies, or does not answer and is killed."""
        number, answer = next(self._ids), Future[Mapping[str, Any]]()
        self._answers[number] = answer
        line = json.dumps({"id": number, **request}).encode() + b"\n"
        try:
            self._write(line)
            return answer.result(timeout)
        except TimeoutError:
            self.kill()
            raise EngineAway("the process that speaks to Ray hung, and is started again") from None
        except (OSError, ValueError):
            raise EngineAway(self._end.result()) from None
        finally:
            del self._answers[number]

    def kill(self) -> None:
        """End it, and wait until it has ended. It stores nothing, so it has nothing to lose."""
        self._process.kill()
        self._process.wait()

    def _write(self, line: bytes) -> None:
        """Send a request. Raises OSError or ValueError where the driver has ended.

        A driver that does not read lets this wait, until the first unanswered request has it killed.
        """
        with self._writing:
            while line:
                line = line[os.write(self._requests.fileno(), line) :]

    def _read_answers(self) -> None:
        with cast("IO[bytes]", self._process.stdout) as answers:
            for line in answers:
                # The last one may be half a line.
                with suppress(ValueError):
                    self._receive(json.loads(line))
        code = self._process.wait()
        with self._writing:
            self._requests.close()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        end = self._with_log(f"the process that speaks to Ray {how}")
        self._end.set_result(end)
        if not self._ready.done():
            self._ready.set_result(end)
        for waiting in list(self._answers.values()):
            if not waiting.done():
                waiting.set_exception(EngineAway(end))

    def _receive(self, answer: Mapping[str, Any]) -> None:
        if "id" not in answer:
            failed = answer["failed"]
            self._ready.set_result(failed and self._with_log(failed))
        elif (waiting := self._answers.get(answer["id"])) is not None and not waiting.done():
            waiting.set_result(answer)

    def _with_log(self, sentence: str) -> str:
        with suppress(OSError), self._log.open("rb") as file:
            file.seek(self._log_start)
            if WRONG_TOKEN.encode() in file.read():
                # Ray's own error says only that it cannot connect.
                sentence = f"the head at {self._address} refuses our token"
        return f"{sentence}; its log is {self._log}"
