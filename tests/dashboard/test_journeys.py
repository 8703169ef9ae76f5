"""What people come for, from the first page to the answer, in a real browser."""

import re
import struct
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlsplit

import pytest
from playwright.sync_api import Browser, Download, Locator, Page, expect

from dashboard.components import links
from support.builders import technique_runs, upgrade_journals
from support.builders.run_records import MLP, RESNET
from support.servers.browser import Visitor, fits, settle
from support.sqlite_files import sqlite_copy

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def home(serve: Any, full_url: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a dashboard on a database of this module's own: triage writes."""
    return serve(sqlite_copy(full_url, tmp_path_factory.mktemp("journeys"))).url


def follow(page: Page, link: Locator) -> None:
    """Follow a link and wait for what it leads to."""
    before = page.url
    link.click()
    page.wait_for_function("before => location.href !== before", arg=before)
    settle(page)
    expect(page.get_by_test_id("stException")).to_have_count(0)


def choose(page: Page, label: str, option: str) -> None:
    """Choose from a list by its label, as a reader with a mouse does."""
    box = page.get_by_role("combobox", name=label)
    # A list that scrolls away closes.
    box.scroll_into_view_if_needed()
    settle(page)
    box.click()
    page.get_by_role("option", name=option, exact=True).click()
    settle(page)


def tab_to(page: Page, label: str) -> None:
    """Press Tab until what is called `label` has the focus."""
    name = (
        "() => { const e = document.activeElement;"
        # The name of an icon is no part of what a folded section is called.
        " if (e.tagName === 'SUMMARY') return (e.querySelector('p') ?? e).textContent;"
        " return e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? e.textContent }"
    )
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate(name).strip() == label:
            return
    raise AssertionError(f"no Tab leads to {label}")


def saved(page: Page, name: str) -> Download:
    with page.expect_download() as download:
        page.get_by_role("button", name=name).first.click()
    return download.value


def test_last_nights_regression_is_found_and_understood(visitor: Visitor) -> None:
    page = visitor.open("/")
    expect(page.get_by_text("1 confirmed regression").first).to_be_visible()
    follow(page, page.locator('.stHtml a[href*="finding="]').first)
    expect(page.get_by_text("Latency (min-based) rose by 10.0 % since")).to_be_visible()
    expect(page.get_by_role("heading", name="What changed between the nights")).to_be_visible()
    expect(page.get_by_text("pyrometer upgrade old new --case KEY")).to_be_visible()
    follow(page, page.get_by_role("link", name="Run after →"))
    expect(page.get_by_role("heading", name="Measurements")).to_be_visible()
    page.go_back()
    settle(page)
    follow(page, page.get_by_role("link", name="Trend →"))
    expect(page.locator("svg .mark-symbol path").first).to_be_attached()
    assert parse_qs(urlsplit(page.url).query)["case"] == [MLP]


def test_an_upgrade_is_decided_and_the_decision_handed_on(
    visitor: Visitor, chromium: Browser, home: str
) -> None:
    page = visitor.open("/")
    follow(page, page.get_by_role("link", name="Compare", exact=True))
    verdict = page.locator(".py-verdict")
    expect(verdict).to_contain_text("No-go")
    expect(page).to_have_title(re.compile(r"2\.13\.0.* to .*2\.15\.0.*: no-go · Pyrometer"))
    moved = page.get_by_role("region", name=re.compile(r"Cases: \d+ slower"))
    expect(moved.get_by_text("▲ slower").first).to_be_visible()
    page.get_by_text("Why: every reason").click()
    expect(page.get_by_role("heading", name="Reasons, in order of weight")).to_be_visible()
    # A team that accepts more than five per cent of a case changes the limit, and the address keeps it.
    settle(page)
    page.get_by_text("Change policy").click()
    page.get_by_label("A case is materially slower from, %").fill("20")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Judge", exact=True).click()
    page.wait_for_url("**case=20**")
    settle(page)
    expect(verdict).to_contain_text(re.compile(r"✓\s*Go"))
    expect(page.get_by_text("Judged by the rules in this address")).to_be_visible()
    expect(page).to_have_title(re.compile(r": go · Pyrometer"))
    report = saved(page, "Report as Markdown")
    assert report.suggested_filename.endswith(".md") and "No-go" not in report.path().read_text()
    colleague = Visitor(chromium, home)
    other = colleague.open(page.url.removeprefix(home))
    expect(other.get_by_text("Judged by the rules in this address")).to_be_visible()
    expect(other.locator(".py-verdict")).to_contain_text(re.compile(r"✓\s*Go"))
    follow(other, other.get_by_role("link", name="All outcomes of this run →"))
    follow(other, other.get_by_role("link", name="The verdict on its two environments: Upgrade →"))
    expect(other.locator(".py-verdict")).to_contain_text("No-go")
    assert colleague.leave() == []


def test_a_researcher_ranks_one_workload_against_another_baseline_and_opens_a_case(visitor: Visitor) -> None:
    page = visitor.open("/explore?run=techniques-cpu")
    workload = technique_runs.RESNET
    follow(page, page.locator(f'.py-matrix th a[href*="{quote_plus(workload)}"]').first)
    assert parse_qs(urlsplit(page.url).query)["workload"] == [workload]
    expect(page).to_have_title(re.compile("Techniques: resnet50 infer .*· Pyrometer"))
    expect(page.get_by_text("compile=max-autotune is the fastest: 2.50×")).to_be_visible()
    choose(page, "Baseline", "compile=default")
    expect(page.get_by_role("heading", name="Speed-up over compile=default")).to_be_visible()
    # 50 ms against 40 ms.
    expect(page.get_by_role("region", name="resnet50 infer").get_by_text("▲ 1.25×")).to_be_visible()
    before = page.url
    follow(page, page.get_by_role("region", name="resnet50 infer").get_by_role("link").first)
    panel = page.get_by_role("dialog")
    expect(panel.get_by_role("heading", name="Processes")).to_be_visible()
    expect(panel.get_by_text("pyrometer run --case")).to_be_visible()
    page.go_back()
    settle(page)
    expect(panel).to_have_count(0)
    assert page.url == before


def test_a_panel_that_is_closed_leaves_the_address(visitor: Visitor) -> None:
    page = visitor.open(f"/compare?run={upgrade_journals.RUN}&detail={quote_plus(upgrade_journals.RESNET)}")
    panel = page.get_by_role("dialog")
    expect(panel.get_by_role("heading", name="Every metric")).to_be_visible()
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    page.wait_for_function("() => !location.search.includes('detail')")
    expect(page.locator(".py-verdict").first).to_contain_text("No-go")


def test_a_page_is_taken_along_while_a_panel_is_open(visitor: Visitor) -> None:
    page = visitor.open(f"/compare?run={upgrade_journals.RUN}&detail={quote_plus(upgrade_journals.RESNET)}")
    panel = page.get_by_role("dialog")
    with page.expect_download() as download:
        panel.get_by_role("button", name="Page as Markdown").click()
    text = download.value.path().read_text()
    assert "## Every metric" in text and "## What moved" in text


def test_from_a_run_to_an_outcome_to_its_samples_and_the_files(visitor: Visitor, tmp_path: Path) -> None:
    page = visitor.open("/runs")
    choose(page, "State", "interrupted")
    expect(page.get_by_role("heading", name="1 run", exact=True)).to_be_visible()
    follow(page, page.get_by_role("link", name="run-11", exact=True))
    row = page.get_by_role("region", name="Outcomes").get_by_role("row").filter(has_text="resnet50").first
    follow(page, row.get_by_role("link", name="Open →"))
    expect(page.get_by_text("100 samples in 4 blocks").first).to_be_visible()
    expect(page.locator("svg .mark-symbol path").first).to_be_attached()
    picture = saved(page, "SVG file of the chart: In the order they were taken")
    assert picture.suggested_filename.startswith("samples-run-11-resnet50")
    assert picture.suggested_filename.endswith("-0.svg")
    drawing = ElementTree.parse(picture.path()).getroot()
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    title = drawing.find("{http://www.w3.org/2000/svg}title")
    assert title is not None and "100 samples" in (title.text or "")
    text = picture.path().read_text()
    assert "data:font" in text or "data:application" in text
    assert "url(http" not in text and text.count("<path") > 100
    header = saved(page, "PNG file of the chart: In the order they were taken").path().read_bytes()[:24]
    width, height = struct.unpack(">II", header[16:24])
    shown = page.locator("svg.marks").first.bounding_box()
    assert header.startswith(b"\x89PNG") and shown is not None
    # Twice as sharp as on the page, with a margin around it.
    # What was measured stands above the chart, and the address below it.
    assert width == round(2 * (shown["width"] + 32)) and height > 2 * (shown["height"] + 32)


def test_a_shared_link_shows_another_reader_the_same(visitor: Visitor, chromium: Browser, home: str) -> None:
    page = visitor.open("/explore?view=history")
    choose(page, "Metric", "Throughput")
    expect(page.locator("svg .mark-symbol path").first).to_be_attached()
    chart = page.get_by_test_id("stVegaLiteChart").first
    expect(chart).to_have_attribute("aria-label", re.compile("^Throughput"))
    shown = chart.get_attribute("aria-label")
    follow(page, page.get_by_role("link", name="Permanent link to this view"))
    colleague = Visitor(chromium, home)
    other = colleague.open(page.url.removeprefix(home))
    expect(other.locator("svg .mark-symbol path").first).to_be_attached()
    assert other.get_by_test_id("stVegaLiteChart").first.get_attribute("aria-label") == shown
    listed = colleague.open("/runs?suite=all&machine=all&state=interrupted")
    expect(listed.get_by_role("heading", name="1 run", exact=True)).to_be_visible()
    assert colleague.leave() == []


def test_a_finding_is_triaged_by_keyboard_alone(visitor: Visitor) -> None:
    page = visitor.open("/regressions?finding=1")
    # The first thing that is done is in sight.
    expect(page.get_by_role("button", name="Acknowledge").first).to_be_visible()
    expect(page.get_by_role("heading", name="Triage")).to_be_visible()
    tab_to(page, "Triage this finding")
    page.keyboard.press("Enter")
    tab_to(page, "Comment")
    page.keyboard.type("looked at it")
    tab_to(page, "Name")
    page.keyboard.type("ada")
    tab_to(page, "Save")
    page.keyboard.press("Enter")
    log = page.get_by_role("region", name="Triage")
    expect(log.get_by_text("looked at it")).to_be_visible()
    expect(log.get_by_text("ada")).to_be_visible()
    expect(log.get_by_text("acknowledge")).to_be_visible()


def test_a_finding_is_muted_until_a_day(visitor: Visitor) -> None:
    page = visitor.open("/regressions?finding=2", "phone")
    until = page.get_by_role("group", name="Muted until")
    march = f"{datetime.now(UTC).year + 1}-03-01"
    page.get_by_text("Triage this finding").click()
    expect(page.get_by_role("button", name="Save")).to_be_visible()
    expect(until).to_have_count(0)
    choose(page, "Action", "Mute: do not report it before a date")
    until.get_by_role("spinbutton", name="year").click()
    page.keyboard.type(march.replace("-", ""))
    page.keyboard.press("Tab")
    page.get_by_label("Comment", exact=True).fill("<img src=x onerror=alert(1)> a driver to come mends it")
    page.get_by_label("Name", exact=True).fill("ada")
    page.get_by_role("button", name="Save").click()
    log = page.get_by_role("region", name="Triage")
    entry = f"until {march} 00:00 UTC; <img src=x onerror=alert(1)> a driver to come mends it"
    expect(log.get_by_text(entry)).to_be_visible()
    expect(page.get_by_text(f"not triaged yet; muted until {march}")).to_be_visible()
    assert fits(page)


def test_a_phone_gets_everywhere(visitor: Visitor) -> None:
    page = visitor.open("/", "phone")
    page.get_by_test_id("stExpandSidebarButton").click()
    page.get_by_test_id("stSidebarNavLink").filter(has_text="Runs").click()
    page.wait_for_url("**/runs")
    page.get_by_role("button", name="Collapse sidebar").click()
    settle(page)
    assert fits(page)
    page.get_by_role("button", name=re.compile(r"Show all \d+ rows")).click()
    follow(page, page.get_by_role("link", name="run-11", exact=True))
    assert fits(page)
    follow(page, page.get_by_role("link", name="Open →").first)
    assert fits(page) and "run-11" in page.url


def test_a_page_is_taken_along_for_an_issue(visitor: Visitor) -> None:
    page = visitor.open(links.view(links.HISTORY, {"case": [RESNET]}))
    text = saved(page, "Page as Markdown").path().read_text()
    assert "| Case | Measured (UTC) |" in text and "> Chart: Latency" in text
    page.get_by_text("Show Markdown").click()
    settle(page)
    expect(page.get_by_text("> Chart: Latency")).to_be_visible()
