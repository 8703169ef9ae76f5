"""The rung dcgm: the real sampler and probe on a scripted A100, with a stand-in for NVIDIA's dcgmi."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from dcgm_stand_in import Round, StandIn, build
from nvml_shim import Shim
from samplers import GPU, Samplers, Tree, until

from records.telemetry import Recording
from runner.telemetry.gpu import probe
from runner.telemetry.sampler_client import Sampler
from runner.telemetry.summary import rows_of, summarise
from runner.worker.messages import Window

pytestmark = pytest.mark.slow

SECOND = "GPU-99991111-2222-3333-4444-555555555555"
RUNNING = f"origin {time.monotonic() * 1e3 - 20_000:.0f}"
ALONE = [(0, GPU)]
EMPTY: Round = {0: ["N/A"] * 4}
#: What a host engine still holds of a watch before.
STALE: Round = {0: ["0.999"] * 4}
LOW: Round = {0: ["0.200", "0.100", "0.300", "0.400"]}
HIGH: Round = {0: ["0.800", "0.100", "0.300", "0.400"]}
ZERO: Round = {0: ["0.000"] * 4}
COLUMNS = {"dcgm_sm_utilisation", "dcgm_sm_occupancy", "dcgm_tensor", "dcgm_dram_bandwidth"}
#: How late a line may be read on a busy machine.
SLACK_NS = 80_000_000
NOTE = "no SM utilisation by DCGM, or not all of it: "


def watched(
    samplers: Samplers, root: int, variables: Mapping[str, str], rows: int = 5, *uuids: str
) -> list[Recording]:
    """What was recorded of the GPUs (of the first where none is named) until so many rows were there."""
    sampler = samplers.start(*(uuids or (GPU,)), variables=variables)
    return watched_again(samplers, sampler, root, rows)


def watched_again(samplers: Samplers, sampler: Sampler, root: int, rows: int) -> list[Recording]:
    """The same of a sampler that runs."""
    sampler.watch(root, 10)
    samplers.rows(sampler, rows)
    return [recording for recording in sampler.rest() if recording.device != "host"]


def about_dcgm(recording: Recording) -> list[str]:
    """What a recording says of the host engine; a busy machine's lines may be late."""
    told = [note.removeprefix(NOTE) for note in recording.notes if note.startswith(NOTE)]
    return [note for note in told if note != "DCGM's lines came late or in a bunch"]


def test_rows_are_of_the_lines_that_lie_in_them(
    samplers: Samplers, shim: Shim, tree: Tree, tmp_path: Path
) -> None:
    ramp: list[Round] = [{0: [f"{step / 50:.3f}", "0.100", "0.300", "0.400"]} for step in range(1, 51)]
    engine = build(tmp_path / "dcgm", ALONE, STALE, EMPTY, *ramp, header=3, slow=0.25)
    (gpu,) = watched(samplers, tree.root, shim.variables("a100", RUNNING) | engine.variables, 7)
    assert (gpu.rung, about_dcgm(gpu)) == ("dcgm", [])
    assert gpu.values.keys() >= COLUMNS | {"gpu_busy", "power"}
    assert {*gpu.values["dcgm_dram_bandwidth"]} <= {40.0, None}
    lines = [(int(words[1]), 100 * float(words[3])) for words in engine.log[4:]]
    rows = zip(gpu.started_ns, gpu.ended_ns, gpu.values["dcgm_sm_utilisation"], strict=True)
    means = [(start, end, value) for start, end, value in rows if value is not None]
    assert len(means) >= 3
    for start, end, value in means:
        # A line is about the 200 ms before it was told, and was read a moment later.
        own = [told for at, told in lines if start - SLACK_NS <= at - 200_000_000 and at <= end]
        assert own and min(own) <= value <= max(own) and end - start > 400_000_000
    window = Window(gpu.started_ns[0], gpu.started_ns[0] + 3_000_000_000, 10)
    metrics, _ = summarise(rows_of([gpu], window), window, 1)
    assert metrics["dcgm_sm_utilisation"] and metrics["dcgm_dram_active"] == pytest.approx(40)
    until(lambda: not engine.alive())


def test_gpus_are_matched_by_uuid_and_each_has_its_own_numbers(
    samplers: Samplers, shim: Shim, tree: Tree, tmp_path: Path
) -> None:
    rounds: Round = {3: HIGH[0], 7: ["N/A"] * 4}
    engine = build(tmp_path / "dcgm", [(3, SECOND), (5, "GPU-other"), (7, GPU)], rounds)
    variables = shim.variables("two", RUNNING, "0 0 gpm 0", "0 1 gpm 0") | engine.variables
    first, second = watched(samplers, tree.root, variables, 4, GPU, SECOND)
    assert (first.device, first.rung) == (GPU, "samples")
    assert about_dcgm(first) == ["DCGM says N/A instead of a number"]
    assert COLUMNS.isdisjoint(first.values)
    assert (second.device, second.rung, about_dcgm(second)) == (SECOND, "dcgm", [])
    assert {*second.values["dcgm_sm_utilisation"]} - {None} == {80.0}


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        ({"connection": True}, "no DCGM host engine answers"),
        ({"error": "-36: Profiling is not supported for this group of GPUs or GPU"}, None),
        ({"gpus": [(0, SECOND)]}, "DCGM lists no such GPU"),
    ],
    ids=["no engine", "not supported", "another machine's"],
)
def test_without_numbers_the_driver_is_asked_and_the_reason_told(
    samplers: Samplers, shim: Shim, tree: Tree, tmp_path: Path, trouble: dict[str, Any], why: str | None
) -> None:
    gpus = trouble.pop("gpus", ALONE)
    engine = build(tmp_path / "dcgm", gpus, LOW, **trouble)
    (gpu,) = watched(samplers, tree.root, shim.variables("a100", RUNNING) | engine.variables, 2)
    assert (gpu.rung, about_dcgm(gpu)) == ("samples", [why or "DCGM has no hardware counters of this GPU"])
    assert {*gpu.values["gpu_busy"]} <= {100.0, None} and COLUMNS.isdisjoint(gpu.values)


