"""The line between the leader of a group and one member: JSON over a Unix socket, standard library only."""

import json
import os
import secrets
import select
import socket
import struct
import threading
from collections.abc import Mapping
from typing import Any, cast

#: struct ucred of unix(7): pid, uid, gid.
_CREDENTIALS = struct.Struct("iII")


class Line:
    """One end of a line; every message is one JSON object."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()

    def fileno(self) -> int:
        """The descriptor, for a poll."""
        return self._connection.fileno()

    def say(self, body: Mapping[str, Any]) -> None:
        """Send one message; raises OSError when nobody listens any more."""
        self._connection.sendall(json.dumps(body, separators=(",", ":")).encode() + b"\n")

    def hear(self) -> dict[str, Any] | None:
        """The next message, waited for; None when the other end is closed."""
        while (end := self._buffer.find(b"\n")) < 0:
            try:
                data = self._connection.recv(1 << 20)
            except ConnectionError:
                # One that dies with words unheard resets the line: that is an end like any other.
                return None
            if not data:
                return None
            self._buffer += data
        message = json.loads(bytes(self._buffer[:end]))
        del self._buffer[: end + 1]
        return cast("dict[str, Any]", message)

    def waiting(self, seconds: float = 0.0) -> bool:
        """Whether there is something to hear, be it the end; waits up to `seconds` for it."""
        if b"\n" in self._buffer:
            return True
        return bool(select.select([self._connection], [], [], max(0.0, seconds))[0])

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


class Listener:
    """Where members come in: an address in the kernel's memory, so that no file is left behind."""

    def __init__(self) -> None:
        self.name = f"pyrometer-{secrets.token_hex(16)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(f"\0{self.name}")
        self._socket.listen()

    def fileno(self) -> int:
        """The descriptor, for a poll."""
        return self._socket.fileno()

    def accept(self) -> Line | None:
        """Who calls; None where that is no process of our own user."""
        connection, _ = self._socket.accept()
        told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(told)[1] != os.getuid():
            connection.close()
            return None
        return Line(connection)

    def close(self) -> None:
        """Let nobody else in."""
        self._socket.close()


def join(leader: str, rank: int) -> Line:
    """The end of a member: says which it is, takes its CPUs, and from then on dies when the leader does.

    Called before torch is imported, which counts the CPUs it may use once.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(f"\0{leader}")
    line = Line(connection)
    line.say({"rank": rank, "pid": os.getpid()})
    welcome = line.hear()
    if welcome is None:
        raise ConnectionError("the leader is gone")
    os.sched_setaffinity(0, welcome["cpus"])
    threading.Thread(target=_end_with, args=(line,), daemon=True).start()
    return line


def _end_with(line: Line) -> None:
    # A collective that waits for a dead rank reads no line: a thread has to see the leader go.
    poller = select.poll()
    poller.register(line, select.POLLRDHUP)
    poller.poll()
    os._exit(1)
