"""Every page by the rules of axe-core, in light and in dark, and by keyboard alone."""

from typing import Any
from xml.etree import ElementTree

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from dashboard.components import links
from support.builders import upgrade_journals
from support.builders.run_records import RESNET
from support.servers.browser import LOOKS, KnownBrowser, Visitor, fits, settle

pytestmark = pytest.mark.browser

#: What a chart's drawing holds has its names from Vega, thousands of them; the drawing itself is looked at.
CONTEXT = {"exclude": [["svg.marks > g"]]}
#: The other rules look at what is there, whatever its colours.
COLOURS = {"runOnly": ["color-contrast"], "resultTypes": ["violations"]}
ALL = {"resultTypes": ["violations"]}

OPENED = (
    "/regressions?finding=1",
    "/regressions?state=all",
    "/runs?run=latest",
    "/runs?run=no-such-run",
    "/runs?view=machines",
    links.outcome("run-11", RESNET, "", 1),
    "/explore?run=techniques-cpu",
    "/explore?view=history",
    "/explore?view=utilisation",
    "/compare?view=runs",
    f"/compare?run={upgrade_journals.RUN}&detail={upgrade_journals.RESNET}",
)


def violations(page: Page, options: dict[str, Any]) -> list[str]:
    """What axe-core finds, one line for each element."""
    found = Axe().run(page, CONTEXT, options).response["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


def in_both_colours(page: Page) -> list[str]:
    """All violations in light, and those of colours in dark."""
    light = violations(page, ALL)
    page.emulate_media(color_scheme="dark")
    expect(page.get_by_test_id("stApp")).to_have_css("background-color", "rgb(15, 19, 26)")
    return light + [f"dark: {each}" for each in violations(page, COLOURS)]


def pages(page: Page) -> list[str]:
    """The addresses of the navigation."""
    found = page.get_by_test_id("stTopNavLink").evaluate_all("all => all.map(e => e.pathname)")
    assert len(found) >= 5
    return found


def fits_a_phone(page: Page) -> bool:
    """Whether the page is no wider than a phone that it is turned to."""
    _, width, height = LOOKS["phone"]
    page.set_viewport_size({"width": width, "height": height})
    settle(page)
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth") and fits(page)


def test_no_page_of_the_navigation_breaks_a_rule_or_is_wider_than_a_phone(visitor: Visitor) -> None:
    page = visitor.open("/")
    others = pages(page)[1:]
    broken, wide = {"/": in_both_colours(page)}, {"/": not fits_a_phone(page)}
    for address in others:
        visitor.close(page)
        page = visitor.open(address)
        broken[address], wide[address] = in_both_colours(page), not fits_a_phone(page)
    assert {address: found for address, found in broken.items() if found} == {}
    assert [address for address, found in wide.items() if found] == []


@pytest.mark.parametrize("address", OPENED)
def test_nothing_that_is_opened_breaks_a_rule(visitor: Visitor, address: str) -> None:
    assert in_both_colours(visitor.open(address)) == []


def test_a_phone_breaks_no_rule_either(visitor: Visitor) -> None:
    assert violations(visitor.open("/runs?run=latest", "phone"), ALL) == []


def test_an_empty_database_breaks_no_rule(
    chromium: Browser, serve: Any, empty_url: str, known: KnownBrowser
) -> None:
    newcomer = Visitor(chromium, serve(empty_url).url, known)
    page = newcomer.open("/")
    assert in_both_colours(page) == []
    # The others say the same in the same form, but for these two.
    assert (
        in_both_colours(newcomer.open("/compare"))
        == []
        == in_both_colours(newcomer.open("/runs?view=machines"))
    )
    assert newcomer.leave() == []


def focused(page: Page) -> str:
    """The name of what has the focus, and what it is."""
    return page.evaluate(
        "() => { const e = document.activeElement;"
        " return `${e.tagName.toLowerCase()} ${e.getAttribute('aria-label') ?? e.textContent.trim()}` }"
    )


def test_a_chart_is_saved_and_a_page_taken_along_by_keyboard_alone(visitor: Visitor) -> None:
    page = visitor.open(links.outcome("run-11", RESNET, "", 1))
    expect(page.locator("svg .mark-symbol path").first).to_be_attached()
    reached: list[str] = []
    while not any("SVG file of the chart: Distribution" in each for each in reached):
        page.keyboard.press("Tab")
        reached.append(focused(page))
        assert len(reached) < 80, reached
    # Streamlit's own buttons beside a chart are hidden until the pointer is over it.
    seen = page.get_by_role("button", name="Show data: Distribution")
    seen.focus()
    expect(seen.locator("xpath=ancestor::*[@data-testid='stElementToolbar']")).to_have_css("opacity", "1")
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG file of the chart: Distribution").press("Enter")
    assert download.value.suggested_filename.endswith("-2.svg")
    picture = ElementTree.fromstring(download.value.path().read_text())
    texts = [each.text or "" for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "Samples" in texts and any("resnet50" in text and "samples in" in text for text in texts)
    assert any(text.startswith(f"{visitor.home}/runs?run=run-11") for text in texts)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    settle(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Page as Markdown").press("Enter")
    text = download.value.path().read_text()
    assert text.startswith(f"# Runs\n\n[Runs]({visitor.home}/runs?run=run-11")
    settle(page)
