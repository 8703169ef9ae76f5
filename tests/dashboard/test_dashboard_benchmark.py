"""The benchmarks of the dashboard and of its API still run against both as they are: all of it, and small."""

import io
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from types import ModuleType

import pytest

from support.scripts import BENCHMARKS, script
from support.site import ROOT, unavailable

pytestmark = pytest.mark.slow

Print = Callable[..., str]


@pytest.fixture(scope="module")
def benchmark() -> Iterator[ModuleType]:
    """The module, which need not wait until answers are old, nor visit a page before it counts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        module = script("dashboard")
        assert hasattr(module, "FRESH_SECONDS") and hasattr(module, "WARMING")
        patch.setattr(module, "FRESH_SECONDS", 0.0)
        patch.setattr(module, "WARMING", 0)
        yield module


@pytest.fixture(scope="module")
def filled(benchmark: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of what it fills, for both tests: two nights of six cases, and more."""
    with redirect_stdout(io.StringIO()) as said:
        url = benchmark.fill_file(tmp_path_factory.mktemp("benchmark"), benchmark._history(2800))
    assert said.getvalue().startswith("2,800 results, filled in")
    return url


@pytest.fixture
def printed(
    benchmark: ModuleType, filled: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Print:
    """What it prints when it is called with some options."""

    def call(*options: str) -> str:
        monkeypatch.setattr(sys, "argv", ["dashboard.py", "--database", filled, *options])
        benchmark.main()
        return capsys.readouterr().out

    return call


def test_pages_questions_and_readers(printed: Print) -> None:
    small = ("--visits", "1", "--rounds", "1", "--readers", "2", "--think", "0.3", "--minutes", "0.02")
    pages = ("", "explore", "runs")
    chosen = [part for page in pages for part in ("--page", page)]
    shown = printed("--only", "pages", "--only", "readers", *small, *chosen)
    assert "the first visitor waits" in shown
    for page in ("Today", "Explore, 6 cases", "Runs, the list", "Runs, an outcome"):
        assert re.search(rf"^{page} +\d+ +\d+", shown, re.MULTILINE), page
    # Two nights of six cases.
    assert re.search(r"^Explore, 6 cases( +\d+){6} +12 ", shown, re.MULTILINE)
    assert "series_queries.points_of_runs" in shown and "series_queries.series " in shown
    assert re.search(r"^ {7}2 +\d+ +\d+ +\d+", shown, re.MULTILINE)
    assert "SHOWS" not in shown


@pytest.mark.browser
def test_times_to_marks_next_to_an_empty_page(printed: Print) -> None:
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        unavailable("no Chromium on PATH")
    shown = printed("--only", "browser", "--rounds", "1", "--page", "compare")
    plain = ("an empty Streamlit page", "a plain chart, 7 widgets")
    for page in (*plain, "Compare, upgrade", "Compare, hardware"):
        assert re.search(rf"^{page} +\d+ +\d+ +\d\.\d\d +\d\.\d\d", shown, re.MULTILINE), page
    assert "never stood" not in shown


def test_every_route_answers_and_a_series_is_followed_page_by_page() -> None:
    command = [sys.executable, "benchmarks/api.py", "--results", "28000", "--rounds", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^(/.+?) +2 +\d+ +[\d.]+ +[\d.]+ +[\d.]+  (.*)$", done.stdout, re.MULTILINE)
    assert len(lines) > 15 and "/series/points, a page of 100" in dict(lines), done.stdout
    assert not any("answers" in said for _, said in lines), done.stdout
