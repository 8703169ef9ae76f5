"""TorchBench's `metrics-*.json`: numbers, and what went wrong in their place."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from interchange.errors import BadFile
from interchange.importers import torchbench
from interchange.runs import ImportBatch

KEY = "model=tiny_net, test=eval, device=cuda, bs=8, extra_args=--precision bf16 --channels-last, metric="
CASE = "tiny_net/infer/batch=8,benchmark=group_bench,device=cuda/channels-last=on,precision=bf16"


def written(folder: Path, metrics: Any, file: str = "metrics-20260903010203.json", **more: Any) -> Path:
    environ = {"pytorch_version": "2.14.0", "pytorch_git_version": "a" * 40, "device": "NVIDIA Test"}
    path = folder / file
    path.write_text(json.dumps({"name": "group_bench", "environ": environ, "metrics": metrics} | more))
    return path


def read(folder: Path, metrics: Any, **more: Any) -> ImportBatch:
    return torchbench.read_runs(written(folder, metrics, **more))


def test_a_file_becomes_one_run_of_its_benchmark(tmp_path: Path) -> None:
    imported = read(tmp_path, {f"{KEY}latencies": 4.5, f"{KEY}gpu_peak_mem": 1.25})

    [one] = imported.runs
    assert one.run.suite == "torchbench.group_bench"
    assert one.run.started_at == datetime(2026, 9, 3, 1, 2, 3, tzinfo=UTC)
    assert one.run.machine.hardware.label == "NVIDIA Test"
    assert one.run.environments[0].torch_version == "2.14.0"
    assert one.run.environments[0].facts == {"git": "a" * 40}
    assert one.run.preset.name == one.run.harness == torchbench.NAME
    assert [(each.case, each.metric, each.point, each.n) for each in one.measurements] == [
        (CASE, "latency", 4.5, 1),
        (CASE, "torchbench.gpu_peak_mem", 1.25, 1),
    ]
    assert [(each.name, each.unit, each.better) for each in imported.metrics] == [
        ("torchbench.gpu_peak_mem", "GB", "lower")
    ]
    # As the tool counts: 28.92413330078125 of a real file is a whole number of 64 KiB.
    assert imported.metrics[0].title == "Peak memory of the GPU (1 GB = 1024 MiB)"
    assert imported.set_aside == ()


@pytest.mark.parametrize(
    ("key", "case", "metric"),
    [
        (
            "model=net, test=train, device=cpu, bs=None, extra_args=, metric=latencies",
            "net/train/benchmark=group_bench,device=cpu/eager",
            "latency",
        ),
        (
            "model=net, test=train, bs=None, extra_args=['--precision', 'fp16'], metric=latencies",
            "net/train/benchmark=group_bench/precision=fp16",
            "latency",
        ),
        (
            "model=net, test=warm, device=cpu, bs=1, ranks=2, extra_args=stray words, metric=latencies",
            "net/call/batch=1,benchmark=group_bench,device=cpu,ranks=2,test=warm/arguments=stray%20words",
            "latency",
        ),
        (
            "test_eval[a-net-cuda-eager]_latency",
            "a-net/infer/benchmark=group_bench,device=cuda/eager",
            "latency",
        ),
        (
            "test_train[net-cpu-jit]_cmem",
            "net/train/benchmark=group_bench,device=cpu/mode=jit",
            "torchbench.cpu_peak_mem",
        ),
        ("net-a-eval-ttfb", "net-a/infer/benchmark=group_bench/eager", "torchbench.ttfb"),
        ("v3_score", "v3_score/call/benchmark=group_bench/eager", "torchbench.value"),
        ("a, b=c", "a%2C%20b%3Dc/call/benchmark=group_bench/eager", "torchbench.value"),
    ],
)
def test_keys_are_taken_apart_where_they_can_be(tmp_path: Path, key: str, case: str, metric: str) -> None:
    [one] = read(tmp_path, {key: 2}).runs

    [measurement] = one.measurements
    assert (measurement.case, measurement.metric) == (case, metric)


def test_an_unknown_unit_is_not_invented(tmp_path: Path) -> None:
    [metric] = read(tmp_path, {"net-eval-throughputs": 2.0}).metrics

    assert (metric.unit, metric.better) == ("as given", "neither")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Exceeded timeout: 3600", "timeout"),
        ("CUDA out of memory. Tried to allocate 2.00 GiB", "oom"),
        ("not_implemented", "unsupported"),
        ("err", "crashed"),
        ("[Errno 2] No such file or directory", "crashed"),
        ("whatever else it says", "crashed"),
        ("skip_by_dryrun", "skipped"),
        ("fail_accuracy", "wrong"),
        ("pass", "ok"),
    ],
)
def test_a_text_is_the_outcome_of_its_case(tmp_path: Path, text: str, status: str) -> None:
    imported = read(tmp_path, {f"{KEY}latencies": text, f"{KEY}gpu_peak_mem": text})

    [outcome] = imported.runs[0].outcomes
    assert (outcome.case, outcome.status, outcome.reason, outcome.metrics) == (CASE, status, text, {})
    assert imported.runs[0].measurements == ()
    assert imported.set_aside == ()


def test_different_texts_of_one_case_are_all_in_its_reason(tmp_path: Path) -> None:
    [one] = read(tmp_path, {f"{KEY}latencies": "err", f"{KEY}gpu_peak_mem": "failed"}).runs

    assert one.outcomes[0].reason == "latencies: err; gpu_peak_mem: failed"


def test_a_text_among_numbers_is_set_aside_and_said(tmp_path: Path) -> None:
    imported = read(tmp_path, {f"{KEY}latencies": 4.5, f"{KEY}gpu_peak_mem": "failed"})

    assert [each.status for each in imported.runs[0].outcomes] == ["ok"]
    [problem] = imported.set_aside
    assert problem.place.field == f"metrics.{KEY}gpu_peak_mem"
    assert problem.sentence == "gpu_peak_mem is 'failed', and other metrics have numbers"


@pytest.mark.parametrize("value", [None, True, "", "1.5", "nan", [1], {"a": 1}, float("nan"), float("inf")])
def test_what_is_neither_number_nor_error_is_set_aside_with_its_place(tmp_path: Path, value: Any) -> None:
    imported = read(tmp_path, {"net-eval-latencies": value, "other-eval-latencies": 1.0})

    assert [each.case for each in imported.runs[0].measurements] == [
        "other/infer/benchmark=group_bench/eager"
    ]
    [problem] = imported.set_aside
    assert (problem.place.file, problem.place.field) == (
        "metrics-20260903010203.json",
        "metrics.net-eval-latencies",
    )


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "metrics.json, line 1, column 1: is no JSON"),
        ('{"name": "x",', "metrics.json, line 1, column 14: is no JSON"),
        ("[]", "metrics.json: expected an object"),
        ('{"metrics": {}}', "metrics.json, name: is missing"),
        ('{"name": "x"}', "metrics.json, metrics: is missing"),
        ('{"name": "x", "metrics": []}', "metrics.json, metrics: expected an object, found a list"),
        ('{"name": "x", "metrics": {}}', "metrics.json, metrics: holds no result"),
        ('{"name": "x", "environ": 3, "metrics": {}}', "metrics.json, environ: expected an object, found 3"),
        ('{"name": "x", "metrics": {"a": []}}', "metrics.json, metrics.a: expected a number, found a list"),
    ],
)
def test_a_file_of_another_kind_is_refused_with_its_place(tmp_path: Path, text: str, where: str) -> None:
    path = tmp_path / "metrics.json"
    path.write_text(text)

    with pytest.raises(BadFile) as refused:
        torchbench.read_runs(path)

    assert str(refused.value).startswith(where)


def test_a_file_is_known_by_how_it_begins(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"results": {}}')

    assert torchbench.knows(written(tmp_path, {}))
    assert torchbench.knows(written(tmp_path, {}, file="any.json"))
    assert not torchbench.knows(other)
    assert not torchbench.knows(tmp_path)
    assert not torchbench.knows(tmp_path / "absent.json")
