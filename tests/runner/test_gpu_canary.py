"""The canary of the GPU: frozen work by CUDA's driver alone, on a stand-in for it."""

import hashlib
import sys
from pathlib import Path

import pytest

from records.fingerprints import environment_follows
from runner.execution import canary_runner
from runner.execution.canary_runner import CASES, GPU_CASES, Canary, canary_of
from runner.preset import MachinePreset
from runner.worker.case_key import CaseKey
from support.fakes import nvml

SCRIPT = Path(canary_runner.__file__).with_name("canaries") / "gpu_canary.py"
SOURCE = Path(nvml.__file__).with_name("cuda_driver.c")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the driver."""
    folder = tmp_path_factory.mktemp("driver")
    nvml.compile_library(SOURCE, folder / "libcuda.so.1")
    return folder


def canary(driver: Path, **variables: str) -> Canary:
    """That of a GPU whose script meets the stand-in."""
    return Canary((), "cuda:0", {"LD_LIBRARY_PATH": str(driver), **variables})


def test_its_work_is_frozen() -> None:
    # A changed script measures another thing: it needs new names in GPU_CASES, then this hash.
    assert hashlib.sha256(SCRIPT.read_bytes()).hexdigest()[:16] == "25f34d09410c4234"
    assert [str(CaseKey.parse(case)) for case in GPU_CASES] == [
        "canary_gpu_compute/infer/-/eager",
        "canary_gpu_bandwidth/infer/-/eager",
    ]


def test_a_run_on_a_gpu_has_two_outcomes_more(driver: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    one = canary(driver, CUDA_FAKE_LOG=str(log), CUDA_VISIBLE_DEVICES="3")
    *host, compute, copied = one.run(3, "test:canary")
    assert [each.case for each in (*host, compute, copied)] == [*CASES, *GPU_CASES]
    assert {(each.status, each.replicate, each.environment) for each in (*host, compute, copied)} == {
        ("ok", 3, one.fingerprint)
    }
    assert compute.blocks == ((500_000,) * 64,) and copied.blocks == ((1_000_000,) * 64,)
    assert compute.metrics == {"latency": 0.5, "latency_min": 0.5}
    # 264 blocks of 8 warps, each of 4096 rounds of 8 products of 4096 FLOP.
    assert compute.facts == {
        "device": "cuda:0",
        "tflops": pytest.approx(264 * 8 * 4096 * 8 * 4096 / 0.5e-3 / 1e12),
    }
    assert copied.facts == {"device": "cuda:0", "gb_per_second": pytest.approx(2 * 2**29 / 1e-3 / 1e9)}
    assert log.read_text() == "264 256 4096 3"


@pytest.mark.parametrize(
    ("plays", "endings"),
    [
        ("memory", ["ok", "oom: cuMemAlloc_v2 failed: out of memory (2)"]),
        ("answer", ["wrong: the products are not 2.09726e+06", "ok"]),
        ("launch", ["crashed: cuLaunchKernel failed: launch failure (719)", "ok"]),
        ("copy", ["ok", "crashed: cuMemcpyDtoDAsync_v2 failed: launch failure (719)"]),
        ("old", ["unsupported: bf16 products need compute capability 8.0 or above", "ok"]),
    ],
)
def test_what_the_driver_refuses_costs_its_own_case_alone(
    driver: Path, plays: str, endings: list[str]
) -> None:
    found = canary(driver, CUDA_FAKE=plays).run(0, "test:canary")
    assert [each.status for each in found[:2]] == ["ok", "ok"]
    assert [": ".join(filter(None, (each.status, each.reason))) for each in found[2:]] == endings


def test_a_driver_that_cannot_be_loaded_costs_no_other_canary(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("no library")
    found = canary(tmp_path).run(0, "test:canary")
    assert [each.status for each in found] == ["ok", "ok", "crashed", "crashed"]
    assert found[2].reason.startswith("the canary ended with 1: OSError: ")


def test_it_is_another_canary_and_that_of_a_cpu_is_the_same_as_ever() -> None:
    preset = MachinePreset("p", {"CUDA_VISIBLE_DEVICES": "3", "CUDA_LAUNCH_BLOCKING": "1"})
    one, other = (canary_of(preset, device) for device in ("cpu", "cuda:0"))
    # Which GPU is the first reaches it, and nothing that changes what PyTorch does.
    assert other.variables == {"CUDA_VISIBLE_DEVICES": "3"}
    assert one == Canary(()) and one.fingerprint != other.fingerprint
    facts = other.environment()["facts"]
    assert "gpu_script" in facts and "torch" not in facts
    assert environment_follows(other.fingerprint, "", facts["python"], facts)
    assert not environment_follows(one.fingerprint, "", facts["python"], facts)


def test_the_script_needs_nothing_but_the_standard_library() -> None:
    begun = [line for line in SCRIPT.read_text().splitlines() if line.startswith(("import ", "from "))]
    assert {line.split()[1].partition(".")[0] for line in begun} <= sys.stdlib_module_names
