"""Messages made by hand: a viewer notes nothing, not with the messages of a triager either."""

import http.client
import socket
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from playwright.sync_api import Browser
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from support.servers.browser import a_context
from support.servers.login_site import (
    ADA,
    DEEP,
    PROXY_SETTINGS,
    LoginSite,
    proxied,
    site,
    wait_for_text,
)
from support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.slow

BOB = "bob@example.com"
#: What a page's script says where the form of a reader who may triage would stand.
REFUSED, ALLOWED = b"has not been named to triage", b"may triage"
#: Keeps what a page asks for when it opens its WebSocket: a token, and the id of its session.
NOTES_PROTOCOLS = """
const Real = window.WebSocket;
window.asked = [];
window.WebSocket = class extends Real {
  constructor(url, protocols) { super(url, protocols); window.asked.push([].concat(protocols || [])); }
};
"""


@pytest.fixture(scope="module")
def behind_a_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginSite]:
    """A dashboard that everybody may read and one may triage."""
    table = f'{PROXY_SETTINGS}triage_token = "a token of a program"\n'
    with site(tmp_path_factory.mktemp("forged"), table) as one:
        yield one


@pytest.fixture(scope="module")
def messages(chromium: Browser, behind_a_proxy: LoginSite) -> tuple[list[bytes], list[str]]:
    """All that a triager's browser sent until a note was saved, and what its WebSocket asked for."""
    sent: list[bytes] = []
    with proxied(behind_a_proxy.port, ADA) as url:
        context = a_context(chromium)
        context.add_init_script(NOTES_PROTOCOLS)
        page = context.new_page()
        page.on(
            "websocket",
            lambda opened: opened.on(
                "framesent", lambda frame: sent.append(frame if isinstance(frame, bytes) else frame.encode())
            ),
        )
        page.goto(url + DEEP)
        wait_for_text(page, "Latency (min-based) rose")
        page.get_by_text("Triage this finding").click()
        page.get_by_label("Comment", exact=True).fill("seen by a triager")
        page.get_by_role("button", name="Save").click()
        wait_for_text(page, "seen by a triager")
        protocols: list[str] = page.evaluate("window.asked.at(-1)")
        context.close()
    assert sent and protocols
    return sent, protocols


