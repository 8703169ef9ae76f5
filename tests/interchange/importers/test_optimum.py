"""optimum-benchmark's reports: medians become latencies, and each configuration is a case."""

import copy
import json
import math
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from interchange.errors import BadFile
from interchange.importers import optimum
from interchange.runs import ImportBatch

CONFIG: dict[str, Any] = {
    "name": "tiny_on_two",
    "backend": {
        "name": "pytorch",
        "version": "2.13.0+cu130",
        "_target_": "optimum_benchmark.backends.pytorch.backend.PyTorchBackend",
        "task": "text-generation",
        "model": "octo/tiny",
        "device": "cuda",
        "device_ids": "0,1",
        "torch_dtype": "float16",
        "seed": 42,
        "torch_compile": False,
        "torch_compile_config": {},
        "no_weights": True,
    },
    "scenario": {
        "name": "inference",
        "iterations": 10,
        "input_shapes": {"batch_size": 8, "sequence_length": 128},
        "new_tokens": None,
        "energy": False,
    },
    "launcher": {"name": "process", "numactl": False},
    "environment": {
        "cpu": " Test CPU 9000",
        "cpu_count": 16,
        "gpu": ["Test GPU 80GB", "Test GPU 80GB"],
        "gpu_vram_mb": 160_000_000_000,
        "python_version": "3.11.9",
        "transformers_version": "4.45.2",
        "diffusers_version": None,
    },
}
LATENCY = {
    **{"unit": "s", "values": [0.25, 0.5], "count": 2, "total": 0.75, "mean": 0.375},
    **{"p50": 0.25, "p90": 0.5, "p95": 0.55, "p99": 0.6, "stdev": 0.125, "stdev_": 33.3},
}
REPORT: dict[str, Any] = {
    "load": {"memory": None, "latency": LATENCY, "throughput": None, "energy": None, "efficiency": None},
    "forward": {
        "memory": {"unit": "MB", "max_ram": 900.5, "max_global_vram": None, "max_allocated": 512.0},
        "latency": LATENCY,
        "throughput": {"unit": "samples/s", "value": 21.5},
        "energy": {"unit": "kWh", "cpu": 1e-6, "ram": 2e-6, "gpu": 3e-6, "total": 6e-6},
        "efficiency": {"unit": "samples/kWh", "value": 1e6},
    },
}


def changed(**settings: Any) -> dict[str, Any]:
    """The settings with some of the backend's changed."""
    config = copy.deepcopy(CONFIG)
    config["backend"].update(settings)
    return config


def in_one(folder: Path, config: Any = CONFIG, report: Any = REPORT) -> Path:
    path = folder / "benchmark.json"
    path.write_text(json.dumps({"config": config, "report": report}))
    return path


def in_two(folder: Path, config: Any = CONFIG, report: Any = REPORT) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "benchmark_config.json").write_text(json.dumps(config))
    (folder / "benchmark_report.json").write_text(json.dumps(report))
    return folder


def only_case(imported: ImportBatch) -> str:
    [one] = imported.runs
    [outcome] = one.outcomes
    return outcome.case


def test_a_report_becomes_a_run_of_one_case(tmp_path: Path) -> None:
    path = in_one(tmp_path)
    os.utime(path, (1_777_636_800, 1_777_636_800))

    [one] = optimum.read_runs(path).runs
    assert one.run.suite == "text-generation"
    assert one.run.started_at == datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert "modification time" in one.run.facts["notes"][0]
    assert one.run.facts["iterations"] == {"load": 2, "forward": 2}
    assert one.run.facts["settings"]["environment.gpu_vram_mb"] == "160000000000"
    assert one.run.machine.hardware.label == "2 x Test GPU 80GB"
    [environment] = one.run.environments
    assert (environment.torch_version, environment.python_version) == ("2.13.0+cu130", "3.11.9")
    assert environment.facts["transformers_version"] == "4.45.2"


