"""The bounds of the acceptance hold figures to what they say, and a figure that is missing fails."""

import json
import math
import sys
import time
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from records.outcomes import Outcome, OutcomeStatus
from runner.suites.plan import invalid
from runner.suites.suite import compose, workloads
from support.scripts import BENCHMARKS, script

lines = script("gpu/lines")
suite_figures = script("gpu/suite_figures")
processes = script("gpu/processes")

MLP = "mlp_overhead/infer/batch=64"
GEMM = "gemm/infer/size=4096"
LARGE = "bert_base/train/batch=16,layers=4,tokens=512"
HEADER = {"machine": {"conditions": {"gpus": {"0": {"pcie_generation": 5, "pcie_width": 16}}}}}


def inside(bound: Any) -> float:
    """A value that the bound allows."""
    if bound.low is None:
        return float(bound.high)
    return float(bound.low) if bound.high is None else (bound.low + bound.high) / 2


def outside(bound: Any) -> list[float]:
    """Values that it does not allow."""
    beyond = [] if bound.low is None else [bound.low - 0.001]
    return [*beyond, *([] if bound.high is None else [bound.high + 0.001]), math.nan]


def outcome(case: str, status: OutcomeStatus = OutcomeStatus.OK, **about: Any) -> Outcome:
    """An outcome with made-up metrics and facts."""
    return Outcome(case, "env", 0, status, started_at=datetime(2026, 1, 1, tzinfo=UTC), **about)


@pytest.mark.parametrize("line", lines.LINES, ids=lambda line: line.name)
def test_a_line_passes_within_its_bounds_only(line: Any) -> None:
    good = {bound.figure: inside(bound) for bound in line.bounds}
    assert line.bounds and lines.judged(line.name, good, 0.0).verdict == "pass"
    for bound in line.bounds:
        for value in outside(bound):
            result = lines.judged(line.name, {**good, bound.figure: value}, 0.0)
            assert result.verdict == "fail" and result.reason.startswith(f"{bound.figure} = ")
        for missing in ({}, {bound.figure: None}):
            without = {name: value for name, value in good.items() if name != bound.figure} | missing
            result = lines.judged(line.name, without, 0.0)
            assert (result.verdict, result.reason) == ("fail", f"{bound.figure} was not measured")


def test_names_are_unique_and_numbers_are_places() -> None:
    assert len(lines.BY_NAME) == len(lines.LINES)
    assert [lines.NUMBERS[line.name] for line in lines.LINES] == list(range(1, len(lines.LINES) + 1))


def test_figures_of_graphs_and_launches_are_ratios_of_the_right_cases() -> None:
    outcomes = suite_figures.Outcomes(
        [
            outcome(f"{MLP}/eager", metrics={"latency": 0.2, "launch_bound": 0.8, "device_time": 0.04}),
            outcome(
                f"{MLP}/graph=capture",
                metrics={
                    "latency": 0.05,
                    "launch_bound": 0.2,
                    "device_time": 0.04,
                    "capture": 3.0,
                    "instantiate": 1.0,
                    "first_replay": 0.5,
                },
            ),
            outcome(f"{MLP}/graph=callables", metrics={"latency": 0.1}),
            outcome(f"{MLP}/compile=reduce-overhead", metrics={"latency": 0.06, "cudagraph_skips": 0.0}),
            outcome(f"{GEMM}/eager", metrics={"launch_bound": 0.01, "error": 0.0}),
            outcome(
                f"{GEMM}/precision=tf32",
                metrics={"error": 3e-4},
                facts={"check": {"tolerance": 2e-2}},
            ),
        ]
    )
    figures = suite_figures.of_suite(outcomes) | suite_figures.of_memory(outcomes, HEADER, 80_000)
    assert figures["graphs"]["capture_by_eager"] == pytest.approx(0.25)
    assert figures["launch_bound"]["device_time_ratio"] == 1
    assert figures["answers"]["tf32_by_fp32"] == pytest.approx(3000)
    assert figures["answers"]["worst_by_tolerance"] == pytest.approx(0.015)
    for name in ("graphs", "launch_bound", "answers"):
        assert lines.judged(name, figures[name], 0.0).verdict == "pass"
    # Nothing is known of these: they must not pass.
    for name in ("ranks", "instances", "pipeline", "grad_scaler", "memory", "captured_training", "copies"):
        assert lines.judged(name, figures[name], 0.0).verdict == "fail"


