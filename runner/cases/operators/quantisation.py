"""Numbers of eight bits by PyTorch's own types: rounded, joined, added, and imitated as training does."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ...worker.case import Workload, case
from ...worker.prepared_case import UnsupportedCase
from .operator import FunctionModel

#: The distance between two of the 256 numbers, and which of them is zero.
_SCALE, _ZERO = 0.05, 128


def _quantise(numbers: Tensor) -> Tensor:
    # The types of eight bits are made of fp32 alone.
    return torch.quantize_per_tensor(numbers.float(), _SCALE, _ZERO, torch.quint8)


def _fake_quantise(images: Tensor) -> Tensor:
    return torch.fake_quantize_per_tensor_affine(images.float(), _SCALE, _ZERO, 0, 255)


def _fake_quantise_by_channel(images: Tensor) -> Tensor:
    channels = images.shape[1]
    scales = torch.linspace(_SCALE, 2 * _SCALE, channels, device=images.device)
    zeros = torch.full((channels,), _ZERO, dtype=torch.int32, device=images.device)
    return torch.fake_quantize_per_channel_affine(images.float(), scales, zeros, 1, 0, 255)


#: Numbers that share a scale, and the binary exponent of the largest number of e4m3, 448.
_MX_BLOCK, _MX_EXPONENT = 32, 8


def _microscale(images: Tensor) -> tuple[Tensor, Tensor]:
    """Bytes of the numbers in e4m3, and of the power of two that 32 of them share (mxfp8).

    Source: OCP Microscaling Formats (MX) Specification 1.0, section 6.3.
    """
    blocks = images.float().unflatten(-1, (-1, _MX_BLOCK))
    largest = blocks.abs().amax(-1, keepdim=True)
    # The exponent's bits of fp32 have the bias of the scale, 127.
    shared = ((largest.view(torch.int32) >> 23) - _MX_EXPONENT).clamp(0, 254)
    scaled = blocks * torch.exp2((127 - shared).float())
    rounded = scaled.clamp(-448.0, 448.0).to(torch.float8_e4m3fn)
    return rounded.view(torch.uint8).flatten(-2), shared.to(torch.uint8).flatten(-2)


class RoundedInputModel(nn.Module):
    """A function of numbers of eight bits, to which the inputs of the first call are rounded and kept.

    Later calls ignore their inputs: a workload gives this model one set, not `rotated`.
    """

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self._function = function
        self._kept: tuple[Tensor, ...] = ()

    def forward(self, *inputs: Tensor) -> Tensor:
        if not self._kept:
            self._kept = tuple(map(_quantise, inputs))
        return self._function(*self._kept)


def _concatenate(left: Tensor, right: Tensor) -> Tensor:
    return torch.cat((left, right), 1).int_repr()


def _add(left: Tensor, right: Tensor) -> Tensor:
    return torch.ops.quantized.add(left, right, 2 * _SCALE, _ZERO).int_repr()


_ON_ROUNDED: dict[str, Callable[..., Tensor]] = {
    "from_integers": lambda left, right: left.dequantize(),
    "cat": _concatenate,
    "add": _add,
}
_ON_NUMBERS: dict[str, Callable[[Tensor], Any]] = {
    "to_integers": lambda images: _quantise(images).int_repr(),
    "fake_tensor": _fake_quantise,
    "fake_channel": _fake_quantise_by_channel,
    "mxfp8": _microscale,
}


@case(
    family="elementwise",
    kind=["to_integers", "from_integers", "cat", "add", "fake_tensor", "fake_channel", "mxfp8"],
    rows=[512],
    width=[512],
)
def quantised(kind: str, rows: int, width: int) -> Workload:
    """Quantised numbers: images rounded to eight bits and back, joined, added; rounding imitated in fp32.

    `fake_tensor` and `fake_channel` are what quantisation-aware training does to activations and weights;
    `mxfp8` is what comes before a product in that format, and a compiler is to make one kernel of it.

    Guards: kernels for eight bits that go number by number, or by way of fp32.
    """
    needed = "float8_e4m3fn" if kind == "mxfp8" else "quantize_per_tensor"
    if not hasattr(torch, needed):
        raise UnsupportedCase(f"this version of PyTorch ({torch.__version__}) has no torch.{needed}")
    if kind in _ON_ROUNDED:
        inputs = torch.randn(rows, width), torch.randn(rows, width)
        return Workload(RoundedInputModel(_ON_ROUNDED[kind]), inputs, items=rows, unit="rows")
    images = torch.randn(1, 3, rows, width)
    return Workload(FunctionModel(_ON_NUMBERS[kind]), (images,), items=1, unit="images", rotated=True)