def read_until(opened: ClientConnection, mark: bytes) -> None:
    """Read what the server sends until the mark is in it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while mark not in (piece := opened.recv(timeout=deadline - time.monotonic())):
        assert isinstance(piece, bytes)


def replay(
    url: str,
    sent: Sequence[bytes],
    protocols: Sequence[str],
    mark: bytes,
    obeyed: Callable[[], bool] = lambda: True,
) -> None:
    """Send these messages over a WebSocket, the last one twice, and wait for the answer to each.

    The page's script may not be over with an answer: the socket stays open until `obeyed`.
    """
    address = url.replace("http", "ws", 1) + "/_stcore/stream"
    asked = [Subprotocol(each) for each in protocols]
    with connect(address, subprotocols=asked, origin=None, max_size=None) as opened:
        for message in (*sent, sent[-1]):
            opened.send(message)
            read_until(opened, mark)
        until(obeyed, "the messages are obeyed")


def test_the_messages_of_a_triager_note_nothing_for_a_viewer(
    behind_a_proxy: LoginSite, messages: tuple[list[bytes], list[str]]
) -> None:
    sent, protocols = messages
    before = behind_a_proxy.noted()
    assert before == [(ADA, "seen by a triager")]
    with proxied(behind_a_proxy.port, BOB) as url:
        # With a session of the viewer's own, and as one that goes on with the triager's.
        for asked in (["streamlit"], protocols):
            replay(url, sent, asked, REFUSED)
            assert behind_a_proxy.noted() == before
    with proxied(behind_a_proxy.port, ADA) as url:
        # The same messages are right: of the triager they are obeyed.
        replay(url, sent, ["streamlit"], ALLOWED, lambda: len(behind_a_proxy.noted()) > len(before))
    assert len(behind_a_proxy.noted()) > len(before)


def test_no_request_of_a_viewer_notes_anything(
    behind_a_proxy: LoginSite, record_property: Callable[[str, object], None]
) -> None:
    before = behind_a_proxy.noted()
    tried, answers = 0, set[int]()
    paths = ("/", DEEP, "/regressions", "/api/v1/findings/1/triage", "/api/v1/findings/1", "/_stcore/stream")
    with proxied(behind_a_proxy.port, BOB) as url:
        for path in paths:
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                for name, value in (
                    ("Accept", "*/*"),
                    ("X-HTTP-Method-Override", "POST"),
                    ("Authorization", "Bearer "),
                    ("X-Pyrometer-Reader", '{"name": "ada@example.com", "may_triage": true, "until": null}'),
                ):
                    answers.add(request(url, method, path, {name: value}))
                    tried += 1
        for body in (b"x" * (1 << 20), b'{"by": "\x00", "action": "note", "text": "x"}', b"[" * 60_000):
            answers.add(request(url, "POST", paths[3], {"Content-Type": "application/json"}, body))
            tried += 1
    assert answers <= {400, 401, 403, 405, 413, 422}, answers
    assert behind_a_proxy.noted() == before
    record_property("requests refused", tried)


def test_malformed_requests_get_an_answer_or_none_and_the_server_stays(
    behind_a_proxy: LoginSite, record_property: Callable[[str, object], None]
) -> None:
    host = f"Host: localhost:{behind_a_proxy.port}\r\n"
    path = "/api/v1/findings/1/triage"
    smuggled = f"POST {path} HTTP/1.1\r\n{host}Authorization: Bearer a token of a program\r\n\r\n"
    malformed = {
        "length and pieces": f"POST {path} HTTP/1.1\r\n{host}Content-Length: 5\r\n"
        f"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}",
        "two lengths": f"POST {path} HTTP/1.1\r\n{host}Content-Length: 0\r\n"
        f"Content-Length: 9\r\n\r\n{smuggled}",
        "a folded header": f"GET / HTTP/1.1\r\n{host}X-Forwarded-Email:\r\n {ADA}\r\n\r\n",
        "a space before the colon": f"GET / HTTP/1.1\r\n{host}X-Forwarded-Email : {ADA}\r\n\r\n",
        "NUL in a header": f"GET / HTTP/1.1\r\n{host}X-Forwarded-Email: {ADA}\0\r\n\r\n",
        "NUL in the path": f"GET /\0 HTTP/1.1\r\n{host}\r\n",
        "2 MB of header": f"GET / HTTP/1.1\r\n{host}X-Much: {'x' * (2 << 20)}\r\n\r\n",
        "a path of 1 MB": f"GET /{'x' * (1 << 20)} HTTP/1.1\r\n{host}\r\n",
        "two hosts": f"GET / HTTP/1.1\r\n{host}Host: evil.example\r\n\r\n",
        "no host": "GET / HTTP/1.1\r\n\r\n",
        "an absolute address": f"GET http://evil.example/ HTTP/1.1\r\n{host}\r\n",
        "no HTTP": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 50,
    }
    before, answers = behind_a_proxy.noted(), dict[str, bytes]()
    for name, text in malformed.items():
        answers[name] = answer_to(behind_a_proxy.port, text.encode("latin-1"))
        # No reader is let in: this is not the proxy's address.
        assert b" 200 " not in answers[name][:20] and b"may look" not in answers[name], name
    assert behind_a_proxy.noted() == before and behind_a_proxy.process.poll() is None
    with proxied(behind_a_proxy.port, BOB) as url:
        assert request(url, "GET", "/readyz", {}) == 200
    record_property("requests refused", len(answers))


def answer_to(port: int, sent: bytes) -> bytes:
    """What comes back on a connection on which these bytes are sent; empty where it is only closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        found = b""
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                found += piece
        except OSError:
            # Closed while more was being sent, or kept open and silent.
            pass
        return found


def test_a_viewers_socket_takes_no_nonsense_for_an_order(behind_a_proxy: LoginSite) -> None:
    before = behind_a_proxy.noted()
    with proxied(behind_a_proxy.port, BOB) as url:
        address = url.replace("http", "ws", 1) + "/_stcore/stream"
        for message in (b"", b"\x00" * 1000, b"\xff" * (1 << 20), b"\x0a" * 4096, b"triage"):
            with connect(address, origin=None, max_size=None) as opened:
                opened.send(message)
        for path in ("/_stcore/stream/../stream", "/regressions/_stcore/stream", "/api/v1/findings/1/triage"):
            with pytest.raises(InvalidStatus), connect(url.replace("http", "ws", 1) + path, origin=None):
                pass
        assert request(url, "GET", "/readyz", {}) == 200
    assert behind_a_proxy.noted() == before


def request(
    url: str, method: str, path: str, headers: dict[str, str], body: bytes = b'{"action": "note"}'
) -> int:
    """The status of the answer to one request with a body."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE_SECONDS)
    try:
        connection.request(method, path, body, headers)
        return connection.getresponse().status
    except (BrokenPipeError, ConnectionResetError):
        # Refused before all of the body was sent.
        return 413
    finally:
        connection.close()
