"""Cases that go wrong on a CUDA device where their input is bf16, and well in fp32."""

from collections.abc import Callable

import torch
from torch import nn

from runner.worker.case import Workload, case


class _BeyondTheEnd:
    """Claims more memory than lies behind a pointer, by the CUDA array interface."""

    def __init__(self, start: torch.Tensor, count: int) -> None:
        self._start = start
        self.__cuda_array_interface__ = {
            "shape": (count,),
            "typestr": "|u1",
            "data": (start.data_ptr(), False),
            "version": 2,
        }


class _Goes(nn.Module):
    """Adds one; where its input is bf16 on a device, `wrong` is called first."""

    def __init__(self, wrong: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self._wrong = wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dtype == torch.bfloat16 and x.is_cuda:
            self._wrong(x)
        return x + 1


def _workload(wrong: Callable[[torch.Tensor], object]) -> Workload:
    return Workload(_Goes(wrong), (torch.ones(1024, 1024),), items=1)


@case()
def asks_too_much() -> Workload:
    """Asks for 400 GiB of the device's memory."""
    return _workload(lambda x: torch.empty(400 << 30, dtype=torch.uint8, device=x.device))


@case()
def fails_an_assertion() -> Workload:
    """Indexes out of range, which a kernel asserts."""
    return _workload(lambda x: x[torch.full((8,), 1 << 20, device=x.device)])


@case()
def reads_beyond() -> Workload:
    """Reads 64 GiB behind the end of an allocation."""

    def wrong(x: torch.Tensor) -> object:
        claimed = torch.as_tensor(_BeyondTheEnd(x.view(torch.uint8), 64 << 30), device=x.device)
        return claimed[-1024:].sum()

    return _workload(wrong)


@case()
def product() -> Workload:
    """A product of a tenth of a millisecond, for what happens around it."""
    return Workload(nn.Linear(2048, 2048), (torch.ones(2048, 2048),), items=1)


@case()
def addition() -> Workload:
    """One addition."""
    return Workload(nn.Identity(), (torch.ones(1024),), items=1)
