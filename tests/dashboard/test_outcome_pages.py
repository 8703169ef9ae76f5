"""The outcomes of a large run: a page at a time, what is not ok first, every one of them within reach."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from dashboard.components import tables
from db.runs import queries, store
from records.fingerprints import AGAIN
from support.builders.run_records import MLP, RESNET, a_run, an_environment, an_outcome
from support.pages import RUNS, Open, html, typed
from support.sqlite_files import open_with_tables

MANY = 2 * tables.OUTCOMES + 30


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One run of very many replicates; the last one crashed. Tests only read it."""
    made = f"sqlite:///{tmp_path_factory.mktemp('outcomes')}/pyrometer.db"
    outcomes = [an_outcome(RESNET if number % 2 else MLP, replicate=number) for number in range(MANY - 1)]
    outcomes.append(an_outcome(MLP, replicate=MANY, status="crashed", reason="killed by signal 11"))
    with open_with_tables(made) as database:
        run = a_run("run-1", environments=[an_environment()], planned=MANY)
        store.save_run(database, run)
        store.save_outcomes(database, run.id, outcomes)
    return made


def opened(shown: str) -> list[str]:
    """The replicates that the table of outcomes leads to."""
    table = shown.partition('aria-label="Outcomes"')[2].partition("</table>")[0]
    return re.findall(r'&amp;replicate=(\d+)"[^>]*>Open', table)


def ways(shown: str) -> dict[str, str]:
    """The links to other pages of it, by what they say."""
    pager = shown.partition('class="py-pager"')[2].partition("</p>")[0]
    return {
        text: address.replace("&amp;", "&")
        for address, text in re.findall(r'href="([^"]+)"[^>]*>([^<]+)<', pager)
    }


def test_every_outcome_is_on_one_of_the_pages_and_failures_are_on_the_first(
    open_page: Open, url: str
) -> None:
    shown = html(open_page(url, RUNS, run="run-1"))
    pages = [opened(shown)]
    assert pages[0][0] == str(MANY) and "page 1 of 3" in shown and list(ways(shown)) == ["After →"]
    while "After →" in ways(shown):
        query = parse_qs(urlsplit(ways(shown)["After →"]).query)
        assert query["run"] == ["run-1"]
        shown = html(open_page(url, RUNS, **query))
        pages.append(opened(shown))
    assert [len(page) for page in pages] == [tables.OUTCOMES, tables.OUTCOMES, 30]
    assert len({each for page in pages for each in page}) == MANY
    assert list(ways(shown)) == ["← Before"]


def test_an_opened_outcome_stays_open_on_another_page_of_the_list(open_page: Open, url: str) -> None:
    shown = html(open_page(url, RUNS, run="run-1", case=MLP, replicate="2", outcomes="3"))
    query = parse_qs(urlsplit(ways(shown)["← Before"]).query)
    assert query == {"run": ["run-1"], "case": [MLP], "replicate": ["2"], "outcomes": ["2"]}
    assert "Outcome</h3>" in shown and len(opened(shown)) == 30


@pytest.mark.parametrize(("wanted", "many"), [("0", tables.OUTCOMES), ("99", 30), ("x", tables.OUTCOMES)])
def test_a_page_that_there_is_not_is_the_nearest(open_page: Open, url: str, wanted: str, many: int) -> None:
    assert len(opened(html(open_page(url, RUNS, run="run-1", outcomes=wanted)))) == many


def test_the_file_has_all_of_them_whatever_page_is_shown(url: str) -> None:
    with open_with_tables(url) as database:
        assert len(tables.outcomes(a_run(), queries.outcomes_of_run(database, "run-1")).records()) == MANY


def test_both_sides_of_an_environment_against_itself_open_and_name_what_was_declared(
    open_page: Open, tmp_path: Path
) -> None:
    once = replace(an_environment(name="default"), fingerprint="0123456789abcdef")
    again = replace(once, fingerprint=once.fingerprint + AGAIN, name="default-again")
    made = f"sqlite:///{tmp_path}/again.db"
    with open_with_tables(made) as database:
        run = a_run("run-1", environments=[once, again], planned=2)
        store.save_run(database, run)
        outcomes = [an_outcome(MLP, environment=each, latency=ms) for each, ms in ((once, 2.0), (again, 3.0))]
        store.save_outcomes(database, run.id, outcomes)
    listed = html(open_page(made, RUNS, run="run-1"))
    found = [unescape(each) for each in re.findall(r'href="([^"]*replicate=0)"[^>]*>Open', listed)]
    latencies: list[str] = []
    for address in found:
        query = {name: value for name, (value,) in parse_qs(urlsplit(address).query).items()}
        at = open_page(made, RUNS, **query)
        latencies += re.findall(r"<dt>Latency</dt><dd>(.*?)</dd>", html(at))
        assert any("--environment default " in each for each in typed(at))
    assert latencies == ["2.00 ms", "3.00 ms"]
