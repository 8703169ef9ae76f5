"""A page is asked for while the browser still loads Streamlit's program, and never twice."""

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from browsing import settle
from builders import RESNET
from playwright.sync_api import Browser, BrowserContext, Page, WebSocket, expect
from streamlit.proto.BackMsg_pb2 import BackMsg

from dashboard.components import links

#: How far the document was when each WebSocket was opened: Streamlit's program never runs at `loading`.
_WHEN = """
    window.opened = [];
    window.WebSocket = class extends WebSocket {
        constructor(...words) {
            super(...words);
            window.opened.push(document.readyState);
            window.protocols = words[1];
        }
    };
"""
EARLY, LATE = "loading", "interactive"


@pytest.fixture
def reader(chromium: Browser, served: Any) -> Iterator[BrowserContext]:
    """Somebody east of Greenwich, whose German is Swiss."""
    context = chromium.new_context(timezone_id="Asia/Kolkata", locale="de-CH", base_url=served.url)
    context.add_init_script(_WHEN)
    yield context
    context.close()


def look(
    reader: BrowserContext, address: str, scheme: Literal["light", "dark"] = "light", before: str = ""
) -> tuple[Page, list[BackMsg]]:
    """A page once nothing is to be drawn any more, and what it asked the server."""
    page = reader.new_page()
    page.emulate_media(color_scheme=scheme)
    asked: list[BackMsg] = []

    def listen(socket: WebSocket) -> None:
        socket.on("framesent", lambda frame: asked.append(BackMsg.FromString(frame)))

    page.on("websocket", listen)
    page.add_init_script(before)
    page.goto(address)
    settle(page)
    return page, asked


def opened(page: Page) -> list[str]:
    """When the page's WebSockets were opened."""
    found: list[str] = page.evaluate("window.opened")
    return found


def runs(asked: list[BackMsg]) -> list[BackMsg]:
    """The runs of the page's script that were asked for."""
    return [message for message in asked if message.WhichOneof("type") == "rerun_script"]


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_asked_early_is_what_the_program_asks(reader: BrowserContext, scheme: Any) -> None:
    for address in (
        "/trends",
        "/",
        "/trends?metric=latency&baseline=é%20+%2B%25&axis=date#here",
        links.outcome("run-11", RESNET, "", 1),
    ):
        page, asked = look(reader, address, scheme)
        # Whoever comes for the first time has no cookie yet: he is asked for as ever.
        first = len(reader.pages) == 1
        assert opened(page) == [LATE if first else EARLY]
        assert len(runs(asked)) == 1
        context = runs(asked)[0].rerun_script.context_info
        assert (context.timezone, context.timezone_offset) == ("Asia/Calcutta", -330)
        assert (context.locale, context.color_scheme) == ("de-CH", scheme)


@pytest.mark.browser
def test_colours_that_a_reader_chose_are_asked_for(reader: BrowserContext) -> None:
    look(reader, "/run")
    choose = "localStorage.setItem('stActiveTheme-/run-v2', JSON.stringify({}))".format
    page, asked = look(reader, "/run", "light", choose('"Dark"'))
    assert opened(page) == [EARLY] and len(runs(asked)) == 1
    assert runs(asked)[0].rerun_script.context_info.color_scheme == "dark"
    # Others than these are the program's to tell; the socket is there already.
    page, asked = look(reader, "/run", "light", choose('{"name": "Custom Theme"}'))
    assert opened(page) == [EARLY] and len(runs(asked)) == 1
    expect(page.get_by_text("12 runs").first).to_be_visible()


@pytest.mark.browser
def test_where_the_program_asks_for_something_else_it_has_that(reader: BrowserContext) -> None:
    look(reader, "/run")
    # The address changes once the page was asked for: nothing that was asked early may stand.
    moves = """addEventListener("DOMContentLoaded", () => history.replaceState({}, "", "/run?run=run-3"))"""
    page, asked = look(reader, "/run?run=run-11", "light", moves)
    page.wait_for_function("document.querySelector('[data-testid=stMain]').innerText.includes('run-3')")
    settle(page)
    # On a socket of its own, so that nothing of the first run stands in its session.
    assert opened(page)[0] == EARLY and len(opened(page)) == 2
    assert [each.rerun_script.query_string for each in runs(asked)] == ["run=run-11", "run=run-3"]
    assert "run-11" not in page.get_by_test_id("stMain").inner_text()


@pytest.mark.browser
def test_a_socket_that_is_lost_meanwhile_is_opened_again(reader: BrowserContext) -> None:
    look(reader, "/run")
    lost = """
        const Other = window.WebSocket;
        window.WebSocket = class extends Other {
            constructor(...words) { super(...words); if (window.opened.length === 1) this.close(); }
        };
    """
    page, asked = look(reader, "/run?run=run-11", "light", lost)
    assert opened(page) == [EARLY, LATE] and len(runs(asked)) == 1
    expect(page.get_by_role("heading", name="Measurements")).to_be_visible()


@pytest.mark.browser
def test_other_sockets_of_the_page_are_left_alone(reader: BrowserContext) -> None:
    look(reader, "/run")
    other = """addEventListener("DOMContentLoaded", () => { try { new WebSocket("/other"); } catch {} })"""
    page, asked = look(reader, "/run?run=run-11", "light", other)
    assert opened(page)[0] == EARLY and len(runs(asked)) == 1
    expect(page.get_by_role("heading", name="Measurements")).to_be_visible()


@pytest.mark.browser
def test_who_goes_back_comes_with_the_cookie_of_now(reader: BrowserContext, served: Any) -> None:
    page, _ = look(reader, "/run?run=run-11")
    reader.clear_cookies()
    page.goto("/fleet")
    settle(page)
    (cookie,) = [each for each in reader.cookies(served.url) if each.get("name") == "_streamlit_xsrf"]
    page.go_back()
    settle(page)
    assert opened(page) == [EARLY]
    # The same secret under another mask: what follows the masks is when it was made.
    _, token = page.evaluate("window.protocols")
    assert token.rsplit("|", 1)[1] == str(cookie.get("value")).rsplit("|", 1)[1]
