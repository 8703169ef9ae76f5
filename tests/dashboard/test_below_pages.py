"""An address below a page, as somebody types it who takes the id of a run for a folder, leads to the page."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from browsing import Visitor
from compared_runs import RESNET, RUN
from playwright.sync_api import Browser
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.testclient import TestClient

from dashboard.navigation import PAGES
from dashboard.server import front


@pytest.mark.parametrize("page", [page for page in PAGES if page.path], ids=lambda page: page.path)
@pytest.mark.parametrize("below", ["/", "/20261122-020000-0", "/a/b//c", "//evil.example/"])
def test_below_a_page_is_the_page(served: Any, page: Any, below: str) -> None:
    with urllib.request.urlopen(f"{served.url}/{page.path}{below}?run=a%2Bb&case=c", timeout=30) as answer:
        assert answer.geturl() == f"{served.url}/{page.path}?run=a%2Bb&case=c"
        assert answer.read().decode() == front.text(page)


@pytest.mark.parametrize("below", ["/deeper", "/a/b//c", "/x%2Fy", "//evil.example/"])
def test_below_what_is_no_page_is_what_is_no_page(served: Any, below: str) -> None:
    with urllib.request.urlopen(f"{served.url}/no-such-page{below}?run=a", timeout=30) as answer:
        assert answer.geturl() == f"{served.url}/no-such-page"
        assert b"<title>Streamlit</title>" in answer.read()


@pytest.mark.parametrize("path", ["/_stcore/health", "/_stcore/host-config", "/app/static/icon.png"])
def test_what_is_no_page_of_html_stays_where_it_is(served: Any, path: str) -> None:
    with urllib.request.urlopen(served.url + path, timeout=30) as answer:
        assert answer.geturl() == served.url + path


@pytest.mark.browser
def test_who_follows_a_link_of_several_levels_that_leads_nowhere_is_told(
    chromium: Browser, served: Any
) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{served.url}/no-such-page/deeper")
    page.get_by_text("not found").first.wait_for(timeout=30_000)
    context.close()


def test_html_that_is_found_below_stays_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("blank")
    found = Route("/media/{name}", HTMLResponse("a report"))
    every = Starlette(routes=[found, Mount("/", StaticFiles(directory=tmp_path, html=True))])
    with TestClient(front.Upwards(every), follow_redirects=False) as asks:
        answer = asks.get("/media/abc.html")
        assert (answer.status_code, answer.text) == (200, "a report")
        (tmp_path / "no-page").mkdir()
        (tmp_path / "no-page" / "deeper.html").write_text("blank")
        led = asks.get("/no-page/deeper.html")
        assert (led.status_code, led.headers["location"]) == (307, "/no-page")


@pytest.mark.browser
def test_each_report_that_is_taken_along_is_the_report(visitor: Visitor) -> None:
    page = visitor.open(f"/upgrade?run={RUN}")
    files: dict[str, str] = {}
    for name in ("HTML", "Markdown", "JSON"):
        with page.expect_download() as saved:
            page.get_by_role("button", name=f"Report as {name}").click()
        files[saved.value.suggested_filename] = Path(saved.value.path()).read_text()
    assert list(files) == [f"upgrade-{RUN}{ending}" for ending in (".html", ".md", ".json")]
    as_html, as_markdown, as_json = files.values()
    assert json.loads(as_json)["decision"] == "no-go"
    assert as_html.startswith("<!doctype html>") and '<p class="decision">' in as_html
    for report in (as_html, as_markdown):
        assert "No-go" in report and RESNET in report and "Streamlit" not in report
