"""Logins at a real server: a real provider, a real proxy, a real browser, and those who try another way."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from dashboard.auth.provider import COOKIE
from support.servers.browser import a_context
from support.servers.login_site import (
    ADA,
    DEEP,
    HEADER,
    PROXY,
    PROXY_SETTINGS,
    Client,
    LoginSite,
    handshake,
    proxied,
    site,
    wait_for_text,
)
from support.servers.oidc_provider import CLIENT, SECRET, Provider, provider
from support.servers.ports import free_port

pytestmark = pytest.mark.slow

BOB, EVE, MALLORY = "bob@example.com", "eve@evil.example", "ada"
ACCOUNTS: dict[str, dict[str, Any]] = {
    ADA: {"email": ADA, "email_verified": True},
    BOB: {"email": BOB, "email_verified": True, "groups": ["perf"]},
    EVE: {"email": EVE, "email_verified": True, "groups": ["ada@example.com"]},
    # Another person's address, written into an account of one's own.
    MALLORY: {"email": ADA, "email_verified": False},
}


@pytest.fixture(scope="module")
def vouching() -> Iterator[Provider]:
    with provider(ACCOUNTS) as one:
        yield one


@pytest.fixture(scope="module")
def behind_a_login(vouching: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginSite]:
    """A dashboard whose readers log in at the provider."""
    port = free_port()
    vouching.redirect = f"http://localhost:{port}/oauth2callback"
    table = f"""
