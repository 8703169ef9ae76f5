"""Servers that answer on loopback in a thread of the test."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer
from typing import Any


class Quiet:
    """A part of handlers of requests: they print nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


@contextmanager
def served(server: BaseServer) -> Generator[None]:
    """The server answers within."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def answering(handler: type[BaseHTTPRequestHandler]) -> Generator[int]:
    """A web server whose requests the handler answers; gives its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    with served(server):
        yield server.server_port
