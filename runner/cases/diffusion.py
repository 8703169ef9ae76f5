"""Parts of diffusion models: levels of a U-Net and of an autoencoder's decoder, a transformer's block."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..worker.case import Workload, case
from . import flops
from .layers import FeedForward, SelfAttention, squared_error

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


@case(family="diffusion", phases=("infer", "train"), batch=[1, 4, 16], channels=[64, 320], side=[32, 64])
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


class CrossAttention(nn.Module):
    """Image tokens (batch, tokens, width) that attend to text (batch, words, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.output = nn.Linear(width, width), nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)

    def forward(self, hidden: Tensor, text: Tensor) -> Tensor:
        query = self.query(hidden).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        key, value = self.key_value(text).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind()
        attended = F.scaled_dot_product_attention(query, key, value)
        return self.output(attended.transpose(1, 2).flatten(2))


class DiffusionTransformerBlock(nn.Module):
    """Self-attention, attention to text, feed-forward; scale, shift and gate of each from the time.

    Source: Peebles and Xie 2023, arXiv:2212.09748, section 3.2 (adaLN), with cross attention as in PixArt.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        self.first_norm = nn.LayerNorm(width, elementwise_affine=False)
        self.second_norm = nn.LayerNorm(width, elementwise_affine=False)
        self.attention = SelfAttention(width, heads, causal=False)
        self.cross_attention = CrossAttention(width, heads)
        self.feed_forward = FeedForward(width, 4 * width, "tanh")

    def forward(self, hidden: Tensor, text: Tensor, time: Tensor) -> Tensor:
        shift, scale, gate, shift2, scale2, gate2 = self.modulation(time)[:, None].chunk(6, -1)
        hidden = hidden + gate * self.attention(self.first_norm(hidden) * (1 + scale) + shift)
        hidden = hidden + self.cross_attention(hidden, text)
        return hidden + gate2 * self.feed_forward(self.second_norm(hidden) * (1 + scale2) + shift2)


@case(family="diffusion", phases=("infer", "train"), batch=[1], tokens=[256], words=[77], width=[512])
def diffusion_block(batch: int, tokens: int, words: int, width: int) -> Workload:
    """A block of a diffusion transformer over 256 image tokens and 77 words.

    Guards: attention to another length, and modulation that should be fused with normalisation.
    """
    per_image = flops.transformer_layer(batch, tokens, width, 4 * width)
    cross = 2 * flops.linear(batch * tokens, width, width) + flops.linear(batch * words, width, 2 * width)
    cross += flops.attention(batch, tokens, words, width)
    return Workload(
        DiffusionTransformerBlock(width, width // 64),
        (torch.randn(batch, tokens, width), torch.randn(batch, words, width), torch.randn(batch, width)),
        items=batch,
        unit="images",
        flops=per_image + cross + flops.linear(batch, width, 6 * width),
        loss=squared_error(batch, tokens, width),
    )


class PlainResidual(nn.Module):
    """Twice group norm, SiLU and convolution, added to what came in; of two or three dimensions."""

    def __init__(self, channels: int, dimensions: int) -> None:
        super().__init__()
        convolution = nn.Conv2d if dimensions == 2 else nn.Conv3d
        self.layers = nn.Sequential(
            nn.GroupNorm(GROUPS, channels),
            nn.SiLU(),
            convolution(channels, channels, 3, padding=1),
            nn.GroupNorm(GROUPS, channels),
            nn.SiLU(),
            convolution(channels, channels, 3, padding=1),
        )

    def forward(self, images: Tensor) -> Tensor:
        return images + self.layers(images)


class DecoderBlock(nn.Module):
    """A residual block, images twice as large, a convolution and another residual block."""

    def __init__(self, channels: int, dimensions: int) -> None:
        super().__init__()
        convolution = nn.Conv2d if dimensions == 2 else nn.Conv3d
        # A video keeps its number of frames.
        self._scale = (2.0, 2.0) if dimensions == 2 else (1.0, 2.0, 2.0)
        self.first, self.second = PlainResidual(channels, dimensions), PlainResidual(channels, dimensions)
        self.grow = convolution(channels, channels, 3, padding=1)

    def forward(self, latent: Tensor) -> Tensor:
        larger = F.interpolate(self.first(latent), scale_factor=self._scale, mode="nearest")
        return self.second(self.grow(larger))


@case(family="diffusion", phases=("infer", "train"), dimensions=[2, 3], batch=[1], channels=[64], side=[32])
def autoencoder_block(dimensions: int, batch: int, channels: int, side: int) -> Workload:
    """A level of the decoder that turns latent images, or three latent frames, into pixels.

    Guards: convolutions over large images and over time, in speed and in peak memory.
    """
    frames = (3,) if dimensions == 3 else ()
    size, larger = (*frames, side, side), (*frames, 2 * side, 2 * side)
    kernel = (3,) * dimensions
    total = 2 * flops.convolution(batch, channels, channels, kernel, size)
    total += 3 * flops.convolution(batch, channels, channels, kernel, larger)
    return Workload(
        DecoderBlock(channels, dimensions),
        (torch.randn(batch, channels, *size),),
        items=batch,
        unit="images" if dimensions == 2 else "videos",
        flops=total,
        loss=squared_error(batch, channels, *larger),
    )