def test_memory_and_copies_are_judged_by_what_they_could_be() -> None:
    copies = "host_copy/infer/direction={},mebibytes=256,pinned={}/eager"
    outcomes = suite_figures.Outcomes(
        [
            outcome(f"{LARGE}/eager", metrics={"cuda_peak_allocated": 2200.0}),
            outcome(f"{LARGE}/checkpoint=on", metrics={"cuda_peak_allocated": 1320.0}),
            outcome(f"{LARGE}/memory=quarter", metrics={"cuda_peak_reserved": 2400.0}),
            outcome(copies.format("to_device", True), metrics={"bandwidth": 56.7}),
            outcome(copies.format("to_host", True), metrics={"bandwidth": 50.4}),
            outcome(copies.format("to_device", False), metrics={"bandwidth": 11.34}),
        ]
    )
    figures = suite_figures.of_memory(outcomes, HEADER, 80_000)
    assert figures["memory"]["checkpoint_by_eager"] == pytest.approx(0.6)
    assert figures["memory"]["limited_by_limit"] == pytest.approx(0.12)
    # 16 lanes of 3.938 GB/s are 63.
    assert figures["copies"]["to_device_by_link"] == pytest.approx(0.9, rel=1e-3)
    assert figures["copies"]["pageable_by_pinned"] == pytest.approx(0.2)
    for name in ("memory", "copies"):
        assert lines.judged(name, figures[name], 0.0).verdict == "pass"
    unknown = {"machine": {"conditions": {}}}
    figures = suite_figures.of_memory(outcomes, unknown, 80_000)
    assert lines.judged("copies", figures["copies"], 0.0).reason.startswith("to_device_by_link was not")


def test_a_suite_counts_what_is_missing_and_what_is_not_as_expected() -> None:
    refused = "bert_base/train/batch=4,layers=2,tokens=128/parallel=ddp,ranks=16"
    outcomes = suite_figures.Outcomes(
        [outcome("a/infer/-/eager"), outcome(refused, OutcomeStatus.UNSUPPORTED, reason="one GPU")]
    )
    figures = suite_figures.suite(["a/infer/-/eager", refused], outcomes)
    assert (figures["missing"], figures["not_ok"]) == (0, 0)
    outcomes = suite_figures.Outcomes([outcome(refused), outcome("b/infer/-/eager", OutcomeStatus.WRONG)])
    figures = suite_figures.suite(["a/infer/-/eager", "b/infer/-/eager", refused], outcomes)
    assert (figures["missing_cases"], figures["not_ok"]) == (["a/infer/-/eager"], 2)


def test_faults_need_the_right_end_and_good_company() -> None:
    wrong, right = "precision=bf16", "eager"
    ended = [
        outcome(f"asks_too_much/infer/-/{wrong}", OutcomeStatus.OOM),
        outcome(f"asks_too_much/infer/-/{right}"),
        outcome(f"fails_an_assertion/infer/-/{wrong}", OutcomeStatus.CRASHED),
        outcome(f"fails_an_assertion/infer/-/{right}"),
        outcome(f"reads_beyond/infer/-/{wrong}", OutcomeStatus.CRASHED),
        outcome(f"reads_beyond/infer/-/{right}", OutcomeStatus.CRASHED),
    ]
    figures = suite_figures.faults(suite_figures.Outcomes(ended))
    assert lines.judged("out_of_memory", figures["out_of_memory"], 0.0).verdict == "pass"
    assert lines.judged("device_faults", figures["device_faults"], 0.0).reason == "others_ok = 0"
    assert lines.judged(
        "device_faults", suite_figures.faults(suite_figures.Outcomes([]))["device_faults"], 0.0
    )


def test_only_blocks_disturbed_by_another_program_on_the_gpu_count_as_strangers() -> None:
    # The causes of `Interference`: a hypervisor and a GPU that slowed down are no other program.
    blocks = [{"cause": cause} for cause in ("cpu", "hypervisor", "company", "gpu")]
    assert suite_figures.disturbed([outcome("a/infer/-/eager", facts={"tainted_blocks": blocks})]) == 1


PROBES = """
import sys, time
from probe_loop import NotHere, serve

def hangs():
    time.sleep(600)

def raises():
    raise ValueError("no such figure")

def refuses():
    raise NotHere("no counters")

def prints():
    print("a library says something", flush=True)
    return {"doctor": {"exit_code": 0}}

serve({each.__name__: each for each in (hangs, raises, refuses, prints)})
"""


