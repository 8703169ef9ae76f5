"""The canary on the pages: shown like any case, taken for no PyTorch, measured again by no command."""

import re
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from dashboard.trends import frames, lines, view
from db.connection.engine import open_database
from db.runs import history, queries, series_queries
from db.runs.store import save_measurements, save_outcomes, save_run
from runner.execution import canary_runner
from support.builders.run_records import MLP, a_run, an_environment, an_outcome, measurements_for
from support.pages import HISTORY, RUNS, Open, text, typed
from support.sqlite_files import open_with_tables

COMPUTE = "canary_compute/infer/-/eager"
TORCH, CANARY = an_environment(), an_environment("", name="canary")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database with one run of one case, and the canary around it."""
    found = f"sqlite:///{tmp_path}/pyrometer.db"
    run = a_run(environments=[TORCH, CANARY], planned=2)
    outcomes = [an_outcome(MLP, replicate=number) for number in range(2)]
    sung = [
        an_outcome(COMPUTE, environment=CANARY, replicate=number, latency=6.5, blocks=((6_500_000,) * 24,))
        for number in range(3)
    ]
    with open_with_tables(found) as database:
        save_run(database, run)
        assert save_outcomes(database, run.id, outcomes) == 2
        assert save_outcomes(database, run.id, sung, planned=False) == 3
        assert save_outcomes(database, run.id, sung, planned=False) == 0
        save_measurements(database, run.id, measurements_for(outcomes + sung))
    return found


def test_every_canary_is_known_as_the_machines_own() -> None:
    cases = (*canary_runner.CASES, *canary_runner.GPU_CASES, MLP)
    assert [view.is_canary(case) for case in cases] == [True] * 4 + [False]


def test_it_counts_for_no_run_and_is_no_version_of_pytorch(url: str) -> None:
    with open_database(url, create=False) as database:
        (summary,) = queries.recent_runs(database)
        assert (summary.counts, summary.planned) == ({"ok": 2}, 2)
        assert summary.torch_versions == (TORCH.torch_version,)


def test_a_run_shows_the_canary_next_to_its_cases(url: str, open_page: Open) -> None:
    page = text(open_page(url, RUNS, run="run-1"))
    assert "canary_compute" in page and page.count("Open →") == 5
    # A case is named with its PyTorch where a run measured several; the canary makes one no two.
    assert f"<small>torch {TORCH.torch_version}" not in page
    assert page.count("<small>torch ") == page.count("<small>torch </small>") == 0


def test_an_outcome_of_a_canary_has_no_command(url: str, open_page: Open) -> None:
    canary = open_page(url, RUNS, run="run-1", case=COMPUTE, replicate="2")
    assert "there is no command for it" in text(canary) and "Measure it again" not in text(canary)
    assert not [code for code in typed(canary) if COMPUTE in code]
    case = open_page(url, RUNS, run="run-1", case=MLP, replicate="1")
    assert [code for code in typed(case) if MLP in code]


@pytest.mark.parametrize("along", ["date", "version"])
def test_it_has_a_trend(url: str, open_page: Open, along: str) -> None:
    page = open_page(url, HISTORY, metric="latency", case=COMPUTE, axis=along)
    assert "canary_compute" in text(page)
    assert len(page.get("arrow_vega_lite_chart")) + len(page.get("vega_lite_chart")) == 1


def test_the_canary_next_to_a_model_is_no_change_of_pytorch(url: str) -> None:
    with open_with_tables(url) as database:
        keys = [key for key in series_queries.series_keys(database) if key.metric == "latency"]
        points = {key: series_queries.series(database, [key]) for key in keys}
        tracks_of_place = {
            (each.run, each.environment): each for each in history.measured_for(database, ["run-1"])
        }
    drawn = lines.lines(keys, points, tracks_of_place)
    assert {point.torch_version for line in drawn for point in line.points} == {"", TORCH.torch_version}
    assert {track for line in drawn for track in line.tracks} == {lines.OTHER}
    assert list(frames.version_changes(drawn)["version"]) == []
    assert list(frames.version_names(drawn)["version"]) == [TORCH.torch_version, "no PyTorch"]


def test_a_link_adds_the_canary_to_the_cases(url: str, open_page: Open) -> None:
    page = open_page(url, HISTORY, metric="latency", case=MLP)
    assert page.multiselect(key="choose-cases").value == [MLP]
    (address,) = re.findall(r'href="([^"]+)"[^>]*>Add the canary', text(page))
    cases = parse_qs(urlsplit(unescape(address)).query)["case"]
    assert cases == [MLP, COMPUTE]
