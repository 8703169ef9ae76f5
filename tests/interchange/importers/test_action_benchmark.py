"""github-action-benchmark's data.js: a run for each entry, read as JSON and never run."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from interchange.errors import BadFile
from interchange.importers import action_benchmark
from interchange.runs import ImportBatch

NOON = 1_777_636_800_000
SUITE = "GPU Benchmark"


def bench(name: str = "test_add", value: Any = 250.0, unit: str = "iter/sec", **more: Any) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit} | more


def entry(*benches: Any, tool: str = "pytest", **more: Any) -> dict[str, Any]:
    commit = {"id": "abc123", "message": "Faster", "timestamp": "2026-04-30T23:00:00Z", "author": {}}
    return {"commit": commit, "date": NOON, "tool": tool, "benches": list(benches)} | more


def written(folder: Path, entries: Any, before: str = "window.BENCHMARK_DATA = ", after: str = "") -> Path:
    path = folder / "data.js"
    data = {"lastUpdate": NOON, "repoUrl": "https://github.com/octo/scatter", "entries": entries}
    path.write_text(before + json.dumps(data, indent=2) + after)
    return path


def read(folder: Path, *entries: Any, suite: str = SUITE) -> ImportBatch:
    return action_benchmark.read_runs(written(folder, {suite: list(entries)}))


def test_an_entry_becomes_a_run_of_its_suite(tmp_path: Path) -> None:
    [one] = read(tmp_path, entry(bench(range="stddev: 0.1", extra="rounds: 9"))).runs

    assert one.run.suite == SUITE
    assert one.run.started_at == datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert one.run.facts["commit"] == {
        "id": "abc123",
        "message": "Faster",
        "timestamp": "2026-04-30T23:00:00Z",
    }
    [outcome] = one.outcomes
    assert outcome.case == "test_add/call/repository=octo%2Fscatter,suite=GPU%20Benchmark/eager"
    assert outcome.metrics == {"action_benchmark.higher.iter_per_sec": 250.0}
    assert one.run.facts["benches"] == {outcome.case: {"range": "stddev: 0.1", "extra": "rounds: 9"}}


def test_suites_with_a_benchmark_of_one_name_are_two_series(tmp_path: Path) -> None:
    path = written(tmp_path, {"CPU": [entry(bench())], "GPU": [entry(bench())]})

    cpu, gpu = action_benchmark.read_runs(path).runs
    assert cpu.run.id != gpu.run.id
    assert cpu.outcomes[0].case != gpu.outcomes[0].case


@pytest.mark.parametrize(
    ("tool", "unit", "metric", "better"),
    [
        ("pytest", "iter/sec", "action_benchmark.higher.iter_per_sec", "higher"),
        ("cargo", "ns/iter", "action_benchmark.lower.ns_per_iter", "lower"),
        ("go", "µs", "action_benchmark.lower.us", "lower"),
        ("go", "MB/s", "action_benchmark.higher.mb_per_s", "higher"),
        ("go", "B/op", "action_benchmark.lower.b_per_op", "lower"),
        ("jmh", "ops/s", "action_benchmark.higher.ops_per_s", "higher"),
        ("jmh", "ops/ms", "action_benchmark.higher.ops_per_ms", "higher"),
        ("jmh", "s/op", "action_benchmark.lower.s_per_op", "lower"),
        ("customSmallerIsBetter", "errors/s", "action_benchmark.lower.errors_per_s", "lower"),
        ("customBiggerIsBetter", "%", "action_benchmark.higher.percent", "higher"),
        ("customSmallerIsBetter", "", "action_benchmark.lower.value", "lower"),
        ("a new one", "ms", "action_benchmark.neither.ms", "neither"),
    ],
)
def test_the_tool_says_which_way_is_better(
    tmp_path: Path, tool: str, unit: str, metric: str, better: str
) -> None:
    [definition] = read(tmp_path, entry(bench(unit=unit), tool=tool)).metrics

    assert (definition.name, definition.unit, definition.better) == (metric, unit, better)


def test_units_without_a_latin_letter_are_two_metrics(tmp_path: Path) -> None:
    imported = read(tmp_path, entry(bench("a", unit="秒"), bench("b", unit="분")))

    assert len(imported.metrics) == 2
    assert not imported.set_aside


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("window.BENCHMARK_DATA = ", ""),
        ("window.BENCHMARK_DATA=", ";"),
        ("\ufeff\nwindow.BENCHMARK_DATA =\n", ";\n"),
    ],
)
def test_the_script_is_read_however_it_is_spaced(tmp_path: Path, before: str, after: str) -> None:
    path = written(tmp_path, {SUITE: [entry(bench())]}, before, after)

    assert action_benchmark.knows(path)
    assert len(action_benchmark.read_runs(path).runs) == 1


def test_an_entry_without_a_date_has_its_commits(tmp_path: Path) -> None:
    [one] = read(tmp_path, entry(bench(), date=None)).runs

    assert one.run.started_at == datetime(2026, 4, 30, 23, tzinfo=UTC)


@pytest.mark.parametrize(
    ("broken", "place"),
    [
        (entry(bench(value=None)), "entries.GPU Benchmark[0].benches[0].value: is missing"),
        (
            entry(bench(value="12")),
            'entries.GPU Benchmark[0].benches[0].value: expected a number, found "12"',
        ),
        (entry(bench(name="")), "entries.GPU Benchmark[0].benches[0].name: expected a text"),
        (entry(bench(), benches={}), "entries.GPU Benchmark[0].benches: expected a list, found an object"),
        (entry(bench(), date="May"), 'entries.GPU Benchmark[0].date: expected a number, found "May"'),
        (entry(bench(), date=1e30), "entries.GPU Benchmark[0].date: expected a time since 1970"),
        (
            entry(bench(), date=NOON // 1000),
            "entries.GPU Benchmark[0].date: is in the year 1970: seconds, not milliseconds?",
        ),
        (entry(bench(), date=None, commit=None), "entries.GPU Benchmark[0].date: is missing"),
        (entry(), "entries.GPU Benchmark[0]: holds no result"),
        (7, "entries.GPU Benchmark[0]: expected an object, found 7"),
    ],
)
def test_one_bad_entry_is_set_aside_with_its_place(tmp_path: Path, broken: Any, place: str) -> None:
    imported = read(tmp_path, broken, entry(bench(value=1.0), date=NOON + 1000))

    assert str(imported.set_aside[0]).startswith(f"data.js, {place}")
    assert [run.measurements[0].point for run in imported.runs] == [1.0]


def test_what_is_there_twice_counts_once(tmp_path: Path) -> None:
    imported = read(tmp_path, entry(bench(), bench(value=9.0)), entry(bench(value=5.0)))

    assert [run.measurements[0].point for run in imported.runs] == [250.0]
    assert ["is in the file twice" in imported.set_aside[0].sentence, len(imported.set_aside)] == [True, 2]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("alert(1)", "data.js, line 1: does not begin with window.BENCHMARK_DATA ="),
        ("window.BENCHMARK_DATA = fetch('x')", "data.js, line 1, column 25: is no JSON: Expecting value"),
        ("window.BENCHMARK_DATA =\n{}; alert(1)", "data.js, line 2, column 3: is no JSON: Extra data"),
        ("window.BENCHMARK_DATA = []", "data.js: expected an object, found a list"),
        ("window.BENCHMARK_DATA = {}", "data.js, entries: is missing"),
        ('window.BENCHMARK_DATA = {"entries": {"a": 1}}', "data.js, entries.a: expected a list, found 1"),
        ('window.BENCHMARK_DATA = {"entries": {}}', "data.js, entries: holds no result"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "data.js"
    path.write_text(text)

    with pytest.raises(BadFile) as refused:
        action_benchmark.read_runs(path)
    assert str(refused.value) == sentence
