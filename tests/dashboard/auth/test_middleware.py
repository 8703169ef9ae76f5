"""The middleware, called as a server calls it: what passes, what it answers, and what cannot be forged."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from ipaddress import ip_network
from typing import Any
from urllib.parse import quote

import pytest
from itsdangerous import URLSafeTimedSerializer
from starlette.requests import Request

from dashboard.auth import cookies
from dashboard.auth.identity import STAMP
from dashboard.auth.middleware import MAY_LOOK, ROLES, AccessGate
from dashboard.auth.policy import AccessRules
from dashboard.auth.provider import COOKIE, kept_claims
from dashboard.server import database
from dashboard.server.asgi import OwnNames, SecurityHeaders, metrics_text, ready
from db.errors import DatabaseError
from support.servers.oidc_provider import CLIENT, Provider, provider

OPEN = AccessRules()
PROXY = AccessRules(
    login="proxy",
    triagers=("ada",),
    user_header=b"x-user",
    proxies=(ip_network("10.0.0.5"),),
    metrics="viewers",
)
SECRET = "signs the cookies of these tests"
PROVIDER = AccessRules(
    login="oidc",
    provider={"cookie_secret": SECRET},
    url="https://perf.example.com",
    viewers=("ada@example.com",),
    user_claim="email",
    groups_claim="groups",
    login_seconds=3600.0,
    logout="/auth/logout",
    metrics="viewers",
)
#: Pages, what they download, what Streamlit says of itself, its other way in, and unknown paths.
GUARDED = (
    "/",
    "/explore",
    "/trends",
    "/media/0123.csv",
    "/_stcore/metrics",
    "/_stcore/host-config",
    "/_stcore/health",
    "/_stcore/agent/openapi.json",
    "/app/static/icon.png",
    "/static/js/index.js",
    "/metrics",
    "/api/v1/runs",
    "/api/v1/openapi.json",
    "/readyz/",
    "/anything",
)
STAMPED = STAMP.lower().encode()


@dataclass(frozen=True)
class Seen:
    """What came of a request: `passed` is the scope that the application was given."""

    passed: dict[str, Any] | None
    status: int
    headers: dict[str, str]
    body: str

    @property
    def stamp(self) -> dict[str, Any]:
        """What the application received about the reader."""
        assert self.passed is not None
        (value,) = [value for name, value in self.passed["headers"] if name == STAMPED]
        return json.loads(value)


def ask(
    rules: AccessRules,
    path: str = "/",
    headers: dict[str, str] | list[tuple[str, str]] | None = None,
    *,
    peer: str | None = "127.0.0.1",
    kind: str = "http",
) -> Seen:
    """Put one request, or the opening of a WebSocket, through the doors of a server under `rules`."""
    passed: list[dict[str, Any]] = []
    sent: list[dict[str, Any]] = []

    async def application(scope: Any, _receive: Any, send: Any) -> None:
        passed.append(dict(scope))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"set-cookie", b"a=b")]})
        await send({"type": "http.response.body", "body": b"behind the door"})

    async def send(message: Any) -> None:
        sent.append(message)

    given = list(headers.items()) if isinstance(headers, dict) else headers or []
    path, _, query = path.partition("?")
    scope = {
        "type": kind,
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in given],
        "client": (peer, 4711) if peer else None,
    }
    doors = SecurityHeaders(AccessGate(application, rules), encrypted=rules.encrypted)
    asyncio.run(doors(scope, asyncio.Queue[Any]().get, send))
    start = next((each for each in sent if each["type"] == "http.response.start"), {})
    closed = any(each["type"] == "websocket.close" for each in sent)
    return Seen(
        passed[0] if passed else None,
        403 if closed else start.get("status", 0),
        {name.decode(): value.decode() for name, value in start.get("headers", [])},
        b"".join(each.get("body", b"") for each in sent).decode(),
    )


def logged_in(email: str = "ada@example.com", issued: float | None = None, **more: Any) -> dict[str, str]:
    """The cookie that is set after a login."""
    claims = {
        "iat": time.time() if issued is None else issued,
        "email": email,
        "email_verified": True,
        **more,
    }
    return {"Cookie": f"{COOKIE}={signed({'claims': claims})}"}


def signed(session: object, secret: str = SECRET, salt: str = COOKIE) -> str:
    return str(URLSafeTimedSerializer(secret, salt=salt).dumps(session))


def test_without_a_login_every_reader_passes_and_has_no_name() -> None:
    for path in GUARDED:
        seen = ask(OPEN, path, {STAMP: '{"name": "ada"}', "X-User": "ada"})
        assert seen.passed is not None and seen.passed[MAY_LOOK] is True
        assert STAMPED not in dict(seen.passed["headers"])


@pytest.mark.parametrize("path", GUARDED)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_another_way_than_the_proxy_leads_nowhere(
    path: str, kind: str, record_property: Callable[[str, object], None]
) -> None:
    forged = {
        "X-User": "ada",
        "X-Forwarded-For": "10.0.0.5",
        "Forwarded": "for=10.0.0.5",
        "X-Real-IP": "10.0.0.5",
        STAMP: json.dumps({"name": "ada", "may_triage": True, "until": None}),
    }
    for peer in ("127.0.0.1", "10.0.0.6", None):
        seen = ask(PROXY, path, forged, peer=peer, kind=kind)
        # A program may bring a token to the API: that is the way in.
        refused = 401 if path.startswith("/api/") and kind == "http" else 403
        assert (seen.passed, seen.status) == (None, refused)
        record_property("requests refused", 1)
    assert kind == "websocket" or "opened through its proxy" in seen.body


@pytest.mark.parametrize(("name", "may_triage"), [("ada", True), ("bob", False)])
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_the_proxy_says_who_it_is(name: str, may_triage: bool, kind: str) -> None:
    forged = json.dumps({"name": "ada", "may_triage": True, "until": None})
    headers = [("X-User", name), (STAMP, forged), (STAMP.upper(), forged)]
    seen = ask(PROXY, "/_stcore/stream", headers, peer="10.0.0.5", kind=kind)
    assert seen.stamp == {"name": name, "may_triage": may_triage, "until": None}


def test_a_proxy_that_lets_a_forged_name_through_is_refused() -> None:
    seen = ask(PROXY, "/", [("X-User", "ada"), ("X-User", "bob")], peer="10.0.0.5")
    assert (seen.passed, seen.status) == (None, 403) and "must replace" in seen.body


def test_a_name_is_encoded_in_signs_that_a_header_can_hold() -> None:
    seen = ask(PROXY, "/", {"X-User": "Zoë 😀"}, peer="10.0.0.5")
    assert seen.stamp["name"] == "Zoë 😀"


@pytest.mark.parametrize("rules", [PROXY, PROVIDER], ids=["proxy", "provider"])
def test_the_token_of_the_api_opens_the_api_and_nothing_else(rules: AccessRules) -> None:
    rules = replace(rules, api_token="a token of a program")
    bearer = {"Authorization": "Bearer a token of a program"}
    seen = ask(rules, "/api/v1/runs", bearer)
    assert seen.passed is not None and seen.passed[MAY_LOOK] is True
    assert STAMPED not in dict(seen.passed["headers"])
    for path in ("/", "/metrics", "/api", "/api/v2/runs", "/_stcore/stream", "/media/0123.csv"):
        assert ask(rules, path, bearer).passed is None
    assert ask(rules, "/api/v1/runs", bearer, kind="websocket").passed is None
    for wrong in ("Bearer", "Bearer ", "Bearer a token of a programme", "a token of a program"):
        assert ask(rules, "/api/v1/runs", {"Authorization": wrong}).passed is None
    # A wrong one is named as such: a login or a proxy is nothing to a program.
    seen = ask(rules, "/api/v1/runs", {"Authorization": "Bearer wrong"})
    assert seen.status == 401 and seen.headers["www-authenticate"].startswith("Bearer")
    assert "token" in seen.body and "wrong" not in seen.body
    assert ask(rules, "/api/v1/runs", {"Authorization": "bearer  a token of a program"}).passed is not None
    # A program without one is told of it, a browser of its login, and a person who may not look of that.
    seen = ask(rules, "/api/v1/runs")
    assert (
        seen.status == 401 and seen.headers["www-authenticate"].startswith("Bearer") and "token" in seen.body
    )
    assert ask(rules, "/api/v1/runs", {"Accept": "text/html"}).status == 403
    person = logged_in("eve@example.org") if rules.login == "oidc" else {"X-User": "eve@example.org"}
    assert ask(replace(rules, viewers=("ada",)), "/api/v1/runs", person, peer="10.0.0.5").status == 403
    # Without a token in the settings none opens it, the empty one neither.
    assert ask(replace(rules, api_token=""), "/api/v1/runs", {"Authorization": "Bearer "}).passed is None


@pytest.mark.parametrize("rules", [PROXY, PROVIDER], ids=["proxy", "provider"])
def test_only_the_token_of_a_role_gives_it_to_a_program(rules: AccessRules) -> None:
    rules = replace(rules, api_token="reads", triage_token="triages", submit_token="submits")
    rules = replace(rules, trigger_token="triggers")
    for token, role in (
        ("triages", "triage"),
        ("reads", "read"),
        ("submits", "submit"),
        ("triggers", "trigger"),
    ):
        passed = ask(rules, "/api/v1/findings/1/triage", {"Authorization": f"Bearer {token}"}).passed
        assert passed is not None and (passed[MAY_LOOK], passed[ROLES]) == (True, {role})
        assert STAMPED not in dict(passed["headers"])
    assert ask(rules, "/", {"Authorization": "Bearer triages"}).passed is None
    assert ask(rules, "/api/v1/findings/1/triage", {"Authorization": "Bearer "}).passed is None


def test_a_browser_never_writes_over_the_api() -> None:
    # What it sends by itself, another site can make it send.
    path = "/api/v1/findings/1/triage"
    for rules, headers, peer in (
        (OPEN, {}, "127.0.0.1"),
        (replace(OPEN, submit_token="submits"), {"Authorization": "Bearer"}, "127.0.0.1"),
        (replace(PROVIDER, triagers=("ada@example.com",)), logged_in(), "127.0.0.1"),
        (PROXY, {"X-User": "ada"}, "10.0.0.5"),
    ):
        passed = ask(rules, path, headers, peer=peer).passed
        assert passed is not None and (passed[MAY_LOOK], passed[ROLES]) == (True, frozenset())


@pytest.mark.parametrize("path", GUARDED)
def test_a_stranger_is_sent_to_the_login_from_every_address(path: str) -> None:
    seen = ask(PROVIDER, path, {"Accept": "text/html,*/*"})
    assert (seen.passed, seen.status) == (None, 403)
    assert f'href="/login?to={quote(path, safe="")}"' in seen.body and "behind" not in seen.body
    assert seen.headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in seen.headers["content-security-policy"]
    assert ask(PROVIDER, path, kind="websocket").passed is None
    program = ask(PROVIDER, path)
    assert program.passed is None and program.headers["content-type"].startswith("text/plain")


def test_a_login_opens_the_door_until_it_has_ended() -> None:
    seen = ask(PROVIDER, "/media/0123.csv", logged_in(issued=time.time() - 3500))
    assert seen.stamp["name"] == "ada@example.com" and seen.stamp["may_triage"] is False
    assert seen.stamp["until"] == pytest.approx(time.time() + 100, abs=60)
    assert ask(PROVIDER, "/media/0123.csv", logged_in(issued=time.time() - 3700)).passed is None


def test_a_page_that_was_open_when_its_login_ended_comes_back_without_a_reader() -> None:
    for path, kind in (("/_stcore/health", "http"), ("/_stcore/host-config", "http"), ("/x", "websocket")):
        seen = ask(PROVIDER, path, logged_in(issued=time.time() - 3700), kind=kind)
        assert seen.passed is not None and seen.passed[MAY_LOOK] is False
        assert STAMPED not in dict(seen.passed["headers"])
    for path in set(GUARDED) - {"/_stcore/health"} - {"/_stcore/host-config"}:
        assert ask(PROVIDER, path, logged_in(issued=time.time() - 3700)).passed is None
    # Who may not look any more, or never did, does not come that far.
    assert ask(PROVIDER, "/x", logged_in("eve@evil.example", 0.0), kind="websocket").passed is None


def test_a_cookie_that_this_server_has_not_signed_is_none() -> None:
    value = logged_in()["Cookie"]
    at = value.index("=") + 5
    changed = value[:at] + ("A" if value[at] != "A" else "B") + value[at + 1 :]
    claims = {"claims": {"iat": time.time(), "email": "ada@example.com", "email_verified": True}}
    for cookie in (
        changed,
        f"{COOKIE}={signed(claims, secret='another secret')}",
        f"{COOKIE}={signed(claims, salt='another purpose')}",
        f"{COOKIE}={signed([claims])}",
        f"{COOKIE}={signed({'claims': 'ada@example.com'})}",
        f"{COOKIE}=",
        f'{COOKIE}="; a=\xff',
        f"x{value}",
    ):
        assert ask(PROVIDER, "/", {"Cookie": cookie}).passed is None
    assert ask(PROVIDER, "/", {"Cookie": f"{COOKIE}={signed(claims)}"}).passed is not None


def test_a_cookie_holds_the_claims_that_decide_and_no_group_that_does_not() -> None:
    rules = replace(
        PROVIDER, viewers=("group:perf*", "*@example.com"), triagers=("group:leads", "group:perf")
    )
    groups = [f"group-{number}" for number in range(500)] + ["perf", "perf-2", "leads"]
    claims = {"iat": 1.0, "email": "ada", "email_verified": True, "groups": groups, "picture": "x" * 4000}
    kept = kept_claims(claims, rules)
    assert kept == {"iat": 1.0, "email": "ada", "email_verified": True, "groups": ["perf", "leads"]}
    assert kept_claims({}, rules) == {"groups": []}


def test_who_logged_in_and_may_not_look_hears_whom_to_ask_and_may_try_another_account() -> None:
    hostile = "<script>alert(1)</script>@evil.example"
    rules = replace(PROVIDER, ask="<b>perf</b>@example.com")
    seen = ask(rules, "/explore", logged_in(hostile) | {"Accept": "text/html"})
    assert (seen.passed, seen.status) == (None, 403)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;@evil.example may not look" in seen.body
    assert "Ask &lt;b&gt;perf&lt;/b&gt;@example.com." in seen.body and 'href="/auth/logout"' in seen.body
    assert "<script" not in seen.body and "<b>" not in seen.body


@pytest.mark.parametrize("path", ["/login", "/auth/logout", "/oauth2callback"])
def test_only_a_login_needs_what_a_login_goes_over(path: str) -> None:
    assert ask(at_provider("http://127.0.0.1:9"), path).status in (302, 503)
    assert ask(PROVIDER, path, kind="websocket").passed is None
    assert ask(PROXY, path).passed is None


def at_provider(url: str) -> AccessRules:
    """The rules of a server whose readers log in there."""
    settings = {
        "cookie_secret": SECRET,
        "client_id": CLIENT,
        "client_secret": "x",
        "redirect_uri": "https://perf.example.com/oauth2callback",
        "server_metadata_url": f"{url}/.well-known/openid-configuration",
    }
    return replace(PROVIDER, provider=settings)


@pytest.fixture(scope="module")
def vouching() -> Iterator[Provider]:
    with provider({}) as one:
        one.redirect = "https://perf.example.com/oauth2callback"
        yield one


def test_where_the_provider_does_not_answer_it_is_said(vouching: Provider) -> None:
    # Nothing listens there; something does, and is no provider.
    for url in ("http://127.0.0.1:9", f"{vouching.url}/nothing"):
        seen = ask(at_provider(url), "/login?to=/trends", {"Accept": "text/html"})
        assert seen.status == 503 and "does not answer. If that lasts, ask" in seen.body
        assert 'href="/login"' in seen.body and "set-cookie" not in seen.headers
        gone = ask(at_provider(url), "/auth/logout", logged_in())
        assert (gone.status, gone.headers["location"]) == (302, "/")
        assert f'{COOKIE}=""' in gone.headers["set-cookie"]
        late = ask(at_provider(url), "/oauth2callback?code=a&state=b", logged_in())
        assert (late.status, late.headers["location"]) == (302, "/")


def test_readiness_needs_no_login() -> None:
    for rules in (OPEN, PROXY, PROVIDER):
        seen = ask(rules, "/readyz")
        assert seen.passed is not None and seen.passed[MAY_LOOK] is (rules is OPEN)
        assert ask(rules, "/readyz", kind="websocket").passed is None or rules is OPEN
    seen = ask(PROVIDER, "/readyz", logged_in())
    assert seen.passed is not None and seen.passed[MAY_LOOK] is True


@pytest.mark.parametrize("rules", [OPEN, PROXY, PROVIDER], ids=["none", "proxy", "oidc"])
def test_metrics_are_read_with_their_token_and_without_a_login(rules: AccessRules) -> None:
    closed = replace(rules, metrics="token", metrics_token="hunter2")
    assert ask(replace(closed, metrics_token=""), "/metrics").passed is None
    for given in ({}, {"Authorization": "Bearer hunter"}, {"Authorization": "Basic hunter2"}):
        seen = ask(closed, "/metrics", given)
        assert (seen.passed, seen.status) == (None, 401)
        assert seen.headers["www-authenticate"].startswith("Bearer") and "hunter2" not in seen.body
    assert ask(closed, "/metrics", {"Authorization": "Bearer hunter2"}).passed is not None
    assert ask(replace(rules, metrics="open"), "/metrics").passed is not None


@pytest.mark.parametrize(
    ("wanted", "led_to"),
    [
        ("/explore?view=history&case=a%2Fb&axis=date", "/explore?view=history&case=a%2Fb&axis=date"),
        ("/", "/"),
        ("", "/"),
        # Another site, in as many spellings as there are.
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example/", "/"),
        ("\\/evil.example/", "/"),
        ("/\t/evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("/trends\r\nset-cookie: a=b", "/"),
        ("/" + "x" * 3000, "/"),
    ],
)
def test_a_login_returns_to_the_requested_page_and_to_no_other_site(
    vouching: Provider, wanted: str, led_to: str
) -> None:
    seen = ask(at_provider(vouching.url), f"/login?to={quote(wanted, safe='')}")
    assert seen.status == 302 and seen.headers["location"].startswith(f"{vouching.url}/authorize?")
    cookie = seen.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie and cookie.count("ecure") == 1
    kept = cookie.partition(";")[0]
    after = ask(PROVIDER, "/", {"Cookie": f"{logged_in()['Cookie']}; {kept}"})
    assert (after.passed, after.status, after.headers["location"]) == (None, 303, led_to)
    assert f'{cookies.WANTED}="";' in after.headers["set-cookie"]
    # A cookie can be planted, and leads no further than the link did.
    planted = f"{logged_in()['Cookie']}; {cookies.WANTED}={quote(wanted, safe='')}"
    assert ask(PROVIDER, "/", {"Cookie": planted}).headers["location"] == led_to


def test_who_tries_again_still_goes_where_they_wanted_to_go(vouching: Provider) -> None:
    seen = ask(at_provider(vouching.url), "/login")
    assert seen.status == 302 and cookies.WANTED not in seen.headers["set-cookie"]


def test_cookies_travel_encrypted_where_browsers_come_by_https() -> None:
    assert ask(PROVIDER, "/", logged_in()).headers["set-cookie"] == "a=b; Secure"
    assert ask(OPEN, "/").headers["set-cookie"] == "a=b"


def test_browsers_that_came_by_https_stay_with_it() -> None:
    assert ask(PROVIDER, "/", logged_in()).headers["strict-transport-security"] == "max-age=31536000"
    assert "strict-transport-security" in ask(PROVIDER, "/").headers, "also where there is no permission"
    assert "strict-transport-security" not in ask(OPEN, "/").headers


@pytest.mark.parametrize(("may_look", "shows_reason"), [(True, True), (False, False)])
def test_why_the_database_is_away_is_for_those_who_may_look(
    monkeypatch: pytest.MonkeyPatch, may_look: bool, shows_reason: bool
) -> None:
    def away(_url: str) -> None:
        raise DatabaseError("cannot open /srv/hunter2.db")

    monkeypatch.setattr(database, "check", away)
    monkeypatch.setattr(database, "database_at", away)
    request = Request({"type": "http", "method": "GET", "path": "/", "headers": [], MAY_LOOK: may_look})
    for answer in (ready(request), metrics_text(request)):
        assert answer.status_code == 503 and (b"hunter2" in answer.body) is shows_reason


NAMES = ("localhost", "perf.example.com", "::1", "*.lab.example.com")


def answered(
    path: str, host: str, method: str = "GET", names: tuple[str, ...] = NAMES, **headers: str
) -> int:
    """How a request is answered before its reader is checked; by default its body is short."""
    sent: list[Any] = []

    async def application(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        sent.append(message)

    fields = {"host": host, **(headers or {"content_length": "100"})}
    encoded = [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": encoded}
    asyncio.run(OwnNames(application, names)(scope, asyncio.Queue[Any]().get, send))
    return sent[0]["status"]


def test_what_a_program_posts_is_short_and_says_so() -> None:
    path = "/api/v1/findings/7/triage"
    for length, status in (
        ("0", 200),
        ("65536", 200),
        ("65537", 413),
        ("9" * 5000, 413),
        ("-1", 413),
        ("+5", 413),
        ("1e3", 413),
        ("", 413),
    ):
        assert answered(path, "localhost", "POST", content_length=length) == status, length
    for headers in (
        {"transfer_encoding": "chunked"},
        {"content_length": "10", "transfer_encoding": "chunked"},
    ):
        assert answered(path, "localhost", "POST", **headers) == 413
    # What has neither header has no body.
    assert answered(path, "localhost", "POST", x="y") == 200
    for length, status in ((4 << 20, 200), ((4 << 20) + 1, 413)):
        assert answered("/api/v1/submit", "localhost", "POST", content_length=str(length)) == status


def test_where_browsers_come_by_https_the_application_knows_it() -> None:
    for rules, kind, scheme in (
        (PROVIDER, "http", "https"),
        (PROVIDER, "websocket", "wss"),
        (OPEN, "http", None),
    ):
        passed = ask(rules, "/", logged_in(), kind=kind).passed
        assert passed is not None and passed.get("scheme") == scheme


def test_pages_are_read_under_own_names_only_and_never_written() -> None:
    for host, status in (
        ("localhost:8501", 200),
        ("PERF.example.com", 200),
        ("perf.example.com.", 200),
        ("a.lab.example.com:80", 200),
        ("[::1]:8501", 200),
        ("lab.example.com", 421),
        ("evil.example", 421),
        ("evil.example#.lab.example.com", 421),
        ("localhost@evil.example", 421),
        ("evil.example/localhost", 421),
        ("localhost:x", 421),
        ("localhost:99999", 421),
        ("[", 421),
        ("", 421),
    ):
        assert answered("/", host) == answered("/media/0123.csv", host) == status, host
        # A health check knows an address, a scraper perhaps another name.
        assert answered("/readyz", host) == answered("/metrics", host) == 200
        assert answered("/", host, names=()) == 200
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert answered("/_stcore/upload_file/session/file", "localhost", method) == 405
        for path in ("findings/7/triage/", "findings/x/triage", "submit/", "schedules//trigger", "runs"):
            assert answered(f"/api/v1/{path}", "localhost", method) == 405
        posted = 200 if method == "POST" else 405
        for path in ("findings/7/triage", "submit", "schedules/nightly/trigger"):
            assert answered(f"/api/v1/{path}", "localhost", method) == posted
            assert answered(f"/api/v1/{path}", "evil.example", method) == (421 if posted == 200 else 405)
