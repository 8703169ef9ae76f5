"""Activations kept for the backward pass, or computed again: memory over the depth of a network."""

import math
from typing import Any

from torch import Tensor, nn, randn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from ...worker.case import Workload, case
from .. import flops

WIDTH = 256


class DeepStack(nn.Module):
    """Blocks of a linear layer and a GELU over (rows, 256), of which `keep` says what stays for the backward.

    `all`: every activation. `blocks`: the input of each block; the rest is computed again. `sqrt`: the input
    of each segment of about sqrt(layers) blocks, so that memory grows with the square root of the depth.
    Source: Chen et al. 2016, arXiv:1604.06174, section 4.1.
    """

    def __init__(self, layers: int, keep: str) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            *(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(layers))
        )
        self.keep = keep

    def forward(self, rows: Tensor) -> Any:
        if self.keep == "sqrt":
            return checkpoint_sequential(self.blocks, math.isqrt(len(self.blocks)), rows, use_reentrant=False)
        for block in self.blocks:
            rows = checkpoint(block, rows, use_reentrant=False) if self.keep == "blocks" else block(rows)
        return rows


@case(
    family="programs",
    phases=("infer", "train"),
    keep=["all", "blocks", "sqrt"],
    layers=[16, 64],
    rows=[1024],
)
def deep_stack(keep: str, layers: int, rows: int) -> Workload:
    """Many small blocks with large activations; `keep` says which of them stay for the backward pass.

    Guards: activations that stay although they are computed again. Peak memory over `layers` shows O(n) or
    O(sqrt n).
    """
    return Workload(
        DeepStack(layers, keep),
        (randn(rows, WIDTH),),
        items=rows,
        unit="rows",
        flops=layers * flops.linear(rows, WIDTH, WIDTH),
        loss=lambda output: output.square().mean(),
    )
