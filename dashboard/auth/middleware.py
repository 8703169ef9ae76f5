"""The middleware of the login: every request and every WebSocket is checked here."""

import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboard.auth import cookies, login_page
from dashboard.auth.identity import (
    STAMP,
    Person,
    Reader,
    Refusal,
    authorise_person,
    person_of_provider,
    person_of_proxy,
    sent_by_a_proxy,
)
from dashboard.auth.policy import AccessRules, Role
from dashboard.auth.provider import CALLBACK, LOGIN, LOGOUT, Provider

_STAMP = STAMP.lower().encode()
#: Where a scope says whether its sender may look.
MAY_LOOK = "pyrometer.may_look"
#: And which roles the token of a program gives it: what a browser sends by itself has none.
ROLES = "pyrometer.roles"

_READY, _METRICS, _API = "/readyz", "/metrics", "/api/v1/"
_OF_METRICS = "/metrics needs the token that [dashboard] of the server's pyrometer.toml sets."
_OF_THE_API = "The server does not know this token: [dashboard] of its pyrometer.toml sets those of /api/v1."
_NO_TOKEN = "A program brings `Authorization: Bearer` with a token that [dashboard] of pyrometer.toml sets."
_OF_A_LOGIN = frozenset((LOGIN, LOGOUT, CALLBACK))
#: What a page that has been open all night asks before it opens its WebSocket again.
_COMING_BACK = frozenset(("/_stcore/health", "/_stcore/host-config"))


class AccessGate:
    """Passes the requests of readers with access, and answers all others itself."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app = app
        self._rules = rules
        self._provider = Provider(rules) if rules.login == "oidc" else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers: cookies.Headers = [each for each in scope["headers"] if each[0] != _STAMP]
        claims = self._provider.claims(headers) if self._provider else {}
        roles = _roles(scope, self._rules)
        program = Reader(may_triage="triage" in roles) if roles else None
        reader = program or seen_by(scope, headers, self._rules, claims)
        now = isinstance(reader, Reader) and not reader.ended(time.time())
        if isinstance(reader, Reader) and now and reader.name:
            headers = [*headers, (_STAMP, _stamp(reader))]
        scope = {**scope, "headers": headers, MAY_LOOK: now, ROLES: roles}
        answer = await self._answer(scope, receive, reader)
        if answer is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await answer(scope, receive, send)

    async def _answer(
        self, scope: Scope, receive: Receive, reader: Reader | Refusal | None
    ) -> Response | None:
        """What is answered here; None for what may pass."""
        rules, socket = self._rules, scope["type"] == "websocket"
        path, page = "" if socket else scope["path"], _wants_a_page(scope)
        if path == _READY:
            return None
        if self._provider and path in _OF_A_LOGIN:
            return await self._provider.answer(scope, receive, page=page)
        if path == _METRICS and rules.metrics != "viewers":
            return None if _may_read_metrics(scope, rules) else login_page.token_refusal(_OF_METRICS)
        if path.startswith(_API) and not scope[MAY_LOOK] and _is_program(scope, reader, page=page):
            why = f"{reader.why} " if isinstance(reader, Refusal) else ""
            return login_page.token_refusal(_OF_THE_API if _token(scope) else f"{why}{_NO_TOKEN}")
        if isinstance(reader, Refusal):
            logout = rules.logout if reader.another_account else ""
            return login_page.refuse(reader.why, logout, page=page)
        if not scope[MAY_LOOK]:
            # Where a login has ended, the page says so behind the door, and nothing else.
            coming_back = reader is not None and (socket or path in _COMING_BACK)
            return None if coming_back else login_page.log_in(_address(scope), page=page)
        return self._return_to_page(scope) if self._provider and path == "/" else None

    def _return_to_page(self, scope: Scope) -> Response | None:
        """After a login: to the page that was requested before it."""
        address = cookies.target_page(cookies.request_cookies(scope["headers"]))
        if address is None:
            return None
        answer = RedirectResponse(address, 303, cookies.KEPT_NOWHERE)
        answer.delete_cookie(cookies.WANTED, httponly=True, samesite="lax", secure=self._rules.encrypted)
        return answer


def _is_program(scope: Scope, reader: Reader | Refusal | None, *, page: bool) -> bool:
    """Whether a token may help: neither a browser nor a proven identity sends this, or it brings a token."""
    proven = isinstance(reader, Refusal) and reader.another_account
    return bool(_token(scope)) or not (page or proven)


def seen_by(
    scope: Scope, headers: cookies.Headers, rules: AccessRules, claims: Mapping[str, Any]
) -> Reader | Refusal | None:
    """Who sends this, and may they look, or might until a login ended; None without a proven identity.

    `claims` are those of a login at a provider.
    """
    if rules.login == "none":
        return Reader()
    if rules.login == "proxy":
        peer: tuple[str, int] | None = scope.get("client")
        if not sent_by_a_proxy(peer[0] if peer else None, rules):
            return Refusal("This dashboard is opened through its proxy, and this is another way to it.")
        person = person_of_proxy(headers, rules)
    else:
        person = person_of_provider(claims, rules)
    return authorise_person(person, rules) if isinstance(person, Person) else person


def _stamp(reader: Reader) -> bytes:
    claims: dict[str, Any] = {"name": reader.name, "may_triage": reader.may_triage, "until": reader.until}
    # ASCII, for a header has no other signs.
    return json.dumps(claims).encode("ascii")


def _may_read_metrics(scope: Scope, rules: AccessRules) -> bool:
    return rules.metrics == "open" or _brings(scope, rules.metrics_token)


def _roles(scope: Scope, rules: AccessRules) -> frozenset[Role]:
    """What a token of the API lets a program do; nothing without one. Two roles may have the same token."""
    if scope["type"] != "http" or not scope["path"].startswith(_API):
        return frozenset()
    return frozenset(role for role, token in rules.tokens.items() if _brings(scope, token))


def _brings(scope: Scope, token: str) -> bool:
    return bool(token) and hmac.compare_digest(_token(scope), token.encode())


def _token(scope: Scope) -> bytes:
    """What the request brings as `Authorization: Bearer`; empty without that."""
    scheme, _, token = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
    # HTTP compares the names of schemes without regard to case.
    return token.strip() if scheme.lower() == b"bearer" else b""


def _wants_a_page(scope: Scope) -> bool:
    return b"text/html" in dict(scope["headers"]).get(b"accept", b"")


def _address(scope: Scope) -> str:
    path = scope.get("raw_path") or scope["path"].encode()
    query = scope.get("query_string", b"")
    return cookies.own_address((path + (b"?" + query if query else b"")).decode("latin-1"))
