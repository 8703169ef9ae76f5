"""An address below a page, as somebody types it who takes the id of a run for a folder, leads to the page."""

import urllib.request
from typing import Any

import pytest
from playwright.sync_api import Browser

from dashboard import front
from dashboard.navigation import PAGES


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
