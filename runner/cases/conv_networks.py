"""Convolutional networks of other kinds than ResNet: dense, depthwise, with attention, a pyramid."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..worker.case import Workload, case
from . import flops
from .layers import SelfAttention, cross_entropy, squared_error

CLASSES = 10


class DenseBlock(nn.Module):
    """Layers that each see the concatenation of all before them, then a head of 10 classes.

    Source: Huang et al. 2017, arXiv:1608.06993, section 3, with bottlenecks (DenseNet-BC), growth 32.
    """

    GROWTH, BOTTLENECK, ENTERING = 32, 128, 64

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, self.ENTERING, 3, padding=1, bias=False)
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(inputs),
                nn.ReLU(inplace=True),
                nn.Conv2d(inputs, self.BOTTLENECK, 1, bias=False),
                nn.BatchNorm2d(self.BOTTLENECK),
                nn.ReLU(inplace=True),
                nn.Conv2d(self.BOTTLENECK, self.GROWTH, 3, padding=1, bias=False),
            )
            for inputs in range(self.ENTERING, self.ENTERING + layers * self.GROWTH, self.GROWTH)
        )
        self.head = nn.Linear(self.ENTERING + layers * self.GROWTH, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        seen = [self.enter(images)]
        for layer in self.layers:
            seen.append(layer(torch.cat(seen, 1)))
        return self.head(torch.cat(seen, 1).mean((2, 3)))


@case(family="convolutional networks", phases=("infer", "train"), batch=[4], image=[32], layers=[6])
def densenet_block(batch: int, image: int, layers: int) -> Workload:
    """A block of DenseNet-121: 1 x 1 and 3 x 3 convolutions over ever more concatenated channels.

    Guards: concatenation that is no longer fused, and normalisation before the convolution.
    """
    block = DenseBlock
    total = flops.conv2d(batch, 3, block.ENTERING, 3, image)
    for index in range(layers):
        total += flops.conv2d(batch, block.ENTERING + index * block.GROWTH, block.BOTTLENECK, 1, image)
        total += flops.conv2d(batch, block.BOTTLENECK, block.GROWTH, 3, image)
    features = block.ENTERING + layers * block.GROWTH
    return Workload(
        DenseBlock(layers),
        (torch.randn(batch, 3, image, image),),
        items=batch,
        unit="images",
        flops=total + flops.linear(batch, features, CLASSES),
        loss=cross_entropy(batch, classes=CLASSES),
        classes=True,
    )


WIDTHS = (3, 32, 64, 128)


@case(family="convolutional networks", phases=("infer", "train"), batch=[1, 32], image=[224])
def three_convolutions(batch: int, image: int) -> Workload:
    """Three times a 3 x 3 convolution and ReLU, each halving the image, then global pooling and 10 classes.

    Guards: the overhead around a few kernels, in a network that people write to try torch.compile on.
    """
    stages: list[nn.Module] = []
    operations, size = 0, image
    for inputs, outputs in pairwise(WIDTHS):
        stages += [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.ReLU()]
        size = flops.conv_size(size, 3, 2, 1)
        operations += flops.conv2d(batch, inputs, outputs, 3, size)
    return Workload(
        nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTHS[-1], CLASSES)),
        (torch.randn(batch, 3, image, image),),
        items=batch,
        unit="images",
        flops=operations + flops.linear(batch, WIDTHS[-1], CLASSES),
        loss=cross_entropy(batch, classes=CLASSES),
        classes=True,
    )


class InvertedBottleneck(nn.Module):
    """1 x 1 up, depthwise, squeeze and excitation, 1 x 1 down, and the input carried.

    Sources: Tan and Le 2019, arXiv:1905.11946, table 1 (MBConv6); Hu et al. 2018, arXiv:1709.01507.
    """

    EXPANSION, SQUEEZE = 6, 4

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        inner, squeezed = self.EXPANSION * channels, channels // self.SQUEEZE
        self.widen = nn.Sequential(
            nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.SiLU(inplace=True)
        )
        self.depthwise = nn.Sequential(
            nn.Conv2d(inner, inner, kernel, padding=kernel // 2, groups=inner, bias=False),
            nn.BatchNorm2d(inner),
            nn.SiLU(inplace=True),
        )
        self.excite = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(inner, squeezed, 1),
            nn.SiLU(inplace=True),
            nn.Conv2d(squeezed, inner, 1),
            nn.Sigmoid(),
        )
        self.narrow = nn.Sequential(nn.Conv2d(inner, channels, 1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, images: Tensor) -> Tensor:
        wide = self.depthwise(self.widen(images))
        return images + self.narrow(wide * self.excite(wide))

    @classmethod
    def flops(cls, batch: int, channels: int, kernel: int, image: int) -> int:
        """Of one forward pass."""
        inner, squeezed = cls.EXPANSION * channels, channels // cls.SQUEEZE
        places = image, image
        return (
            2 * flops.conv2d(batch, channels, inner, 1, image)
            + flops.convolution(batch, inner, inner, (kernel, kernel), places, groups=inner)
            + 2 * flops.conv2d(batch, inner, squeezed, 1, 1)
        )


#: Channels and kernels of the blocks: the second to fifth stages of EfficientNet-B0.
DEPTHWISE_BLOCKS = ((24, 3), (40, 5), (80, 3))


class DepthwiseNetwork(nn.Module):
    """Inverted bottlenecks with a 1 x 1 convolution of stride 2 between them; logits (batch, 10)."""

    def __init__(self) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        inputs = 3
        for channels, kernel in DEPTHWISE_BLOCKS:
            parts += [
                nn.Conv2d(inputs, channels, 3, stride=2, padding=1),
                InvertedBottleneck(channels, kernel),
            ]
            inputs = channels
        self.blocks = nn.Sequential(*parts)
        self.head = nn.Linear(inputs, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.blocks(images).mean((2, 3)))


@case(family="convolutional networks", phases=("infer", "train"), batch=[1, 4], image=[96])
def depthwise_network(batch: int, image: int) -> Workload:
    """A small EfficientNet: depthwise convolutions, SiLU, squeeze and excitation.

    Guards: depthwise kernels under autocast, in one thread and compiled, where they lost up to 15 times.
    """
    total, size, inputs = 0, image, 3
    for channels, kernel in DEPTHWISE_BLOCKS:
        size = flops.conv_size(size, 3, 2, 1)
        total += flops.conv2d(batch, inputs, channels, 3, size)
        total += InvertedBottleneck.flops(batch, channels, kernel, size)
        inputs = channels
    return Workload(
        DepthwiseNetwork(),
        (torch.randn(batch, 3, image, image),),
        items=batch,
        unit="images",
        flops=total + flops.linear(batch, inputs, CLASSES),
        loss=cross_entropy(batch, classes=CLASSES),
        classes=True,
    )


class ConvolutionAttention(nn.Module):
    """Two grouped convolutions, then attention over all places of what they leave; logits (batch, 10).

    The kind of Srinivas et al. 2021, arXiv:2101.11605 (BoTNet), without its relative positions.
    """

    CHANNELS, GROUPS, HEADS = 128, 8, 4

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(3, self.CHANNELS, 3, stride=2, padding=1),
            nn.GELU(),
            nn.Conv2d(self.CHANNELS, self.CHANNELS, 3, stride=2, padding=1, groups=self.GROUPS),
            nn.GELU(),
        )
        self.norm = nn.LayerNorm(self.CHANNELS)
        self.attention = SelfAttention(self.CHANNELS, self.HEADS, causal=False)
        self.head = nn.Linear(self.CHANNELS, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        places = self.convolutions(images).flatten(2).transpose(1, 2)
        places = places + self.attention(self.norm(places))
        return self.head(places.mean(1))


@case(family="convolutional networks", phases=("infer", "train"), batch=[4], image=[64])
def convolution_attention(batch: int, image: int) -> Workload:
    """Convolutions whose output goes through attention, in another memory layout than they left it in.

    Guards: the copy between the layouts of convolutions and products.
    """
    kind = ConvolutionAttention
    first = flops.conv_size(image, 3, 2, 1)
    second = flops.conv_size(first, 3, 2, 1)
    width, places = kind.CHANNELS, second * second
    total = flops.conv2d(batch, 3, width, 3, first)
    total += flops.convolution(batch, width, width, (3, 3), (second, second), groups=kind.GROUPS)
    total += flops.linear(batch * places, width, 4 * width) + flops.attention(batch, places, places, width)
    return Workload(
        ConvolutionAttention(),
        (torch.randn(batch, 3, image, image),),
        items=batch,
        unit="images",
        flops=total + flops.linear(batch, width, CLASSES),
        loss=cross_entropy(batch, classes=CLASSES),
        classes=True,
    )


def _leaky_convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    # No bias: the batch normalisation behind the convolution would take it out again.
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.LeakyReLU(0.1))


class FeaturePyramid(nn.Module):
    """Predictions (batch, places, 24) at three sizes of an image; coarse maps, doubled, join finer ones.

    Source: Redmon and Farhadi 2018, arXiv:1804.02767, section 2.3 (YOLOv3), with few channels.
    """

    WIDTHS, MIDDLE, OUTPUTS = (3, 32, 64, 128, 256), 64, 24

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            _leaky_convolution(inputs, outputs, 3, stride=2) for inputs, outputs in pairwise(self.WIDTHS)
        )
        self.join = nn.ModuleList(
            [
                _leaky_convolution(self.WIDTHS[-1], self.MIDDLE, 1),
                _leaky_convolution(self.MIDDLE + self.WIDTHS[-2], self.MIDDLE, 3),
                _leaky_convolution(self.MIDDLE + self.WIDTHS[-3], self.MIDDLE, 3),
            ]
        )
        self.heads = nn.ModuleList(nn.Conv2d(self.MIDDLE, self.OUTPUTS, 1) for _ in self.join)

    def forward(self, images: Tensor) -> Tensor:
        features: list[Tensor] = []
        found: list[Tensor] = []
        for layer in self.down:
            images = layer(images)
            features.append(images)
        coarse = features.pop()
        for level in range(len(self.heads)):
            coarse = self.join[level](coarse)
            found.append(self.heads[level](coarse).flatten(2))
            if features[1:]:
                finer = F.interpolate(coarse, scale_factor=2.0, mode="nearest")
                coarse = torch.cat([finer, features.pop()], 1)
        return torch.cat(found, 2).transpose(1, 2)


@case(family="convolutional networks", phases=("infer", "train"), batch=[4], image=[96])
def feature_pyramid(batch: int, image: int) -> Workload:
    """A small detector: leaky convolutions that halve an image four times, and a way up over three sizes.

    Guards: resizing and concatenation between convolutions, alone and fused, where detectors lost a third.
    """
    kind = FeaturePyramid
    total, size = 0, image
    sizes: list[int] = []
    for inputs, outputs in pairwise(kind.WIDTHS):
        size = flops.conv_size(size, 3, 2, 1)
        sizes.append(size)
        total += flops.conv2d(batch, inputs, outputs, 3, size)
    total += flops.conv2d(batch, kind.WIDTHS[-1], kind.MIDDLE, 1, sizes[-1])
    for inputs, side in zip(kind.WIDTHS[-2:-4:-1], sizes[-2:-4:-1], strict=True):
        total += flops.conv2d(batch, kind.MIDDLE + inputs, kind.MIDDLE, 3, side)
    for side in sizes[-3:]:
        total += flops.conv2d(batch, kind.MIDDLE, kind.OUTPUTS, 1, side)
    return Workload(
        FeaturePyramid(),
        (torch.randn(batch, 3, image, image),),
        items=batch,
        unit="images",
        flops=total,
        loss=squared_error(batch, sum(side * side for side in sizes[-3:]), kind.OUTPUTS),
    )
