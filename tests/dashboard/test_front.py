"""The file that browsers open first: where the server is, and what a page is made of."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import streamlit
from playwright.sync_api import Browser

from dashboard.navigation import EVERYWHERE, PAGES
from dashboard.server import front

STATIC = Path(streamlit.__file__).parent / "static"
TRENDS = next(page for page in PAGES if page.path == "trends")
FLEET = next(page for page in PAGES if page.path == "fleet")


def loaded(text: str) -> list[str]:
    """The files of Streamlit's program that a page names."""
    return re.findall(r'(?:src|href)="\./static/js/([\w.-]+)"', text)


def fonts(text: str) -> list[str]:
    """The fonts that a page names."""
    return re.findall(r'<link rel="preload" as="font"[^>]* href="\./app/static/([\w.-]+)"', text)


def test_streamlits_own_file_is_told_where_its_server_is_before_its_program_runs() -> None:
    own = (STATIC / "index.html").read_text()
    text = front.text(FLEET)
    assert text.count("window.__streamlit") == 1 and "window.__streamlit" not in own
    assert text.index("window.__streamlit") < text.index('<script type="module"')
    assert set(loaded(own)) < set(loaded(text))
    assert "SourceSans" in own and "SourceSans" not in text
    assert text.count("<link") == own.count("<link") - 1 + len(fonts(text)) + len(loaded(text)) - len(
        loaded(own)
    )


def test_the_fonts_that_pages_are_set_in_come_before_anything_is_set_in_another() -> None:
    settings = tomllib.loads((Path(front.__file__).parents[1] / ".streamlit" / "config.toml").read_text())
    wanted = sorted(Path(face["url"]).name for face in settings["theme"]["fontFaces"])
    for page in PAGES:
        assert fonts(front.text(page)) == wanted


def test_what_the_program_is_made_of_is_named_before_what_the_page_adds() -> None:
    own = loaded((STATIC / "index.html").read_text())
    assert loaded(front.text(TRENDS))[: len(own)] == own


def test_all_that_is_named_is_there_and_named_once() -> None:
    for page in PAGES:
        files = loaded(front.text(page))
        assert len(files) == len(set(files))
        assert [name for name in files if not (STATIC / "static" / "js" / name).is_file()] == []


@pytest.mark.parametrize("part", sorted({*EVERYWHERE, *(part for page in PAGES for part in page.needs)}))
def test_this_streamlit_has_what_pages_are_said_to_be_made_of(part: str) -> None:
    # Elsewhere it would only come later, and nobody would notice.
    assert list((STATIC / "static" / "js").glob(f"{part}.*.js"))


def test_a_page_with_charts_names_what_draws_them_and_another_does_not() -> None:
    def draws(page: Any) -> bool:
        return any(name.startswith("embed.") for name in loaded(front.text(page)))

    assert draws(TRENDS) and not draws(FLEET)


def test_every_page_of_the_navigation_is_served_with_its_own(served: Any) -> None:
    for page in PAGES:
        status, headers, body = served.get(f"/{page.path}?case=x")
        assert (status, body.decode()) == (200, front.text(page))
        assert headers["cache-control"] == "no-cache" and headers["content-type"].startswith("text/html")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert b"window.__streamlit" not in served.get("/no-such-page")[2]


@pytest.mark.browser
def test_a_browser_asks_for_the_server_at_its_root_and_for_nothing_twice(
    chromium: Browser, served: Any
) -> None:
    context = chromium.new_context()
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.partition("?")[0].removeprefix(served.url)))
    page.goto(f"{served.url}/trends")
    page.wait_for_selector("svg .mark-symbol path", state="attached", timeout=30_000)
    page.wait_for_load_state("networkidle")
    assert sorted(path for path in asked if "_stcore" in path) == ["/_stcore/health", "/_stcore/host-config"]
    named = [path for path in asked if path.startswith("/static/js/")]
    assert len(named) == len(set(named))
    context.close()
