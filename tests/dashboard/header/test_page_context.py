"""The context bar: the next view opens with what the last one was set to; an address decides."""

import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from dashboard.navigation import page_at
from db.runs import queries
from records.kinds import RunKind
from support.builders.run_records import RESNET
from support.builders.technique_runs import BERT, CPU, GPU, fingerprint
from support.pages import HARDWARE, HISTORY, RUNS, TECHNIQUES, UPGRADE, Open
from support.servers.browser import Visitor, settle
from support.sqlite_files import open_with_tables

WORKLOAD = "resnet50/infer/batch=8,image=64"


def turn_to(at, **query):
    """Another view of the same page in the same session, as its tab opens it."""
    at.query_params.clear()
    for name, value in query.items():
        at.query_params[name] = value
    return at.run()


def test_a_metric_travels_to_the_next_view_and_an_address_decides(open_page: Open, past_url: str) -> None:
    at = open_page(past_url, HARDWARE, metric="throughput")
    assert turn_to(at, view="runs").selectbox(key="choose-metric").value == "throughput"
    assert turn_to(at, view="runs", metric="latency").selectbox(key="choose-metric").value == "latency"
    assert turn_to(at, view="hardware").selectbox(key="choose-metric").value == "latency"


def test_a_choice_is_remembered_and_its_default_forgets_it(open_page: Open, past_url: str) -> None:
    at = open_page(past_url, HISTORY)
    at.segmented_control(key="choose-points").set_value("90d").run()
    assert turn_to(at, view="history").segmented_control(key="choose-points").value == "90d"
    at.segmented_control(key="choose-points").set_value("recent").run()
    assert turn_to(at, view="history").segmented_control(key="choose-points").value == "recent"


def test_what_a_view_does_not_have_is_passed_over_without_a_complaint(open_page: Open, past_url: str) -> None:
    at = open_page(past_url, HARDWARE, metric="no such metric")
    assert len(at.warning) == 1
    assert not turn_to(at, view="hardware").warning
    at = open_page(past_url, HARDWARE, metric="energy_per_item")
    at = turn_to(at, view="runs")
    assert not at.warning
    assert at.selectbox(key="choose-metric").value != "energy_per_item"


def test_history_begins_with_the_workload_that_was_looked_at(open_page: Open, past_url: str) -> None:
    at = open_page(past_url, TECHNIQUES, hardware=fingerprint(CPU), workload=WORKLOAD)
    assert at.selectbox(key="choose-workload").value == WORKLOAD
    at = turn_to(at, view="history")
    assert at.multiselect(key="choose-cases").value[0].startswith(f"{WORKLOAD}/")


def test_two_kinds_of_hardware_of_one_label_are_both_shown(open_page: Open, past_url: str) -> None:
    at = open_page(past_url, HISTORY, hardware=CPU)
    assert any("each has its own lines" in warning.value for warning in at.warning)
    assert not open_page(past_url, HISTORY, hardware=fingerprint(CPU)[:12]).warning


def test_a_case_that_was_opened_in_a_run_is_the_workload_of_the_next_view(past_visitor: Visitor) -> None:
    past_visitor.open(f"{RUNS}?{urlencode({'run': 'techniques-cpu', 'case': f'{BERT}/eager'})}")
    page = past_visitor.open(TECHNIQUES)
    expect(page).to_have_url(re.compile(f"hardware={fingerprint(CPU)[:12]}&workload=bert_base"))
    expect(page.get_by_role("combobox", name="Workload")).to_have_value(re.compile("bert_base"))


def test_a_run_or_an_upgrade_that_was_opened_chooses_the_hardware(open_page: Open, past_url: str) -> None:
    with open_with_tables(past_url) as database:
        known = {run.kind: run for run in queries.recent_runs(database)}
        upgrade = queries.run_record(database, known[RunKind.UPGRADE].id)
    assert upgrade is not None
    place = upgrade.machine.hardware.fingerprint
    for page, run, hardware in (
        (RUNS, "techniques-gpu", fingerprint(GPU)),
        (UPGRADE, upgrade.id, place),
        (RUNS, "techniques-cpu", fingerprint(CPU)),
    ):
        at = open_page(past_url, page, run=run)
        at.query_params.clear()
        at.query_params["view"] = "history"
        at.switch_page(page_at("explore").script).run()
        assert at.multiselect(key="choose-hardware").value == [hardware]


@pytest.mark.browser
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
    expect(first.locator("p[data-context]")).to_have_attribute("data-context", "metric=throughput")
    # A script of the page writes it.
    first.wait_for_function("document.cookie.includes('pyrometer_context')")
    again = past_visitor.open(HISTORY)
    expect(again).to_have_url(f"{past_visitor.home}{HISTORY}&metric=throughput")
    settle(again)
    # The address that was written is the page's own: nothing of it is a complaint.
    again.reload()
    settle(again)
    expect(again.get_by_test_id("stAlert")).to_have_count(0)


def test_on_a_phone_a_choice_is_as_wide_as_the_page(past_visitor: Visitor) -> None:
    for address in (TECHNIQUES, HISTORY, HARDWARE, RUNS):
        page = past_visitor.open(address, "phone")
        choices = page.locator(".stSelectbox, .stMultiSelect")
        expect(choices.first).to_be_visible()
        widths = choices.evaluate_all("all => all.map(e => e.getBoundingClientRect().width)")
        assert widths and min(widths) > 340, (address, widths)
