"""ResNet-50: convolutions and batch normalisation, bound by memory as much as by arithmetic."""

import torch
from torch import Tensor, nn

from ..worker.case import Workload, case
from . import flops
from .layers import cross_entropy, submodule_names

#: Width of the bottleneck, number of blocks, stride of the first block.
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
EXPANSION = 4
STEM, CLASSES = 64, 1000

#: Scale of the last normalisation of each block, 1 in the paper and 0 in Goyal et al. 2017
#: (arXiv:1706.02677, section 5.1). At 1 the gradients of untrained weights are so large that fp32 and
#: fp64 disagree by 2 % and no answer can be checked; at 0 the blocks would not show in the answer.
RESIDUAL_SCALE = 0.2


def _convolution(
    inputs: int, outputs: int, kernel: int, stride: int = 1, scale: float = 1.0
) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    normalisation = nn.BatchNorm2d(outputs)
    nn.init.constant_(normalisation.weight, scale)
    return nn.Sequential(convolution, normalisation)


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 and 1 x 1 convolutions around which the input is carried, projected where it has to be."""

    def __init__(self, inputs: int, width: int, stride: int, project: bool) -> None:
        super().__init__()
        outputs = EXPANSION * width
        self.reduce = _convolution(inputs, width, 1)
        self.spatial = _convolution(width, width, 3, stride)
        self.expand = _convolution(width, outputs, 1, scale=RESIDUAL_SCALE)
        self.shortcut = _convolution(inputs, outputs, 1, stride) if project else nn.Identity()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, images: Tensor) -> Tensor:
        spatial = self.relu(self.spatial(self.relu(self.reduce(images))))
        return self.relu(self.expand(spatial) + self.shortcut(images))


class ResNet50(nn.Module):
    """Maps images (batch, 3, side, side) to logits (batch, 1000).

    Source: He et al. 2015, arXiv:1512.03385, table 1; weights as in He et al. 2015, arXiv:1502.01852.
    The stride of a stage is in its 3 x 3 convolution, not in the 1 x 1 before it: the variant known as
    v1.5, which everyone's published numbers for PyTorch are of.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_convolution(3, STEM, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        blocks: list[Bottleneck] = []
        channels = STEM
        for width, count, stride in STAGES:
            for index in range(count):
                first = index == 0
                blocks.append(Bottleneck(channels, width, stride if first else 1, project=first))
                channels = EXPANSION * width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(images)).mean((2, 3)))


def _flops(batch: int, image: int) -> int:
    size = flops.conv_size(image, 7, 2, 3)
    total = flops.conv2d(batch, 3, STEM, 7, size)
    size, channels = flops.conv_size(size, 3, 2, 1), STEM
    for width, count, stride in STAGES:
        outputs = EXPANSION * width
        for index in range(count):
            total += flops.conv2d(batch, channels, width, 1, size)
            if index == 0:
                size = flops.conv_size(size, 3, stride, 1)
                total += flops.conv2d(batch, channels, outputs, 1, size)
            total += flops.conv2d(batch, width, width, 3, size) + flops.conv2d(batch, width, outputs, 1, size)
            channels = outputs
    return total + flops.linear(batch, channels, CLASSES)


@case(family="convolutional networks", phases=("infer", "train"), batch=[1, 4, 8, 16, 32], image=[64, 224])
def resnet50(batch: int, image: int) -> Workload:
    """ResNet-50 on square images of `image` pixels a side (224 in the paper)."""
    return Workload(
        ResNet50(),
        (torch.randn(batch, 3, image, image),),
        items=batch,
        unit="images",
        flops=_flops(batch, image),
        loss=cross_entropy(batch, classes=CLASSES),
        classes=True,
        checkpointed=submodule_names("blocks", sum(count for _, count, _ in STAGES)),
    )


@case(family="convolutional networks", batch=[1], largest=[64, 224])
def image_sizes(batch: int, largest: int) -> Workload:
    """ResNet-50 over images of three sizes in turn: `largest` pixels a side, three quarters and half of it.

    Guards: a compilation for each size, where one for all of them was made before. Metrics `new_shape` and
    `known_shape` are the first and the second call of a size: what a service spares its users by warming up.
    """
    first, *others = (
        (torch.randn(batch, 3, side, side),) for side in (largest, largest * 3 // 4, largest // 2)
    )
    return Workload(ResNet50(), first, items=batch, unit="images", variants=tuple(others), classes=True)
