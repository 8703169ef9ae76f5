"""Runs that came from outside, on every page: their own words, and where they come from."""

import re
from html import escape
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from streamlit.testing.v1 import AppTest

from dashboard.components import markup, parts, wording
from db.runs import queries, series_queries
from db.runs.metric_definitions import metric_definitions
from interchange.errors import SourcePlace
from interchange.formats import FORMATS
from records.outcomes import MetricDefinition
from support.builders.foreign_files import SAMPLES, SUBMITTED, of_json, written
from support.pages import HISTORY, MACHINES, RUNS, TODAY, UTILISATION, Open, text
from support.servers.browser import Visitor, beyond, fits
from support.sqlite_files import open_with_tables
from workflows.transfer.import_runs import import_path, machine_of, submit

SPEED = MetricDefinition("tool.speed", "Speed of <b>it</b>", "x", "higher")


@pytest.fixture(scope="module")
def imported_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database that holds what each format's sample holds, and nothing of ours."""
    folder = tmp_path_factory.mktemp("imported")
    url = f"sqlite:///{folder}/pyrometer.db"
    with open_with_tables(url) as database:
        for name, sample in SAMPLES.items():
            if name != "pyrometer":
                import_path(written(folder / name, sample), None, database, lambda stored: None)
        text = of_json("results.json", SUBMITTED)[0]["results.json"].decode()
        submit(text, SourcePlace("results.json"), None, database, machine_of)
    return url


def runs(url: str) -> dict[str, str]:
    """The ids of the runs by their preset, which is the format's name."""
    with open_with_tables(url) as database:
        return {run.preset: run.id for run in queries.recent_runs(database)}


@pytest.mark.parametrize("page", [TODAY, RUNS])
def test_every_run_in_the_list_says_where_it_comes_from(
    open_page: Open, imported_url: str, page: str
) -> None:
    shown = text(open_page(imported_url, page))
    titles = [each.TITLE for each in FORMATS if each.NAME != "pyrometer"]
    assert [title for title in titles if f"<small>imported from {escape(title)}</small>" not in shown] == []
    assert "<small>submitted by a script</small>" in shown


def test_what_came_in_is_counted_with_its_hardware(open_page: Open, imported_url: str) -> None:
    with open_with_tables(imported_url) as database:
        keys = series_queries.series_keys(database)
    shown = text(open_page(imported_url, TODAY))
    assert f"{len({key.case for key in keys}):,} cases of " in shown and f"{len(keys):,} series" in shown
    (line,) = re.findall(r"<li>Hardware: (.*?)</li>", shown)
    labels = {key.hardware_label for key in keys}
    named = [label for label in labels if escape(label) in line]
    more = re.search(r" and (\d+) more$", line)
    assert len(named) + (int(more[1]) if more else 0) == len(labels)


def test_the_fleet_page_says_what_there_is_instead_of_machines(open_page: Open, imported_url: str) -> None:
    shown = text(open_page(imported_url, MACHINES))
    total = len(runs(imported_url))
    assert f"There are {total} runs:" in shown and "1 submitted by a script" in shown
    assert "imported from" in shown and "Nothing measured yet" not in shown


@pytest.mark.parametrize("name", [*(name for name in SAMPLES if name != "pyrometer"), "submitted"])
def test_the_page_of_an_imported_run_lacks_nothing_and_breaks_nowhere(
    open_page: Open, imported_url: str, name: str
) -> None:
    run = runs(imported_url)[name]
    with open_with_tables(imported_url) as database:
        outcomes = queries.outcomes_of_run(database, run)
        metrics = {m.metric for m in queries.measurements_of_run(database, run)}
        defined = metric_definitions(database)
    shown = text(open_page(imported_url, RUNS, run=run))
    words = [wording.metric(metric, defined) for metric in metrics]
    assert words and all(escape(known.title) in shown for known in words)
    assert "Technique" not in shown and "canary" not in shown
    opened = open_page(imported_url, RUNS, run=run, case=outcomes[0].case)
    assert "Pyrometer cannot measure it again" in text(opened)
    assert "Log (tail)" not in [each.value for each in opened.header]


