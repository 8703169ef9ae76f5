"""Serves the dashboard in one process on one port, and prints a line when it is ready."""

import errno
import signal
import socket
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from types import FrameType

import uvicorn

from configuration.dashboard import is_loopback
from dashboard.api.posts import Trigger
from dashboard.auth import reader
from dashboard.auth.policy import AccessRules
from dashboard.server.asgi import application
from dashboard.server.errors import AddressUnusable, LoginUnusable, PortBusy


def serve(
    host: str,
    port: int,
    names: Sequence[str] = (),
    rules: AccessRules | None = None,
    trigger: Trigger | None = None,
) -> None:
    """Serve the dashboard on `host` (an address or a name) and `port` until SIGINT or SIGTERM.

    After the first SIGINT the process ignores further ones, also after this returns. Port 0 means any free
    one. `names` are host names for browsers, besides that in the rules' `url`; without one, a server that
    listens on other interfaces accepts any name. Without `rules` there is no login, and without `trigger` the
    API cannot trigger schedules. Prints one line with the URL when ready. Raises PortBusy, AddressUnusable or
    LoginUnusable before anything is served.
    """
    rules = rules or AccessRules()
    if rules.login == "oidc" and find_spec("authlib") is None:
        raise LoginUnusable('login "oidc" needs Authlib: install pyrometer[oidc]')
    listener = _listen(host, port)
    port = listener.getsockname()[1]
    # The only allowed host names: with DNS rebinding another site could use its own name for this server.
    own = ["localhost", "127.0.0.1", "::1", host] if is_loopback(host) else []
    app = application(rules, [*own, *names, *([rules.host] if rules.host else [])], trigger)
    reader.hold(rules)
    settings = uvicorn.Config(
        app,
        # Forwarded client addresses are ignored here: the middleware decides which proxies are trusted.
        proxy_headers=False,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = _Server(settings, f"http://{_url_host(host)}:{port}")
    # uvicorn raises captured signals again after its shutdown, with the previous handlers.
    signal.signal(signal.SIGINT, server.handle_exit)
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        # Raised by a handler of the caller for another signal.
        return
    finally:
        # Unlike a Python function, SIG_IGN is still in effect during the exit of the interpreter.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Server(uvicorn.Server):
    """A uvicorn server that prints its URL when it listens, and ends gracefully also after repeated
    Ctrl-C.
    """

    def __init__(self, config: uvicorn.Config, url: str) -> None:
        super().__init__(config)
        self._url = url

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        sys.stdout.write(f"Dashboard: {self._url}\n")
        sys.stdout.flush()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # A second SIGINT would have uvicorn cancel the application, which then prints a traceback.
        if sig != signal.SIGINT or not self.should_exit:
            super().handle_exit(sig, frame)


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket; bound here so that a busy port is one sentence and never a traceback."""
    if not 0 <= port <= 65535:
        # getaddrinfo would reduce such a number modulo 65536.
        raise AddressUnusable(f"Cannot listen on {host}:{port}: a port is a number from 0 to 65535.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise AddressUnusable(f"Cannot listen on {host}:{port}: {_why(error)}.") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortBusy(
                f"Port {port} on {host} is in use; stop the program that uses it or choose another port with "
                f"--port."
            ) from error
        raise AddressUnusable(f"Cannot listen on {host}:{port}: {_why(error)}.") from error
    return listener


def _why(error: OSError) -> str:
    return error.strerror or str(error)


def _url_host(host: str) -> str:
    # A browser cannot open 0.0.0.0 or ::, which mean every address of this machine.
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{name}]" if ":" in name else name
