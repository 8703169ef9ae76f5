"""What the sampler says of GPUs: the real binding on scripted devices, in the real process."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import pytest

from records.telemetry import Recording
from runner.telemetry.columns import COLUMNS
from runner.telemetry.gpu import source as gpu_source
from runner.telemetry.summary import rows_of, summarise
from runner.worker.messages import Window
from support.fakes.nvml import Shim, build
from support.fakes.samplers import GPU, Samplers, Tree

pytestmark = pytest.mark.slow

MIG = "MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
SECOND = "GPU-99991111-2222-3333-4444-555555555555"
COUNTED = {"sm_utilisation", "sm_occupancy", "tensor", "tensor_half", "dram_bandwidth", "fp32", "fp16"}
ALWAYS = {"memory_used", "memory_reserved", "sm_clock", "memory_clock", "temperature", "throttled"}
ALWAYS |= {"throttled_power", "throttled_heat", "throttled_hardware"}
#: Long ago, so that a driver's buffer is full from the start.
RUNNING = f"origin {time.monotonic() * 1e3 - 20_000:.0f}"


def add(variables: Mapping[str, str], line: str) -> None:
    """Have a script that plays go on with one more line."""
    with Path(variables["NVML_SHIM"]).open("a") as script:
        script.write(f"{line}\n")


def watched(samplers: Samplers, root: int, rows: int, *uuids: str, **variables: str) -> dict[str, Recording]:
    """What was recorded of some devices, by device; `variables` are the sampler's."""
    sampler = samplers.start(*uuids, variables=variables)
    sampler.start(root, 10)
    for uuid in uuids:
        samplers.rows(sampler, rows, uuid)
    return {recording.device: recording for recording in sampler.stop()}


def bounds(gpu: Recording, per_second: float) -> tuple[float, float]:
    """The least and the most that a counter of so much a second has counted in all rows but the last.

    A row's counter is read at some moment between its end and the next row's.
    """
    *_, last, next_one = gpu.ended_ns
    first, begun = gpu.ended_ns[0], gpu.started_ns[0]
    return per_second * (last - first) / 1e9, per_second * (next_one - begun) / 1e9


def percent_seconds(gpu: Recording, column: str) -> float:
    """Percent times seconds of all rows but the last."""
    spans = [*zip(gpu.started_ns, gpu.ended_ns, gpu.values[column], strict=True)]
    return sum((end - start) / 1e9 * (value or 0) for start, end, value in spans[:-1])


@pytest.mark.parametrize(
    ("script", "utilisation_source", "columns"),
    [
        ("h200", "gpm", COUNTED | ALWAYS | {"power", "energy"}),
        ("a100", "samples", ALWAYS | {"power", "energy", "gpu_busy"}),
        ("rtx", "samples", ALWAYS | {"power", "gpu_busy"}),
    ],
)
def test_each_kind_of_gpu_has_its_source_and_its_columns(
    samplers: Samplers, shim: Shim, tree: Tree, script: str, utilisation_source: str, columns: set[str]
) -> None:
    found = watched(samplers, tree.root, 8, GPU, **shim.variables(script, RUNNING))
    gpu = found[GPU]
    # A row of a tenth of a second holds a whole sample of the driver's by chance only.
    assert (gpu.utilisation_source, {*gpu.values} - ({"gpu_busy"} - columns)) == (utilisation_source, columns)
    assert gpu.values.keys() <= COLUMNS.keys()
    assert gpu.started_ns[1:] == gpu.ended_ns[:-1]
    assert [*found] == ["host", GPU]
    busy = [value for value in gpu.values.get("gpu_busy", ()) if value is not None]
    assert {*busy} <= {100.0} and (busy or utilisation_source == "gpm")
    assert ("no SM utilisation: needs Hopper or newer (GPM)" in gpu.notes) is (utilisation_source != "gpm")
    if "sm_utilisation" in columns:
        assert gpu.values["sm_utilisation"] == pytest.approx([80.0] * len(gpu.started_ns))
    if "energy" in columns:
        least, most = bounds(gpu, 400)
        assert least <= sum(joules or 0 for joules in gpu.values["energy"][:-1]) <= most