def test_the_median_of_a_step_is_the_latency(tmp_path: Path) -> None:
    [outcome] = optimum.read_runs(in_one(tmp_path)).runs[0].outcomes

    assert outcome.metrics == {
        **{f"optimum.load.latency_{name}": LATENCY[name] for name in ("mean", "p50", "p90", "p95", "p99")},
        **{f"optimum.forward.latency_{name}": LATENCY[name] for name in ("mean", "p95", "p99")},
        **{f"optimum.{target}.latency_stdev": 0.125 for target in ("load", "forward")},
        **{"latency": 250.0, "latency_p90": 500.0},
        **{"optimum.forward.max_ram": 900.5, "optimum.forward.max_allocated": 512.0},
        **{"optimum.forward.samples_per_s": 21.5, "optimum.forward.samples_per_kwh": 1e6},
        **{"optimum.forward.energy_cpu": 1e-6, "optimum.forward.energy_ram": 2e-6},
        **{"optimum.forward.energy_gpu": 3e-6, "optimum.forward.energy_total": 6e-6},
    }


def test_values_of_iterations_are_no_replicates(tmp_path: Path) -> None:
    [one] = optimum.read_runs(in_one(tmp_path)).runs

    assert {each.n for each in one.measurements} == {1}


def test_rates_are_better_when_higher(tmp_path: Path) -> None:
    metrics = {each.name: each for each in optimum.read_runs(in_one(tmp_path)).metrics}

    higher = [name for name, each in metrics.items() if each.better != "lower"]
    assert higher == ["optimum.forward.samples_per_s", "optimum.forward.samples_per_kwh"]
    assert metrics["optimum.forward.max_ram"].title == "forward: max ram (1 MB = 1e6 bytes)"


def test_one_run_in_two_shapes_is_one_run(tmp_path: Path) -> None:
    one = optimum.read_runs(in_one(tmp_path))
    in_two(tmp_path)
    both = optimum.read_runs(tmp_path)

    assert [run.run.id for run in both.runs] == [run.run.id for run in one.runs]
    assert not both.set_aside
    assert str(both.repeats[0]) == "benchmark_report.json: benchmark.json beside it holds the run"
    for name in ("benchmark_report.json", "benchmark_config.json"):
        assert only_case(optimum.read_runs(tmp_path / name)) == only_case(one)


def test_of_two_shapes_the_one_that_can_be_read_counts(tmp_path: Path) -> None:
    in_two(tmp_path)
    (tmp_path / "benchmark.json").write_text("{")

    imported = optimum.read_runs(tmp_path)
    assert len(imported.runs) == 1
    assert [str(each)[:34] for each in imported.set_aside] == ["benchmark.json, line 1, column 2: "]


@pytest.mark.parametrize(
    "other",
    [
        changed(attn_implementation="sdpa"),
        changed(no_weights=False),
        CONFIG | {"scenario": CONFIG["scenario"] | {"input_shapes": {"batch_size": 9}}},
        CONFIG | {"launcher": {"name": "torchrun", "nproc_per_node": 2}},
        changed(torch_compile=True),
        changed(quantization_config={"quant_method": "gptq"}),
    ],
)
def test_another_setting_is_another_case(tmp_path: Path, other: dict[str, Any]) -> None:
    before = only_case(optimum.read_runs(in_one(tmp_path)))

    assert only_case(optimum.read_runs(in_one(tmp_path, other))) != before


@pytest.mark.parametrize(
    "other",
    [
        changed(version="2.14.0"),
        changed(ports={"80/tcp": ["127.0.0.1", 48029]}),
        changed(a_new_option=None, another=False, more={}),
        CONFIG | {"environment": {}, "name": "renamed"},
    ],
)
def test_what_says_nothing_about_the_case_is_no_part_of_it(tmp_path: Path, other: dict[str, Any]) -> None:
    before = only_case(optimum.read_runs(in_one(tmp_path)))

    assert only_case(optimum.read_runs(in_one(tmp_path, other))) == before


@pytest.mark.parametrize(
    ("config", "part"),
    [
        (CONFIG, "octo%2Ftiny/infer/"),
        (CONFIG | {"scenario": {"name": "training"}}, "octo%2Ftiny/train/"),
        (CONFIG | {"scenario": {"name": "energy_star"}}, "octo%2Ftiny/call/"),
        (changed(torch_compile=True), "/compile=default"),
        (
            changed(torch_compile=True, torch_compile_config={"mode": "max-autotune"}),
            "/compile=max-autotune",
        ),
        (changed(device="cuda:1"), "backend=pytorch,batch=8,device=cuda,dtype=float16"),
        (changed(quantization_scheme="bnb"), "quantization=bnb"),
    ],
)
def test_the_case_tells_what_people_look_for(tmp_path: Path, config: dict[str, Any], part: str) -> None:
    assert part in only_case(optimum.read_runs(in_one(tmp_path, config)))


