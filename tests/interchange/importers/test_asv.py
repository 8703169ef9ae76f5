"""asv's results folder: both formats, parameters, what failed and what was skipped."""

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from interchange.errors import BadFile
from interchange.importers import asv
from interchange.runs import ImportBatch

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HASH = "a" * 64
MACHINE = {"machine": "bench-1", "cpu": "Test CPU 9000", "num_cpu": "4", "ram": "8G", "os": "Linux"}
BENCHMARKS = {
    "ops.time_add": {"type": "time", "unit": "seconds", "param_names": [], "version": HASH},
    "ops.Sized.time_mul": {"type": "time", "unit": "seconds", "param_names": ["n", "dtype"]},
    "ops.peakmem_add": {"type": "peakmemory", "unit": "bytes"},
    "ops.track_loss": {"type": "track", "unit": "%"},
    "version": 2,
}
COLUMNS = ["result", "params", "version", "started_at", "duration"]
SIZED = [["8", "16"], ["'f32'", "'f64'"]]
ADD = "ops.time_add/call/asv.version=aaaaaaaaaaaa,env.python=3.11/eager"


def folder_with(folder: Path, **files: Any) -> Path:
    """A results folder with one machine, and its result files."""
    (folder / "bench-1").mkdir(exist_ok=True)
    (folder / "benchmarks.json").write_text(json.dumps(BENCHMARKS))
    (folder / "bench-1" / "machine.json").write_text(json.dumps(MACHINE | {"version": 1}))
    for name, document in files.items():
        text = document if isinstance(document, str) else json.dumps(document)
        (folder / "bench-1" / f"{name}.json").write_text(text)
    return folder


def file(results: Any, **more: Any) -> dict[str, Any]:
    return {
        "commit_hash": COMMIT,
        "env_name": "virtualenv-py3.11-torch2.13",
        "date": 1_777_636_800_000,
        "params": MACHINE | {"python": "3.11", "torch": "2.13"},
        "python": "3.11",
        "requirements": {"torch": "2.13"},
        "env_vars": {},
        "result_columns": COLUMNS,
        "results": results,
        "version": 2,
    } | more


def read(folder: Path, results: Any, **more: Any) -> ImportBatch:
    return asv.read_runs(folder_with(folder, one=file(results, **more)))


def test_a_result_file_becomes_a_run_of_its_commit(tmp_path: Path) -> None:
    [one] = read(tmp_path, {"ops.time_add": [[0.25], [], HASH]}).runs

    assert one.run.started_at == datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert one.run.machine.name == "bench-1"
    assert one.run.machine.hardware.label == "Test CPU 9000, 4 CPUs"
    assert one.run.environments[0].torch_version == "2.13"
    assert one.run.environments[0].name == "virtualenv-py3.11-torch2.13"
    assert one.run.facts["commit"] == COMMIT
    [outcome] = one.outcomes
    assert (outcome.case, outcome.metrics) == (ADD, {"asv.time.seconds": 0.25})


def test_units_and_directions_are_those_of_the_catalogue(tmp_path: Path) -> None:
    imported = read(tmp_path, {"ops.time_add": [[0.5]], "ops.peakmem_add": [[2048]], "ops.track_loss": [[7]]})

    assert {each.name: (each.unit, each.better) for each in imported.metrics} == {
        "asv.time.seconds": ("seconds", "lower"),
        "asv.peakmemory.bytes": ("bytes", "lower"),
        "asv.track.percent": ("%", "neither"),
    }


def test_the_last_parameter_varies_fastest(tmp_path: Path) -> None:
    [one] = read(tmp_path, {"ops.Sized.time_mul": [[1.0, 2.0, 3.0, 4.0], SIZED]}).runs

    assert {each.case.split("/")[2]: each.metrics["asv.time.seconds"] for each in one.outcomes} == {
        "dtype='f32',env.python=3.11,n=8": 1.0,
        "dtype='f64',env.python=3.11,n=8": 2.0,
        "dtype='f32',env.python=3.11,n=16": 3.0,
        "dtype='f64',env.python=3.11,n=16": 4.0,
    }


def test_null_failed_and_nan_was_skipped(tmp_path: Path) -> None:
    [one] = read(
        tmp_path, {"ops.Sized.time_mul": [[1.0, None, math.nan, 4.0], SIZED], "ops.time_add": [None, []]}
    ).runs

    found = {each.case.split("/")[2]: each.status for each in one.outcomes}
    assert found == {
        "dtype='f32',env.python=3.11,n=8": "ok",
        "dtype='f64',env.python=3.11,n=8": "crashed",
        "dtype='f32',env.python=3.11,n=16": "skipped",
        "dtype='f64',env.python=3.11,n=16": "ok",
        "asv.version=aaaaaaaaaaaa,env.python=3.11": "crashed",
    }


def test_of_a_benchmark_without_values_every_combination_failed(tmp_path: Path) -> None:
    [one] = read(tmp_path, {"ops.Sized.time_mul": [None, SIZED]}).runs

    assert [each.status for each in one.outcomes] == ["crashed"] * 4


