"""The door: every request and every WebSocket passes it, and behind it everybody has been judged."""

import hmac
import json
import time
from typing import Any

from starlette.datastructures import QueryParams
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.user_info import generate_login_redirect_url

from dashboard.auth import cookies, login_page
from dashboard.auth.identity import (
    Person,
    Reader,
    Refusal,
    judged,
    sent_by_a_proxy,
    told_by_a_provider,
    told_by_a_proxy,
)
from dashboard.auth.policy import Rules

#: The header in which a script is told who reads; nobody outside can send it. Streamlit keeps it for as long
#: as a session lives, and gives a session back to nobody who comes with another.
STAMP = "X-Pyrometer-Reader"
_STAMP = STAMP.lower().encode()
#: Where a scope says whether its sender may look.
MAY_LOOK = "pyrometer.may_look"

_READY, _METRICS, _LOGIN = "/readyz", "/metrics", "/login"
#: Streamlit's own routes, over which a login goes.
_TO_THE_PROVIDER = "/auth/login"
_OF_A_LOGIN = frozenset((_TO_THE_PROVIDER, "/auth/logout", "/oauth2callback"))
#: What a page that has been open all night asks before it opens its WebSocket again.
_COMING_BACK = frozenset(("/_stcore/health", "/_stcore/host-config"))
_KEPT_NOWHERE = {"cache-control": "no-store"}


class Gate:
    """Lets through whoever may look, and answers everybody else itself."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers: cookies.Headers = [each for each in scope["headers"] if each[0] != _STAMP]
        seen = seen_by(scope, headers, self._rules)
        now = isinstance(seen, Reader) and not seen.ended(time.time())
        if isinstance(seen, Reader) and now and seen.name:
            headers = [*headers, (_STAMP, _stamp(seen))]
        scope = {**scope, "headers": headers, MAY_LOOK: now}
        answer = self._answer(scope, seen)
        if answer is None and self._rules.login == "oidc" and scope["path"] == _TO_THE_PROVIDER:
            await self._to_the_provider(scope, receive, send)
        elif answer is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await answer(scope, receive, send)

    def _answer(self, scope: Scope, seen: Reader | Refusal | None) -> Response | None:
        """What is answered here; None for what may pass."""
        rules, socket = self._rules, scope["type"] == "websocket"
        path, provider = "" if socket else scope["path"], rules.login == "oidc"
        if path == _READY or (provider and path in _OF_A_LOGIN):
            return None
        if provider and path == _LOGIN:
            return self._beginning(scope)
        if path == _METRICS and rules.metrics != "viewers":
            return None if _may_read_metrics(scope, rules) else login_page.unauthorised()
        if isinstance(seen, Refusal):
            logout = rules.logout if seen.another_account else ""
            return login_page.refuse(seen.why, logout, page=_wants_a_page(scope))
        if not scope[MAY_LOOK]:
            # Where a login has ended, the page says so behind the door, and nothing else.
            coming_back = seen is not None and (socket or path in _COMING_BACK)
            return None if coming_back else login_page.log_in(_address(scope), page=_wants_a_page(scope))
        return self._going_on(scope) if provider and path == "/" else None

    def _beginning(self, scope: Scope) -> Response:
        """To the provider, as `st.login` goes there; where somebody wanted to go is remembered."""
        answer = RedirectResponse(generate_login_redirect_url("default"), 302, _KEPT_NOWHERE)
        wanted = QueryParams(scope["query_string"]).get("to")
        if wanted is not None:
            cookies.remember(answer, cookies.own_address(wanted), encrypted=self._rules.encrypted)
        return answer

    async def _to_the_provider(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Streamlit's way there; where the provider does not answer, a page and not Streamlit's two words."""
        kept: list[Message] = []

        async def keep(message: Message) -> None:
            kept.append(message)

        await self._app(scope, receive, keep)
        if kept[0]["status"] >= 400:
            await login_page.unanswered(self._rules.ask, page=_wants_a_page(scope))(scope, receive, send)
            return
        for message in kept:
            await send(message)

    def _going_on(self, scope: Scope) -> Response | None:
        """After a login: to where somebody wanted to go before it."""
        wanted = cookies.wanted(cookies.sent(scope["headers"]))
        if wanted is None:
            return None
        answer = RedirectResponse(wanted, 303, _KEPT_NOWHERE)
        answer.delete_cookie(cookies.WANTED, httponly=True, samesite="lax", secure=self._rules.encrypted)
        return answer


def seen_by(scope: Scope, headers: cookies.Headers, rules: Rules) -> Reader | Refusal | None:
    """Who sends this, and may they look, or might until a login ended; None for whom nobody vouched."""
    if rules.login == "none":
        return Reader()
    if rules.login == "proxy":
        peer: tuple[str, int] | None = scope.get("client")
        if not sent_by_a_proxy(peer[0] if peer else None, rules):
            return Refusal("This dashboard is opened through its proxy, and this is another way to it.")
        person = told_by_a_proxy(headers, rules)
    else:
        person = told_by_a_provider(cookies.claims(cookies.sent(headers)), rules)
    return judged(person, rules) if isinstance(person, Person) else person


def _stamp(reader: Reader) -> bytes:
    told: dict[str, Any] = {"name": reader.name, "may_triage": reader.may_triage, "until": reader.until}
    # ASCII, for a header has no other signs.
    return json.dumps(told).encode("ascii")


def _may_read_metrics(scope: Scope, rules: Rules) -> bool:
    if rules.metrics == "open":
        return True
    given = dict(scope["headers"]).get(b"authorization", b"")
    return hmac.compare_digest(given, f"Bearer {rules.metrics_token}".encode())


def _wants_a_page(scope: Scope) -> bool:
    return b"text/html" in dict(scope["headers"]).get(b"accept", b"")


def _address(scope: Scope) -> str:
    path = scope.get("raw_path") or scope["path"].encode()
    query = scope.get("query_string", b"")
    return cookies.own_address((path + (b"?" + query if query else b"")).decode("latin-1"))
