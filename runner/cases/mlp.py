"""A multilayer perceptron so small that calling it costs as much as computing it."""

from itertools import pairwise

import torch
from torch import nn

from ..worker.case import Workload, case
from . import flops
from .losses import cross_entropy

WIDTHS = (512, 1024, 1024, 10)


@case(phases=("infer", "train"), batch=[1, 64])
def mlp_overhead(batch: int) -> Workload:
    """Three linear layers, 512-1024-1024-10, with ReLU between them: the framework's overhead."""
    first, second, third = (nn.Linear(inputs, outputs) for inputs, outputs in pairwise(WIDTHS))
    return Workload(
        nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third),
        (torch.randn(batch, WIDTHS[0]),),
        items=batch,
        flops=sum(flops.linear(batch, inputs, outputs) for inputs, outputs in pairwise(WIDTHS)),
        loss=cross_entropy(batch, classes=WIDTHS[-1]),
    )
