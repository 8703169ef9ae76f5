"""Ports for servers that tests start in processes of their own."""

import itertools
import os
import socket

#: Below those of fleets, and below those that the kernel gives to outgoing connections: between the choice
#: and the start of the server nothing takes the port.
_FIRST, _MANY = 10_000, 10_000
_next = itertools.count(os.getpid() * 97)


def free_port() -> int:
    """A port of loopback on which nothing listens; never the same twice in this process."""
    while True:
        port = _FIRST + next(_next) % _MANY
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
