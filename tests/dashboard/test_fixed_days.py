"""Pages of fixed days in a browser: their tables, the context bar, search, and the chart of a finding."""

import re
from urllib.parse import urlencode

from playwright.sync_api import Locator, expect

from support.builders.run_records import RESNET
from support.builders.technique_runs import BERT, CPU, fingerprint
from support.pages import HARDWARE, HISTORY, MACHINES, REGRESSIONS, RUNS, TECHNIQUES
from support.servers.browser import Visitor, fits, settle

WORKLOAD = "resnet50/infer/batch=8,image=64"


def test_environments_are_sorted_by_a_click_on_a_column(past_visitor: Visitor) -> None:
    page = past_visitor.open(MACHINES)
    table = page.get_by_role("region", name="Environments", exact=True).locator("table")
    first = table.locator("tbody tr").first
    expect(first).to_contain_text("2.15.0")
    table.locator("thead th", has_text="Environment").click()
    # Ascending by name.
    expect(first).to_contain_text("2.13.0")


def test_a_finding_takes_two_lines_of_the_list(past_visitor: Visitor) -> None:
    page = past_visitor.open("/regressions")
    rows = page.get_by_role("region", name="Findings", exact=True).locator("tbody tr")
    expect(rows).to_have_count(1)
    assert rows.first.evaluate("e => e.getBoundingClientRect().height") <= 45
    # The whole names of builds, hardware and preset are at hand.
    expect(rows.first.locator("span[title*='torch 2.16.0.dev']")).to_have_attribute(
        "title", re.compile("quiet")
    )


def test_streamlit_s_own_csv_which_may_hold_formulas_is_not_offered(past_visitor: Visitor) -> None:
    page = past_visitor.open(HISTORY)
    page.get_by_test_id("stVegaLiteChart").first.hover()
    page.get_by_label("Show data").first.click()
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


def test_a_field_leaves_the_rows_with_its_words(past_visitor: Visitor) -> None:
    page = past_visitor.open("/runs?run=techniques-cpu")
    page.get_by_text("Intervals and spread of every metric").click()
    table = page.get_by_role("region", name="Every metric", exact=True)
    field = page.get_by_label("Filter Every metric", exact=True)
    rows, seen = table.locator("tbody tr"), table.locator("tbody tr:visible")
    as_it_came, cases = rows.all_inner_texts(), names(rows)
    wanted = [
        case
        for case, text in zip(cases, as_it_came, strict=True)
        if "eager" in case and "throughput" in text.lower()
    ]
    assert 0 < len(wanted) < len(as_it_came) and len(set(cases)) < len(cases)
    expect(page.get_by_role("status").filter(has_text=f"{len(cases)} rows")).to_have_count(1)
    field.focus()
    page.keyboard.type("EAGER  throughput")
    expect(seen).to_have_count(len(wanted))
    expect(page.get_by_text(f"{len(wanted)} of {len(cases)} rows", exact=True)).to_be_visible()
    # Each row that is left has the name of its case, which stood in a row above it; sorted they still have.
    assert names(seen) == wanted
    median = table.locator("thead th", has_text="Median")
    median.click()
    assert sorted(names(seen)) == sorted(wanted)
    values = [float(text.replace(",", "")) for text in seen.locator("td:nth-child(3)").all_inner_texts()]
    assert values == sorted(values, reverse=True)
    # Paper has no field, and the whole table.
    page.emulate_media(media="print")
    expect(field).to_be_hidden()
    expect(seen).to_have_count(len(cases))
    page.emulate_media(media="screen")
    expect(seen).to_have_count(len(wanted))
    field.fill("")
    median.click()
    median.click()
    assert rows.all_inner_texts() == as_it_came


def test_what_was_typed_stays_when_streamlit_shows_the_table_anew(past_visitor: Visitor) -> None:
    page = past_visitor.open("/runs")
    field = page.get_by_label("Filter Runs", exact=True)
    table = page.get_by_role("region", name="Runs", exact=True)
    every, seen = table.locator("tbody tr"), table.locator("tbody tr:visible")
    field.fill("run-1")
    expect(seen).not_to_have_count(every.count())
    runs = seen.all_inner_texts()
    page.get_by_label("State").click()
    page.get_by_role("option", name="complete", exact=True).click()
    page.wait_for_url(re.compile("state=complete"))
    expect(field).to_have_value("run-1")
    expect(seen).to_have_count(len([text for text in runs if "complete" in text.lower()]))


