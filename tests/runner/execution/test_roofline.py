"""MFU and the roofline, by hand for made-up cases on an H100 (989.4 TFLOP/s, 3352 GB/s)."""

from typing import Any

import pytest

from records.telemetry import HOST, Recording
from runner.execution.metrics import all_sampled, replicate_metrics, roofline
from runner.worker.messages import Block, Finished, Ready

#: A step of 8 items does 1e12 operations.
FACTS: dict[str, Any] = {
    "items": 8,
    "flops": 1e12,
    "card_peak_tflops": 989.4,
    "card_peak_gb_per_second": 3352.0,
}


def test_mfu_is_the_cases_flops_by_the_cards_peak() -> None:
    blocks = [Block((2_000_000, 2_000_000), 4_000_000, 0)]
    ready = Ready(1, 2_000_000, facts=FACTS)
    # 1e12 operations in 2 ms are 500 TFLOP/s.
    assert replicate_metrics(ready, blocks, Finished(), {}, "")["mfu"] == pytest.approx(500 / 989.4)
    unlisted = Ready(1, 2_000_000, facts={"items": 8, "flops": 1e12})
    assert "mfu" not in replicate_metrics(unlisted, blocks, Finished(), {}, "")


def test_a_case_left_of_the_ridge_is_bound_by_memory() -> None:
    # 100 TFLOP/s at 80 % of the bandwidth: 37.3 FLOP a byte, where the ridge is at 295.
    found = roofline({"sustained_throughput": 800.0, "dram_active": 80.0}, FACTS)
    assert found["intensity_by_ridge"] == pytest.approx(100e12 / (0.8 * 3352e9) / (989.4e12 / 3352e9))
    # Memory would allow 125 TFLOP/s.
    assert found["roofline_share"] == pytest.approx(0.8)


def test_a_case_right_of_the_ridge_is_bound_by_arithmetic() -> None:
    # 700 TFLOP/s at 30 % of the bandwidth.
    found = roofline({"sustained_throughput": 5600.0, "dram_active": 30.0}, FACTS)
    assert found["intensity_by_ridge"] == pytest.approx(700 / 0.3 / 989.4)
    assert found["roofline_share"] == pytest.approx(700 / 989.4)


@pytest.mark.parametrize("missing", ["sustained_throughput", "dram_active"])
def test_without_a_window_of_hardware_counters_there_is_no_roofline(missing: str) -> None:
    metrics = {"sustained_throughput": 800.0, "dram_active": 80.0}
    del metrics[missing]
    assert roofline(metrics, FACTS) == {}
    assert roofline({"sustained_throughput": 800.0, "dram_active": 80.0}, {"items": 8, "flops": 1e12}) == {}


@pytest.mark.parametrize(("devices", "sampled"), [(0, True), (1, True), (2, False)])
def test_of_a_process_on_two_gpus_the_second_is_not_sampled(devices: int, sampled: bool) -> None:
    host, gpu = (Recording(device, "", "none", (), (), {}) for device in (HOST, "GPU-1"))
    assert all_sampled((host, gpu), {"cuda_devices": devices}) is sampled
    assert all_sampled((host, gpu), {})
    assert all_sampled((host, gpu, gpu), {"cuda_devices": devices})