def test_format_1_is_read(tmp_path: Path) -> None:
    results = {
        "ops.time_add": 0.25,
        "ops.peakmem_add": None,
        "ops.Sized.time_mul": {"result": [1.0, 2.0, None, 4.0], "params": SIZED, "stats": None},
    }
    [one] = read(tmp_path, results, version=1, benchmark_version={"ops.time_add": HASH}).runs

    assert one.outcomes[0].case == ADD
    assert sorted(each.status for each in one.outcomes) == ["crashed", "crashed", "ok", "ok", "ok", "ok"]
    assert sum(each.metrics.get("asv.time.seconds", 0) for each in one.outcomes) == 7.25


def test_an_edited_benchmark_is_another_case(tmp_path: Path) -> None:
    path = folder_with(
        tmp_path,
        one=file({"ops.time_add": [[1.0], [], HASH]}),
        two=file({"ops.time_add": [[1.0], [], "b" * 64]}, commit_hash="f" * 40),
        three=file({"ops.time_add": [[1.0], [], "2026-edition-one"]}, commit_hash="e" * 40),
    )

    assert {run.outcomes[0].case.split(",")[0].split("=")[1] for run in asv.read_runs(path).runs} == {
        "a" * 12,
        "b" * 12,
        "2026-edition-one",
    }


def test_environments_are_apart_but_for_the_pytorch(tmp_path: Path) -> None:
    def with_requirements(torch: str, **more: Any) -> dict[str, Any]:
        return file(
            {"ops.time_add": [[1.0]]}, env_name=f"{torch}{more}", requirements={"torch": torch} | more
        )

    path = folder_with(
        tmp_path,
        one=with_requirements("2.12"),
        two=with_requirements("2.13"),
        three=with_requirements("2.13", numpy="2.1"),
        four=with_requirements("2.13", numpy=""),
        five=with_requirements("2.13", numpy=None),
    )

    runs = asv.read_runs(path).runs
    assert len(runs) == 5
    found = sorted(
        run.outcomes[0].case.split("/")[2].removeprefix("asv.version=aaaaaaaaaaaa,") for run in runs
    )
    assert found == [
        "env.numpy=2.1,env.python=3.11",
        "env.numpy=latest,env.python=3.11",
        *["env.python=3.11"] * 3,
    ]


@pytest.mark.parametrize("start", ["", "bench-1", "bench-1/one.json", "benchmarks.json"])
def test_a_folder_a_machine_and_a_file_are_read(tmp_path: Path, start: str) -> None:
    path = folder_with(tmp_path, one=file({"ops.time_add": [[1.0]]})) / start

    assert asv.knows(path)
    assert len(asv.read_runs(path).runs) == 1


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ({"ops.gone": [[1.0]]}, "results.ops.gone: benchmarks.json has no entry for it"),
        ({"ops.time_add": [["fast"]]}, 'results.ops.time_add.result[0]: expected a number, found "fast"'),
        ({"ops.time_add": [[math.inf]]}, "results.ops.time_add.result[0]: expected a finite number"),
        ({"ops.time_add": [[1.0, 2.0]]}, "results.ops.time_add.result: has 2 values for 1 combinations"),
        ({"ops.time_add": 1.0}, "results.ops.time_add: expected a list, found 1.0"),
        ({"ops.time_add": [1] * 9}, "results.ops.time_add: has 9 columns, result_columns has 5"),
        ({"ops.time_add": [None, [["1"] * 99] * 99]}, "results.ops.time_add: has 3697"),
        ({"ops.time_add": [[1.0], 7]}, "results.ops.time_add.params: expected a list, found 7"),
    ],
)
def test_one_bad_result_is_set_aside_with_its_place(tmp_path: Path, broken: Any, sentence: str) -> None:
    imported = read(tmp_path, broken | {"ops.peakmem_add": [[1.0]]})

    assert str(imported.set_aside[0]).startswith(f"bench-1/one.json, {sentence}")
    assert [each.metrics for each in imported.runs[0].outcomes] == [{"asv.peakmemory.bytes": 1.0}]


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ("{", ", line 1, column 2: is no JSON: Expecting property name enclosed in double quotes"),
        (file(None), ", results: is missing"),
        (file({}, version=3), ", version: expected format 1 or 2 of asv's results, found 3"),
        (file({}, version=[]), ", version: expected format 1 or 2 of asv's results, found a list"),
        (file({}, date="May"), ', date: expected a number, found "May"'),
        (file({}, date=1e30), ", date: expected a time since 1970"),
        (file({}, commit_hash=None), ", commit_hash: is missing"),
        (file({}), ": holds no result"),
    ],
)
def test_one_bad_file_is_set_aside_with_its_place(tmp_path: Path, broken: Any, sentence: str) -> None:
    path = folder_with(tmp_path, bad=broken, good=file({"ops.time_add": [[1.0]]}))

    imported = asv.read_runs(path)
    assert [str(each).startswith(f"bench-1/bad.json{sentence}") for each in imported.set_aside] == [True]
    assert len(imported.runs) == 1


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    assert not asv.knows(tmp_path)
    with pytest.raises(BadFile, match=r"has no benchmarks\.json in it or above it"):
        asv.read_runs(tmp_path)


def test_a_date_in_seconds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"date: is in the year 1970: seconds, not milliseconds\?"):
        read(tmp_path, {"ops.time_add": [[0.5]]}, date=1_777_636_800)
