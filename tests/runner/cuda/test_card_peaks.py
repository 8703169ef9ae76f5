"""The published peaks of a card are those of its exact name."""

import pytest

from runner.worker.measurements.card_peaks import card_peaks


@pytest.mark.parametrize(
    ("name", "half", "bandwidth"),
    [
        ("NVIDIA H100 80GB HBM3", 989.4, 3352),
        ("NVIDIA H100 PCIe", 756, 2039),
        ("NVIDIA H200", 989.4, 4800),
        ("NVIDIA H200 NVL", 835.5, 4800),
        ("NVIDIA A10", 125, 600),
        ("NVIDIA L4", 121, 300),
    ],
)
def test_a_card_has_the_peaks_of_its_name(name: str, half: float, bandwidth: float) -> None:
    peaks = card_peaks(name)
    assert peaks is not None and (peaks.tflops("amp-bf16"), peaks.bandwidth) == (half, bandwidth)


@pytest.mark.parametrize(
    "name",
    [
        *("NVIDIA L40", "NVIDIA A100X", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA A10-24Q", "AMD MI300X"),
        *("NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 3090 Ti"),
    ],
)
def test_no_other_card_answers_for_one_that_is_not_listed(name: str) -> None:
    assert card_peaks(name) is None


def test_each_format_has_its_own_peak() -> None:
    peaks = card_peaks("NVIDIA A100-SXM4-80GB")
    assert peaks is not None
    assert [peaks.tflops(each) for each in ("fp16", "tf32", "fp32", "int8-torchao")] == [312, 156, 19.5, None]
