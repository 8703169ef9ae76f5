"""A dashboard behind a proxy that ends TLS: every cookie and every address is one of https."""

import http.client
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from playwright.sync_api import Browser, expect

from dashboard.auth.provider import COOKIE
from support.servers import reverse_proxy
from support.servers.browser import a_context
from support.servers.login_site import ADA, DEEP, LoginSite, site, wait_for_text
from support.servers.oidc_provider import CLIENT, Provider, provider
from support.servers.ports import free_port
from support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

TOKEN = "a token of a program"


def certificate(folder: Path) -> Path:
    """A file with a key and a certificate of `localhost`, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "certificate.pem"
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return file


@contextmanager
def ending_tls(port: int, file: Path) -> Iterator[int]:
    """The port of a proxy that speaks TLS with browsers and clear text with `port`."""
    process = subprocess.Popen(
        [sys.executable, reverse_proxy.__file__, str(port), "127.0.0.1", "X-Nothing"],
        env={**os.environ, reverse_proxy.CERTIFICATE: str(file)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout
            yield int(process.stdout.readline())
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def vouching() -> Iterator[Provider]:
    with provider({ADA: {"email": ADA, "email_verified": True}}) as one:
        yield one


@pytest.fixture(scope="module")
def encrypted(
    vouching: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[LoginSite, str]]:
    """A dashboard that browsers call by https, and its address for them."""
    folder, port = tmp_path_factory.mktemp("tls"), free_port()
    with ending_tls(port, certificate(folder)) as outside:
        url = f"https://localhost:{outside}"
        vouching.redirect = f"{url}/oauth2callback"
        table = f"""
[dashboard]
login = "oidc"
url = "{url}"
issuer = "{vouching.url}"
client_id = "{CLIENT}"
client_secret_file = "secret"
api_token = "{TOKEN}"
triagers = ["{ADA}"]
"""
        with site(folder, table, port) as one:
            yield one, url


@pytest.mark.browser
def test_a_login_by_https_leaves_no_cookie_that_travels_in_clear(
    chromium: Browser, encrypted: tuple[LoginSite, str]
) -> None:
    one, url = encrypted
    context = a_context(chromium, ignore_https_errors=True)
    page = context.new_page()
    sockets: list[str] = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    page.goto(url + DEEP)
    page.get_by_role("link", name="Log in").click()
    page.get_by_role("button", name=ADA, exact=True).click()
    page.wait_for_url(url + DEEP)
    wait_for_text(page, f"{ADA} · may triage")
    assert sockets and all(urlsplit(each).scheme == "wss" for each in sockets)
    own = [each for each in context.cookies() if each["domain"] == "localhost"]
    assert COOKIE in {each["name"] for each in own}
    # A script of the page writes the one with its context.
    assert [each["name"] for each in own if not each["secure"]] in ([], ["pyrometer_context"])
    page.get_by_text("Triage this finding").click()
    page.get_by_label("Comment", exact=True).fill("seen by https")
    page.get_by_role("button", name="Save").click()
    wait_for_text(page, "seen by https")
    assert one.noted() == [(ADA, "seen by https")]
    page.get_by_text("Show Markdown").click()
    exported = page.locator(".py-code pre").filter(has_text="· Finding 1")
    expect(exported).to_contain_text(f"]({url}/regressions?")
    assert "http://" not in (exported.text_content() or "")
    page.get_by_role("link", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert COOKIE not in [each["name"] for each in context.cookies()]
    context.close()


def answered(url: str, path: str, **headers: str) -> http.client.HTTPMessage:
    """The headers of an answer, without following it elsewhere."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    parts = urlsplit(url)
    host = parts.hostname or ""
    connection = http.client.HTTPSConnection(host, parts.port, context=trusting, timeout=PATIENCE_SECONDS)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.headers


def test_no_answer_names_an_address_in_clear(encrypted: tuple[LoginSite, str]) -> None:
    _, url = encrypted
    token = {"Authorization": f"Bearer {TOKEN}"}
    cases: list[tuple[str, dict[str, Any]]] = [
        ("/login?to=/", {}),
        ("/auth/logout", {}),
        ("/api/v1/runs/", token),
        ("/api/v1/runs?limit=1", token),
        ("/api/v1/findings/1/", token),
        ("/readyz", {}),
    ]
    locations: dict[str, str] = {}
    for path, headers in cases:
        answer = answered(url, path, **headers)
        assert "max-age" in answer["strict-transport-security"], path
        for cookie in answer.get_all("set-cookie", []):
            assert all(each["secure"] for each in SimpleCookie(cookie).values()), cookie
        links = [answer.get("location", ""), answer.get("link", "")]
        assert not any("http://localhost" in each for each in links), links
        locations[path] = links[0]
    # A program that follows an address takes its token along.
    assert locations["/api/v1/runs/"] == f"{url}/api/v1/runs"
    assert locations["/login?to=/"].startswith("http://127.0.0.1:") and "https%3A%2F%2F" in json.dumps(
        locations["/login?to=/"]
    )
