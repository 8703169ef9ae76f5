"""The dashboard as an ASGI application: Streamlit's pages, routes for programs, and access checks."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import streamlit as st
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard.api.api import PREFIX, create_api
from dashboard.api.posts import MAX_RESULTS, Trigger
from dashboard.auth.middleware import MAY_LOOK, AccessGate
from dashboard.auth.policy import AccessRules
from dashboard.navigation import VIEW, old_addresses
from dashboard.server import database, metrics
from dashboard.server.settings import ServerSettings
from db.errors import DatabaseError

#: Streamlit styles its elements inline, and Vega compiles its expressions: hence the two `unsafe-`. All
#: content comes from this server, and no page may frame it.
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self' data: blob:; worker-src 'self' blob:; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
#: Browsers use only https for a year.
_BY_HTTPS = (b"strict-transport-security", b"max-age=31536000")
#: Paths of programs, which may use any host name.
_FOR_MACHINES = frozenset(("/readyz", "/metrics"))
_READING = frozenset(("GET", "HEAD", "OPTIONS"))
#: Paths to which programs may POST with a token, and the most bytes, because bodies are read as a whole.
_POSTED = (
    (re.compile(rf"{PREFIX}/(findings/[0-9]+/triage|schedules/[^/]+/trigger)"), 64 << 10),
    (re.compile(rf"{PREFIX}/submit"), MAX_RESULTS),
)


class SecurityHeaders:
    """Adds the headers that isolate the page from other sites.

    If browsers connect by https (`encrypted`), cookies and later requests are restricted to https.
    """

    def __init__(self, app: ASGIApp, *, encrypted: bool = False) -> None:
        self._app = app
        self._encrypted = encrypted
        self._headers = (*_HEADERS, _BY_HTTPS) if encrypted else _HEADERS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [self._secure_cookie(name, value) for name, value in message.get("headers", ())]
                message["headers"] = [*headers, *self._headers]
            await send(message)

        if self._encrypted:
            # The proxy in front terminates TLS: addresses made from this scope must be those of browsers.
            secure = {"http": "https", "websocket": "wss"}.get(scope["type"])
            scope = {**scope, "scheme": secure} if secure else scope
        await self._app(scope, receive, with_headers)

    def _secure_cookie(self, name: bytes, value: bytes) -> tuple[bytes, bytes]:
        open_cookie = name.lower() == b"set-cookie" and b"; secure" not in value.lower()
        return name, value + b"; Secure" if self._encrypted and open_cookie else value


class OwnNames:
    """Refuses requests for another host name, and writes other than the POST requests of programs.

    With DNS rebinding another site could access this server under its own name.
    """

    def __init__(self, app: ASGIApp, names: Sequence[str] = ()) -> None:
        """`names`: host names of this server, `*.example.com` for all below one; without any, all names are
        allowed.
        """
        self._app = app
        self._names = [name.strip().lower().rstrip(".") for name in names]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (answer := self._refusal(scope)) is not None:
            await answer(scope, receive, send)
        elif scope["type"] == "websocket" and not self._is_own(scope):
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a refused request."""
        most = _most_posted(scope["path"]) if scope["method"] == "POST" else None
        if scope["method"] not in _READING and most is None:
            # Writes of people use the WebSocket of a page, for which reader and origin were checked.
            return PlainTextResponse("This address does not accept writes.\n", 405, {"allow": "GET, HEAD"})
        if most is not None and not _is_short(dict(scope["headers"]), most):
            return PlainTextResponse(f"Send a Content-Length of at most {most >> 10} KiB.\n", 413)
        if scope["path"] in _FOR_MACHINES or self._is_own(scope):
            return None
        return PlainTextResponse("This dashboard has another name; add this one with --allow-host.\n", 421)

    def _is_own(self, scope: Scope) -> bool:
        host = host_name(dict(scope["headers"]).get(b"host", b"").decode("latin-1"))
        return not self._names or any(
            name == "*" or name == host or (name.startswith("*.") and host.endswith(name[1:]))
            for name in self._names
            if host
        )


