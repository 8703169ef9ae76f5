"""The page in a real Chromium: wide, dark, on a phone, on paper, with and without its script."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from reports.page import upgrade_html
from support.builders.upgrade_reports import a_large_upgrade, a_mixed_upgrade
from support.servers.browser import a_context

pytestmark = pytest.mark.browser

Look = Callable[..., Page]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    found: dict[str, Path] = {}
    for name, upgrade in (("mixed", a_mixed_upgrade()), ("large", a_large_upgrade())):
        found[name] = folder / f"{name}.html"
        found[name].write_text(upgrade_html(upgrade), encoding="utf-8")
    return found


@pytest.fixture
def look(chromium: Browser, files: dict[str, Path]) -> Iterator[Look]:
    """Open a report; at the end nothing may have been complained about or asked for."""
    complaints: list[str] = []
    contexts: list[Any] = []

    def open_page(name: str, width: int = 1280, **options: Any) -> Page:
        context = a_context(chromium, viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text))
        home = files[name].as_uri()
        page.on("request", lambda request: complaints.append(request.url.removeprefix(home)))
        page.goto(home)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [each for each in complaints if each] == []


@pytest.mark.parametrize("name", ["mixed", "large"])
def test_it_fits_every_window_and_cuts_nothing(look: Look, name: str) -> None:
    page = look(name)
    outside = """all => all.filter(e => e.offsetParent && !e.closest('.py-scroll'))
        .map(e => e.getBoundingClientRect())
        .filter(box => box.right > innerWidth + 1 || box.left < -1).length"""
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)"
    for width in (1280, 768, 390, 320):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.locator("html").evaluate("e => e.scrollWidth - e.clientWidth") <= 0
        assert page.locator("main *").evaluate_all(outside) == 0
        assert page.locator(".forest th, .forest td, .card dd, .banner p").evaluate_all(cut) == []


def test_a_point_lies_where_its_number_says(look: Look) -> None:
    page = look("mixed")
    middle = "e => { const r = e.getBoundingClientRect(); return r.x + r.width / 2 }"
    zero = page.locator(".forest .zero").first.evaluate(middle)

    def point(word: str) -> list[float]:
        return page.locator(f".forest tbody .mark.{word}").evaluate_all(f"all => all.map({middle})")

    assert all(place > zero + 1 for place in point("slower"))
    assert all(place < zero - 1 for place in point("faster"))
    assert all(abs(place - zero) < 25 for place in point("same"))


def test_light_and_dark_are_two_looks_and_paper_is_light(look: Look) -> None:
    background = "e => getComputedStyle(e).backgroundColor"
    dark = look("mixed", color_scheme="dark")
    assert dark.locator("body").evaluate(background) == "rgb(15, 19, 26)"
    assert look("mixed", color_scheme="light").locator("body").evaluate(background) == "rgb(255, 255, 255)"
    dark.emulate_media(media="print")
    assert dark.locator("body").evaluate(background) == "rgb(255, 255, 255)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(look: Look, scheme: str) -> None:
    page = look("mixed", color_scheme=scheme)
    # Relative luminance and contrast as in WCAG 2.2; behind everything is the body or the head of a table.
    contrast = """(all) => {
      const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
      const light = (colour) => {
        canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((c) => c / 255)
          .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      return Math.min(...all.map((e) => {
        let behind = e;
        while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
        const [a, b] = [light(getComputedStyle(e).color), light(getComputedStyle(behind).backgroundColor)];
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      }));
    }"""
    wanted = (
        ".decision",
        ".quiet",
        "thead th",
        ".py-reason",
        ".forest td span",
        ".py-case",
        ".card dd > span",
        ".shaded",
    )
    found = {selector: page.locator(selector).evaluate_all(contrast) for selector in wanted}
    assert {selector: least for selector, least in found.items() if not 4.5 <= least <= 21} == {}


def test_a_heading_sorts_its_table_by_numbers(look: Look) -> None:
    page = look("large")
    table = page.get_by_role("region", name="Every case")
    change = table.get_by_role("columnheader", name="change")
    values = "all => all.map(e => Number(e.dataset.value))"
    for order in ("ascending", "descending"):
        change.get_by_role("button").click()
        expect(change).to_have_attribute("aria-sort", order)
        found = table.locator("tbody td:nth-child(4)").evaluate_all(values)
        assert len(found) == 60 and found == sorted(found, reverse=order == "descending")


def test_what_has_no_number_is_last_whichever_way(look: Look) -> None:
    page = look("mixed")
    table = page.get_by_role("region", name="Every case")
    button = table.get_by_role("columnheader", name="change").get_by_role("button")
    for _ in range(2):
        button.click()
        cells = table.locator("tbody td:nth-child(4)").all_inner_texts()
        assert set(cells[-5:]) == {"–"} and "–" not in cells[:-5]


def test_it_says_everything_without_its_script(look: Look) -> None:
    page = look("mixed", java_script_enabled=False)
    expect(page.get_by_role("heading", level=1)).to_have_text("2.13.0 to 2.15.0")
    expect(page.locator(".decision")).to_contain_text("No-go")
    page.get_by_text("The command of every case").click()
    expect(page.locator("#again pre")).to_be_visible()


def test_on_paper_nothing_is_folded_or_cut(look: Look) -> None:
    # As wide as A4 between margins of 12 mm.
    page = look("mixed", 703)
    page.emulate_media(media="print")
    assert page.locator("html").evaluate("e => e.scrollWidth - e.clientWidth") <= 0
    wider = "all => all.filter(e => e.getBoundingClientRect().right > innerWidth + 1).length"
    assert page.locator("main *").evaluate_all(wider) == 0
    folded = page.locator("#others details:not([open]) table, #again details:not([open]) pre")
    assert folded.count() >= 2
    assert folded.evaluate_all("all => all.filter(e => !e.checkVisibility()).length") == 0