def test_an_engine_that_falls_silent_holds_nothing_up_and_is_not_asked_again(
    samplers: Samplers, shim: Shim, tree: Tree, tmp_path: Path
) -> None:
    engine = build(tmp_path / "dcgm", ALONE, hang=True)
    sampler = samplers.start(GPU, variables=shim.variables("a100", RUNNING) | engine.variables)
    (first,) = watched_again(samplers, sampler, tree.root, 5)
    assert (first.rung, about_dcgm(first)) == ("samples", ["no number in time"])
    assert not engine.alive() and {*first.values["power"]} == {400.0}
    (again,) = watched_again(samplers, sampler, tree.root, 1)
    assert (again.rung, about_dcgm(again)) == ("samples", ["no number in time"])
    assert len(engine.streams) == 1


def test_zeros_count_only_where_nothing_ran(
    samplers: Samplers, shim: Shim, tree: Tree, tmp_path: Path
) -> None:
    engine = build(tmp_path / "dcgm", ALONE, ZERO)
    (stuck,) = watched(samplers, tree.root, shim.variables("a100", RUNNING) | engine.variables, 3)
    assert (stuck.rung, COLUMNS & stuck.values.keys()) == ("samples", set())
    assert about_dcgm(stuck) == ["DCGM says 0 all the time while kernels ran"]
    idle = shim.variables("a100", RUNNING, "0 0 gpu_busy 0") | engine.variables
    (resting,) = watched(samplers, tree.root, idle, 3)
    assert (resting.rung, {*resting.values["dcgm_sm_utilisation"]} - {None}) == ("dcgm", {0.0})


def test_an_engine_that_dies_leaves_what_it_told(
    samplers: Samplers, shim: Shim, tree: Tree, tmp_path: Path
) -> None:
    engine = build(tmp_path / "dcgm", ALONE, HIGH)
    sampler = samplers.start(GPU, variables=shim.variables("a100", RUNNING) | engine.variables)
    sampler.watch(tree.root, 10)
    samplers.rows(sampler, 3)
    os.kill(engine.streams[-1], signal.SIGKILL)
    samplers.rows(sampler, 5)
    _, gpu = sampler.rest()
    assert gpu.rung == "dcgm" and about_dcgm(gpu) == ["dcgmi has ended"]
    assert 80.0 in gpu.values["dcgm_sm_utilisation"] and gpu.values["dcgm_sm_utilisation"][-1] is None


def test_a_stream_ends_with_its_sampler(samplers: Samplers, shim: Shim, tree: Tree, tmp_path: Path) -> None:
    engine = build(tmp_path / "dcgm", ALONE, HIGH)
    sampler = samplers.start(GPU, variables=shim.variables("a100", RUNNING) | engine.variables)
    sampler.watch(tree.root, 10)
    samplers.rows(sampler, 1)
    assert engine.alive()
    os.kill(samplers.pid(sampler), signal.SIGKILL)
    until(lambda: not engine.alive())


def examine(monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str]) -> probe.GpuCapabilities:
    """What the probe says of the one GPU there is."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (gpu,) = probe.examine(60.0).gpus
    return gpu


@pytest.mark.parametrize(
    ("rounds", "trouble", "rung", "detail"),
    [
        ([EMPTY, ZERO], {}, "dcgm", "hardware counters through a DCGM host engine"),
        ([EMPTY], {}, "samples", "DCGM says N/A instead of a number"),
        (
            [LOW],
            {"error": "-33: This request is serviced by a module of DCGM that is not currently loaded"},
            "samples",
            "DCGM's profiling module is not loaded",
        ),
        ([LOW], {"connection": True}, "samples", "no DCGM host engine answers"),
        ([LOW], {"silent": True}, "samples", "dcgmi does not answer: nothing within 2 s"),
    ],
)
def test_the_probe_believes_in_a_number_only(
    monkeypatch: pytest.MonkeyPatch,
    shim: Shim,
    tmp_path: Path,
    rounds: list[Round],
    trouble: dict[str, Any],
    rung: str,
    detail: str,
) -> None:
    engine = build(tmp_path / "dcgm", ALONE, *rounds, **trouble)
    gpu = examine(monkeypatch, shim.variables("a100", RUNNING) | engine.variables)
    utilisation = gpu.capabilities[0]
    assert (gpu.rung, utilisation.name, utilisation.present) == (rung, "sm_utilisation", rung == "dcgm")
    assert utilisation.detail == ("" if rung == "dcgm" else "needs Hopper or newer (GPM); by DCGM: ") + detail
    if engine.streams:
        until(lambda: not engine.alive())


def test_where_gpm_is_the_engine_is_never_asked(
    monkeypatch: pytest.MonkeyPatch, samplers: Samplers, shim: Shim, tree: Tree, tmp_path: Path
) -> None:
    engine: StandIn = build(tmp_path / "dcgm", ALONE, LOW)
    variables = shim.variables("h200", RUNNING) | engine.variables
    (gpu,) = watched(samplers, tree.root, variables, 2)
    assert gpu.rung == "gpm" and examine(monkeypatch, variables).rung == "gpm"
    assert engine.log == []