def _most_posted(path: str) -> int | None:
    """The most bytes that may be posted to a path; None if it accepts no POST."""
    return next((most for pattern, most in _POSTED if pattern.fullmatch(path)), None)


def _is_short(headers: Mapping[bytes, bytes], most: int) -> bool:
    """Whether the declared length of a request is allowed: the body is read before its sender is checked.

    A request with neither header has no body (RFC 9112, 6.3).
    """
    length = headers.get(b"content-length", b"0")
    whole = length.isdigit() and len(length) < 10 and b"transfer-encoding" not in headers
    return whole and int(length) <= most


def host_name(host: str) -> str:
    """The name in a Host header, without its port; empty for an invalid header."""
    try:
        parts = urlsplit(f"//{host}")
        # Reading `port` raises ValueError if it is not a number.
        whole = parts.netloc == host and "@" not in host and (parts.port is None or parts.port >= 0)
    except ValueError:
        return ""
    return (parts.hostname or "").rstrip(".") if whole else ""


class SameOrigin:
    """Refuses WebSockets opened by a page of another site.

    Streamlit refuses them too, but first requests the public address of this machine from an external server.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            headers = dict(scope["headers"])
            origin = headers.get(b"origin")
            if origin is not None and _is_foreign(origin, headers.get(b"host")):
                await send({"type": "websocket.close", "code": 1008})
                return
        await self._app(scope, receive, send)


def _is_foreign(origin: bytes, host: bytes | None) -> bool:
    """Whether an origin is another site than the requested one, or invalid, such as `http://[`."""
    try:
        return urlsplit(origin).netloc != host
    except ValueError:
        return True


def ready(request: Request) -> Response:
    """200 if the database answers, else 503, with the reason for readers with access."""
    try:
        database.check(ServerSettings.from_environment().database_url)
    except DatabaseError as error:
        why = {"reason": str(error)} if request.scope.get(MAY_LOOK) else {}
        return _json(503, {"status": "unavailable", **why})
    return _json(200, {"status": "ready"})


def metrics_text(request: Request) -> Response:
    """The metrics for Prometheus; 503 if the database does not answer, with the reason as in `ready`."""
    headers = {"cache-control": "no-store"}
    try:
        settings = ServerSettings.from_environment()
        stored = database.database_at(settings.database_url)
        text = metrics.exposition(stored, datetime.now(UTC), settings.metrics_cases)
    except DatabaseError as error:
        why = str(error) if request.scope.get(MAY_LOOK) else "The database does not answer."
        return Response(f"{why}\n", 503, headers=headers, media_type="text/plain")
    return Response(text, headers=headers | {"content-type": metrics.CONTENT_TYPE})


def redirect_page(request: Request) -> Response:
    """The redirect from the path of a former page to its present address, with all parameters."""
    path, view = old_addresses()[request.url.path.strip("/")]
    query = [*([(VIEW, view)] if view else []), *request.query_params.multi_items()]
    return RedirectResponse(f"/{path}" + (f"?{urlencode(query)}" if query else ""))


def _json(status: int, body: dict[str, str]) -> Response:
    headers = {"cache-control": "no-store"}
    return Response(json.dumps(body), status, headers=headers, media_type="application/json")


def application(rules: AccessRules, names: Sequence[str] = (), trigger: Trigger | None = None) -> st.App:
    """The application with these `rules` and host `names`; Streamlit supports only one in a process.

    `trigger` enqueues a schedule for programs with the permission.
    """
    return st.App(
        Path(__file__).parents[1] / "app.py",
        routes=[
            Route("/readyz", ready, methods=["GET"]),
            Route("/metrics", metrics_text, methods=["GET"]),
            Mount(PREFIX, create_api(trigger)),
            *(Route(f"/{path}", redirect_page, methods=["GET"]) for path in old_addresses()),
        ],
        middleware=[
            Middleware(SecurityHeaders, encrypted=rules.encrypted),
            Middleware(OwnNames, names),
            Middleware(SameOrigin),
            Middleware(AccessGate, rules),
        ],
    )