def test_a_real_h100_at_its_power_limit_plays_as_it_was_recorded(
    samplers: Samplers, shim: Shim, tree: Tree
) -> None:
    uuid = "GPU-00000000-0000-0000-0000-000000000000"
    started = f"origin {time.monotonic() * 1e3 - 2_000:.0f}"
    gpu = watched(samplers, tree.root, 8, uuid, **shim.variables("h100_recorded", started))[uuid]
    means = {
        name: fmean(value for value in values if value is not None) for name, values in gpu.values.items()
    }
    assert gpu.utilisation_source == "gpm"
    assert means["sm_utilisation"] == pytest.approx(96.6, abs=1)
    assert means["tensor"] == pytest.approx(93.8, abs=1)
    assert 24 < means["dram_bandwidth"] < 29 and 1200 < means["sm_clock"] < 1500
    assert means["throttled_power"] > 95 and means["throttled_heat"] == 0


def test_an_old_driver_and_one_without_a_buffer_step_down(
    samplers: Samplers, shim: Shim, tree: Tree, tmp_path: Path
) -> None:
    old = watched(samplers, tree.root, 2, GPU, **build(tmp_path, "-DOLD_DRIVER").variables("h200", RUNNING))
    assert old[GPU].utilisation_source == "samples" and "sm_utilisation" not in old[GPU].values
    assert "no SM utilisation: the driver is too old" in old[GPU].notes
    polled = watched(
        samplers, tree.root, 2, GPU, **shim.variables("a100", "0 - fail nvmlDeviceGetSamples 3")
    )[GPU]
    assert (polled.utilisation_source, {*polled.values["gpu_busy_polled"]}) == ("polling", {100.0})
    assert "gpu_busy" not in polled.values


def test_a_mig_device_has_its_own_counters_and_no_power_of_its_own(
    samplers: Samplers, shim: Shim, tree: Tree
) -> None:
    mig = watched(samplers, tree.root, 2, MIG, **shim.variables("mig", RUNNING))[MIG]
    assert mig.utilisation_source == "gpm"
    assert mig.values["sm_utilisation"] == pytest.approx([50.0] * len(mig.started_ns))
    assert {"sm_clock", "temperature"} <= mig.values.keys()
    assert {"power", "energy"}.isdisjoint(mig.values)


def test_two_gpus_are_distinguished_also_without_the_prefix(
    samplers: Samplers, shim: Shim, tree: Tree
) -> None:
    sampler = samplers.start(
        SECOND.removeprefix("GPU-"), "GPU-none", variables=shim.variables("two", RUNNING)
    )
    sampler.start(tree.root, 10)
    samplers.rows(sampler, 2, SECOND)
    host, unknown, second = sampler.stop()
    assert (host.device, unknown.device, second.device) == ("host", "GPU-none", SECOND)
    assert second.values["sm_utilisation"] == pytest.approx([10.0] * len(second.started_ns))
    assert (unknown.utilisation_source, unknown.started_ns, unknown.notes) == (
        "none",
        (),
        ("NVML lists no device GPU-none",),
    )
    reading = sampler.read_counters(tree.root)
    assert [gpu.uuid for gpu in reading.gpus] == [SECOND]
    assert reading.problem == "NVML lists no device GPU-none"


def test_without_a_driver_the_host_is_recorded_and_the_reason(
    samplers: Samplers, tree: Tree, tmp_path: Path
) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"no library")
    sampler = samplers.start(GPU, variables={"LD_LIBRARY_PATH": str(tmp_path)})
    reading = sampler.read_counters(tree.root)
    assert reading.host is not None
    assert (reading.gpus, reading.problem) == ((), "no NVIDIA driver is installed")
    sampler.start(tree.root, 10)
    samplers.rows(sampler, 1, "host")
    host, gpu = sampler.stop()
    assert host.values and (gpu.device, gpu.notes) == (GPU, ("no NVIDIA driver is installed",))


def test_counters_of_a_mark(samplers: Samplers, shim: Shim, tree: Tree) -> None:
    # Which namespace this is does not matter: a listed process is one of ours.
    mine = f"0 0 processes {tree.child}:1048576"
    more = (RUNNING, "0 0 throttle_74 0.5", "0 0 ecc_uncorrected 2", mine, "0 0 xid 79")
    sampler = samplers.start(GPU, variables=shim.variables("h200", *more))
    first, second = sampler.read_counters(tree.root), sampler.read_counters(tree.root)
    (before,), (after,) = first.gpus, second.gpus
    held = after.throttled_ns["power"] - before.throttled_ns["power"]
    assert 0 < held < second.at_ns - before.throttled_ns["power"]
    assert {*after.throttled_ns} >= {"power", "thermal", "hw_thermal"}
    assert (after.ecc_uncorrected, after.pcie_replays, after.processes) == (2, 0, (tree.child,))
    assert (before.xids, after.xids, first.problem) == ((79,), (), "")


