"""Cases whose fingerprint is known: what they call, and what happens when they end badly."""

import os
import signal
import time

import torch
from torch import nn

from runner.worker.case import Workload, case


@case(width=[32])
def affine(width):
    """One linear layer."""
    return Workload(nn.Linear(width, width), (torch.randn(4, width),), items=4)


@case(width=[32])
def affine_copied(width):
    """The same after a copy into another number format and back."""

    class Copied(nn.Linear):
        def forward(self, inputs):
            return super().forward(inputs.double().float())

    return Workload(Copied(width, width), (torch.randn(4, width),), items=4)


@case(width=[32])
def activated(width):
    """A linear layer and what follows it, which Inductor makes one kernel of."""
    return Workload(nn.Sequential(nn.Linear(width, width), nn.GELU()), (torch.randn(4, width),), items=4)


@case(channels=[8])
def small_convolution(channels):
    """One convolution that oneDNN computes."""
    return Workload(nn.Conv2d(channels, 64, 3), (torch.randn(8, channels, 32, 32),), items=8)


@case()
def prints():
    """Prints lines that look like those of the libraries."""

    def step():
        print("onednn_verbose,v9,primitive,exec")
        print("MKL_VERBOSE what is this")
        return torch.ones(2) + 1

    return step


@case()
def dies():
    """Executes an instruction that the machine refuses."""
    return lambda: os.kill(os.getpid(), signal.SIGILL)


@case()
def hangs():
    """Never ends."""
    return lambda: time.sleep(3600)


@case()
def raises_with_path():
    """Names a place that differs from process to process."""

    def step():
        raise RuntimeError(f"cannot open /tmp/{os.getpid()}/weights")

    return step
