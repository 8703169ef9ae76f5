"""A dashboard that `pyrometer dashboard` serves to people who log in, and visitors without a browser."""

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Page, expect
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from db.connection.engine import open_database
from db.findings import store as findings
from support.builders.detection_nights import Nights, a_regression
from support.servers import reverse_proxy
from support.servers.oidc_provider import SECRET
from support.servers.ports import free_port
from support.waiting import PATIENCE_SECONDS

#: A triager, and the page of the only finding.
ADA, DEEP = "ada@example.com", "/regressions?finding=1&state=all"
#: The header in which a proxy names the reader, and the address from which it comes.
HEADER, PROXY = "X-Forwarded-Email", "127.0.0.2"
#: Settings of a dashboard that believes one proxy and lets one of its users triage.
PROXY_SETTINGS = f"""
[dashboard]
login = "proxy"
user_header = "{HEADER}"
trusted_proxies = ["{PROXY}"]
triagers = ["{ADA}"]
"""


class LoginSite:
    """A dashboard as `pyrometer dashboard` serves it from a folder with settings and one finding."""

    def __init__(self, folder: Path, table: str, port: int) -> None:
        self.url = f"http://localhost:{port}"
        self.port = port
        self.database = f"sqlite:///{folder}/pyrometer.db"
        with open_database(self.database) as database:
            Nights(database).add(range(4))
            a_regression(database)
        (folder / "pyrometer.toml").write_text(table)
        (folder / "secret").write_text(SECRET + "\n")
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [Path(sys.executable).with_name("pyrometer"), "dashboard", "--port", str(port)],
                cwd=folder,
                env={name: value for name, value in os.environ.items() if not name.startswith("PYROMETER_")},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout
        assert "Dashboard: " in self.process.stdout.readline(), (folder / "log").read_text()

    def noted(self) -> list[tuple[str, str]]:
        """Who said what of the finding."""
        with open_database(self.database) as database:
            return [(entry.who, entry.text) for entry in findings.triage_log(database, 1)]


@contextmanager
def site(folder: Path, table: str, port: int = 0) -> Iterator[LoginSite]:
    """A dashboard, gone afterwards; on that port, or on a free one."""
    one = LoginSite(folder, table, port or free_port())
    try:
        yield one
    finally:
        one.process.terminate()
        one.process.communicate()


class Client:
    """A browser without a window: cookies, redirects, no scripts."""

    def __init__(self) -> None:
        self.cookies = CookieJar()
        nothing_between = urllib.request.ProxyHandler({})
        kept = urllib.request.HTTPCookieProcessor(self.cookies)
        self._opener = urllib.request.build_opener(nothing_between, kept)

    def open(self, url: str, form: dict[str, str] | None = None, **headers: str) -> tuple[int, str, str]:
        """Status, final address and body."""
        data = urlencode(form).encode() if form else None
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(url, data, {"Accept": "text/html", **named})
        try:
            with self._opener.open(request, timeout=PATIENCE_SECONDS) as answer:
                return answer.status, answer.url, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.url, error.read().decode()

    def log_in(self, home: str, account: str, wanted: str = "/") -> tuple[int, str, str]:
        """Go through the door and say at the provider who one is."""
        _, at_provider, page = self.open(f"{home}/login?{urlencode({'to': wanted})}")
        assert "Who are you?" in page
        return self.open(at_provider, {"account": account})


def handshake(url: str, **headers: str) -> int:
    """How the opening of a page's WebSocket is answered."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    address = url.replace("http", "ws", 1) + "/_stcore/stream"
    try:
        with connect(address, additional_headers=named, origin=None):
            return 101
    except InvalidStatus as error:
        return error.response.status_code


@contextmanager
def proxied(port: int, *names: str, source: str = PROXY) -> Iterator[str]:
    """The address of a proxy in front of `port`, which comes from `source` and says these names."""
    process = subprocess.Popen(
        [sys.executable, reverse_proxy.__file__, str(port), source, HEADER, *names],
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def wait_for_text(page: Page, text: str) -> None:
    """Wait until the page has this text."""
    expect(page.get_by_text(text).first).to_be_visible()
