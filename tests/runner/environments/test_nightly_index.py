"""Nightlies come from the index for the CUDA version of the driver."""

import pytest

from runner.environments.package_index import NIGHTLIES, nightly_index


@pytest.mark.parametrize(
    ("device", "driver", "index"),
    [
        ("auto", "", "cpu"),
        ("auto", "580.65.06", "cu130"),
        ("cuda", "595.10", "cu130"),
        ("auto", "570.86.15", "cu126"),
        ("cpu", "580.65.06", "cpu"),
    ],
)
def test_nightlies_are_those_for_the_drivers_cuda(device: str, driver: str, index: str) -> None:
    assert nightly_index(device, driver) == f"{NIGHTLIES}/{index}"