[dashboard]
login = "oidc"
url = "http://localhost:{port}"
issuer = "{vouching.url}"
client_id = "{CLIENT}"
client_secret_file = "secret"
viewers = ["group:perf"]
triagers = ["{ADA}"]
ask = "perf@example.com"
"""
    with site(tmp_path_factory.mktemp("login"), table, port) as one:
        yield one


@pytest.mark.browser
def test_a_deep_link_leads_through_the_login_and_a_triager_signs_with_the_name_of_the_login(
    chromium: Browser, behind_a_login: LoginSite, vouching: Provider
) -> None:
    home, ended = behind_a_login.url, vouching.ended
    context = a_context(chromium)
    page = context.new_page()
    page.goto(home + DEEP)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.get_by_role("link", name="Log in").click()
    page.get_by_role("button", name=ADA, exact=True).click()
    page.wait_for_url(home + DEEP)
    wait_for_text(page, f"{ADA} · may triage")
    wait_for_text(page, "Latency (min-based) rose")
    page.get_by_text("Triage this finding").click()
    page.get_by_label("Comment", exact=True).fill("seen after a login")
    expect(page.get_by_label("Name", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Save").click()
    wait_for_text(page, "seen after a login")
    assert behind_a_login.noted() == [(ADA, "seen after a login")]
    (cookie,) = [each for each in context.cookies() if each["name"] == COOKIE]
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
    page.get_by_role("link", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert vouching.ended == ended + 1 and vouching.complaints == []
    page.goto(home + DEEP)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    context.close()


@pytest.mark.browser
def test_a_viewer_looks_and_takes_numbers_along_and_cannot_triage(
    chromium: Browser, behind_a_login: LoginSite
) -> None:
    home = behind_a_login.url
    client = Client()
    assert client.log_in(home, BOB)[:2] == (200, f"{home}/")
    context = a_context(chromium)
    context.add_cookies(
        [{"name": each.name, "value": each.value or "", "url": home} for each in client.cookies]
    )
    page = context.new_page()
    page.goto(home + "/regressions?state=all")
    wait_for_text(page, f"{BOB} · may look")
    page.locator("[class*=st-key-menu-findings]").get_by_role("button").click()
    with page.expect_download() as download:
        page.locator("[class*=st-key-csv-findings]").get_by_role("button").click()
    assert download.value.suggested_filename == "findings.csv"
    assert "latency_floor" in download.value.path().read_text()
    taken = urlsplit(download.value.url).path
    assert taken.startswith("/media/") and Client().open(home + taken)[0] == 403
    page.goto(home + DEEP)
    wait_for_text(page, "may read but not triage. Ask perf@")
    expect(page.get_by_role("button", name="Save")).to_have_count(0)
    context.close()


@pytest.mark.parametrize(("account", "why"), [(EVE, "has no access"), (MALLORY, "has not verified ada@")])
def test_a_reader_without_rights_sees_why_and_can_log_out(
    behind_a_login: LoginSite, account: str, why: str
) -> None:
    client = Client()
    status, _, page = client.log_in(behind_a_login.url, account, DEEP)
    assert (status, why in page, "Ask perf@example.com." in page) == (403, True, True)
    assert "Latency (min-based)" not in page
    cookies = "; ".join(f"{each.name}={each.value}" for each in client.cookies)
    assert handshake(behind_a_login.url, Cookie=cookies) == 403
    status, address, page = client.open(behind_a_login.url + "/auth/logout")
    assert (status, address) == (403, f"{behind_a_login.url}/") and "requires a login" in page
    assert COOKIE not in [each.name for each in client.cookies]


def test_a_login_that_another_browser_began_is_refused(behind_a_login: LoginSite, vouching: Provider) -> None:
    home = behind_a_login.url
    begun = Client()
    _, at_provider, _ = begun.open(f"{home}/login?to=/")
    query = dict(part.split("=", 1) for part in urlsplit(at_provider).query.split("&"))
    code = vouching.code(ADA, {"state": query["state"], "nonce": "another"} | {"code_challenge": "x"})
    victim = Client()
    status, address, page = victim.open(f"{home}/oauth2callback?code={code}&state={query['state']}")
    assert (status, address) == (403, f"{home}/") and "requires a login" in page
    assert vouching.codes.pop(code)


def test_strangers_hear_whether_it_is_ready_and_nothing_else(behind_a_login: LoginSite) -> None:
    client = Client()
    assert json.loads(client.open(behind_a_login.url + "/readyz")[2]) == {"status": "ready"}
    for path in ("/", "/metrics", "/_stcore/metrics", "/_stcore/health", "/static/", "/media/x.csv"):
        status, _, body = client.open(behind_a_login.url + path)
        assert status == 403 and "requires a login" in body
    assert handshake(behind_a_login.url) == 403


def test_another_sites_page_gets_no_websocket_with_a_readers_cookie(behind_a_login: LoginSite) -> None:
    client = Client()
    client.log_in(behind_a_login.url, BOB)
    cookies = "; ".join(f"{each.name}={each.value}" for each in client.cookies)
    assert handshake(behind_a_login.url, Cookie=cookies) == 101
    assert handshake(behind_a_login.url, Cookie=cookies, Origin="http://evil.example") == 403


@pytest.fixture(scope="module")
def behind_a_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginSite]:
    """A dashboard that believes one address."""
    table = f'{PROXY_SETTINGS}metrics = "token"\nmetrics_token_file = "secret"\n'
    with site(tmp_path_factory.mktemp("proxy"), table) as one:
        yield one


@pytest.mark.browser
def test_a_proxy_says_who_it_is_and_that_name_signs(chromium: Browser, behind_a_proxy: LoginSite) -> None:
    with proxied(behind_a_proxy.port, ADA) as url:
        # What a browser says of itself is replaced by what the proxy says.
        context = a_context(chromium, extra_http_headers={HEADER: EVE})
        page = context.new_page()
        page.goto(url + DEEP)
        wait_for_text(page, f"{ADA} · may triage")
        page.get_by_text("Triage this finding").click()
        page.get_by_label("Comment", exact=True).fill("seen through a proxy")
        page.get_by_role("button", name="Save").click()
        wait_for_text(page, "seen through a proxy")
        context.close()
    assert behind_a_proxy.noted() == [(ADA, "seen through a proxy")]


def test_forged_headers_on_another_way_lead_nowhere(behind_a_proxy: LoginSite) -> None:
    forged = {HEADER.replace("-", "_"): ADA, "X_Forwarded_For": PROXY, "X_Real_IP": PROXY}
    direct = f"http://127.0.0.1:{behind_a_proxy.port}"
    client = Client()
    for path in ("/", DEEP, "/_stcore/metrics", "/static/", "/media/x.csv", "/_stcore/health"):
        status, _, body = client.open(direct + path, **forged)
        assert status == 403 and "accessible through its proxy" in body
    assert handshake(direct, **forged) == 403
    assert json.loads(client.open(direct + "/readyz")[2]) == {"status": "ready"}
    with proxied(behind_a_proxy.port, ADA, source="127.0.0.3") as url:
        assert client.open(url + "/")[0] == 403 and handshake(url) == 403


def test_a_proxy_that_names_no_person_or_two_opens_nothing(behind_a_proxy: LoginSite) -> None:
    for names in ((), ("",), (ADA, BOB)):
        with proxied(behind_a_proxy.port, *names) as url:
            status, _, body = Client().open(url + "/", X_Forwarded_Email=ADA)
            assert status == 403 and HEADER.lower() in body and handshake(url) == 403


def test_metrics_have_a_token_of_their_own(behind_a_proxy: LoginSite) -> None:
    direct, client = f"http://127.0.0.1:{behind_a_proxy.port}/metrics", Client()
    assert client.open(direct)[0] == client.open(direct, Authorization="Bearer x")[0] == 401
    status, _, body = client.open(direct, Authorization=f"Bearer {SECRET}")
    assert status == 200 and "pyrometer_findings" in body
