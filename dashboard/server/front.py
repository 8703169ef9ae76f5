"""The file that browsers open first: Streamlit's own, which also says where the server is and what is needed.

Without it a page below any path asks for the server there first, is told 404, and asks again at the root;
then it asks for settings, and opens its WebSocket after that. What a page is made of, a chart above all, is
only loaded when the first message with such a part has come, and what it is set in after that. Whoever was
here before has his page asked for while the program is still loaded (`early.js`).
"""

import re
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from urllib.parse import quote

import streamlit
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard.components.query_params import Query, bounded
from dashboard.navigation import EVERYWHERE, PAGES, Page
from dashboard.server import ahead

_STATIC = Path(streamlit.__file__).parent / "static"
_JS = _STATIC / "static" / "js"
#: Streamlit's program reads this before it asks for anything; its own hosting tells it the same way. No other
#: site may talk to a page.
_SERVER = """<script>
      window.__streamlit = {
        BACKEND_BASE_URL: new URL("./", location.href).href,
        HOST_CONFIG: { allowedOrigins: [location.origin], useExternalAuthToken: false },
      }
    </script>"""
_EARLY = Path(__file__).parent / "early.js"
_OWN = Path(__file__).parents[1] / "static"
#: Text that is set in another font first is laid out twice.
_FONTS = "\n    ".join(
    f'<link rel="preload" as="font" type="font/woff2" crossorigin href="./app/static/{file.name}">'
    for file in sorted(_OWN.glob("*.woff2"))
)
#: Streamlit's own font, which no page of ours is set in.
_FONT = re.compile(r'<link\s+rel="preload"[^>]*SourceSans[^>]*>\s*')
_PROGRAM = re.compile(r'<script type="module"')
#: What comes after all that the program itself is made of, which is wanted first.
_STYLES = '<link rel="stylesheet"'
_IMPORTS = re.compile(r'(?:from|import)"\./([\w.-]+\.js)"')


class Upwards:
    """Leads an address of several levels that is no page's to its first level, where Streamlit says so.

    Its own file comes for every address that it does not know, and stays blank on a deeper level. What is
    found under such an address stays as it is: a report in HTML that a page gives, for one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        levels = [level for level in scope.get("path", "").split("/") if level]
        if scope["type"] != "http" or len(levels) < 2:
            await self._app(scope, receive, send)
            return
        led = False

        async def or_upwards(message: Message) -> None:
            nonlocal led
            if message["type"] == "http.response.start":
                kind = dict(message.get("headers", ())).get(b"content-type", b"")
                # The router has written into `scope` who answers; its own file comes from its folder alone.
                own = isinstance(scope.get("endpoint"), StaticFiles)
                led = own and message["status"] == 200 and kind.startswith(b"text/html")
                if led:
                    await RedirectResponse(f"/{quote(levels[0], safe='')}", 307)(scope, receive, send)
            if not led:
                await send(message)

        await self._app(scope, receive, or_upwards)


def routes() -> list[Route]:
    """A route for each page of the navigation and what is below it; every other address stays Streamlit's."""
    pages = [Route(f"/{page.path}", _answer(page), methods=["GET"]) for page in PAGES]
    # Streamlit's own file looks for its program beside itself: below a page, it stays blank.
    below = [Route(f"/{page.path}/{{rest:path}}", _up(page), methods=["GET"]) for page in PAGES if page.path]
    return [*pages, *below]


def text(page: Page) -> str:
    """The file for one page, as HTML."""
    front = _FONT.sub("", (_STATIC / "index.html").read_text())
    more = [
        f'<link rel="modulepreload" crossorigin href="./static/js/{name}">'
        for name in _files((*EVERYWHERE, *page.needs))
        if name not in front
    ]
    front = front.replace(_STYLES, "\n    ".join([_FONTS, *more, _STYLES]), 1)
    early = f"<script>\n{_EARLY.read_text()}    </script>"
    first = "\n    ".join([_SERVER, early, '<script type="module"'])
    return _PROGRAM.sub(lambda _: first, front, count=1)


def _answer(page: Page) -> Callable[[Request], Awaitable[Response]]:
    told = text(page)

    async def answer(request: Request) -> Response:
        if page.ahead:
            ahead.ask(page.ahead, _query(request))
        return HTMLResponse(told, headers={"cache-control": "no-cache"})

    return answer


def _query(request: Request) -> Query:
    asked = request.query_params
    return bounded({name: asked.getlist(name) for name in asked})


def _up(page: Page) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        query = request.url.query
        return RedirectResponse(f"/{page.path}" + (f"?{query}" if query else ""), 307)

    return answer


@cache
def _files(parts: tuple[str, ...]) -> tuple[str, ...]:
    """The files of some parts of Streamlit's program with all that they import, each once.

    Parts that this Streamlit does not have are left out: they only come later.
    """
    wanted = [file.name for part in parts for file in sorted(_JS.glob(f"{part}.*.js"))]
    found: dict[str, None] = {}
    while wanted:
        name = wanted.pop(0)
        if name not in found:
            found[name] = None
            wanted += _imported(name)
    return tuple(found)


@cache
def _imported(name: str) -> tuple[str, ...]:
    file = _JS / name
    return tuple(_IMPORTS.findall(file.read_text())) if file.is_file() else ()
