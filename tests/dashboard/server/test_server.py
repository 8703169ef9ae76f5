"""The dashboard's server as people start and stop it: real processes, real sockets."""

import asyncio
import json
import signal
import socket
import time
from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from dashboard.server import errors, server
from dashboard.server.asgi import SameOrigin
from support.sqlite_files import sqlite_file

pytestmark = pytest.mark.slow

Serve = Callable[..., Any]


def test_it_prints_one_line_when_ready_and_answers_there(served: Any) -> None:
    status, _, body = served.get("/")
    assert (status, b"<html" in body) == (200, True)
    assert served.log == f"Dashboard: {served.url}\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/overview?days=7", "/?days=7"),
        (
            "/upgrade?run=a+b&worst=latency%3A8&worst=rss%3A5",
            "/compare?run=a+b&worst=latency%3A8&worst=rss%3A5",
        ),
        ("/hardware", "/compare?view=hardware"),
        ("/techniques?version=2.13.0%2Bcpu", "/explore?version=2.13.0%2Bcpu"),
        ("/trends?case=mlp%2Finfer&axis=date", "/explore?view=history&case=mlp%2Finfer&axis=date"),
        ("/utilisation?run=x", "/explore?view=utilisation&run=x"),
        ("/run?run=latest", "/runs?run=latest"),
        ("/run", "/runs"),
        ("/fleet?machine=one", "/runs?view=machines&machine=one"),
        ("/run?run=//evil.example%0d%0aX:y", "/runs?run=%2F%2Fevil.example%0D%0AX%3Ay"),
    ],
)
def test_an_old_address_leads_to_its_new_place_with_its_parameters(served: Any, old: str, new: str) -> None:
    asked = HTTPConnection(served.url.removeprefix("http://"), timeout=30)
    asked.request("GET", old)
    answer = asked.getresponse()
    assert (answer.status, answer.getheader("location")) == (307, new)
    asked.close()
    status, _, body = served.get(old)
    assert (status, b"<html" in body) == (200, True)


def test_ready_when_the_database_answers(served: Any) -> None:
    status, headers, body = served.get("/readyz")
    assert (status, json.loads(body)) == (200, {"status": "ready"})
    assert headers["cache-control"] == "no-store"


def test_not_ready_with_a_reason_when_the_database_goes_away(serve: Serve, empty_url: str) -> None:
    file = sqlite_file(empty_url)
    dashboard = serve(empty_url)
    assert dashboard.get("/readyz")[0] == 200
    file.rename(file.with_suffix(".away"))
    status, _, body = dashboard.get("/readyz")
    assert status == 503
    assert str(file) in json.loads(body)["reason"]
    file.with_suffix(".away").rename(file)
    assert dashboard.get("/readyz")[0] == 200
    assert "Traceback" not in dashboard.log


def test_no_other_site_may_frame_the_page_or_feed_it(served: Any) -> None:
    for path in ("/", "/explore", "/readyz"):
        headers = served.get(path)[1]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "http" not in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("name", "origin", "refused"),
    [
        ("127.0.0.1", None, False),
        ("127.0.0.1", "http://127.0.0.1", False),
        ("127.0.0.1", "http://evil.example", True),
        # DNS rebinding: the other site gave our address a name of its own.
        ("evil.example", "http://evil.example", True),
    ],
)
def test_a_page_elsewhere_cannot_open_the_websocket(
    served: Any, name: str, origin: str | None, refused: bool
) -> None:
    port = int(served.url.rpartition(":")[2])
    headers = {"Origin": f"{origin}:{port}"} if origin else {}
    address = f"ws://{name}:{port}/_stcore/stream"
    wire = socket.create_connection(("127.0.0.1", port))
    try:
        with connect(address, sock=wire, additional_headers=headers):
            assert not refused
    except InvalidStatus as error:
        assert refused
        assert error.response.status_code == 403


def test_under_a_name_that_is_not_its_own_it_says_so_and_it_takes_no_writes(served: Any) -> None:
    port = int(served.url.rpartition(":")[2])
    for method, host, status in (
        ("GET", "evil.example", 421),
        ("GET", "[::1]", 200),
        ("PUT", "localhost", 405),
    ):
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request(method, "/", headers={"Host": f"{host}:{port}"})
        assert connection.getresponse().status == status
        connection.close()


@pytest.mark.parametrize(
    "headers",
    [
        [(b"host", b"a:1"), (b"origin", b"http://b:1")],
        [(b"host", b"a:1"), (b"origin", b"http://[")],
        [(b"origin", b"http://[")],
    ],
)
def test_a_foreign_origin_never_reaches_streamlit_which_would_ask_outside_for_our_address(
    headers: list[tuple[bytes, bytes]],
) -> None:
    sent: list[Any] = []

    async def application(*_: Any) -> None:
        raise AssertionError("reached")

    async def send(message: Any) -> None:
        sent.append(message["type"])

    scope = {"type": "websocket", "headers": headers}
    asyncio.run(SameOrigin(application)(scope, asyncio.Queue[Any]().get, send))
    assert sent == ["websocket.close"]


def test_theme_and_fonts_are_found_from_any_working_directory(served: Any) -> None:
    for name in ("inter-latin-wght-normal.woff2", "jetbrains-mono-latin-wght-normal.woff2", "icon.png"):
        status, _, body = served.get(f"/app/static/{name}")
        assert status == 200
        assert len(body) > 1000


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_without_a_traceback_even_with_an_open_page(
    serve: Serve, empty_url: str, by: signal.Signals
) -> None:
    dashboard = serve(empty_url)
    with connect(dashboard.url.replace("http", "ws") + "/_stcore/stream"):
        code = dashboard.stop(by)
    assert code == (0 if by == signal.SIGINT else -signal.SIGTERM)
    assert dashboard.log == f"Dashboard: {dashboard.url}\n"


@pytest.mark.parametrize("apart", [0.02, 0.3])
def test_ctrl_c_again_while_it_ends_changes_nothing(serve: Serve, empty_url: str, apart: float) -> None:
    """Apart so that the later ones come while connections are closed, or while the interpreter ends."""
    dashboard = serve(empty_url)
    with connect(dashboard.url.replace("http", "ws") + "/_stcore/stream"):
        while dashboard.process.poll() is None:
            dashboard.process.send_signal(signal.SIGINT)
            time.sleep(apart)
    assert (dashboard.process.returncode, dashboard.log) == (0, f"Dashboard: {dashboard.url}\n")


def test_a_busy_port_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(errors.PortBusy, match=f"Port {port} on 127.0.0.1 is in use") as caught:
            server.serve("127.0.0.1", port)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "port"), [("192.0.2.1", 0), ("no.such.host.invalid", 0), ("127.0.0.1", 70000)]
)
def test_an_address_that_cannot_be_bound_is_one_sentence(host: str, port: int) -> None:
    with pytest.raises(errors.AddressUnusable, match=f"Cannot listen on {host}:{port}"):
        server.serve(host, port)
