"""A small convolutional network, as people write for 32 x 32 images: short kernels, much overhead."""

from itertools import pairwise

import torch
from torch import nn

from ..worker.case import Workload, case
from . import flops
from .losses import cross_entropy

CHANNELS = (3, 64, 128, 256, 256)
IMAGE, CLASSES = 32, 10


def _stage(inputs: int, outputs: int) -> nn.Sequential:
    # No bias: the batch normalisation behind the convolution would take it out again.
    convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2))


@case(phases=("infer", "train"), batch=[4, 32, 256])
def custom_cnn(batch: int) -> Workload:
    """Four times convolution, batch norm, ReLU and pooling over 32 x 32 images, then one linear layer."""
    stages: list[nn.Module] = []
    operations, size = 0, IMAGE
    for inputs, outputs in pairwise(CHANNELS):
        stages.append(_stage(inputs, outputs))
        operations += flops.conv2d(batch, inputs, outputs, 3, size)
        size //= 2
    features = CHANNELS[-1] * size * size
    return Workload(
        nn.Sequential(*stages, nn.Flatten(), nn.Linear(features, CLASSES)),
        (torch.randn(batch, CHANNELS[0], IMAGE, IMAGE),),
        items=batch,
        unit="images",
        flops=operations + flops.linear(batch, features, CLASSES),
        loss=cross_entropy(batch, classes=CLASSES),
    )
