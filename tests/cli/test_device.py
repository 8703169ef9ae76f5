"""The CPU of a machine with GPUs is measured as a CPU, and compared with others of its kind."""

import dataclasses
from pathlib import Path

import pytest

from runner import journal, machine
from runner.environment import MeasuredEnvironment
from runner.suites.suite import built_in
from runner.telemetry.capability import GpuCapabilities, Probe
from support.builders.run_records import a_run
from support.fakes.scripted_workers import CASE, World, one_world
from workflows.planning.plan_run import gpus_in_use, without_uuids_of_whole_gpus
from workflows.planning.reproduction import reproduce_command
from workflows.run_header import Header

ENVIRONMENT = MeasuredEnvironment(
    "default",
    "python",
    {"fingerprint": "f", "devices": [{"name": "NVIDIA H200", "memory_mib": 143771}]},
    (),
    {},
)


def test_a_run_on_the_cpu_joins_no_series_of_the_gpu() -> None:
    on_cpu, on_gpu = (machine.describe(gpus_in_use(ENVIRONMENT, d)) for d in ("cpu", "auto"))
    assert on_gpu.hardware_label == "1 x NVIDIA H200"
    assert on_cpu.hardware_fingerprint == machine.describe([]).hardware_fingerprint
    assert on_cpu.hardware_fingerprint != on_gpu.hardware_fingerprint


def test_a_resumed_run_is_compared_by_the_device_it_began_on() -> None:
    assert gpus_in_use(ENVIRONMENT, "cuda:0") == ENVIRONMENT.gpus
    assert gpus_in_use(ENVIRONMENT, "cpu") == []


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Two environments; which GPUs they see is for the tests."""
    made = one_world(tmp_path, monkeypatch)
    made.there_are({"v0": 1.0, "v1": 1.0})
    return made


H200 = {"name": "NVIDIA H200", "uuid": "", "memory_mib": 143155}
H100 = {"name": "NVIDIA H100", "uuid": "", "memory_mib": 81082}


def test_without_a_gpu_device_cuda_is_refused_before_anything_is_measured(world: World) -> None:
    upgrade = ("upgrade", "./v0", "./v1", "--case", CASE, "--device", "cuda")
    assert "sees no GPU, which --device cuda requires" in world.call(*upgrade).one_sentence()
    kernels = ("fingerprint", "case", CASE, "--environment", "./v0", "--device", "cuda")
    assert "sees no GPU, which --device cuda requires" in world.call(*kernels).one_sentence()
    assert not [*world.place.folder.glob(".pyrometer/runs/*")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ([], [H200], "environment v0 sees no GPU and v1 sees 1 GPU (1 x NVIDIA H200): "),
        ([H200], [], "environment v0 sees 1 GPU (1 x NVIDIA H200) and v1 sees no GPU: "),
        ([H200, H200], [H200], "v0 sees 2 GPUs (2 x NVIDIA H200) and v1 sees 1 GPU (1 x NVIDIA H200): "),
        ([H200], [H100], "v0 sees 1 GPU (1 x NVIDIA H200) and v1 sees 1 GPU (1 x NVIDIA H100): "),
        # The first one of each is measured.
        (
            [H200, H100],
            [H100, H200],
            "(1 x NVIDIA H200, 1 x NVIDIA H100) and v1 sees 2 GPUs (1 x NVIDIA H100, 1 x NVIDIA H200): ",
        ),
    ],
)
def test_builds_that_see_other_gpus_are_no_two_sides_of_an_upgrade(
    world: World, old: list[dict[str, object]], new: list[dict[str, object]], sentence: str
) -> None:
    world.gpus = {"v0": old, "v1": new}
    upgrade = ("upgrade", "./v0", "./v1", "--case", CASE, "--pairs", "4")
    refused = world.call(*upgrade).one_sentence()
    assert sentence in refused and "both on the CPU with --device cpu" in refused
    assert world.pairs == []
    assert world.call(*upgrade, "--device", "cpu").code in (0, 1, 3)
    assert world.pairs


def test_builds_that_see_the_same_gpus_are_compared_on_them(world: World) -> None:
    # An old PyTorch reports no UUID.
    world.gpus = {"v0": [H200, H100], "v1": [{**H200, "uuid": "a"}, {**H100, "uuid": "b"}]}
    upgrade = ("upgrade", "./v0", "./v1", "--case", CASE, "--pairs", "4")
    assert world.call(*upgrade).code in (0, 1, 3) and world.pairs
    assert headers(world)[-1].gpus == ("a", "b") and not unwatched(headers(world)[-1])
    # Where both report none, it is unknown which of the driver's devices are measured.
    world.gpus = {"v0": [H200, H100], "v1": [H200, H100]}
    assert world.call(*upgrade).code in (0, 1, 3)
    assert headers(world)[-1].gpus == () and unwatched(headers(world)[-1])
    assert world.call(*upgrade, "--device", "cpu").code in (0, 1, 3)
    assert not unwatched(headers(world)[-1])


def headers(world: World) -> list[Header]:
    """Of the runs that were made, oldest first."""
    files = world.place.folder.glob(f".pyrometer/runs/*/{journal.FILE}")
    found = [Header.from_body(journal.read_contents(file).header) for file in files]
    return sorted(found, key=lambda header: header.started_at)


def unwatched(header: Header) -> bool:
    """Whether a run notes that its GPUs are not watched."""
    return any(note.startswith("the measured PyTorch reports no UUIDs") for note in header.notes)


def test_the_cpu_suite_is_about_the_cpu_of_any_machine() -> None:
    on_cpu = {name for name, suite in built_in().items() if suite.device == "cpu"}
    assert on_cpu == {"articles-cpu", "cpu", "nightly-cpu"}


def test_the_device_is_part_of_what_reproduces_a_case() -> None:
    run = dataclasses.replace(a_run(), command="pyrometer run --case mlp --device cpu")
    assert "--device cpu" in reproduce_command(run, "mlp/infer/-/eager", "default")


def test_a_mig_device_is_not_watched_by_the_counters_of_its_whole_gpu() -> None:
    known = Probe(
        gpus=(
            GpuCapabilities(0, "GPU-1", "NVIDIA H200", "gpm", ()),
            GpuCapabilities(0, "MIG-2", "NVIDIA H200 MIG 1g.18gb", "gpm", (), mig_of="GPU-1"),
        )
    )
    uuids = {
        ("NVIDIA H200", "1"): "1",
        ("NVIDIA H200 MIG 1g.18gb", "1"): "",
        ("NVIDIA H200 MIG 1g.18gb", "2"): "2",
    }
    devices = [{"name": name, "uuid": uuid} for name, uuid in uuids]
    found = without_uuids_of_whole_gpus({"torch": "2.15", "devices": devices}, known)
    assert [device["uuid"] for device in found["devices"]] == [*uuids.values()]
    assert found["torch"] == "2.15"