@pytest.mark.parametrize(
    ("config", "label"),
    [
        (changed(device="cpu"), "Test CPU 9000, 16 CPUs"),
        (CONFIG | {"environment": {"gpu": ["A", "B"]}}, "A + B"),
        (CONFIG | {"environment": {"gpu": "Only"}}, "2 x Only"),
        (changed(device_ids="1"), "Test GPU 80GB"),
        (changed(device_ids=["0"]), "Test GPU 80GB"),
        (changed(device_ids=None), "2 x Test GPU 80GB"),
        (CONFIG | {"environment": {}}, "unknown"),
    ],
)
def test_the_hardware_is_what_was_used(tmp_path: Path, config: dict[str, Any], label: str) -> None:
    [one] = optimum.read_runs(in_one(tmp_path, config)).runs

    assert one.run.machine.hardware.label == label


def test_another_backend_has_no_pytorch_version(tmp_path: Path) -> None:
    [one] = optimum.read_runs(in_one(tmp_path, changed(name="onnxruntime", version="1.20"))).runs

    assert one.run.environments[0].torch_version == ""
    assert one.run.environments[0].name == "onnxruntime 1.20"


@pytest.mark.parametrize(
    ("report", "place"),
    [
        ({"load": {"latency": LATENCY | {"p50": None}}}, ""),
        ({"load": {"latency": LATENCY | {"p50": "1"}}}, "load.latency.p50: expected a number"),
        ({"load": {"latency": LATENCY | {"mean": math.nan}}}, "load.latency.mean: expected a finite number"),
        ({"load": {"latency": LATENCY | {"unit": "ms"}}}, 'load.latency.unit: expected "s", found "ms"'),
        ({"load": {"memory": {"unit": "GB"}}}, 'load.memory.unit: expected "MB", found "GB"'),
        ({"load": {"memory": {"max_ram": 1.0}}}, "load.memory.unit: is missing"),
        ({"load": {"throughput": {"unit": "steps/s"}}}, "load.throughput.value: is missing"),
        ({"load": {"colour": {}}}, "load.colour: is no known block of a report"),
        ({"load": 7}, "load: expected an object, found 7"),
    ],
)
def test_one_bad_number_is_set_aside_with_its_place(
    tmp_path: Path, report: dict[str, Any], place: str
) -> None:
    imported = optimum.read_runs(in_one(tmp_path, report=report | {"call": {"latency": LATENCY}}))

    found = [str(each) for each in imported.set_aside]
    assert [each.startswith(f"benchmark.json, report.{place}") for each in found] == [True] * bool(place)
    assert imported.runs[0].outcomes[0].metrics["latency"] == 250.0


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("benchmark.json", "{", ", line 1, column 2: is no JSON"),
        ("benchmark.json", '{"config": {}, "report": {"a": 1}}', ", config.backend: is missing"),
        ("benchmark_report.json", "{}", ": has no benchmark_config.json beside it"),
        ("short_report.csv", "a\n1\n", ": holds no settings, which identify the case: only a full_"),
        ("full_report.csv", "a,b\n1,2\n", ", line 2, backend.name: is missing"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    (tmp_path / name).write_text(text)

    with pytest.raises(BadFile) as refused:
        optimum.read_runs(tmp_path / name)
    assert str(refused.value).startswith(name + sentence)


def test_a_report_without_a_backend_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"benchmark\.json, config\.backend: is missing"):
        optimum.read_runs(in_one(tmp_path, {"name": "x"}))


def test_one_gpu_and_two_are_two_cases(tmp_path: Path) -> None:
    two = only_case(optimum.read_runs(in_one(tmp_path)))
    for ids in ([0, 1], "[0, 1]", "2,3"):
        assert only_case(optimum.read_runs(in_one(tmp_path, changed(device_ids=ids)))) == two
    one = only_case(optimum.read_runs(in_one(tmp_path, changed(device_ids="0"))))
    assert ("gpus=2" in two, "gpus=1" in one) == (True, True)
    assert one.replace("gpus=1", "gpus=2") == two
