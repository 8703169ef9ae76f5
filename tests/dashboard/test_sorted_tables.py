"""A table of many rows in a browser: Streamlit shows all of them, sorts, and leads to a run."""

import re

from playwright.sync_api import expect

from support.pages import MACHINES
from support.servers.browser import Visitor, fits


def test_environments_are_sorted_by_a_click_on_a_column(past_visitor: Visitor) -> None:
    for how in ("light", "phone"):
        page = past_visitor.open(MACHINES, how)
        table = page.get_by_test_id("stDataFrame")
        expect(table).to_have_count(1)
        assert fits(page)
    page = past_visitor.open(MACHINES)
    table = page.get_by_test_id("stDataFrame")
    cells = table.locator("tbody tr")
    expect(cells.first).to_contain_text("2.15.0")
    table.scroll_into_view_if_needed()
    table.click(position={"x": 60, "y": 15})
    # Ascending by name.
    expect(cells.first).to_contain_text("2.13.0")


def test_streamlit_s_own_csv_which_may_hold_formulas_is_not_offered(past_visitor: Visitor) -> None:
    page = past_visitor.open(MACHINES)
    page.get_by_test_id("stDataFrame").hover()
    toolbar = page.get_by_test_id("stElementToolbar").filter(has=page.get_by_label("Search"))
    expect(toolbar).to_have_count(1)
    expect(toolbar.get_by_label("Download")).to_have_count(0)


def test_a_table_is_sorted_by_its_heads_and_comes_back(past_visitor: Visitor) -> None:
    page = past_visitor.open("/runs")
    table = page.get_by_role("region", name="Runs", exact=True).locator("table")
    took = table.locator("thead th", has_text="Took")
    cells = table.locator("tbody td:nth-child(8)")
    expect(took).to_have_attribute("tabindex", "0")
    as_it_came = cells.all_inner_texts()
    took.click()
    expect(took).to_have_attribute("aria-sort", "descending")
    assert seconds(cells.all_inner_texts()) == sorted(seconds(as_it_came), reverse=True)
    # By the keyboard too; what took nothing that is known stays last.
    took.press("Enter")
    expect(took).to_have_attribute("aria-sort", "ascending")
    assert seconds(cells.all_inner_texts()) == sorted(seconds(as_it_came), key=lambda each: (each < 0, each))
    started = table.locator("thead th", has_text="Started")
    started.click()
    expect(started).to_have_attribute("aria-sort", "ascending")
    moments = [text.splitlines()[-1] for text in table.locator("tbody td:nth-child(2)").all_inner_texts()]
    assert moments == sorted(moments) and took.get_attribute("aria-sort") is None
    started.click()
    started.click()
    expect(cells).to_have_text(as_it_came, use_inner_text=True)


def seconds(texts: list[str]) -> list[float]:
    """Durations as the page writes them, such as `1 h 00 min`; -1 for none."""
    units = {"h": 3600.0, "min": 60.0, "s": 1.0}
    found = [re.findall(r"([\d.]+) (h|min|s)\b", text) for text in texts]
    return [sum(float(number) * units[unit] for number, unit in each) if each else -1.0 for each in found]
