"""Convolutions: the kinds that networks are made of, their gradients, and inputs of changing length."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...worker.case import Workload, case
from .. import flops
from .operator import Backward, FunctionModel

KERNEL = 3


class Convolution(nn.Module):
    """3 x 3 over images (batch, inputs, side, side) with weights (outputs, inputs, 3, 3), same size out."""

    def forward(self, images: Tensor, weights: Tensor) -> Tensor:
        return F.conv2d(images, weights, padding=KERNEL // 2)


def _square_workload(batch: int, channels: int, image: int) -> Workload:
    images = torch.randn(batch, channels, image, image)
    weights = torch.randn(channels, channels, KERNEL, KERNEL)
    return Workload(
        Convolution(),
        (images, weights),
        items=batch,
        unit="images",
        flops=flops.conv2d(batch, channels, channels, KERNEL, image),
        ceiling=True,
        rotated=True,
    )


@case(family="convolutions", batch=[8, 32], channels=[64, 256], image=[14, 56])
def conv2d(batch: int, channels: int, image: int) -> Workload:
    """A 3 x 3 convolution without bias; ResNet-50 has 64 channels at 56 pixels a side and 256 at 14."""
    return _square_workload(batch, channels, image)


@case(family="convolutions", batch=[4, 32], channels=[60, 63, 64], image=[56])
def conv_channels(batch: int, channels: int, image: int) -> Workload:
    """The same convolution with channels that are a multiple of 16 (64), of 4 (60), or odd (63)."""
    return _square_workload(batch, channels, image)


@dataclass(frozen=True, slots=True)
class ConvolutionKind:
    """Channels, kernel and input size along each dimension, and what else makes a kind of convolution."""

    inputs: int
    outputs: int
    kernel: tuple[int, ...]
    size: tuple[int, ...]
    stride: tuple[int, ...] = ()
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    transposed: bool = False

    def tensors(self, batch: int, size: tuple[int, ...] | None = None) -> tuple[Tensor, Tensor]:
        """Inputs (batch, inputs, *size), and weights scaled so that the output is about as large."""
        first, second = (self.inputs, self.outputs) if self.transposed else (self.outputs, self.inputs)
        fan_in = self.inputs // self.groups * prod(self.kernel)
        weights = torch.randn(first, second // self.groups, *self.kernel) / fan_in**0.5
        return torch.randn(batch, self.inputs, *(size or self.size)), weights

    @property
    def function(self) -> Callable[[Tensor, Tensor], Tensor]:
        """The convolution of inputs and weights."""
        plain = (F.conv1d, F.conv2d, F.conv3d)
        transposed = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
        convolve = (transposed if self.transposed else plain)[len(self.kernel) - 1]
        stride, padding, dilation, groups = self._stride, self.padding, self.dilation, self.groups

        def function(inputs: Tensor, weights: Tensor) -> Tensor:
            return convolve(inputs, weights, stride=stride, padding=padding, dilation=dilation, groups=groups)

        return function

    def flops(self, batch: int) -> int:
        """Multiply-adds of one forward pass, as two operations each."""
        # A transposed convolution spreads every input over the kernel; a plain one gathers every output.
        places = self.size if self.transposed else self._output_size
        return flops.convolution(batch, self.inputs, self.outputs, self.kernel, places, self.groups)

    @property
    def _stride(self) -> tuple[int, ...]:
        return self.stride or (1,) * len(self.kernel)

    @property
    def _output_size(self) -> tuple[int, ...]:
        return tuple(
            flops.conv_size(size, self.dilation * (kernel - 1) + 1, stride, self.padding)
            for size, kernel, stride in zip(self.size, self.kernel, self._stride, strict=True)
        )


KINDS = {
    # ResNet-50: narrowing, and the first layer over three colours.
    "pointwise": ConvolutionKind(256, 64, (1, 1), (56, 56)),
    "stem": ConvolutionKind(3, 64, (7, 7), (224, 224), stride=(2, 2), padding=3),
    # EfficientNet-B0: a convolution for each channel, 3 x 3 and 5 x 5.
    "depthwise": ConvolutionKind(144, 144, (3, 3), (56, 56), padding=1, groups=144),
    "depthwise5": ConvolutionKind(240, 240, (5, 5), (28, 28), padding=2, groups=240),
    # RegNetY-200MF: groups of 8 channels.
    "grouped": ConvolutionKind(152, 152, (3, 3), (28, 28), padding=1, groups=19),
    # DeepLab's atrous convolution.
    "dilated": ConvolutionKind(128, 128, (3, 3), (28, 28), padding=2, dilation=2),
    # Few channels, a wide kernel with gaps, and no padding.
    "dilated7": ConvolutionKind(16, 32, (7, 7), (112, 112), dilation=2),
    # DCGAN's way back to an image.
    "transposed": ConvolutionKind(128, 64, (4, 4), (16, 16), stride=(2, 2), padding=1, transposed=True),
    # Whisper's first layer over 80 mel bands.
    "sequence": ConvolutionKind(80, 384, (3,), (1500,), padding=1),
    # HiFi-GAN's first upsampling, and an inverse short-time Fourier transform as a convolution.
    "transposed1d": ConvolutionKind(512, 256, (16,), (64,), stride=(8,), padding=4, transposed=True),
    "inverse_stft": ConvolutionKind(514, 1, (512,), (128,), stride=(128,), transposed=True),
    # Inception v3: along rows alone.
    "row": ConvolutionKind(192, 192, (1, 7), (17, 17)),
    # Video: the patch embedding of Qwen2-VL, and a level of the decoder of a video autoencoder.
    "patches3d": ConvolutionKind(3, 1280, (2, 14, 14), (2, 224, 224), stride=(2, 14, 14)),
    "block3d": ConvolutionKind(96, 96, (3, 3, 3), (5, 32, 32), padding=1),
    # The way up in a U-Net over volumes.
    "transposed3d": ConvolutionKind(64, 32, (2, 2, 2), (8, 16, 16), stride=(2, 2, 2), transposed=True),
    # A large image in few channels.
    "wide": ConvolutionKind(16, 16, (3, 3), (512, 512), padding=1),
}


@case(
    family="convolutions",
    kind=[
        "pointwise",
        "stem",
        "depthwise",
        "depthwise5",
        "grouped",
        "dilated",
        "dilated7",
        "transposed",
        "sequence",
        "transposed1d",
        "inverse_stft",
        "patches3d",
        "block3d",
        "transposed3d",
        "wide",
        "row",
    ],
    batch=[1, 8],
)
def convolution(kind: str, batch: int) -> Workload:
    """A convolution of each kind that networks are made of; its first call makes the library's primitive.

    Guards: one kind that falls to a reference kernel, in one number format or layout, or whose first call
    takes seconds.
    """
    return _kind_workload(KINDS[kind], batch)


@case(family="convolutions", kernel=[1, 3, 5, 7], batch=[4], channels=[64], image=[28])
def conv_kernel(kernel: int, batch: int, channels: int, image: int) -> Workload:
    """A convolution with a square kernel of `kernel` pixels a side, as many out as in.

    Guards: kernel sizes for which a library has no fast algorithm.
    """
    kind = ConvolutionKind(channels, channels, (kernel, kernel), (image, image), padding=kernel // 2)
    return _kind_workload(kind, batch)


def _kind_workload(kind: ConvolutionKind, batch: int) -> Workload:
    inputs = kind.tensors(batch)
    return Workload(
        FunctionModel(kind.function),
        inputs,
        items=batch,
        unit="samples",
        flops=kind.flops(batch),
        rotated=True,
    )


@case(
    family="convolutions",
    kind=["pointwise", "stem", "depthwise", "grouped", "dilated", "transposed", "sequence", "block3d"],
    batch=[1],
)
def convolution_backward(kind: str, batch: int) -> Workload:
    """The gradients of a convolution at its inputs and weights, alone.

    Guards: a backward kernel that falls to a reference one while the forward one stays.
    """
    chosen = KINDS[kind]
    return Workload(
        Backward(chosen.function),
        chosen.tensors(batch),
        items=batch,
        unit="samples",
        flops=2 * chosen.flops(batch),
    )


#: Lengths of one input after the other, none a multiple of another.
_LENGTHS = (61, 67, 71, 73, 79, 83, 89, 97)


@case(family="convolutions", kind=["sequence", "transposed1d"], batch=[1])
def convolution_lengths(kind: str, batch: int) -> Workload:
    """A convolution over inputs of eight lengths in turn; metric `new_shape` is the first call of each.

    Guards: a primitive that is made anew for every length, in seconds, or thrown away between calls.
    """
    chosen = KINDS[kind]
    first, *others = (chosen.tensors(batch, (length,)) for length in _LENGTHS)
    return Workload(
        FunctionModel(chosen.function), first, items=batch, unit="samples", variants=tuple(others)
    )
