"""A page of the dashboard through the router, without a browser, and what it shows as text."""

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import dashboard
from dashboard.navigation import PAGES

APP = Path(dashboard.__path__[0]) / "app.py"
OVERVIEW = "app_pages/overview.py"

#: Opens a page on a database, with the query of its URL.
Open = Callable[..., AppTest]


def opener(monkeypatch: pytest.MonkeyPatch) -> Open:
    """A function that opens pages, by default the overview."""

    def open_it(url: str, page: str = OVERVIEW, **query: str | list[str]) -> AppTest:
        monkeypatch.setenv("PYROMETER_DATABASE_URL", url)
        at = AppTest.from_file(APP, default_timeout=60)
        if not _known_by_its_file(page):
            at.run()
        for name, value in query.items():
            at.query_params[name] = value
        return (at if page == OVERVIEW else at.switch_page(page)).run()

    return open_it


def _known_by_its_file(page: str) -> bool:
    """Whether Streamlit finds a page before its first run, as a reader who follows a link to it comes there.

    It takes a file's name for the page's path then; of any other page only a run of the first one shows it.
    """
    return any(one.script == page and one.path in ("", Path(page).stem) for one in PAGES)


def html(at: AppTest) -> str:
    """Everything the page shows as HTML: scripts of ours show nothing."""
    assert not at.exception
    shown = [each.proto for each in at.main if each.type == "html"]
    return "\n".join(each.body for each in shown if not each.unsafe_allow_javascript)


def typed(at: AppTest) -> list[str]:
    """What the page says to type, and what programs wrote, from top to bottom."""
    found = re.findall(r'<div class="py-code"><pre[^>]*>(.*?)</pre>', html(at), re.DOTALL)
    return [unescape(each) for each in found]


def text(at: AppTest) -> str:
    """Everything the page shows as HTML, captions, headings and code."""
    shown = [*at.header, *at.caption, *at.warning, *at.text, *at.markdown]
    return "\n".join([html(at), *typed(at), *(str(each.value) for each in shown)])
