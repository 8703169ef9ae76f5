"""One level of a diffusion model's U-Net: down, the level below, up, and the skip around both."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..worker.case import Workload, case
from . import flops
from .layers import squared_error

GROUPS = 32
#: Channels of the latent images that Stable Diffusion works on.
LATENT = 4
#: Width of the time embedding, in channels of the level.
TIME_WIDTH = 4


class Residual(nn.Module):
    """Twice group norm, SiLU and a 3 x 3 convolution, with the time added between; the input is carried.

    Source: Ho et al. 2020, arXiv:2006.11239, appendix B, in its form without dropout and attention.
    """

    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.first_norm = nn.GroupNorm(GROUPS, inputs)
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.second_norm = nn.GroupNorm(GROUPS, outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, images: Tensor, time: Tensor) -> Tensor:
        hidden = self.first(F.silu(self.first_norm(images)))
        hidden = hidden + self.time(F.silu(time))[:, :, None, None]
        return self.shortcut(images) + self.second(F.silu(self.second_norm(hidden)))


class Level(nn.Module):
    """Maps latent images (batch, 4, side, side) and times (batch, 4 channels) to images of `channels`.

    The level below has half the side and twice the channels. A convolution stands before the level, as in
    the whole network, so that in training gradients flow through all of the level.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        time = TIME_WIDTH * channels
        self.enter = nn.Conv2d(LATENT, channels, 3, padding=1)
        self.down = Residual(channels, channels, time)
        self.shrink = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.below = Residual(channels, 2 * channels, time)
        self.grow = nn.Conv2d(2 * channels, 2 * channels, 3, padding=1)
        self.up = Residual(3 * channels, channels, time)

    def forward(self, images: Tensor, time: Tensor) -> Tensor:
        skip = self.down(self.enter(images), time)
        below = self.below(self.shrink(skip), time)
        above = self.grow(F.interpolate(below, scale_factor=2.0, mode="nearest"))
        return self.up(torch.cat([above, skip], 1), time)


def _residual(batch: int, inputs: int, outputs: int, time: int, side: int) -> int:
    convolutions = flops.conv2d(batch, inputs, outputs, 3, side) + flops.conv2d(
        batch, outputs, outputs, 3, side
    )
    shortcut = flops.conv2d(batch, inputs, outputs, 1, side) if inputs != outputs else 0
    return convolutions + shortcut + flops.linear(batch, time, outputs)


def _flops(batch: int, channels: int, side: int) -> int:
    time, half = TIME_WIDTH * channels, side // 2
    blocks = (
        _residual(batch, channels, channels, time, side)
        + _residual(batch, channels, 2 * channels, time, half)
        + _residual(batch, 3 * channels, channels, time, side)
    )
    enter = flops.conv2d(batch, LATENT, channels, 3, side)
    shrink = flops.conv2d(batch, channels, channels, 3, half)
    grow = flops.conv2d(batch, 2 * channels, 2 * channels, 3, side)
    return blocks + enter + shrink + grow


@case(phases=("infer", "train"), batch=[1, 4, 16], channels=[64, 320], side=[32, 64])
def unet_block(batch: int, channels: int, side: int) -> Workload:
    """One U-Net level with skip, GroupNorm and SiLU; Stable Diffusion's first has 320 channels at side 64."""
    return Workload(
        Level(channels),
        (torch.randn(batch, LATENT, side, side), torch.randn(batch, TIME_WIDTH * channels)),
        items=batch,
        unit="images",
        flops=_flops(batch, channels, side),
        loss=squared_error(batch, channels, side, side),
        checkpointed=("down", "below", "up"),
    )
