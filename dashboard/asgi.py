"""The dashboard as an ASGI application: Streamlit's pages, routes for machines, headers, the origin rule."""

import json
from pathlib import Path
from urllib.parse import urlsplit

import streamlit as st
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard import database, metrics
from dashboard.settings import Settings
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
)


class SecurityHeaders:
    """Adds the headers that keep other sites out of the page and the page away from other sites."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        await self._app(scope, receive, with_headers)


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
            if origin is not None and urlsplit(origin).netloc != headers.get(b"host"):
                await send({"type": "websocket.close", "code": 1008})
                return
        await self._app(scope, receive, send)


def ready(_request: Request) -> Response:
    """200 when the database answers, 503 with one sentence when it does not."""
    try:
        database.check(Settings.from_environment().database_url)
    except DatabaseError as error:
        return _json(503, {"status": "unavailable", "reason": str(error)})
    return _json(200, {"status": "ready"})


def metrics_text(_request: Request) -> Response:
    """The metrics for Prometheus; 503 with one sentence when the database does not answer."""
    headers = {"cache-control": "no-store"}
    try:
        text = metrics.exposition(database.opened(Settings.from_environment().database_url))
    except DatabaseError as error:
        return Response(f"{error}\n", 503, headers=headers, media_type="text/plain")
    return Response(text, headers=headers | {"content-type": metrics.CONTENT_TYPE})


def _json(status: int, body: dict[str, str]) -> Response:
    headers = {"cache-control": "no-store"}
    return Response(json.dumps(body), status, headers=headers, media_type="application/json")


app = st.App(
    Path(__file__).parent / "app.py",
    routes=[
        Route("/readyz", ready, methods=["GET"]),
        Route("/metrics", metrics_text, methods=["GET"]),
    ],
    middleware=[Middleware(SecurityHeaders), Middleware(SameOrigin)],
)
