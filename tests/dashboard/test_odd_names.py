"""Very long names and large windows, in a real browser: nothing is cut, nothing runs together."""

from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from dashboard.components import links
from support.builders.run_records import MLP, a_machine, a_run, an_environment, an_outcome
from support.builders.stored_run import store_run
from support.builders.telemetry import a_recording, wave, with_telemetry
from support.servers.browser import Visitor, fits
from support.sqlite_files import open_with_tables

pytestmark = pytest.mark.browser

#: No space to break at, and no sign that a browser breaks at.
ENDLESS = "ä" * 10_000
RUN = "run-of-long-names"
#: Rows of 0.2 s: two minutes.
ROWS = 600


@pytest.fixture(scope="module")
def home(serve: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a dashboard on one run, whose names are long and whose window is."""
    url = f"sqlite:///{tmp_path_factory.mktemp('long')}/pyrometer.db"
    environment = replace(an_environment(), name=ENDLESS)
    machine = a_machine(ENDLESS, ENDLESS)
    window = a_recording("host", "Xeon 6430", "none", {"cpu_busy": wave(50, 10)}, rows=ROWS)
    outcomes = [
        with_telemetry(an_outcome(MLP, environment=environment), window),
        an_outcome(MLP, environment=environment, replicate=1, status="crashed", reason=ENDLESS),
    ]
    run = a_run(RUN, environments=[environment], machine=machine, suite=ENDLESS, notes=(ENDLESS,))
    with open_with_tables(url) as database:
        store_run(database, run, outcomes)
    return serve(url).url


def cut(page: Page, table: str) -> int:
    """How many pixels of a table lie beyond what is seen of it."""
    region = page.get_by_role("region", name=table, exact=True)
    return region.evaluate("e => e.scrollWidth - e.clientWidth")


@pytest.mark.parametrize("how", ["light", "phone"])
def test_a_name_without_an_end_pushes_nothing_out_of_sight(visitor: Visitor, how: str) -> None:
    page = visitor.open(links.run(RUN), how)
    assert fits(page)
    page = visitor.open("/runs", how)
    assert fits(page)
    # Each of two such columns is as wide as columns become; all others are in sight beside one of them.
    assert cut(page, "Runs") < 700


def test_the_title_of_an_outcome_keeps_its_words_apart(visitor: Visitor) -> None:
    page = visitor.open(links.outcome(RUN, MLP, "", 0))
    title = page.locator(".py-title .py-case").last
    name, rest = (title.locator(part).bounding_box() for part in ("span", "small"))
    assert name is not None and rest is not None
    assert rest["y"] >= name["y"] + name["height"] - 2 or rest["x"] >= name["x"] + name["width"] + 4


def test_two_minutes_are_counted_in_plain_numbers(visitor: Visitor) -> None:
    page = visitor.open(links.windows(RUN, MLP, an_environment().fingerprint))
    labels = page.locator("svg .role-axis-label text")
    expect(labels.filter(has_text="100").last).to_be_attached()
    shown = labels.all_text_contents()
    assert "120" in shown and not [each for each in shown if "e+" in each], shown


def test_what_is_to_be_typed_never_runs_below_its_button(visitor: Visitor) -> None:
    page = visitor.open(links.outcome(RUN, MLP, "", 0), "phone")
    code = page.get_by_role("dialog").locator(".py-code").first
    typed, button = code.locator("pre").bounding_box(), code.get_by_role("button").bounding_box()
    assert typed is not None and button is not None
    assert code.locator("pre").evaluate("e => e.scrollWidth > e.clientWidth")
    assert typed["x"] + typed["width"] <= button["x"]
