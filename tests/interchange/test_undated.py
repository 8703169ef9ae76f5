"""Files without a time: a copy of one is the same runs, whatever its modification time."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from interchange import formats
from interchange.runs import ImportBatch
from interchange.source_file import NO_TIME
from support.builders.foreign_files import PYTEST, SAMPLES, TORCHBENCH, V3, Sample, of_json, one_file, written


def without(document: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


OF_2023: Sample = (
    {
        "runs/0/hydra_config.yaml": b"backend:\n  name: pytorch\n  version: 2.1.0\nmodel: tiny\n",
        "runs/0/inference_results.csv": b"forward.latency(s),forward.throughput(samples/s)\n0.0437,22.9\n",
    },
    "runs",
)
UNDATED: Mapping[str, Sample] = {
    "timm-csv": SAMPLES["timm-csv"],
    "dynamo-csv": SAMPLES["dynamo-csv"],
    "optimum": SAMPLES["optimum"],
    "optimum of 2023": OF_2023,
    "oss-v3": of_json("records.json", [without(V3[0], "timestamp")]),
    "torchbench": of_json("metrics.json", TORCHBENCH),
    "pytest-benchmark": of_json("steps.json", without(PYTEST, "datetime")),
}
#: The same with another number.
CHANGED = {
    "timm-csv": ("2543.21", "2543.22"),
    "dynamo-csv": ("1.1437", "1.1438"),
    "optimum": ("0.0115", "0.0116"),
    "optimum of 2023": ("0.0437", "0.0438"),
    "oss-v3": ("1.5", "1.6"),
    "torchbench": ("21.5", "21.6"),
    "pytest-benchmark": ("0.0021", "0.0022"),
}


def read(path: Path, modified: int) -> ImportBatch:
    for file in [path, *path.rglob("*")]:
        os.utime(file, (modified, modified))
    return formats.reader(path).read_runs(path)


def ids(imported: ImportBatch) -> list[str]:
    return [each.run.id for each in imported.runs]


@pytest.mark.parametrize("name", UNDATED)
def test_a_copy_is_the_same_runs_and_another_file_of_that_name_is_not(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / "first", UNDATED[name])
    first = read(path, 1_700_000_000)
    copy = Path(shutil.copytree(tmp_path / "first", tmp_path / "second")) / UNDATED[name][1]
    assert ids(read(copy, 1_750_000_000)) == ids(first)
    assert all(each.startswith("undated-") for each in ids(first))
    assert all(NO_TIME in each.run.notes for each in first.runs)

    files, start = UNDATED[name]
    old, new = (text.encode() for text in CHANGED[name])
    changed = {file: content.replace(old, new) for file, content in files.items()}
    assert changed != files
    other = read(written(tmp_path / "third", (changed, start)), 1_700_000_000)
    assert not set(ids(other)) & set(ids(first))


def test_a_time_in_the_name_is_the_runs(tmp_path: Path) -> None:
    path = written(tmp_path, of_json("metrics-20240307222831.json", TORCHBENCH))
    assert ids(read(path, 1_700_000_000))[0].startswith("20240307-222831-torchbench-")


#: By format a name that states a time.
DATED = {
    "timm-csv": "benchmark-infer-amp-nchw-pt240-cu124-rtx4090-20240307.csv",
    "dynamo-csv": "inductor_torchbench_performance_cuda_performance_20240307.csv",
    "oss-v3": "records-20240307.json",
    "torchbench": "metrics-20240307222831.json",
}


@pytest.mark.parametrize("name", DATED)
def test_a_file_with_a_time_in_its_name_is_the_same_run_with_another_content(
    tmp_path: Path, name: str
) -> None:
    (content,) = UNDATED[name][0].values()
    found: list[list[str]] = []
    for folder, changed in (("first", content), ("second", content.replace(*map(str.encode, CHANGED[name])))):
        sample = one_file(DATED[name], changed)
        found.append(ids(read(written(tmp_path / folder, sample), 1_700_000_000)))
    assert found[0] == found[1] and found[0][0].startswith("20240307-")
    other = one_file(DATED[name].replace("20240307", "20240308"), content)
    assert ids(read(written(tmp_path, other), 1_700_000_000)) != found[0]


def test_metrics_of_two_pytorchs_in_files_of_one_name_are_two_runs(tmp_path: Path) -> None:
    found: list[list[str]] = []
    for torch in ("2.3.0", "2.4.0"):
        environ = {**TORCHBENCH["environ"], "pytorch_version": torch}
        sample = of_json("metrics-20240307.json", {**TORCHBENCH, "environ": environ})
        found.append(ids(read(written(tmp_path / torch, sample), 1_700_000_000)))
    assert found[0] != found[1]


def test_two_tables_of_one_content_and_two_names_are_two(tmp_path: Path) -> None:
    (content,) = SAMPLES["dynamo-csv"][0].values()
    found = [
        ids(read(written(tmp_path, one_file(f"{stem}_performance.csv", content)), 1_700_000_000))
        for stem in ("inductor_torchbench_amp", "inductor_torchbench_float32")
    ]
    assert found[0] != found[1]


def test_a_timm_table_with_another_name_is_of_another_pytorch(tmp_path: Path) -> None:
    (content,) = SAMPLES["timm-csv"][0].values()
    names = (f"benchmark-infer-amp-{torch}-rtx4090.csv" for torch in ("pt240", "pt250"))
    found = [ids(read(written(tmp_path, one_file(name, content)), 1_700_000_000)) for name in names]
    assert found[0] != found[1]


def test_records_with_and_without_a_time_make_two_runs(tmp_path: Path) -> None:
    records = [V3[0], without(V3[0], "timestamp")]
    path = written(tmp_path, one_file("records.json", json.dumps(records).encode()))
    one, other = sorted(ids(read(path, 1_700_000_000)))
    assert (one[:16], other[:15]) == ("20241130-205320-", "undated-oss-v3-")
