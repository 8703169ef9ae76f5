"""The capabilities of each kind of GPU: the real binding on a scripted library."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from runner.telemetry.capability import Capability, GpuCapabilities, Probe
from runner.telemetry.gpu import probe
from support.fakes.nvml import Shim, build

pytestmark = pytest.mark.slow


def examine(
    monkeypatch: pytest.MonkeyPatch, shim: Shim, script: str, *more: str, patience: float = 60.0
) -> Probe:
    """What the probe answers where the devices of `script` are."""
    for name, value in shim.variables(script, *more).items():
        monkeypatch.setenv(name, value)
    return probe.examine(patience)


def named(gpu: GpuCapabilities, name: str) -> Capability:
    """One capability of a GPU."""
    (capability,) = [each for each in gpu.capabilities if each.name == name]
    return capability


def absent(gpu: GpuCapabilities) -> set[str]:
    """The names of a GPU's absent capabilities."""
    return {each.name for each in gpu.capabilities if not each.present}


def test_hopper_tells_true_sm_utilisation(monkeypatch: pytest.MonkeyPatch, shim: Shim) -> None:
    found = examine(monkeypatch, shim, "h200")
    (gpu,) = found.gpus
    assert (found.driver, found.cuda, found.absent) == ("580.65.06", "13.0", "")
    assert (gpu.name, gpu.utilisation_source, absent(gpu)) == ("NVIDIA H200", "gpm", set())
    assert gpu.uuid == "GPU-11111111-2222-3333-4444-555555555555"


def test_before_hopper_busy_time_never_passes_for_sm_utilisation(
    monkeypatch: pytest.MonkeyPatch, shim: Shim
) -> None:
    (gpu,) = examine(monkeypatch, shim, "a100").gpus
    assert (gpu.utilisation_source, absent(gpu)) == ("samples", {"sm_utilisation"})
    assert named(gpu, "sm_utilisation").detail == "needs Hopper or newer (GPM)"
    assert "not SM utilisation" in named(gpu, "gpu_busy").detail


def test_a_consumer_card_lacks_what_it_lacks(monkeypatch: pytest.MonkeyPatch, shim: Shim) -> None:
    (gpu,) = examine(monkeypatch, shim, "rtx").gpus
    assert absent(gpu) == {"sm_utilisation", "energy", "ecc_errors"}
    assert named(gpu, "energy").detail == "this device does not support it"


def test_a_mig_device_is_read_through_its_parent(monkeypatch: pytest.MonkeyPatch, shim: Shim) -> None:
    whole, part = examine(monkeypatch, shim, "mig").gpus
    assert (whole.mig_of, part.mig_of) == ("", whole.uuid)
    assert part.utilisation_source == "gpm" and "gpu_busy" in absent(part)


def test_two_gpus_are_distinguished_by_uuid(monkeypatch: pytest.MonkeyPatch, shim: Shim) -> None:
    gpus = examine(monkeypatch, shim, "two").gpus
    assert [gpu.index for gpu in gpus] == [0, 1] and len({gpu.uuid for gpu in gpus}) == 2


@pytest.mark.parametrize(
    ("line", "utilisation_source", "detail"),
    [
        ("0 - fail nvmlGpmSampleGet 4", "samples", "this user has no permission"),
        ("0 - fail nvmlGpmSampleAlloc 3", "samples", "this device does not support it"),
        ("0 - fail nvmlGpmQueryDeviceSupport 13", "samples", "the driver is too old"),
        ("0 - fail nvmlGpmQueryDeviceSupport 15", "samples", "the GPU has fallen off the bus"),
    ],
)
def test_counters_that_cannot_be_had_give_the_next_source(
    monkeypatch: pytest.MonkeyPatch, shim: Shim, line: str, utilisation_source: str, detail: str
) -> None:
    (gpu,) = examine(monkeypatch, shim, "h200", line).gpus
    assert (gpu.utilisation_source, named(gpu, "sm_utilisation").detail) == (utilisation_source, detail)


