"""The dashboard as an ASGI application: Streamlit's pages, routes for machines, and who may reach them."""

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

#: Streamlit styles its elements inline, and Vega compiles its expressions: hence the two `unsafe-`.
#: Everything comes from this server; nothing may frame it.
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
#: Browsers come back by https only, for a year.
_BY_HTTPS = (b"strict-transport-security", b"max-age=31536000")
#: What programs ask, under whatever name they know this machine.
_FOR_MACHINES = frozenset(("/readyz", "/metrics"))
_READING = frozenset(("GET", "HEAD", "OPTIONS"))
#: What a program may POST, with a token, and of how many bytes: it is read whole.
_POSTED = (
    (re.compile(rf"{PREFIX}/(findings/[0-9]+/triage|schedules/[^/]+/trigger)"), 64 << 10),
    (re.compile(rf"{PREFIX}/submit"), MAX_RESULTS),
)


class SecurityHeaders:
    """Adds the headers that keep other sites out of the page and the page away from other sites.

    Where browsers come by https (`encrypted`), cookies and later visits travel by nothing else.
    """

    def __init__(self, app: ASGIApp, *, encrypted: bool = False) -> None:
        self._app = app
        self._encrypted = encrypted
        self._headers = (*_HEADERS, _BY_HTTPS) if encrypted else _HEADERS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = [self._secure_cookie(name, value) for name, value in message.get("headers", ())]
                message["headers"] = [*sent, *self._headers]
            await send(message)

        if self._encrypted:
            # The proxy in front ends TLS: an address made from this scope is what browsers call.
            secure = {"http": "https", "websocket": "wss"}.get(scope["type"])
            scope = {**scope, "scheme": secure} if secure else scope
        await self._app(scope, receive, with_headers)

    def _secure_cookie(self, name: bytes, value: bytes) -> tuple[bytes, bytes]:
        open_cookie = name.lower() == b"set-cookie" and b"; secure" not in value.lower()
        return name, value + b"; Secure" if self._encrypted and open_cookie else value


class OwnNames:
    """Refuses requests under a name that is not this server's, and what would write but a program's POST.

    A page elsewhere could give this server a name of its own (DNS rebinding) and read it as its own.
    """

    def __init__(self, app: ASGIApp, names: Sequence[str] = ()) -> None:
        """`names`: host names of this server, `*.example.com` for all below one; without any, all are."""
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
        """The answer to a request that goes no further."""
        most = _most_posted(scope["path"]) if scope["method"] == "POST" else None
        if scope["method"] not in _READING and most is None:
            # What people write goes over a page's WebSocket, which knows its reader and its origin.
            return PlainTextResponse("Nothing is written this way.\n", 405, {"allow": "GET, HEAD"})
        if most is not None and not _is_short(dict(scope["headers"]), most):
            return PlainTextResponse(f"Send a Content-Length of at most {most >> 10} KiB.\n", 413)
        if scope["path"] in _FOR_MACHINES or self._is_own(scope):
            return None
        return PlainTextResponse("This dashboard has another name; --allow-host gives it one more.\n", 421)

    def _is_own(self, scope: Scope) -> bool:
        host = host_name(dict(scope["headers"]).get(b"host", b"").decode("latin-1"))
        return not self._names or any(
            name == "*" or name == host or (name.startswith("*.") and host.endswith(name[1:]))
            for name in self._names
            if host
        )


def _most_posted(path: str) -> int | None:
    """How many bytes may be posted to a path; None where nothing is."""
    return next((most for pattern, most in _POSTED if pattern.fullmatch(path)), None)


def _is_short(headers: Mapping[bytes, bytes], most: int) -> bool:
    """Whether a request says that it is not long: it is read before its sender is judged.

    One with neither header has no body (RFC 9112, 6.3).
    """
    length = headers.get(b"content-length", b"0")
    whole = length.isdigit() and len(length) < 10 and b"transfer-encoding" not in headers
    return whole and int(length) <= most


def host_name(host: str) -> str:
    """The name in a Host header, without its port; empty for what is none."""
    try:
        parts = urlsplit(f"//{host}")
        # Asked for its port, it raises ValueError where that is no number.
        whole = parts.netloc == host and "@" not in host and (parts.port is None or parts.port >= 0)
    except ValueError:
        return ""
    return (parts.hostname or "").rstrip(".") if whole else ""


class SameOrigin:
    """Refuses WebSockets that another site's page opens.

    Streamlit refuses them too, but asks a server outside for this machine's public address first.
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
    """Whether an origin is another site than the one that was called, or none at all, as `http://[` is."""
    try:
        return urlsplit(origin).netloc != host
    except ValueError:
        return True


def ready(request: Request) -> Response:
    """200 when the database answers, 503 when it does not; the reason is for readers with access."""
    try:
        database.check(ServerSettings.from_environment().database_url)
    except DatabaseError as error:
        why = {"reason": str(error)} if request.scope.get(MAY_LOOK) else {}
        return _json(503, {"status": "unavailable", **why})
    return _json(200, {"status": "ready"})


def metrics_text(request: Request) -> Response:
    """The metrics for Prometheus; 503 when the database does not answer; why, as with `ready`."""
    headers = {"cache-control": "no-store"}
    try:
        settings = ServerSettings.from_environment()
        opened = database.database_at(settings.database_url)
        text = metrics.exposition(opened, datetime.now(UTC), settings.metrics_cases)
    except DatabaseError as error:
        why = str(error) if request.scope.get(MAY_LOOK) else "The database does not answer."
        return Response(f"{why}\n", 503, headers=headers, media_type="text/plain")
    return Response(text, headers=headers | {"content-type": metrics.CONTENT_TYPE})


def redirect_page(request: Request) -> Response:
    """The way from the address of a page that was to where it is now, with all its parameters."""
    path, view = old_addresses()[request.url.path.strip("/")]
    query = [*([(VIEW, view)] if view else []), *request.query_params.multi_items()]
    return RedirectResponse(f"/{path}" + (f"?{urlencode(query)}" if query else ""))


def _json(status: int, body: dict[str, str]) -> Response:
    headers = {"cache-control": "no-store"}
    return Response(json.dumps(body), status, headers=headers, media_type="application/json")


def application(rules: AccessRules, names: Sequence[str] = (), trigger: Trigger | None = None) -> st.App:
    """The application under `rules`, by these `names`; one in a process: Streamlit has no room for two.

    `trigger` enqueues a schedule for programs that may.
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
