"""Lines between machines: TCP, both ends proving that they know a secret, and a dead link noticed in seconds.

The secret is never sent, and what follows is not encrypted: a network that is trusted with gradients is
trusted with these lines too. Standard library only.
"""

import contextlib
import hmac
import ipaddress
import json
import os
import secrets
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from .local_channel import Line

#: Raised by one when what is said before the proofs changes its meaning.
_WIRE = 1
#: How long the other end may take to be reached, and to prove itself.
_REACH_SECONDS = 5.0
#: A link that answers nothing is dead after so long: first asked when it was silent, then every second.
DEAD_SECONDS = 5
_SILENT_SECONDS = 2
#: No stranger may say more than this.
_MOST_BYTES = 4096

#: netlink(7), rtnetlink(7): what a request for a route looks like.
_RTM_GETROUTE, _NLM_F_REQUEST, _NLMSG_ERROR = 26, 1, 2
_RTA_DST, _RTA_OIF = 1, 4
_HEADER, _ROUTE, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBBBBBBBI"), struct.Struct("=HH")


class WireError(Exception):
    """No line to the other machine; the text says why in one sentence."""


class Refused(WireError):
    """It was reached, and wants nothing to do with us: another secret, or no Pyrometer at all."""


@dataclass(frozen=True, slots=True)
class Call:
    """A line to somebody who has proved to know a secret.

    `name` says which secret that was; `key` is this line's own, known to both ends and never sent: with it
    third ones can be let in on the same footing.
    """

    line: Line
    name: str
    key: bytes


def call(address: tuple[str, int], name: str, key: bytes) -> Call:
    """Reach whoever listens at `address` and prove to know `key`, called `name` there; raises WireError."""
    where = f"{address[0]}:{address[1]}"
    try:
        connection = socket.create_connection(address, _REACH_SECONDS)
    except OSError as error:
        raise WireError(f"{where} cannot be reached: {_said(error)}") from error
    line, until = Line(connection), time.monotonic() + _REACH_SECONDS
    try:
        theirs = line.hear(_MOST_BYTES, until)
        if theirs is None or theirs.get("pyrometer") != _WIRE:
            raise Refused(f"what listens at {where} is not this Pyrometer")
        nonces = str(theirs["nonce"]), secrets.token_hex(16)
        line.say({"name": name, "nonce": nonces[1], "proof": _proof(key, "calls", name, *nonces)})
        answer = line.hear(_MOST_BYTES, until)
        if answer is None and name:
            raise Refused(f"what listens at {where} knows no {name!r} any more, or has another secret")
        if answer is None or not _proved(answer, _proof(key, "answers", name, *nonces)):
            raise Refused(f"what listens at {where} has another secret")
    except WireError:
        line.close()
        raise
    except (OSError, ValueError, KeyError, RecursionError) as error:
        line.close()
        raise WireError(f"{where} does not answer: {error}") from error
    return Call(_settled(connection, line), name, bytes.fromhex(_proof(key, "speaks", name, *nonces)))


def answer(connection: socket.socket, key_of: Callable[[str], bytes | None]) -> Call:
    """Let in who proves to know the key of the name it gives; raises Refused, with the connection closed."""
    connection.settimeout(_REACH_SECONDS)
    line, until = Line(connection), time.monotonic() + _REACH_SECONDS
    ours = secrets.token_hex(16)
    try:
        line.say({"pyrometer": _WIRE, "nonce": ours})
        said = line.hear(_MOST_BYTES, until) or {}
        name, theirs = str(said.get("name", "")), str(said.get("nonce", ""))
        key = key_of(name)
        if key is None:
            raise Refused("it names what is not known any more")
        if not _proved(said, _proof(key, "calls", name, ours, theirs)):
            raise Refused("it has another secret")
        line.say({"proof": _proof(key, "answers", name, ours, theirs)})
    except WireError:
        line.close()
        raise
    except (OSError, ValueError, RecursionError) as error:
        line.close()
        raise Refused(f"it does not speak as we do: {error}") from error
    return Call(_settled(connection, line), name, bytes.fromhex(_proof(key, "speaks", name, ours, theirs)))


def listen(address: tuple[str, int]) -> socket.socket:
    """A socket that listens at `address`; raises OSError."""
    family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    return socket.create_server(address, family=family, backlog=64)


def host_and_port(text: str) -> tuple[str, int]:
    """`HOST:PORT` as its parts, `[::1]:PORT` too; raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def interface_to(host: str) -> str:
    """The name of the network interface by which packets for the address `host` leave; raises OSError."""
    address = ipaddress.ip_address(host.partition("%")[0])
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    wanted = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(address.packed), _RTA_DST) + address.packed
    body = _ROUTE.pack(family, len(address.packed) * 8, 0, 0, 0, 0, 0, 0, 0) + wanted
    head = _HEADER.pack(_HEADER.size + len(body), _RTM_GETROUTE, _NLM_F_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.settimeout(_REACH_SECONDS)
        kernel.send(head + body)
        answered = kernel.recv(1 << 16)
    if _HEADER.unpack_from(answered)[1] == _NLMSG_ERROR:
        (number,) = struct.unpack_from("=i", answered, _HEADER.size)
        raise OSError(-number, os.strerror(-number))
    at = _HEADER.size + _ROUTE.size
    while at + _ATTRIBUTE.size <= len(answered):
        length, kind = _ATTRIBUTE.unpack_from(answered, at)
        if kind == _RTA_OIF:
            return socket.if_indextoname(struct.unpack_from("=I", answered, at + _ATTRIBUTE.size)[0])
        at += max(_ATTRIBUTE.size, (length + 3) & ~3)
    raise OSError(f"no route to {host}")


class Door:
    """Where the members on other machines come in: one address of ours, and a key for each machine."""

    def __init__(self, host: str) -> None:
        self.keys: dict[str, bytes] = {}
        self._socket = listen((host, 0))
        self.port: int = self._socket.getsockname()[1]

    def fileno(self) -> int:
        """The descriptor, for a poll."""
        return self._socket.fileno()

    def accept(self) -> Call | None:
        """Who knocks, once it has proved itself; None for a stranger."""
        with contextlib.suppress(OSError, Refused):
            return answer(self._socket.accept()[0], self.keys.get)
        return None

    def close(self) -> None:
        """Let nobody else in."""
        self._socket.close()


def _settled(connection: socket.socket, line: Line) -> Line:
    """The line as it stays: it waits as long as it takes, while the kernel looks whether the link lives."""
    connection.settimeout(None)
    tcp = socket.IPPROTO_TCP
    connection.setsockopt(tcp, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(tcp, socket.TCP_KEEPIDLE, _SILENT_SECONDS)
    connection.setsockopt(tcp, socket.TCP_KEEPINTVL, 1)
    connection.setsockopt(tcp, socket.TCP_KEEPCNT, DEAD_SECONDS - _SILENT_SECONDS)
    connection.setsockopt(tcp, socket.TCP_USER_TIMEOUT, DEAD_SECONDS * 1000)
    return line


def _proof(key: bytes, *words: str) -> str:
    return hmac.new(key, json.dumps(words).encode(), "sha256").hexdigest()


def _proved(said: dict[str, object], proof: str) -> bool:
    return hmac.compare_digest(str(said.get("proof", "")).encode(), proof.encode())


def _said(error: OSError) -> str:
    return error.strerror or str(error)
