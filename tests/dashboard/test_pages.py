"""Every page through the router, on a new, a filled and an unusable database; without a browser."""

from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dashboard.components import links, load
from db.runs.store import save_outcomes, save_run
from support.builders import upgrade_journals
from support.builders.run_records import MLP, RESNET, a_run, an_outcome
from support.pages import HISTORY, MACHINES, RUNS, TODAY, UTILISATION, VIEWS, Open, html, text, typed
from support.sqlite_files import open_with_tables

PAGES = (TODAY, HISTORY, RUNS, UTILISATION, MACHINES)
#: What turns text around or steers a terminal.
TURNING = "\N{RIGHT-TO-LEFT OVERRIDE}", "\N{LEFT-TO-RIGHT ISOLATE}", "\x1b", "\x07"
#: In small print; the rest stands behind an (i).
MOST_WORDS = 12
ADDRESSES = (
    *(*VIEWS, "/regressions?finding=1", "/regressions?state=all", "/runs?run=latest"),
    *("/explore?view=history&scale=relative", "/explore?view=history&axis=version"),
    *("/explore?run=techniques-cpu", links.outcome("run-11", RESNET, "", 1)),
    f"/compare?run={upgrade_journals.RUN}&detail={upgrade_journals.RESNET}",
)


def charts(at: AppTest) -> int:
    return len(at.get("arrow_vega_lite_chart")) + len(at.get("vega_lite_chart"))


@pytest.mark.parametrize("page", PAGES)
def test_a_new_database_says_what_to_type(open_page: Open, tmp_path: Path, page: str) -> None:
    at = open_page(f"sqlite:///{tmp_path}/pyrometer.db", page)
    assert "Nothing measured yet" in text(at)
    assert typed(at) == ["pyrometer run --suite smoke"]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("url", ["mysql://somewhere/else", "sqlite:////proc/no/such/place.db"])
def test_an_unusable_database_is_one_sentence(open_page: Open, url: str, page: str) -> None:
    at = open_page(url, page)
    assert "The database cannot be read" in text(at)
    assert "Traceback" not in text(at)
    assert not at.error


def points(at: AppTest) -> int:
    """How many points the table of the trends page holds."""
    return text(at).count(">Samples</a>")


def test_trends_open_on_a_view_that_needs_no_choice(open_page: Open, filled_url: str) -> None:
    at = open_page(filled_url, PAGES[1])
    assert "Latency (ms) · lower is better · each line on its own scale" in text(at)
    assert at.selectbox(key="choose-metric").value == "latency"
    assert len(at.multiselect(key="choose-cases").value) == 3
    assert points(at) == 36
    assert charts(at) == 1
    assert set(at.query_params) == {"view"}


def test_a_trend_of_many_points_is_cut_and_says_so(
    open_page: Open, filled_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "points of each line" not in text(open_page(filled_url, PAGES[1]))
    monkeypatch.setattr(load, "NEWEST_POINTS", 5)
    st.cache_resource.clear()
    at = open_page(filled_url, PAGES[1])
    assert points(at) == 3 * 5
    assert "The newest 5 points of each line; `pyrometer export` has all" in text(at)
    monkeypatch.setattr(load, "CHART_POINTS", 11)
    st.cache_resource.clear()
    at = open_page(filled_url, PAGES[1])
    assert points(at) == 3 * 3
    assert "The newest 3 points of each line; with fewer lines more of each" in text(at)
    st.cache_resource.clear()


def test_a_choice_is_written_whole_into_the_url_and_the_url_opens_the_same_view(
    open_page: Open, filled_url: str
) -> None:
    at = open_page(filled_url, PAGES[1])
    at.selectbox(key="choose-metric").select("throughput").run()
    at.multiselect(key="choose-cases").set_value([RESNET]).run()
    assert set(at.query_params) == {"view", "metric", "hardware", "preset", "axis", "scale", "case"}
    assert at.query_params["metric"] in ("throughput", ["throughput"])
    again = open_page(filled_url, PAGES[1], **dict(at.query_params))
    assert again.selectbox(key="choose-metric").value == "throughput"
    assert again.multiselect(key="choose-cases").value == [RESNET]
    assert "Throughput (items/s) · higher is better" in text(again)
    assert points(again) == 12


def test_the_url_decides_even_after_the_widgets_were_used(open_page: Open, filled_url: str) -> None:
    at = open_page(filled_url, PAGES[1])
    at.selectbox(key="choose-metric").select("throughput").run()
    at.query_params["metric"] = "rss_peak"
    at.run()
    assert at.selectbox(key="choose-metric").value == "rss_peak"


def test_an_unknown_slug_names_the_nearest_and_the_view_falls_back(open_page: Open, filled_url: str) -> None:
    at = open_page(filled_url, PAGES[1], metric="latncy")
    (warning,) = at.warning
    assert 'did you mean "latency"?' in warning.value
    assert at.selectbox(key="choose-metric").value == "latency"
    assert charts(at) == 1


def test_along_versions_every_version_is_one_point(open_page: Open, filled_url: str) -> None:
    at = open_page(filled_url, PAGES[1], axis="version", case=[MLP])
    assert "median over all runs of a version" in text(at)
    assert points(at) == 12


def test_an_unknown_run_is_one_sentence_above_the_list(open_page: Open, filled_url: str) -> None:
    at = open_page(filled_url, PAGES[2], run="run-1l")
    assert at.warning[0].value == "There is no run 'run-1l' in this database; did you mean 'run-1'?"
    assert "12 runs" in text(at)


def test_an_unknown_outcome_is_one_sentence_and_the_run_stays(open_page: Open, filled_url: str) -> None:
    at = open_page(filled_url, PAGES[2], run="run-11", case="resnet5")
    assert RESNET.split("/")[0] in at.warning[0].value
    assert "harness-1f3a" in text(at)


def test_what_the_address_says_is_shown_and_not_interpreted(open_page: Open, filled_url: str) -> None:
    at = open_page(filled_url, PAGES[2], run="**b** [a](https://example.org) :smile:")
    shown = at.warning[0].value.replace("\u2060", "")
    assert r"\*\*b\*\* \[a\](https\://example.org) \:smile\:" in shown and shown != at.warning[0].value


@pytest.mark.parametrize("address", ADDRESSES)
def test_small_print_is_short(address: str, open_page: Open, full_url: str, empty_url: str) -> None:
    for url in (full_url, empty_url):
        small = [each.value for each in open_page(url, address).caption]
        assert [each for each in small if len(each.split()) > MOST_WORDS] == []


def test_text_that_turns_around_stays_as_it_was_written(open_page: Open, url: str) -> None:
    turned = "a{}b{}c{}[31md{}".format(*TURNING)
    with open_with_tables(url) as database:
        save_run(database, a_run("run-1", notes=(turned,)))
        save_outcomes(database, "run-1", [an_outcome(MLP, status="crashed", reason=turned, log_tail=turned)])
    shown = html(open_page(url, RUNS, run="run-1", case=MLP, replicate="0"))
    assert shown.count("a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c") >= 3
    assert not set(TURNING) & set(shown)