def test_a_probe_that_hangs_costs_its_own_time_only(tmp_path: Path) -> None:
    script = tmp_path / "probes.py"
    script.write_text(PROBES)
    with (tmp_path / "log.txt").open("w") as log:
        started = processes.Processes(
            {"PYTHONPATH": str(BENCHMARKS / "gpu"), "ACCEPTANCE_MARK": "m1"}, tmp_path, log
        )
        server = processes.ProbeServer(started, (sys.executable, str(script)))
        try:
            assert server.ask("prints", 60)["figures"] == {"doctor": {"exit_code": 0}}
            assert started.left_over("m1")
            with pytest.raises(processes.NoAnswer, match="no answer within 1 s"):
                server.ask("hangs", 1)
            assert started.left_over("m1") == []
            assert server.ask("raises", 60) == {"error": "ValueError: no such figure"}
            assert server.ask("refuses", 60) == {"skip": "no counters"}
        finally:
            server.close()
    assert "a library says something" in (tmp_path / "log.txt").read_text()


def test_a_command_that_does_not_end_is_ended_with_its_children(tmp_path: Path) -> None:
    command = (
        sys.executable,
        "-c",
        "import subprocess; print('on', flush=True); subprocess.run(['sleep', '600'])",
    )
    with (tmp_path / "log.txt").open("w") as log:
        started = processes.Processes({"ACCEPTANCE_MARK": "m2", "PATH": "/usr/bin:/bin"}, tmp_path, log)
        done = started.run(command, 1)
        assert done.late and done.code != 0
        assert started.left_over("m2") == []


def test_results_are_on_disk_after_each_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS / "gpu"))
    report = script("gpu/report").Report(tmp_path)
    for number, name in enumerate(("leftovers", "doctor"), start=1):
        report.add(lines.without_figures(name, "skip", "no CUDA device"))
        body = json.loads((tmp_path / "accept.json").read_text())
        assert body["counts"]["skip"] == number and body["complete"] is False
    assert [line["name"] for line in body["lines"]] == ["doctor", "leftovers"]


def test_a_line_that_cannot_be_measured_leaves_the_other_of_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A card without hardware counters still has its power.
    monkeypatch.syspath_prepend(str(BENCHMARKS / "gpu"))
    steps, report = script("gpu/steps"), script("gpu/report").Report(tmp_path)
    budget = processes.Budget(600, 0, time.monotonic())
    acceptance = steps.Acceptance(report, None, budget, sys.executable, tmp_path, tmp_path, "")
    acceptance._has["cuda"] = True
    power = {bound.figure: 1.0 for bound in lines.BY_NAME["power"].bounds}
    found = {"counters": {"skip": "no hardware counters"}, "power": power}
    acceptance._step(("counters", "power"), 60, lambda left: found, frozenset())
    assert {name: (one.verdict, one.reason) for name, one in report.results.items()} == {
        "counters": ("skip", "no hardware counters"),
        "power": ("pass", ""),
    }


def test_the_suite_has_every_case_that_a_line_looks_at() -> None:
    settings = tomllib.loads((BENCHMARKS / "gpu/accept.toml").read_text())["suites"]
    cases = compose("accept", settings["accept"], {}).cases
    named = {
        f"{MLP}/{how}" for how in ("eager", "graph=capture", "graph=callables", "compile=reduce-overhead")
    }
    train = "bert_base/train/batch=4,layers=2,tokens=128"
    named |= {f"{train}/{how}" for how in ("eager", "precision=amp-fp16")} | set(suite_figures.EXPECTED)
    named |= {f"{train}/parallel={how}" for how in ("ddp", "fsdp2")}
    named |= {f"{GEMM}/eager", f"{GEMM}/precision=tf32", "custom_cnn/infer/batch=32/instances=2"}
    named |= {"mlp_overhead/train/batch=64/graph=capture"}
    assert named - set(cases) == set()
    assert any(case.startswith("input_pipeline/") for case in cases)
    memory = compose("accept-memory", settings["accept-memory"], {}).cases
    assert {f"{LARGE}/{how}" for how in ("eager", "checkpoint=on", "memory=quarter")} < set(memory)
    for name in ("accept-memory", "accept-observed", "accept-cpu", "accept-kills"):
        assert invalid(compose(name, settings[name], {}).cases, workloads()) == {}
    assert invalid(cases, workloads()) == {}
