"""Channels between the leader of a rank group and its members: a Unix socket, or keys of a TCPStore."""

import json
import os
import secrets
import select
import socket
import struct
import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

#: struct ucred of unix(7): pid, uid, gid.
_CREDENTIALS = struct.Struct("iII")


class SocketChannel:
    """One end of a line; every message is one JSON object."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()

    def fileno(self) -> int:
        """The descriptor, for a poll."""
        return self._connection.fileno()

    def send(self, body: Mapping[str, Any]) -> None:
        """Send one message; raises OSError when the other end is closed."""
        self._connection.sendall(json.dumps(body, separators=(",", ":")).encode() + b"\n")

    def receive(self) -> dict[str, Any] | None:
        """The next message, waited for; None when the other end is closed."""
        while (end := self._buffer.find(b"\n")) < 0:
            try:
                data = self._connection.recv(1 << 20)
            except ConnectionError:
                # A peer that dies with unread messages resets the connection: also an end.
                return None
            if not data:
                return None
            self._buffer += data
        message = json.loads(bytes(self._buffer[:end]))
        del self._buffer[: end + 1]
        return cast("dict[str, Any]", message)

    def has_message(self, seconds: float = 0.0) -> bool:
        """Whether a message or the end can be read; waits up to `seconds`."""
        if b"\n" in self._buffer:
            return True
        return bool(select.select([self._connection], [], [], max(0.0, seconds))[0])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Listener:
    """Listener for members: an address in the kernel's memory, so that no file is left behind."""

    def __init__(self) -> None:
        self.name = f"pyrometer-{secrets.token_hex(16)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(f"\0{self.name}")
        self._socket.listen()

    def fileno(self) -> int:
        """The descriptor, for a poll."""
        return self._socket.fileno()

    def accept(self) -> SocketChannel | None:
        """The next connection; None if its process belongs to another user."""
        connection, _ = self._socket.accept()
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(credentials)[1] != os.getuid():
            connection.close()
            return None
        return SocketChannel(connection)

    def close(self) -> None:
        """Close the listener."""
        self._socket.close()


def join(leader: str, rank: int) -> SocketChannel:
    """Connect a member: send its rank, set its CPU affinity, and end this process when the leader ends.

    Called before torch is imported, which counts the CPUs it may use once.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(f"\0{leader}")
    line = SocketChannel(connection)
    line.send({"rank": rank, "pid": os.getpid()})
    welcome = line.receive()
    if welcome is None:
        raise ConnectionError("the leader is gone")
    os.sched_setaffinity(0, welcome["cpus"])
    threading.Thread(target=_end_with_leader, args=(line,), daemon=True).start()
    return line


def _end_with_leader(line: SocketChannel) -> None:
    # A collective that waits for a dead rank reads no message: a thread has to detect the leader's end.
    poller = select.poll()
    poller.register(line, select.POLLRDHUP)
    poller.poll()
    os._exit(1)


#: The leader ends what it had started; nothing else bounds a wait for its next order.
FOREVER = timedelta(days=7)
#: How long the store may take to be reached.
_REACH = timedelta(seconds=60)


def client(host: str, port: int) -> Any:
    """One connection to the store that is served at `host` and `port`."""
    # Not at the top: a member takes its CPUs before torch counts them.
    import torch

    tcp = torch.distributed.TCPStore  # pyright: ignore[reportPrivateImportUsage]
    return tcp(host, port, None, False, _REACH, wait_for_workers=False)


class StoreSender:
    """Sender of messages to the leader: a rank or a node, by its number."""

    def __init__(self, store: Any, kind: str, number: int) -> None:
        self._store = store
        self._name = f"{kind}/{number}"
        self._count = 0

    def send(self, body: Mapping[str, Any]) -> None:
        """Send one message."""
        self._store.set(f"{self._name}/{self._count}", json.dumps(body))
        self._count += 1


class StoreChannel:
    """The channel of rank `rank` of `world`."""

    def __init__(self, store: Any, rank: int, world: int) -> None:
        self._store = store
        self._speaker = StoreSender(store, "rank", rank)
        self._rank, self._world = rank, world
        self._orders = self._starts = 0
        self.send({"rank": rank, "pid": os.getpid()})

    def send(self, body: Mapping[str, Any]) -> None:
        """Send one answer."""
        self._speaker.send(body)

    def receive(self) -> dict[str, Any] | None:
        """The next order, waited for; None when the leader is gone."""
        key = f"order/{self._rank}/{self._orders}"
        self._orders += 1
        try:
            self._store.wait([key], FOREVER)
            order = json.loads(self._store.get(key))
            self._store.delete_key(key)
        except RuntimeError:
            return None
        return order

    def has_message(self) -> bool:
        """Whether an order has come."""
        return bool(self._store.check([f"order/{self._rank}/{self._orders}"]))

    def barrier(self) -> None:
        """Return when every rank has called it: a common start where no clock is common."""
        name = f"start/{self._starts}"
        self._starts += 1
        if self._store.add(name, 1) == self._world:
            self._store.set(f"{name}/go", "")
        self._store.wait([f"{name}/go"], FOREVER)


def end_with_input() -> None:
    """End this process when its standard input does: the leader, or the command that reached us, is gone.

    A collective that waits for a dead rank reads no order: a separate thread detects the end of the leader.
    """
    threading.Thread(target=_end_with_input, daemon=True).start()


def _end_with_input() -> None:
    poller = select.poll()
    poller.register(0, select.POLLHUP)
    poller.poll()
    os._exit(1)