def test_a_metric_of_another_tool_has_its_own_title_unit_and_direction(
    open_page: Open, imported_url: str
) -> None:
    at = open_page(imported_url, HISTORY, metric="tokens_per_second")
    assert parts.plain("tokens_per_second (tokens/s) · higher is better") in headers(at)
    assert "tokens_per_second (tokens/s)</th>" in text(at)
    at = open_page(imported_url, HISTORY, metric="dynamo.speedup")
    title = wording.metric("dynamo.speedup", definitions(imported_url)).title
    assert parts.plain(f"{title} (x) · higher is better") in headers(at)
    assert any(each.startswith(title) for each in at.selectbox(key="choose-metric").options)


@pytest.mark.parametrize("axis", ["date", "version"])
def test_series_without_a_pytorch_can_be_drawn(open_page: Open, imported_url: str, axis: str) -> None:
    with open_with_tables(imported_url) as database:
        (key, *_) = [k for k in series_queries.series_keys(database) if k.preset_name == "action-benchmark"]
    at = open_page(imported_url, HISTORY, metric=key.metric, case=[key.case], axis=axis)
    assert text(at).count(">Samples</a>") == 1 and not at.warning


def test_the_utilisation_page_says_that_nothing_was_recorded(open_page: Open, imported_url: str) -> None:
    assert "observe_seconds" in text(open_page(imported_url, UTILISATION))


def test_a_run_without_a_pytorch_shows_a_dash(open_page: Open, imported_url: str) -> None:
    shown = text(open_page(imported_url, RUNS, run=runs(imported_url)["action-benchmark"]))
    assert "torch –" in shown


def test_a_case_is_shown_as_it_was_called() -> None:
    words = wording.case("test%20steps%2Ffast%2C%20%3Cb%3E/call/name=a%20b,size=8/eager")
    assert (words.name, words.phase) == ("test steps/fast, <b>", "")
    assert words.parameters == "name=a b size=8"
    assert wording.case("resnet50/infer/batch=8/eager").rest == "infer · batch=8 · eager"
    # What steers a terminal or a page is no part of a name.
    assert wording.case("a%1B%0A%E2%80%AEb/call/-/eager").name == "a   b"
    assert "<b>" not in markup.case("%3Cb%3E/call/-/eager")


def test_metrics_that_share_a_title_are_distinguished() -> None:
    defined = {
        "one.mean": MetricDefinition("one.mean", "Mean", "s", "lower"),
        "two.mean": MetricDefinition("two.mean", "Mean", "s", "lower"),
    }
    titles = wording.titles(["latency", "one.mean", "two.mean"], defined)
    assert titles == {"latency": "Latency", "one.mean": "Mean (one.mean)", "two.mean": "Mean (two.mean)"}


def test_an_undefined_metric_goes_by_its_name_and_a_known_one_by_its_title() -> None:
    known = wording.metric("tool.speed", {"tool.speed": SPEED})
    assert (known.title, known.unit, known.better) == ("Speed of <b>it</b>", "x", "higher")
    assert wording.metric("tool.speed").title == "tool.speed"
    other = MetricDefinition("latency", "Other", "s", "higher")
    assert wording.metric("latency", {"latency": other}) == wording.metric("latency")


@pytest.mark.browser
def test_a_phone_shows_the_number_after_the_longest_title(
    chromium: Browser, serve: Any, imported_url: str
) -> None:
    defined = definitions(imported_url)
    longest = max(defined, key=lambda name: len(wording.metric(name, defined).title))
    reader = Visitor(chromium, serve(imported_url).url)
    page = reader.open(f"/explore?view=history&metric={longest}", "phone")
    numbers = "[data-testid=stMain] .py-folded td strong"
    expect(page.locator(numbers).first).to_be_attached()
    assert fits(page) and beyond(page, numbers) == []
    assert reader.leave() == []


def definitions(url: str) -> dict[str, MetricDefinition]:
    with open_with_tables(url) as database:
        return metric_definitions(database)


def headers(at: AppTest) -> list[str]:
    """The titles of a page's sections."""
    return [str(each.value) for each in at.header]
