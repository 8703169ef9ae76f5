"""A page of the dashboard through the router, without a browser, and what it shows as text."""

import re
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Button

import dashboard
from dashboard.exports.page_recorder import PageRecord, frame_of
from dashboard.navigation import page_at
from support.waiting import PATIENCE_SECONDS

APP = Path(dashboard.__path__[0]) / "app.py"
#: The pages and their views, as addresses have them.
TODAY, UPGRADE, HARDWARE, RUN_PAIR, TECHNIQUES, HISTORY = (
    "/",
    "/compare",
    "/compare?view=hardware",
    "/compare?view=runs",
    "/explore",
    "/explore?view=history",
)
UTILISATION, PROFILE, REGRESSIONS, RUNS, MACHINES, SCHEDULE = (
    "/explore?view=utilisation",
    "/explore?view=profile",
    "/regressions",
    "/runs",
    "/runs?view=machines",
    "/runs?view=schedule",
)
#: Every page, in each of its views.
VIEWS = (
    *(TODAY, UPGRADE, HARDWARE, RUN_PAIR, TECHNIQUES, HISTORY, UTILISATION, PROFILE, REGRESSIONS),
    *(RUNS, MACHINES, SCHEDULE),
)
#: Opens a page on a database, with the query of its URL.
Open = Callable[..., AppTest]


def opener(monkeypatch: pytest.MonkeyPatch) -> Open:
    """A function that opens addresses, by default the first page."""

    def open_it(url: str, address: str = TODAY, **query: str | list[str]) -> AppTest:
        monkeypatch.setenv("PYROMETER_DATABASE_URL", url)
        at = AppTest.from_file(APP, default_timeout=PATIENCE_SECONDS)
        parts = urlsplit(address)
        for name, value in {**parse_qs(parts.query), **query}.items():
            at.query_params[name] = value
        # Streamlit finds a page before its first run by its file's name, which is its path.
        page = page_at(parts.path.strip("/"))
        return (at.switch_page(page.script) if page.path else at).run()

    return open_it


def html(at: AppTest) -> str:
    """Everything the page shows as HTML, then its panel: scripts of ours show nothing."""
    assert not at.exception
    shown = [cast(Any, each).proto for each in at.get("html")]
    own = (each.body for each in shown if not each.unsafe_allow_javascript)
    return "\n".join(body for body in own if not body.startswith("<style>"))


def csv_of_section(record: PageRecord, heading: str) -> pd.DataFrame:
    """The rows of the CSV file that a section of a page offers."""
    (source,) = [piece.csv_of for piece in record.pieces if (piece.kind, piece.text) == ("heading", heading)]
    assert source is not None
    return frame_of(source)


class TableCells(HTMLParser):
    """The texts of the cells of tables, row by row, and every tag that occurs."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.feed(html)
        self.rows = [[" ".join(cell.split()) for cell in row] for row in self.rows]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += f" {data}"


def typed(at: AppTest) -> list[str]:
    """What the page says to type, and what programs wrote, from top to bottom."""
    found = re.findall(r'<div class="py-code"><pre[^>]*>(.*?)</pre>', html(at), re.DOTALL)
    return [unescape(each) for each in found]


def own_buttons(at: AppTest) -> list[Button]:
    """The buttons of the page itself: search stands above every page."""
    return [each for each in at.button if each.key != "search-open"]


def save_button(at: AppTest) -> Button:
    """The button of the form that triages one finding."""
    return at.button(key="FormSubmitter:triage-Save")


def text(at: AppTest) -> str:
    """Everything the page shows as HTML, captions, headings, what is behind their (i), and code."""
    shown = [*at.header, *at.caption, *at.warning, *at.text, *at.markdown]
    about = [cast(Any, each).proto.help for each in (*at.header, *at.caption)]
    return "\n".join([html(at), *typed(at), *(str(each.value) for each in shown), *about])
