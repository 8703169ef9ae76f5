"""Single convolutions: two of ResNet-50's, and channels on and off the grid of the tensor cores."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..worker.case import Workload, case
from . import flops
from .rotation import copies

KERNEL = 3


class Convolution(nn.Module):
    """3 x 3 over images (batch, inputs, side, side) with weights (outputs, inputs, 3, 3), same size out."""

    def forward(self, images: Tensor, weights: Tensor) -> Tensor:
        return F.conv2d(images, weights, padding=KERNEL // 2)


def _workload(batch: int, channels: int, image: int) -> Workload:
    images = torch.randn(batch, channels, image, image)
    weights = torch.randn(channels, channels, KERNEL, KERNEL)
    return Workload(
        Convolution(),
        (images, weights),
        items=batch,
        unit="images",
        flops=flops.conv2d(batch, channels, channels, KERNEL, image),
        ceiling=True,
        variants=copies(images, weights),
    )


@case(batch=[8, 32], channels=[64, 256], image=[14, 56])
def conv2d(batch: int, channels: int, image: int) -> Workload:
    """A 3 x 3 convolution without bias; ResNet-50 has 64 channels at 56 pixels a side and 256 at 14."""
    return _workload(batch, channels, image)


@case(batch=[4, 32], channels=[60, 63, 64], image=[56])
def conv_channels(batch: int, channels: int, image: int) -> Workload:
    """The same convolution with channels that are a multiple of 16 (64), of 4 (60), or odd (63)."""
    return _workload(batch, channels, image)
