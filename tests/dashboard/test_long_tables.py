"""Tables of many rows in a browser: the first ones are seen, and a button shows all."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from dashboard.components import links
from support.builders import technique_runs
from support.builders.technique_runs import CPU, GPU, Measured
from support.pages import HARDWARE
from support.servers.browser import Visitor, fits, settle

pytestmark = pytest.mark.browser

CASES = 60
#: What is seen at first.
WIDE, NARROW = 25, 8


@pytest.fixture(scope="module")
def home(serve: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a dashboard with so many cases on two kinds of hardware."""
    url = f"sqlite:///{tmp_path_factory.mktemp('long')}/pyrometer.db"
    for hardware, factor in ((CPU, 2.0), (GPU, 1.0)):
        cases = [Measured(f"model{n:02}/infer/-/eager", (factor * (1.0 + n),)) for n in range(CASES)]
        run = technique_runs.run(f"run-{len(hardware)}", hardware=hardware)
        technique_runs.save(url, run, technique_runs.outcomes(cases))
    return serve(url).url


def height(page: Page) -> int:
    """Of all that the page shows, in pixels."""
    return page.get_by_test_id("stMain").evaluate("e => e.scrollHeight")


@pytest.mark.parametrize(("how", "first"), [("light", WIDE), ("phone", NARROW)])
def test_the_first_of_many_cases_are_seen_and_a_button_shows_all(
    visitor: Visitor, how: str, first: int
) -> None:
    page = visitor.open(HARDWARE, how)
    table = page.get_by_role("region", name="Case by case", exact=True)
    seen, button = table.locator("tbody tr:visible"), page.get_by_text(f"Show all {CASES} rows")
    expect(seen).to_have_count(first)
    short = height(page)
    # Of those that fit a filter the first are seen too, and paper has all.
    page.get_by_label("Filter Case by case", exact=True).fill("model0")
    expect(seen).to_have_count(min(first, 10))
    page.get_by_label("Filter Case by case", exact=True).fill("")
    page.emulate_media(media="print")
    expect(seen).to_have_count(CASES)
    page.emulate_media(media="screen")
    expect(seen).to_have_count(first)
    button.click()
    expect(seen).to_have_count(CASES)
    expect(button).to_be_hidden()
    assert height(page) > short and fits(page)
    # What a reader opened stays so while Streamlit shows the table anew.
    box = page.get_by_role("combobox", name="Reference")
    # A list that scrolls away closes.
    box.scroll_into_view_if_needed()
    settle(page)
    box.click()
    page.get_by_role("option", name=CPU, exact=True).click()
    page.wait_for_url("**to=**")
    settle(page)
    expect(seen).to_have_count(CASES)


def test_no_table_of_a_run_scrolls_by_itself(visitor: Visitor) -> None:
    page = visitor.open(links.run(f"run-{len(CPU)}"))
    for name in ("Measurements", "Outcomes"):
        table = page.get_by_role("region", name=name, exact=True)
        expect(table.locator("tbody tr:visible")).to_have_count(WIDE)
        assert table.evaluate("e => e.scrollHeight - e.clientHeight") == 0


def test_sorted_rows_are_chosen_anew_and_all_are_copied(visitor: Visitor) -> None:
    page = visitor.open(HARDWARE)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    table = page.get_by_role("region", name="Case by case", exact=True)
    seen = table.locator("tbody tr:visible")
    expect(seen).to_have_count(WIDE)
    expect(seen.first).to_contain_text("model00")
    table.locator("thead th", has_text=CPU).click()
    expect(seen.first).to_contain_text(f"model{CASES - 1}")
    expect(seen).to_have_count(WIDE)
    page.locator("[class*=st-key-menu-hardware-latency_floor-cases]").get_by_role("button").click()
    page.get_by_role("button", name="Copy table").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert len(copied) == 1 + CASES
    # A row that is not seen is copied as one that is.
    assert len({len(row.split()) for row in copied[1:]}) == 1


@pytest.mark.parametrize(("how", "seen"), [("light", True), ("phone", False)])
def test_a_phone_lists_no_cell_without_a_value(visitor: Visitor, how: str, seen: bool) -> None:
    page = visitor.open(HARDWARE, how)
    table = page.get_by_role("region", name="Hardware, normalised", exact=True)
    expect(table).to_be_visible()
    empty = table.get_by_text("–", exact=True)
    assert empty.count() > 0
    assert [each.is_visible() for each in empty.all()] == [seen] * empty.count()


@pytest.mark.parametrize(
    ("address", "label"), [(HARDWARE, "Case by case"), ("/explore?view=history", "The newest points")]
)
def test_a_row_has_one_line(visitor: Visitor, address: str, label: str) -> None:
    page = visitor.open(address, "light")
    rows = page.get_by_role("region", name=label, exact=True).locator("tbody tr:visible")
    expect(rows.first).to_be_visible()
    heights: list[float] = rows.evaluate_all("all => all.map(e => e.getBoundingClientRect().height)")
    assert max(heights) <= 36