def test_without_a_buffer_busy_time_is_polled_and_without_that_there_is_none(
    monkeypatch: pytest.MonkeyPatch, shim: Shim
) -> None:
    (gpu,) = examine(monkeypatch, shim, "a100", "0 - fail nvmlDeviceGetSamples 3").gpus
    assert gpu.utilisation_source == "polling"
    fails = "0 - fail nvmlDeviceGetSamples 3", "0 - fail nvmlDeviceGetUtilizationRates 3"
    (gpu,) = examine(monkeypatch, shim, "a100", *fails).gpus
    assert gpu.utilisation_source == "none"


def test_an_old_driver_lacks_functions_and_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (gpu,) = examine(monkeypatch, build(tmp_path, "-DOLD_DRIVER"), "h200").gpus
    assert gpu.utilisation_source == "samples"
    assert named(gpu, "sm_utilisation").detail == "the driver is too old"
    assert named(gpu, "memory").present


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("0 - fail nvmlInitWithFlags 9", "the NVIDIA driver is installed but not loaded"),
        ("0 - fail nvmlInitWithFlags 4", "this user has no permission"),
        ("0 - fail nvmlInitWithFlags 18", "the driver was updated and the machine not restarted since"),
        ("0 - fail nvmlDeviceGetCount 999", "the driver lists no GPU"),
    ],
)
def test_a_driver_in_trouble_is_a_reason_not_a_traceback(
    monkeypatch: pytest.MonkeyPatch, shim: Shim, line: str, reason: str
) -> None:
    found = examine(monkeypatch, shim, "h200", line)
    assert (found.gpus, found.absent) == ((), reason)


def test_a_lost_gpu_is_listed_with_nothing_to_tell(monkeypatch: pytest.MonkeyPatch, shim: Shim) -> None:
    calls = ("GetName", "GetMemoryInfo_v2", "GetMemoryInfo", "GetPowerUsage", "GetTemperature")
    lines = [f"0 - fail nvmlDevice{call} 15" for call in calls]
    (gpu,) = examine(monkeypatch, shim, "h200", *lines).gpus
    assert absent(gpu) >= {"memory", "power", "temperature"}
    assert named(gpu, "memory").detail == "the GPU has fallen off the bus"


def test_a_call_that_never_returns_costs_patience_and_no_more(
    monkeypatch: pytest.MonkeyPatch, shim: Shim
) -> None:
    hangs = "0 - block nvmlDeviceGetPowerUsage 600000"
    found = examine(monkeypatch, shim, "h200", hangs, patience=3.0)
    assert (found.gpus, found.absent) == ((), "NVML does not answer: nothing within 3 s")


