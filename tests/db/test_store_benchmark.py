"""The benchmark of the store still runs against the store as it is: all of it once, with two nights."""

import sys
from types import ModuleType

import pytest

from support.scripts import BENCHMARKS, script

pytestmark = pytest.mark.slow


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, so small that it is quick."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = script("store")
    for name, value in {"ROUNDS": 2, "NIGHTS": 2, "READER_SECONDS": 0.02}.items():
        assert hasattr(module, name)
        monkeypatch.setattr(module, name, value)
    return module


def test_every_part_of_it_runs(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--results", "2800", "--telemetry", "1200", "--on", "sqlite")
    monkeypatch.setattr(sys, "argv", ["store.py", *options])
    benchmark.main()
    printed = capsys.readouterr().out
    assert "sqlite: 2,800 results, 1,200 rows of telemetry" in printed
    for question in ("overview: headlines", "trends: eight series", "utilisation: a recording", "traces: of"):
        assert question in printed
    assert "a night of 350 results, 768 rows in all" in printed
    assert "the store's rate is" in printed and "beside a writer" in printed
