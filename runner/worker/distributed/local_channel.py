"""The line between the leader of a gang and one member: JSON over a Unix socket, standard library only."""

import json
import os
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Mapping
from typing import Any, cast

#: struct ucred of unix(7): pid, uid, gid.
_CREDENTIALS = struct.Struct("iII")


class Line:
    """One end of a line; every message is one JSON object."""

    def __init__(self, connection: socket.socket) -> None:
        #: Whether there is nobody at the other end; and what ended the line where they did not close it.
        self.closed = False
        self.broken = ""
        self._connection = connection
        self._buffer = bytearray()

    def fileno(self) -> int:
        """The descriptor, for a poll."""
        return self._connection.fileno()

    @property
    def ends(self) -> tuple[str, str]:
        """The addresses of a line between machines: ours, theirs."""
        return self._connection.getsockname()[0], self._connection.getpeername()[0]

    def say(self, body: Mapping[str, Any]) -> None:
        """Send one message; raises OSError when nobody listens any more."""
        self._connection.sendall(json.dumps(body, separators=(",", ":")).encode() + b"\n")

    def hear(self, most: int | None = None, until: float | None = None) -> dict[str, Any] | None:
        """The next message, waited for; None when the other end is closed, or cannot be reached any more.

        Of more than `most` bytes it is no message: raises ValueError, as for what is no object of JSON.
        Raises TimeoutError when it is not there at the moment `until` of the monotonic clock.
        """
        while (end := self._buffer.find(b"\n")) < 0:
            room = 1 << 20 if most is None else most + 1 - len(self._buffer)
            if room <= 0:
                raise ValueError(f"more than {most} bytes without a word")
            if until is not None:
                # Byte by byte a stranger would hold us for hours.
                self._connection.settimeout(max(0.001, until - time.monotonic()))
            try:
                data = self._connection.recv(room)
            except TimeoutError as error:
                if error.errno is None:
                    # Ours, while somebody new has to prove itself; without a limit it is the link's.
                    raise
                return self._over(error)
            except OSError as error:
                return self._over(error)
            if not data:
                return self._over()
            self._buffer += data
        text = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        message = json.loads(text)
        if not isinstance(message, dict):
            raise ValueError("no object of JSON")
        return cast("dict[str, Any]", message)

    def _over(self, error: OSError | None = None) -> None:
        self.closed = True
        # Who dies with words unheard resets the line: that is an end like any other.
        if error is not None and not isinstance(error, ConnectionError):
            self.broken = error.strerror or str(error)

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
    """The end of a member on the leader's own machine: calls it, and takes its CPUs (see `welcomed`)."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(f"\0{leader}")
    return welcomed(Line(connection), rank)


def welcomed(line: Line, rank: int) -> Line:
    """A member's end: it says who it is, takes its CPUs, and from then on dies when the leader does.

    Called before torch is imported, which counts the CPUs it may use once.
    """
    line.say({"rank": rank, "pid": os.getpid()})
    welcome = line.hear()
    if welcome is None:
        raise ConnectionError("the leader is gone")
    os.sched_setaffinity(0, welcome["cpus"])
    threading.Thread(target=_end_with, args=(line,), daemon=True).start()
    return line


def _end_with(line: Line) -> None:
    # A collective that waits for a dead rank reads no line: somebody else has to see the leader go.
    poller = select.poll()
    poller.register(line, select.POLLRDHUP)
    poller.poll()
    os._exit(1)