def test_a_machine_without_a_driver_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty = tmp_path / "libnvidia-ml.so.1"
    empty.write_bytes(b"no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert probe.examine(60.0) == Probe(absent="no NVIDIA driver is installed")


def test_a_probe_survives_the_journal(monkeypatch: pytest.MonkeyPatch, shim: Shim) -> None:
    found = examine(monkeypatch, shim, "mig")
    body = found.to_body()
    assert Probe.from_body(body) == found
    for gpu in body["gpus"]:
        gpu["rung"] = gpu.pop("utilisation_source")
    assert Probe.from_body(body) == found, "as 0.1.0 wrote it"


def test_the_state_of_a_card_is_what_changes_its_numbers(monkeypatch: pytest.MonkeyPatch, shim: Shim) -> None:
    (gpu,) = examine(monkeypatch, shim, "h200", "0 - confidential 0").gpus
    assert gpu.state == {
        "power_limit_w": 700.0,
        "default_power_limit_w": 700.0,
        "max_sm_clock_mhz": 1980,
        "max_memory_clock_mhz": 3201,
        "ecc": "on",
        "persistence": "on",
        "compute_mode": "default",
        "mig": "off",
        "confidential_computing": "off",
        "vbios": "96.00.D0.00.03",
        "pcie_generation": 5,
        "pcie_width": 16,
        "nvlinks": 18,
    }
    (limited,) = examine(monkeypatch, shim, "h200", "0 0 power_limit_mw 500000", "0 0 compute_mode 3").gpus
    assert (limited.state["power_limit_w"], limited.state["compute_mode"]) == (500.0, "exclusive process")


def test_bad_health_of_a_card_is_a_warning(monkeypatch: pytest.MonkeyPatch, shim: Shim) -> None:
    (sound,) = examine(
        monkeypatch, shim, "h200", "0 0 pcie_width_possible 16", "0 0 remapped_rows 2 1 0 0"
    ).gpus
    assert sound.health == {
        "uncorrected_ecc_errors": 0,
        "uncorrected_ecc_errors_ever": 0,
        "remapped_rows": 3,
        "row_remap_pending": False,
        "row_remap_failed": False,
        "pcie_width": 16,
        "pcie_width_possible": 16,
    }
    assert sound.warnings == ()
    faults = "0 0 ecc_uncorrected 2", "0 0 ecc_uncorrected_ever 7", "0 0 remapped_rows 0 9 1 0"
    lanes = "0 0 pcie_width 8", "0 0 pcie_width_possible 16"
    (sick,) = examine(monkeypatch, shim, "h200", *faults, *lanes).gpus
    assert sick.health["uncorrected_ecc_errors_ever"] == 7
    assert [warning.partition(": ")[0] for warning in sick.warnings] == ["GPU 0 (NVIDIA H200)"] * 3
    for words, warning in zip(("2 memory errors", "next reset", "8 of 16"), sick.warnings, strict=True):
        assert words in warning
    (worn,) = examine(monkeypatch, shim, "h200", "0 0 remapped_rows 0 9 1 1").gpus
    assert len(worn.warnings) == 1 and "service" in worn.warnings[0]


def test_a_card_whose_events_may_be_out_of_order_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, shim: Shim
) -> None:
    (plain,) = examine(monkeypatch, shim, "h200", "0 - confidential 0").gpus
    (secret,) = examine(monkeypatch, shim, "h200", "0 - confidential 1").gpus
    assert plain.warnings == ()
    assert len(secret.warnings) == 1 and "confidential computing" in secret.warnings[0]


def test_unknown_health_of_a_card_is_no_warning(monkeypatch: pytest.MonkeyPatch, shim: Shim) -> None:
    (gpu,) = examine(monkeypatch, shim, "rtx").gpus
    assert (dict(gpu.health), gpu.warnings) == ({}, ())


@pytest.mark.parametrize("script", ["h200", "a100", "rtx", "mig", "two"])
def test_every_kind_of_card_says_how_it_is_set(
    monkeypatch: pytest.MonkeyPatch, shim: Shim, script: str
) -> None:
    first, *others = [gpu.state for gpu in examine(monkeypatch, shim, script, "0 0 compute_mode 3").gpus]
    assert first["compute_mode"] == "exclusive process"
    assert all(state["power_limit_w"] > 0 for state in (first, *others))


def test_a_mig_device_has_the_state_of_its_card(monkeypatch: pytest.MonkeyPatch, shim: Shim) -> None:
    whole, part = examine(monkeypatch, shim, "mig").gpus
    assert (whole.state["mig"], "mig_device" in whole.state) == ("on", False)
    assert part.state == {**whole.state, "mig_device": "NVIDIA H200 MIG 3g.71gb"}


_STATE = """
import json, pathlib, sys
from runner.telemetry.gpu import card_state, nvml
with nvml.library():
    print(json.dumps(card_state.card_state(nvml.gpus()[0], None, pathlib.Path(sys.argv[1]))))
"""


def test_the_numa_node_of_a_card_is_that_of_its_pci_address(
    monkeypatch: pytest.MonkeyPatch, shim: Shim, tmp_path: Path
) -> None:
    folder = tmp_path / "bus/pci/devices/0000:81:00.0"
    folder.mkdir(parents=True)
    for name, value in shim.variables("h200", "0 0 pci 00000000:81:00.0").items():
        monkeypatch.setenv(name, value)
    nodes: list[int | None] = []
    for node in ("1", "-1"):
        (folder / "numa_node").write_text(node)
        done = subprocess.run(
            [sys.executable, "-c", _STATE, str(tmp_path)], capture_output=True, text=True, check=True
        )
        nodes.append(json.loads(done.stdout).get("numa_node"))
    assert nodes == [1, None]
