"""Matrix products: one of a model's shape, and squares on and off the grid of the tensor cores."""

import torch
from torch import Tensor, nn

from ..worker.case import Workload, case
from . import flops
from .rotation import copies


class Matmul(nn.Module):
    """The product of (m, k) and (k, n)."""

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return left @ right


def _workload(m: int, n: int, k: int) -> Workload:
    left, right = torch.randn(m, k), torch.randn(k, n)
    return Workload(
        Matmul(),
        (left, right),
        items=m,
        unit="rows",
        flops=flops.linear(m, k, n),
        ceiling=True,
        variants=copies(left, right),
    )


@case(m=[128, 512], n=[3072], k=[768])
def matmul(m: int, n: int, k: int) -> Workload:
    """The product (m, k) @ (k, n); by default BERT-base's widening layer over m tokens, without its bias."""
    return _workload(m, n, k)


@case(size=[511, 512, 4088, 4090, 4095, 4096])
def gemm(size: int) -> Workload:
    """A square product whose side is a multiple of 16 (512, 4096), of 8 (4088), of 2 (4090), or odd.

    Tensor cores want rows that begin at multiples of 16 bytes: 8 numbers of 16 bits, 4 of 32. Source:
    NVIDIA, "Matrix Multiplication Background User's Guide", section "Tensor Core Requirements".
    """
    return _workload(size, size, size)