def test_enter_in_the_field_sends_no_form_and_few_rows_have_no_field(past_visitor: Visitor) -> None:
    for how in ("light", "phone"):
        page = past_visitor.open("/runs", how)
        field = page.get_by_label("Filter Runs", exact=True)
        field.fill("run-1")
        field.press("Enter")
        seen = page.get_by_role("region", name="Runs", exact=True).locator("tbody tr:visible")
        assert seen.count() > 0 and all("run-1" in text for text in seen.all_inner_texts())
        assert page.url == f"{past_visitor.home}/runs" and fits(page)
    page = past_visitor.open(f"{HISTORY}&metric=latency")
    few = page.get_by_role("region", name="Other changes", exact=True).locator("tbody tr")
    assert few.count() <= 12 and page.get_by_label("Filter Other changes").count() == 0


def names(rows: Locator) -> list[str]:
    """The case of each row, which stands in the first of those that share it."""
    found: list[str] = []
    for text in rows.locator("td:first-child").all_inner_texts():
        found.append(text or found[-1])
    return found


def seconds(texts: list[str]) -> list[float]:
    """Durations as the page writes them, such as `1 h 00 min`; -1 for none."""
    units = {"h": 3600.0, "min": 60.0, "s": 1.0}
    found = [re.findall(r"([\d.]+) (h|min|s)\b", text) for text in texts]
    return [sum(float(number) * units[unit] for number, unit in each) if each else -1.0 for each in found]


def test_two_runs_ticked_in_the_table_lead_to_their_comparison(past_visitor: Visitor) -> None:
    page = past_visitor.open(RUNS)
    for run in ("run-7", "run-9"):
        page.get_by_label(f"Compare {run}", exact=True).check()
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_url("**/compare?view=runs&run=run-9&run=run-7")
    settle(page)
    for side, run in (("A, the baseline", "run-7"), ("B", "run-9")):
        expect(page.get_by_role("combobox", name=side, exact=True)).to_have_value(re.compile(run))


def test_a_case_that_was_opened_in_a_run_is_the_workload_of_the_next_view(past_visitor: Visitor) -> None:
    past_visitor.open(f"{RUNS}?{urlencode({'run': 'techniques-cpu', 'case': f'{BERT}/eager'})}")
    page = past_visitor.open(TECHNIQUES)
    expect(page).to_have_url(re.compile(f"hardware={fingerprint(CPU)[:12]}&workload=bert_base"))
    expect(page.get_by_role("combobox", name="Workload")).to_have_value(re.compile("bert_base"))


def test_techniques_of_a_shared_label_are_shown_after_the_choice_of_a_machine(past_visitor: Visitor) -> None:
    page = past_visitor.open(f"{TECHNIQUES}?{urlencode({'hardware': CPU, 'workload': WORKLOAD})}")
    expect(page.get_by_role("heading", name="Which hardware?")).to_be_visible()
    expect(page.locator("table, canvas, svg.marks")).to_have_count(0)
    page.get_by_role("link", name="host-0ac5").click()
    settle(page)
    expect(page.locator("h2.py-empty")).to_have_count(0)
    assert f"hardware={fingerprint(CPU)[:12]}" in page.url and "workload=resnet50" in page.url
    expect(page.get_by_role("combobox", name="Hardware")).to_have_value(f"{CPU} ({fingerprint(CPU)[:8]})")
    expect(page.locator("table").first).to_be_attached()


def test_a_browser_remembers_and_writes_it_into_the_address(past_visitor: Visitor) -> None:
    first = past_visitor.open(f"{HISTORY}&metric=throughput&case={RESNET}")
    expect(first.locator("p[data-context]").first).to_have_attribute("data-context", "metric=throughput")
    # A script of the page writes it.
    first.wait_for_function("document.cookie.includes('pyrometer_context')")
    again = past_visitor.open(HISTORY)
    expect(again).to_have_url(f"{past_visitor.home}{HISTORY}&metric=throughput")
    settle(again)
    # The address that was written is the page's own: nothing of it is a complaint.
    again.reload()
    settle(again)
    expect(again.get_by_test_id("stAlert")).to_have_count(0)