def test_deltas_and_memory_of_a_row(samplers: Samplers, shim: Shim, tree: Tree) -> None:
    lines = ("0 0 throttle_74 0.5", "0 0 throttle_269 0.25", "0 0 memory_temperature 61")
    mine = f"0 0 processes {tree.child}:1048576,4294967:9"
    variables = shim.variables("h200", RUNNING, *lines, mine)
    gpu = watched(samplers, tree.root, 8, GPU, **variables)[GPU]
    # Field 269 is slow-down by software for heat.
    for column, share in (("throttled", 50), ("throttled_power", 50), ("throttled_heat", 25)):
        least, most = bounds(gpu, share)
        assert least <= percent_seconds(gpu, column) <= most
    assert {*gpu.values["throttled_hardware"]} == {0.0}
    assert {*gpu.values["process_memory"]} == {1.0}
    assert {*gpu.values["memory_temperature"]} == {61}


@pytest.mark.parametrize(
    ("lacking", "left", "note"),
    [
        ("clock_memory", ("sm_clock", 1980), "no memory clock: this device does not support it"),
        ("clock_sm", ("memory_clock", 3201), "no SM clock: this device does not support it"),
    ],
)
def test_a_gpu_without_one_of_its_clocks_has_the_other_in_every_row(
    samplers: Samplers, shim: Shim, tree: Tree, lacking: str, left: tuple[str, int], note: str
) -> None:
    variables = shim.variables("h200", RUNNING)
    script = Path(variables["NVML_SHIM"])
    kept = [line for line in script.read_text().splitlines() if f" {lacking} " not in line]
    script.write_text("\n".join(kept) + "\n")
    gpu = watched(samplers, tree.root, 3, GPU, **variables)[GPU]
    name, clock = left
    assert gpu.values[name] == (clock,) * len(gpu.started_ns)
    assert [each for each in gpu.notes if "clock" in each] == [note]


def test_a_gpu_that_falls_off_the_bus_leaves_rows_without_values(
    samplers: Samplers, shim: Shim, tree: Tree
) -> None:
    variables = shim.variables("h200", RUNNING)
    sampler = samplers.start(GPU, variables=variables)
    sampler.start(tree.root, 10)
    samplers.rows(sampler, 2)
    add(variables, "0 - fail * 15")
    lost = time.monotonic()
    samplers.rows(sampler, 6)
    reading = sampler.read_counters(tree.root)
    _, gpu = sampler.stop()
    assert gpu.values["power"][0] == 400 and gpu.values["power"][-1] is None
    assert gpu.values["sm_utilisation"][-1] is None and gpu.ended_ns[-1] > lost * 1e9
    assert [note for note in gpu.notes if "bus" in note] == ["the GPU has fallen off the bus"]
    assert reading.problem == f"{GPU}: the GPU has fallen off the bus"
    assert reading.host is not None and reading.gpus[0].ecc_uncorrected is None


def test_a_call_that_hangs_holds_nothing_up_and_is_never_made_again(
    samplers: Samplers, shim: Shim, tree: Tree
) -> None:
    variables = shim.variables("h200", RUNNING)
    sampler = samplers.start(GPU, variables=variables)
    sampler.start(tree.root, 10)
    samplers.rows(sampler, 2)
    add(variables, "0 - block nvmlDeviceGetTotalEccErrors 600000")
    first, second = sampler.read_counters(tree.root), sampler.read_counters(tree.root)
    samplers.more_rows(sampler, 2, "host")
    host, gpu = sampler.stop()
    reason = "NVML does not answer: nothing within 1.5 s"
    assert (first.problem, second.problem, first.gpus, second.gpus) == (reason, reason, (), ())
    assert first.host and second.host and second.host.tree_ns >= first.host.tree_ns
    assert host.ended_ns[-1] > second.at_ns
    assert reason in gpu.notes and {*gpu.values["power"]} == {400} and gpu.ended_ns[-1] < first.at_ns


def test_a_driver_that_takes_seconds_to_load_is_waited_for(
    samplers: Samplers, shim: Shim, tree: Tree
) -> None:
    variables = shim.variables("h200", RUNNING, "0 - block nvmlInitWithFlags 4000")
    sampler = samplers.start(GPU, variables=variables)
    reading = sampler.read_counters(tree.root)
    assert reading.host is not None
    assert (reading.gpus, reading.problem) == ((), "NVML is still being started")
    sampler.start(tree.root, 10)
    samplers.rows(sampler, 2)
    assert [gpu.uuid for gpu in sampler.read_counters(tree.root).gpus] == [GPU]
    assert sampler.stop()[1].utilisation_source == "gpm"


