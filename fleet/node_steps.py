"""Commands of a run on the other nodes of its order, which Slurm calls steps."""

import json
import os
import socket
import sys
import tempfile
import threading
import uuid
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner import nodes

from .engine import EngineError

#: A step's output is fetched so often, and when it ends; in between the node is left alone.
_POLL_SECONDS = 10.0
#: The exit code of a step that could not be started or was lost.
_FAILED = 255

#: Calls the agent of a node with a method and arguments, and returns its answer. Raises EngineError.
AgentCall = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class GroupNode:
    """A node of an order over several: its name, its address for the other nodes, and a call of its agent."""

    name: str
    address: str
    call: AgentCall


class StepServer:
    """Starts steps of the order `token` on its other nodes, for the processes of its command.

    `variables` name a file with the nodes. It has a command for each (`step_client.py`), which connects to a
    socket of this server and passes its stdout and stderr; when that command ends, so does the step.
    """

    def __init__(self, token: str, group: Sequence[GroupNode]) -> None:
        self._token, self._group = token, {each.name: each for each in group}
        # A socket's path must be short, whatever TMPDIR is; the folder is closed to other users.
        self._folder = tempfile.TemporaryDirectory(
            prefix="pyrometer-", dir="/tmp", ignore_cleanup_errors=True
        )
        path, file = Path(self._folder.name, "steps"), Path(self._folder.name, "nodes.json")
        client = (sys.executable, "-I", "-S", str(Path(__file__).with_name("step_client.py")), str(path))
        first, *others = group
        reached = [nodes.Node(each.name, each.address, (*client, each.name)) for each in others]
        nodes.write(file, [nodes.Node(first.name, first.address), *reached])
        self.variables = {"PYROMETER_NODES_FILE": str(file)}
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        threading.Thread(target=self._serve, name="steps", daemon=True).start()

    def close(self) -> None:
        """Start no more steps; a running one ends with its client."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._folder.cleanup()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client_socket, _ = self._socket.accept()
                threading.Thread(target=self._step, args=(client_socket,), name="step", daemon=True).start()

    def _step(self, client_socket: socket.socket) -> None:
        outputs: list[int] = []
        with client_socket:
            try:
                text, outputs, _, _ = socket.recv_fds(client_socket, 1 << 16, 2)
                while not text.endswith(b"\n"):
                    text += client_socket.recv(1 << 16) or b"\n"
                name, *command = json.loads(text)
                code = self._run_step(client_socket, self._group[name].call, command, outputs)
            except (EngineError, OSError, ValueError, KeyError) as error:
                code = _FAILED
                with suppress(OSError, IndexError):
                    os.write(outputs[1], f"the step cannot be run: {error}\n".encode())
            finally:
                for each in outputs:
                    os.close(each)
            with suppress(OSError):
                client_socket.sendall(str(code).encode())

    def _run_step(
        self, client_socket: socket.socket, call: AgentCall, command: Sequence[str], outputs: Sequence[int]
    ) -> int:
        """Run a command on a node to its end, copy its output, and return its exit code."""
        step = uuid.uuid4().hex
        call("step", {"token": self._token, "step": step, "command": list(command)})

        def watch() -> None:
            # The client sends nothing more; its end closes the connection.
            with suppress(OSError, EngineError):
                if not client_socket.recv(1):
                    call("cancel", {"token": step})

        threading.Thread(target=watch, name="step's client", daemon=True).start()
        folder = f"fleet/children/{step}"
        at = dict.fromkeys((f"{folder}/attempt-1.jsonl", f"{folder}/attempt-1.log"), 0)
        while True:
            answer = call("done", {"token": step, "seconds": _POLL_SECONDS})
            more = True
            while more:
                files = call("read", {"offsets": at, "final": True})["files"]
                for path, file, output in zip([*at], files, outputs, strict=True):
                    data = b64decode(file["data"])
                    os.write(output, data)
                    at[path] += len(data)
                more = any(each["more"] for each in files)
            if answer["unknown"] or answer["ended"] is not None:
                return _exit_code(answer["ended"])


def _exit_code(ended: Mapping[str, int | None] | None) -> int:
    """The exit code in a shell: 128 and the number of a signal."""
    code, signal = (ended["code"], ended["signal"]) if ended is not None else (None, None)
    if signal is not None:
        return 128 + int(signal)
    return _FAILED if code is None else int(code)
