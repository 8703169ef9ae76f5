"""A table of many rows in a browser: Streamlit shows all of them, sorts, and leads to a run."""

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
