"""pytest-benchmark's JSON: medians become latencies, one process is one value."""

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from interchange.errors import BadFile
from interchange.importers import pytest_benchmark
from interchange.runs import ImportBatch

STATS = {
    **{"min": 0.001, "max": 0.004, "mean": 0.0021, "stddev": 0.0002, "median": 0.002, "iqr": 0.0001},
    **{"q1": 0.0019, "q3": 0.0022, "ops": 476.2, "rounds": 5, "iterations": 3, "outliers": "1;0"},
    "data": [0.001, 0.002, 0.002, 0.0025, 0.004],
}
MACHINE = {
    "node": "bench-1",
    "processor": "x86_64",
    "python_version": "3.12.4",
    "cpu": {"brand_raw": "Test CPU 9000", "count": 4},
}
COMMIT = {"id": "abc123", "project": "scatter", "dirty": False, "time": "2026-05-01T10:00:00+02:00"}


def bench(fullname: str = "tests/test_add.py::test_add", **more: Any) -> dict[str, Any]:
    return {"name": "test_add", "fullname": fullname, "params": None, "extra_info": {}, "stats": STATS} | more


def read(folder: Path, *benchmarks: Any, **more: Any) -> ImportBatch:
    document = {
        "machine_info": MACHINE,
        "commit_info": COMMIT,
        "benchmarks": list(benchmarks),
        "datetime": "2026-05-02T12:00:00+02:00",
        "version": "5.1.0",
    }
    path = folder / "benchmark.json"
    path.write_text(json.dumps(document | more))
    assert pytest_benchmark.knows(path)
    return pytest_benchmark.read_runs(path)


def test_a_file_becomes_one_run_of_its_project(tmp_path: Path) -> None:
    [one] = read(tmp_path, bench()).runs

    assert one.run.suite == "scatter"
    assert one.run.harness == one.run.preset.name == pytest_benchmark.NAME
    assert one.run.started_at == datetime(2026, 5, 2, 10, tzinfo=UTC)
    assert one.run.machine.name == "bench-1"
    assert one.run.machine.hardware.label == "Test CPU 9000, 4 CPUs"
    assert one.run.facts["commit"] == COMMIT
    assert (one.run.environments[0].torch_version, one.run.environments[0].python_version) == ("", "3.12.4")


def test_the_median_is_the_latency_and_the_mean_is_not(tmp_path: Path) -> None:
    [one] = read(tmp_path, bench()).runs
    [outcome] = one.outcomes

    assert outcome.case == "tests%2Ftest_add.py::test_add/call/project=scatter/eager"
    assert outcome.metrics == {
        **{"latency": 2.0, "latency_min": 1.0},
        **{"pytest_benchmark.mean": 0.0021, "pytest_benchmark.max": 0.004, "pytest_benchmark.stddev": 0.0002},
        **{"pytest_benchmark.q1": 0.0019, "pytest_benchmark.q3": 0.0022, "pytest_benchmark.iqr": 0.0001},
        "pytest_benchmark.ops": 476.2,
    }
    about = one.run.facts["benchmarks"][outcome.case]
    assert about == {"rounds": 5, "iterations": 3, "outliers": "1;0"}


def test_rounds_are_no_replicates(tmp_path: Path) -> None:
    [one] = read(tmp_path, bench()).runs

    assert {(each.n, each.low) for each in one.measurements} == {(1, None)}


def test_only_operations_per_second_are_better_when_higher(tmp_path: Path) -> None:
    better = {each.name: each.better for each in read(tmp_path, bench()).metrics}

    assert [name for name, which in better.items() if which != "lower"] == ["pytest_benchmark.ops"]


@pytest.mark.parametrize(
    ("params", "spelled"),
    [
        ({"n": 8, "dtype": "float32"}, "dtype=float32,n=8,project=scatter"),
        ({"n": 8, "flag": None}, "flag=None,n=8,project=scatter"),
        ({"f": "UNSERIALIZABLE[<function f at 0x7f00>]"}, "param=8-float32,project=scatter"),
        ({"shape": [1, 2]}, "param=8-float32,project=scatter"),
        (None, "param=8-float32,project=scatter"),
    ],
)
def test_parameters_are_part_of_the_case_and_addresses_are_not(
    tmp_path: Path, params: Any, spelled: str
) -> None:
    [one] = read(tmp_path, bench("test_add.py::test_add[8-float32]", params=params)).runs

    assert one.outcomes[0].case == f"test_add.py::test_add/call/{spelled}/eager"


def test_a_suite_that_measures_two_pytorches_gives_two_runs(tmp_path: Path) -> None:
    imported = read(
        tmp_path,
        bench(extra_info={"torch_version": "2.12.1"}),
        bench(extra_info={"torch_version": "2.13.0"}),
        bench("test_b.py::test_b"),
        machine_info=MACHINE | {"torch": "2.13.0"},
    )

    found = {run.run.environments[0].torch_version: len(run.outcomes) for run in imported.runs}
    assert found == {"2.12.1": 1, "2.13.0": 2}
    assert not imported.set_aside


def test_without_a_time_the_files_own_stands_and_is_said_so(tmp_path: Path) -> None:
    [one] = read(tmp_path, bench(), datetime=None).runs

    assert "modification time" in one.run.facts["notes"][0]


@pytest.mark.parametrize(
    ("broken", "place"),
    [
        (bench(stats=None), "benchmarks[0].stats: is missing"),
        (bench(stats=STATS | {"median": "fast"}), "benchmarks[0].stats.median: expected a number"),
        (bench(stats=STATS | {"ops": math.inf}), "benchmarks[0].stats.ops: expected a finite number"),
        (bench(stats=STATS | {"median": 1e306}), "benchmarks[0].stats.median: expected a finite number"),
        (bench(fullname=7), "benchmarks[0].fullname: expected a text, found 7"),
        ("none", "benchmarks[0]: expected an object"),
        (bench("tests/test_b.py::test_b"), "is in the file twice; the first one is used"),
    ],
)
def test_one_bad_benchmark_is_set_aside_with_its_place(tmp_path: Path, broken: Any, place: str) -> None:
    imported = read(tmp_path, broken, bench("tests/test_b.py::test_b"))

    assert place in str(imported.set_aside[0])
    assert "latency" in imported.runs[0].outcomes[-1].metrics


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"benchmarks": None}, "benchmark.json, benchmarks: is missing"),
        ({"benchmarks": []}, "benchmark.json, benchmarks: holds no result"),
        ({"machine_info": [1]}, "benchmark.json, machine_info: expected an object, found a list"),
        ({"datetime": "yesterday"}, "benchmark.json, datetime: expected a time"),
        ({"commit_info": "abc"}, 'benchmark.json, commit_info: expected an object, found "abc"'),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadFile) as refused:
        read(tmp_path, *([] if "benchmarks" in more else [bench()]), **more)

    assert str(refused.value).startswith(sentence)