def test_on_a_phone_a_page_fits_and_a_choice_is_as_wide_as_it(past_visitor: Visitor) -> None:
    for address in (TECHNIQUES, HISTORY, HARDWARE, RUNS):
        page = past_visitor.open(address, "phone")
        choices = page.locator(".stSelectbox, .stMultiSelect")
        expect(choices.first).to_be_visible()
        widths = choices.evaluate_all("all => all.map(e => e.getBoundingClientRect().width)")
        assert widths and min(widths) > 340, (address, widths)
        assert fits(page), address


def test_a_shortcut_some_letters_and_enter_lead_there(past_visitor: Visitor) -> None:
    page = past_visitor.open("/")
    # Its shortcut is known once the button stands.
    expect(page.get_by_role("button", name="Search").first).to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Case, finding, run or PyTorch")).to_be_focused()
    page.keyboard.type("run-7")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs?run=run-7")
    settle(page)
    expect(page.get_by_role("dialog")).to_have_count(0)


#: The text or the accessible name of each element, and the middle of it from the left.
_PLACES = """all => all.map(e => {
  const box = e.getBoundingClientRect();
  return [e.getAttribute("aria-label") ?? e.textContent, box.x + box.width / 2];
})"""


def places(found: Locator, name: str) -> dict[str, float]:
    """Where those elements stand that have a date, by their dates."""
    named = [(re.search(name, text or ""), x) for text, x in found.evaluate_all(_PLACES)]
    return {match[1]: x for match, x in named if match}


def test_each_date_stands_at_its_night(past_visitor: Visitor) -> None:
    page = past_visitor.open(f"{REGRESSIONS}?finding=1")
    page.locator("svg .mark-symbol path").first.wait_for()
    nights = places(page.locator("svg .mark-symbol path"), r"^night: (\d\d \w{3});")
    dates = places(page.locator("svg .role-axis-label text"), r"^(\d\d \w{3})$")
    assert len(nights) == 4 and set(dates) >= set(list(nights)[1:])
    a_day = (nights["04 Sep"] - nights["01 Sep"]) / 3
    # Nights begin at 02:00 UTC, two hours after the tick of their day.
    assert all(abs(nights[date] - dates[date]) < a_day / 6 for date in dates)


def test_a_command_below_a_chart_is_copied_and_no_picture_saved(past_visitor: Visitor) -> None:
    page = past_visitor.open(f"{REGRESSIONS}?finding=1")
    page.locator("svg .mark-symbol path").first.wait_for()
    saved: list[str] = []
    page.on("download", lambda file: saved.append(file.suggested_filename))
    page.get_by_role("button", name="Copy: ").last.click()
    expect(page.get_by_role("button", name="Copy: ").last).to_have_text(re.compile("Copied|Press Ctrl"))
    with page.expect_download():
        page.get_by_role("button", name="SVG file of the chart").first.click()
    assert len(saved) == 1


def test_a_reader_s_own_clock_is_chosen_once_for_all_pages(past_visitor: Visitor) -> None:
    page = past_visitor.open(f"{RUNS}?run=run-11")
    began = page.locator(".stHtml", has=page.locator("h1")).first
    expect(began).to_contain_text("2026-09-12 02:00 UTC,")
    page.get_by_role("radio", name=re.compile("^Asia")).click()
    expect(began).to_contain_text("2026-09-12 07:30 UTC+05:30,")
    # Also in a new session of this browser, and on a page without a context bar.
    page.reload()
    settle(page)
    expect(began).to_contain_text("2026-09-12 07:30 UTC+05:30,")
    listed = past_visitor.open(RUNS).get_by_role("region", name="Runs", exact=True)
    expect(listed.locator("tr", has_text="run-11")).to_contain_text("2026-09-12 07:30 UTC+05:30")
    page.get_by_role("radio", name="UTC", exact=True).click()
    expect(began).to_contain_text("2026-09-12 02:00 UTC,")


def test_back_comes_to_where_the_reader_was(past_visitor: Visitor) -> None:
    page = past_visitor.open(RUNS)
    page.set_viewport_size({"width": 1280, "height": 400})
    main = page.get_by_test_id("stMain")
    link = page.get_by_role("link", name="run-3", exact=True)
    link.scroll_into_view_if_needed()
    place = main.evaluate("e => e.scrollTop")
    assert place > 0
    link.click()
    page.wait_for_url("**run=run-3**")
    settle(page)
    # Another page begins at its top.
    assert main.evaluate("e => e.scrollTop") == 0
    page.go_back()
    settle(page)
    there = "place => document.querySelector('[data-testid=stMain]').scrollTop === place"
    page.wait_for_function(there, arg=place)
