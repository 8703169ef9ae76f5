"""Copies between the host and a device, between two devices, and between tensors and Python."""

import torch
from torch import Tensor, nn

from ...worker.case import Workload, case
from ..operators.operator import FunctionModel

_MIB = 1 << 20


class HostCopy(nn.Module):
    """Copies numbers that stay on the host to its input, or its input to the host; answers the copy.

    Memory is pinned when the first copy shows that there is a device.
    """

    def __init__(self, host: Tensor, to_device: bool, pinned: bool) -> None:
        super().__init__()
        # No buffer: it must not move to the device with the model.
        self._host = host
        self._to_device = to_device
        self._pinned = pinned
        self._is_pinned = False

    def forward(self, on_device: Tensor) -> Tensor:
        if self._pinned and not self._is_pinned:
            if not on_device.is_cuda:
                raise NotImplementedError("pinned memory is for copies to and from a CUDA device")
            self._host, self._is_pinned = self._host.pin_memory(), True
        source, target = (self._host, on_device) if self._to_device else (on_device, self._host)
        return target.copy_(source, non_blocking=self._pinned)


class PeerCopy(nn.Module):
    """Copies its input to the second CUDA device; answers the copy."""

    def __init__(self) -> None:
        super().__init__()
        self._target: Tensor | None = None

    def forward(self, source: Tensor) -> Tensor:
        if self._target is None:
            if not source.is_cuda or torch.cuda.device_count() < 2:
                raise NotImplementedError("a copy between two devices needs two CUDA devices")
            self._target = torch.empty_like(source, device="cuda:1")
        return self._target.copy_(source, non_blocking=True)


def _numbers(mebibytes: int) -> Tensor:
    """So many MiB of random numbers in fp32."""
    return torch.randn(mebibytes * _MIB // 4)


@case(
    family="input pipeline",
    direction=["to_device", "to_host"],
    mebibytes=[1, 256],
    pinned=[False, True],
)
def host_copy(direction: str, mebibytes: int, pinned: bool) -> Workload:
    """A copy from the host's memory to the device's (`to_device`), or the other way round (`to_host`).

    Pageable memory goes through a buffer of the driver, which the process waits for; pinned memory is copied
    by the device itself while the process runs on.

    Guards: a pinned copy that has become a pageable one, or a link that has lost lanes.
    """
    host, on_device = _numbers(mebibytes), _numbers(mebibytes)
    return Workload(
        HostCopy(host, direction == "to_device", pinned),
        (on_device,),
        items=1,
        unit="copies",
        bytes_moved=mebibytes * _MIB,
    )


_TO_PYTHON = {
    "list": lambda numbers: numbers.tolist(),
    "items": lambda numbers: [number.item() for number in numbers],
}


@case(family="input pipeline", way=["list", "items"], numbers=[1000])
def python_numbers(way: str, numbers: int) -> Workload:
    """A tensor made a list of Python's numbers, at once or one by one, and made a tensor again.

    Guards: what a number costs on its way, as in the metrics of a training loop; on a device, what waiting
    for it costs.
    """

    def function(values: Tensor) -> Tensor:
        return torch.tensor(_TO_PYTHON[way](values), dtype=values.dtype, device=values.device)

    return Workload(FunctionModel(function), (torch.randn(numbers),), items=numbers, unit="numbers")


@case(family="input pipeline", mebibytes=[256])
def peer_copy(mebibytes: int) -> Workload:
    """A copy from the first CUDA device to the second, by NVLink or PCIe."""
    return Workload(PeerCopy(), (_numbers(mebibytes),), items=1, unit="copies", bytes_moved=mebibytes * _MIB)