@pytest.mark.parametrize(
    ("first_namespace", "listed", "computing", "visible"),
    [
        (True, (7, 5), True, (5, 7)),
        (False, (7, 5), False, (5, 7)),
        (False, (7, 5), True, None),
        (False, (), True, ()),
    ],
)
def test_ids_of_another_namespace_are_not_taken_for_strangers(
    monkeypatch: pytest.MonkeyPatch,
    first_namespace: bool,
    listed: tuple[int, ...],
    computing: bool,
    visible: tuple[int, ...] | None,
) -> None:
    monkeypatch.setattr(gpu_source, "_in_the_first_namespace", lambda: first_namespace)
    monkeypatch.setattr(gpu_source, "_computes", lambda pid: computing and pid == os.getppid())
    pids = gpu_source.Pids(os.getppid(), lambda: frozenset({7}))
    assert pids.visible(listed) == visible
    assert pids.measured(7) and not pids.measured(5)


def test_one_of_ours_among_the_listed_shows_that_they_are_of_this_namespace(
    monkeypatch: pytest.MonkeyPatch, tree: Tree
) -> None:
    monkeypatch.setattr(gpu_source, "_in_the_first_namespace", lambda: False)
    monkeypatch.setattr(gpu_source, "_computes", lambda pid: True)
    pids = gpu_source.Pids(os.getpid(), lambda: frozenset({tree.child}))
    assert pids.visible((tree.child, 1)) == (1, tree.child)
    assert pids.visible((1,)) is None


def test_who_is_at_work_on_a_gpu_is_known_from_who_is_there(
    samplers: Samplers, shim: Shim, tree: Tree
) -> None:
    there = f"0 0 processes {tree.child}:1048576,4242:1048576,4343:1048576"
    variables = shim.variables("h200", RUNNING, there, f"0 0 working {tree.child}:90,4242:0,4343:10")
    (gpu,) = samplers.start(GPU, variables=variables).read_counters(tree.root).gpus
    assert gpu.processes == tuple(sorted((tree.child, 4242, 4343)))
    assert gpu.computing == tuple(sorted((tree.child, 4343)))
    # What the driver reserves is not free either.
    assert gpu.memory_free == pytest.approx(1 - (8589934592 + 629145600) / 150754820096)


def test_no_process_at_work_is_no_missing_answer(samplers: Samplers, shim: Shim, tree: Tree) -> None:
    idle = samplers.start(GPU, variables=shim.variables("h200", RUNNING)).read_counters(tree.root)
    assert idle.gpus[0].computing == ()
    refused = shim.variables("h200", RUNNING, "0 - fail nvmlDeviceGetProcessUtilization 3")
    (gpu,) = samplers.start(GPU, variables=refused).read_counters(tree.root).gpus
    assert gpu.computing is None


def test_a_size_of_0_is_that_of_a_process_in_a_container(samplers: Samplers, shim: Shim, tree: Tree) -> None:
    variables = shim.variables("h200", RUNNING, f"0 0 processes {tree.child}:0")
    gpu = watched(samplers, tree.root, 3, GPU, **variables)[GPU]
    assert "process_memory" not in gpu.values or {*gpu.values["process_memory"]} == {None}


def test_power_that_the_driver_averages_is_known_from_energy(
    samplers: Samplers, shim: Shim, tree: Tree
) -> None:
    # The load begins as the sampler starts, some 20 s after the script did.
    variables = shim.variables("h200", RUNNING, "0 0 power_window_ms 1000", "0 0 power_mw 120000")
    sampler = samplers.start(GPU, variables=variables)
    sampler.read_counters(tree.root)
    begun = time.monotonic()
    add(variables, f"{begun * 1e3 - float(RUNNING.split()[1]):.0f} 0 power_mw 600000")
    sampler.start(tree.root, 10)
    samplers.rows(sampler, 8)
    (_, recording) = sampler.stop()
    window = Window(recording.started_ns[1], recording.ended_ns[-1], 1)
    (cut,) = rows_of([recording], window)
    watts = [value for value in cut.values["power"] if value is not None]
    assert min(watts) < 550
    # The mean of what the driver averages is half of it.
    assert summarise([cut], window, 1)[0]["power"] == pytest.approx(600, rel=0.3)
