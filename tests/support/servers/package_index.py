"""A package index on loopback that answers only when it is opened."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from support.servers.loopback import Quiet, served
from support.waiting import PATIENCE_SECONDS


class GatedIndex:
    """Serves a folder of wheels as `/simple/torch/`. `asked` is set by the first question, which waits for
    `open`; `address` is the index for pip."""

    def __init__(self, wheels: Path) -> None:
        self.requested, self.open = threading.Event(), threading.Event()
        index = self

        class Handler(Quiet, SimpleHTTPRequestHandler):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments, directory=str(wheels))

            def do_GET(self) -> None:
                index.requested.set()
                index.open.wait(PATIENCE_SECONDS)
                if not self.path.startswith("/simple/"):
                    super().do_GET()
                    return
                links = "".join(f'<a href="/{w.name}">{w.name}</a>' for w in sorted(wheels.glob("*.whl")))
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(links.encode())

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}/simple"

    @contextmanager
    def serving(self) -> Iterator["GatedIndex"]:
        """Answer within the block."""
        with served(self.server):
            try:
                yield self
            finally:
                self.open.set()
