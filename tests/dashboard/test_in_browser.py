"""The pages in a real Chromium: what people see, in light and in dark."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard.components import links
from support.builders.run_records import MLP, RESNET
from support.builders.telemetry import H200
from support.servers.browser import KnownBrowser, Visitor, a_context, beyond, drawn, fits, settle

pytestmark = pytest.mark.browser

Look = Callable[..., Page]
DARK = "rgb(15, 19, 26)"


@pytest.fixture
def home(served: Any) -> str:
    """The address of a dashboard on the filled database."""
    return served.url


@pytest.fixture
def look(visitor: Visitor) -> Look:
    """Open a page."""
    return visitor.open


@pytest.mark.parametrize(
    ("address", "texts"),
    [
        ("/", ["10 of 15", "× 2 crashed", "killed by signal 4 (SIGILL): <illegal> instruction", "47.9"]),
        ("/explore?view=history", ["Latency (ms) · lower is better", "Data"]),
        ("/runs", ["12 runs", "run-0"]),
        ("/runs?run=latest", ["No GPU: CUDA memory was not measured.", "Latency (ms)", "performance"]),
        (links.outcome("run-11", RESNET, "", 1), ["Measure it again", "100 samples in 4 blocks"]),
        (
            "/explore?view=utilisation",
            ["NVIDIA H200", "SM utilisation (hardware counters, GPM) · %", "All windows"],
        ),
    ],
)
def test_every_page_shows_its_numbers_and_fits_the_window(look: Look, address: str, texts: list[str]) -> None:
    page = look(address)
    shows(page, address, texts)
    # In the evening the same page turns dark, and its charts are drawn anew.
    page.emulate_media(color_scheme="dark")
    expect(page.get_by_test_id("stApp")).to_have_css("background-color", DARK)
    settle(page)
    shows(page, address, texts)


def shows(page: Page, address: str, texts: list[str]) -> None:
    """Look for texts and points, and that nothing is cut off."""
    for text in texts:
        expect(page.get_by_text(text, exact=False).first).to_be_visible()
    if "case" in address or "trends" in address:
        expect(page.locator("svg .mark-symbol path").first).to_be_attached()
    assert fits(page)


@pytest.mark.parametrize(("how", "background"), [("light", "rgb(255, 255, 255)"), ("dark", DARK)])
def test_of_two_themes_the_legend_has_the_colours_of_the_lines(look: Look, how: str, background: str) -> None:
    page = look("/explore?view=history", how)
    expect(page.get_by_test_id("stApp")).to_have_css("background-color", background)
    drawn(page, 36)
    lines = page.locator("svg .mark-line path").evaluate_all("all => all.map(e => e.getAttribute('stroke'))")
    keys = page.locator(".py-legend .py-key").evaluate_all(
        "all => all.map(e => getComputedStyle(e).backgroundColor)"
    )
    as_numbers = [tuple(int(line[i : i + 2], 16) for i in (1, 3, 5)) for line in lines]
    assert [f"rgb({r}, {g}, {b})" for r, g, b in as_numbers] == keys
    assert len(set(keys)) == 3


def test_a_deep_link_shows_the_same_selection_after_a_reload_and_back_goes_back(look: Look) -> None:
    page = look(
        "/explore?view=history&" + "metric=throughput&case=" + MLP.replace("/", "%2F").replace("=", "%3D")
    )
    drawn(page, 12)
    expect(page.get_by_text("Throughput (items/s) · higher is better")).to_be_visible()
    page.get_by_role("radio", name="PyTorch version").click()
    drawn(page, 4)
    settle(page)
    assert re.search(r"metric=throughput.*axis=version.*case=mlp_overhead", page.url)
    page.reload()
    settle(page)
    drawn(page, 4)
    expect(page.get_by_text("Throughput (items/s) · higher is better")).to_be_visible()
    expect(page.locator(".py-legend li")).to_have_count(1)
    page.go_back()
    drawn(page, 12)


def test_the_tooltip_of_a_night_names_every_line_in_full(look: Look) -> None:
    page = look("/explore?view=history")
    drawn(page, 36)
    night = page.locator("svg .mark-rect path").nth(5).bounding_box()
    assert night is not None
    page.mouse.move(night["x"] + night["width"] / 2, night["y"] + 4)
    page.mouse.move(night["x"] + night["width"] / 2 + 2, night["y"] + 6)
    names = page.locator("#vg-tooltip-element td.key")
    expect(names).to_have_count(4)
    cut = names.evaluate_all("all => all.filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent)")
    assert cut == []


def test_a_point_opens_the_panel_of_its_case_and_the_way_back_closes_it(look: Look) -> None:
    page = look("/explore?view=history")
    drawn(page, 36)
    page.locator("svg .mark-symbol path").first.click()
    page.wait_for_url("**/explore?view=history&**at=run-0&detail=**")
    settle(page)
    panel = page.get_by_role("dialog")
    expect(panel.get_by_role("heading", name="Processes")).to_be_visible()
    expect(panel.get_by_text("100 samples in 4 blocks").first).to_be_visible()
    page.go_back()
    drawn(page, 36)
    expect(panel).to_have_count(0)
    assert "detail=" not in page.url


def test_a_page_is_shown_once_it_is_whole_and_after_a_while_in_any_case(look: Look) -> None:
    page = look("/explore?view=history")
    page.wait_for_function("document.documentElement.classList.contains('py-shown')")
    main = page.get_by_test_id("stMainBlockContainer")
    loading = "e => (document.documentElement.classList.remove('py-shown'), getComputedStyle(e).visibility)"
    assert main.evaluate(loading) == "hidden"
    # No script of ours shows it a second time.
    expect(main).to_be_visible()


#: Counts how often the container of a page has moved where it could be seen.
MOVES = """
window.moves = 0;
const seen = (one) => one.node?.getAttribute?.("data-testid") === "stMainBlockContainer";
new PerformanceObserver((list) => {
  window.moves += list.getEntries().filter((entry) => entry.sources.some(seen)).length;
}).observe({ type: "layout-shift", buffered: true });
"""


@pytest.mark.parametrize("address", ["/", "/compare", "/explore", "/explore?view=history", "/runs"])
def test_a_page_does_not_move_while_it_loads(address: str, home: str, known: KnownBrowser) -> None:
    page = known.context.new_page()
    page.add_init_script(MOVES)
    page.goto(home + address)
    settle(page)
    assert page.evaluate("window.moves") == 0
    page.close()


def test_a_page_that_is_never_whole_is_shown_for_good(home: str, chromium: Browser) -> None:
    page = a_context(chromium).new_page()
    # The program that draws charts never comes.
    page.route(re.compile(r"/static/js/.*[Vv]ega"), lambda route: None)
    page.goto(home + "/explore?view=history")
    page.wait_for_function("document.documentElement.classList.contains('py-shown')")
    assert page.locator("svg.marks").count() == 0
    # Streamlit makes its container anew: what was read stays to be read.
    main = page.get_by_test_id("stMainBlockContainer")
    main.evaluate("e => e.replaceWith(e.cloneNode(true))")
    assert main.evaluate("e => getComputedStyle(e).visibility") == "visible"
    page.context.close()


def test_a_failure_leads_to_its_log(look: Look) -> None:
    page = look("/")
    page.get_by_role("link", name="Log →").click()
    settle(page)
    expect(page.get_by_text("could not</b> create a primitive")).to_be_visible()


def test_a_gap_stays_a_gap_and_the_pointer_lights_one_row_in_every_panel(look: Look) -> None:
    page = look("/explore?view=utilisation&device=" + H200)
    titles = page.locator("svg .role-title-text")
    expect(titles.first).to_have_text("SM utilisation (hardware counters, GPM) · %")
    lines = page.locator("svg .concat_0_group .mark-line path")
    expect(lines).to_have_count(2)
    panels, rows = titles.count(), page.locator("svg .mark-rect path")
    expect(rows).to_have_count(16 * panels)
    silent = next(place for place in range(16) if 1.2 <= 0.2 * place < 1.7)
    rows.nth(silent).hover(force=True)
    expect(page.locator("#vg-tooltip-element")).to_contain_text("no value")
    lit = "[...document.querySelectorAll('svg .mark-rect path')].filter(e => e.getAttribute('opacity') > 0)"
    page.wait_for_function(f"panels => {lit}.length === panels", arg=panels)


def test_tables_and_commands_of_a_run_are_saved_and_copied(look: Look) -> None:
    page = look("/runs?run=run-11")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    a_table_is_downloaded_as_csv(page)
    its_menu_saves_what_is_seen_as_markdown_and_copies_it(page)
    a_command_is_copied_as_it_stands(page)


def a_command_is_copied_as_it_stands(page: Page) -> None:
    command = page.locator(".py-code pre").last
    page.get_by_role("button", name="Copy: ").last.click()
    expect(page.get_by_role("button", name="Copy: ").last).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == command.text_content() != ""
    # Without the clipboard, as over plain http, the text is chosen to be copied.
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.get_by_role("button", name="Copy: ").last.click()
    assert page.evaluate("getSelection().toString()").strip() == command.text_content()


def its_menu_saves_what_is_seen_as_markdown_and_copies_it(page: Page) -> None:
    with page.expect_download() as download:
        page.locator("[class*=st-key-md-measurements]").get_by_role("button").click()
    title, _, *rest = download.value.path().read_text().splitlines()
    assert title == "## Measurements"
    assert "| Case | Latency (ms) | Throughput (items/s) | Peak RSS (MiB) | n |" in rest
    assert "| Case | Metric | Median | Unit | 95 % interval | Min-max | Spread | n |" in rest
    page.get_by_role("button", name="Copy table").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert copied[0].split("\t")[:3] == ["Case", "Latency (ms)", "Throughput (items/s)"]
    assert len(copied) == 1 + 4
    page.keyboard.press("Escape")


def a_table_is_downloaded_as_csv(page: Page) -> None:
    with page.expect_download() as download:
        page.locator("[class*=st-key-menu-measurements]").get_by_role("button").click()
        page.locator("[class*=st-key-csv-measurements]").get_by_role("button").click()
    file = download.value
    assert file.suggested_filename == "measurements-run-11.csv"
    header, *rows = file.path().read_text().splitlines()
    columns = (
        "run,case,torch,environment,environment_name,metric,point,unit,low,high,smallest,largest,spread,n"
    )
    assert header == columns
    assert len(rows) == 12


def test_panels_stay_within_the_narrowest_phone(look: Look) -> None:
    page = look("/explore?view=utilisation", "phone")
    page.set_viewport_size({"width": 320, "height": 640})
    page.reload()
    settle(page)
    expect(page.locator("[data-testid=stMain] svg.marks").nth(1)).to_be_visible()
    assert fits(page) and beyond(page, "[data-testid=stMain] svg.marks, [data-testid=stMain] svg text") == []
