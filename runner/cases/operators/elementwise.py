"""Operators that work number by number or row by row: broadcasts, casts, copies, normalisation, losses."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...worker.case import Workload, case
from .operator import Backward, FunctionModel


class Softmax(nn.Module):
    """Over the last dimension."""

    def forward(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)


@case(family="elementwise", rows=[4096], columns=[512, 4096])
def softmax(rows: int, columns: int) -> Workload:
    """Softmax along rows: bound by memory, so its items per second are bytes in disguise."""
    scores = torch.randn(rows, columns)
    return Workload(Softmax(), (scores,), items=rows, unit="rows", rotated=True)


class LayerNormGelu(nn.Module):
    """GELU of the normalised rows (rows, width), with scale and shift of (width,)."""

    def forward(self, rows: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        return F.gelu(F.layer_norm(rows, scale.shape, scale, shift))


@case(family="elementwise", rows=[4096], width=[768, 1024])
def layernorm_gelu(rows: int, width: int) -> Workload:
    """Layer normalisation, then GELU: what fusion is worth in its simplest case."""
    inputs = torch.randn(rows, width), 1.0 + 0.1 * torch.randn(width), torch.randn(width)
    return Workload(LayerNormGelu(), inputs, items=rows, unit="rows", rotated=True)


class CrossEntropy(nn.Module):
    """Mean over rows of -log softmax(logits) at the target; logits (rows, classes), targets (rows,)."""

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits, targets)


@case(family="elementwise", rows=[512], classes=[1000, 50257])
def cross_entropy(rows: int, classes: int) -> Workload:
    """Cross-entropy of random logits; 512 rows over GPT-2's vocabulary are a batch of 4 at 128 tokens."""
    inputs = torch.randn(rows, classes), torch.randint(classes, (rows,))
    return Workload(CrossEntropy(), inputs, items=rows, unit="rows", rotated=True)


def _channels_last(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last)


def _chain(rows: Tensor, other: Tensor) -> Tensor:
    return torch.sigmoid(rows * 1.5 + other).mul(rows).add(0.1).tanh()


def _polynomials(rows: Tensor, other: Tensor) -> Tensor:
    """A ratio of two polynomials with roots among their terms, as an equation of state in physics."""
    upper, lower = rows, other
    for number in range(1, 7):
        upper = upper * rows / 8 + other / number
        lower = lower * other / 8 + rows.abs().sqrt() / number
    return upper / (1 + lower.square())


def _stencil(rows: Tensor, other: Tensor) -> Tensor:
    """Each number with its four neighbours, whose slopes are limited; zero along the border."""
    across, down = rows[1:-1, 2:] - rows[1:-1, :-2], rows[2:, 1:-1] - rows[:-2, 1:-1]
    slope = torch.where(across * down > 0, across / (1 + down.abs()), other[1:-1, 1:-1])
    result = torch.zeros_like(rows)
    result[1:-1, 1:-1] = rows[1:-1, 1:-1] + slope.clamp(-1.0, 1.0)
    return result


def _cast(rows: Tensor) -> Tensor:
    return rows.to(torch.bfloat16).to(torch.float16).to(torch.float32)


def _quantise(rows: Tensor) -> Tensor:
    return (rows * 20.0).round().clamp(-128.0, 127.0).to(torch.int8)


def _rms_norm(rows: Tensor) -> Tensor:
    return rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + 1e-6)


def _group_norm(rows: Tensor) -> Tensor:
    return F.group_norm(rows.unflatten(-1, (32, -1)), 32).flatten(1)


def _in_place(rows: Tensor) -> Tensor:
    return rows.clone().mul_(1.5).add_(0.1).sigmoid_()


def _complex(rows: Tensor) -> Tensor:
    """The magnitudes of squares of complex numbers, each of which is two of a row."""
    numbers = torch.view_as_complex(rows.unflatten(-1, (-1, 2)))
    return (numbers * numbers + 1.0).abs()


def _shape(kind: str, rows: int, width: int) -> tuple[tuple[int, ...], ...]:
    """The shapes of the inputs of an elementwise operator."""
    if kind == "channels_last":
        return ((rows // 256, 16, 16, width),)
    if kind == "channels_first":
        return ((rows // 256, 16, width, 16),)
    shapes: dict[str, tuple[tuple[int, ...], ...]] = {
        "broadcast_row": ((rows, width), (width,)),
        "broadcast_column": ((rows, width), (rows, 1)),
        "cat": ((rows, width), (rows, width)),
        "stack": ((rows, width), (rows, width)),
        "add": ((rows, width), (rows, width)),
        "chain": ((rows, width), (rows, width)),
        "polynomials": ((rows, width), (rows, width)),
        "stencil": ((rows, width), (rows, width)),
    }
    return shapes.get(kind, ((rows, width),))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda rows, other: rows + other,
    "broadcast_row": lambda rows, other: rows + other,
    "broadcast_column": lambda rows, other: rows * other,
    "cast": _cast,
    "transposed_copy": lambda rows: rows.t().contiguous(),
    "channels_last": _channels_last,
    "chain": _chain,
    "exp": lambda rows: rows.exp(),
    "gelu": F.gelu,
    "silu": F.silu,
    "tanh": lambda rows: rows.tanh(),
    "sin": lambda rows: rows.sin(),
    "power": lambda rows: torch.pow(2.0, rows),
    "clamp": lambda rows: rows.clamp(-1.0, 1.0),
    "where": lambda rows: torch.where(rows > 0, rows, -0.1 * rows),
    "cat": lambda rows, other: torch.cat([rows, other, rows], -1),
    "stack": lambda rows, other: torch.stack([rows, other], 1),
    "unbind": lambda rows: torch.stack(rows.unbind()),
    "quantise": _quantise,
    "flip": lambda rows: rows.flip(0),
    "tril": lambda rows: rows.tril(),
    "pad": lambda rows: F.pad(rows, (3, 5)),
    "nan_to_num": lambda rows: rows.nan_to_num(),
    "remainder": lambda rows: rows.remainder(0.7),
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "polynomials": _polynomials,
    "stencil": _stencil,
    "log": lambda rows: rows.log(),
    "log2": lambda rows: rows.log2(),
    "log10": lambda rows: rows.log10(),
    "sinh": lambda rows: rows.sinh(),
    "cosh": lambda rows: rows.cosh(),
    "atan": lambda rows: rows.atan(),
    "erf": lambda rows: rows.erf(),
    "sigmoid": lambda rows: rows.sigmoid(),
    "hardswish": F.hardswish,
    "leaky_relu": lambda rows: F.leaky_relu(rows, 0.1),
    "in_place": _in_place,
    "channels_first": lambda rows: rows.permute(0, 3, 1, 2).contiguous(),
    "complex": _complex,
}

#: Functions of numbers above zero.
_OF_POSITIVE = ("log", "log2", "log10")


@case(
    family="elementwise",
    kind=[
        "add",
        "broadcast_row",
        "broadcast_column",
        "cast",
        "transposed_copy",
        "channels_last",
        "chain",
        "exp",
        "gelu",
        "silu",
        "tanh",
        "sin",
        "power",
        "clamp",
        "where",
        "cat",
        "stack",
        "unbind",
        "quantise",
        "flip",
        "tril",
        "pad",
        "nan_to_num",
        "remainder",
        "rms_norm",
        "group_norm",
        "polynomials",
        "stencil",
        "log",
        "log2",
        "log10",
        "sinh",
        "cosh",
        "atan",
        "erf",
        "sigmoid",
        "hardswish",
        "leaky_relu",
        "in_place",
        "channels_first",
        "complex",
    ],
    rows=[256, 4096],
    width=[512],
)
def elementwise(kind: str, rows: int, width: int) -> Workload:
    """One operator number by number: sums, broadcasts, casts, functions, copies of layouts, cat and stack.

    `unbind` takes rows apart and stacks them again, `quantise` rounds to int8, `rms_norm` divides each row by
    its root mean square as Llama's source does, `group_norm` normalises 32 groups of a row. `polynomials` and
    `stencil` are chains of dozens, from models of physics: within each number, and over slices of its
    neighbours. `channels_first` copies images whose channels are stored last, `complex` takes pairs for
    complex numbers.

    Guards: a loop that is no longer vectorised or parallel, a copy that goes number by number, and chains
    that a compiler no longer fuses.
    """
    inputs = tuple(torch.randn(shape) for shape in _shape(kind, rows, width))
    if kind in _OF_POSITIVE:
        inputs = tuple(one.abs() + 0.1 for one in inputs)
    return Workload(FunctionModel(_FUNCTIONS[kind]), inputs, items=rows, unit="rows", rotated=True)


def _layer_norm(rows: Tensor) -> Tensor:
    return F.layer_norm(rows, rows.shape[-1:])


_BACKWARD: dict[str, Callable[..., Tensor]] = {
    **{
        name: _FUNCTIONS[name]
        for name in ("add", "broadcast_row", "broadcast_column", "chain", "gelu", "silu", "cat", "rms_norm")
    },
    "softmax": lambda rows: rows.softmax(-1),
    "layer_norm": _layer_norm,
    "batch_norm": lambda rows: F.batch_norm(rows, None, None, training=True),
}


@case(
    family="elementwise",
    kind=[
        "add",
        "broadcast_row",
        "broadcast_column",
        "chain",
        "gelu",
        "silu",
        "cat",
        "rms_norm",
        "softmax",
        "layer_norm",
        "batch_norm",
    ],
    rows=[4096],
    width=[512],
)
def elementwise_backward(kind: str, rows: int, width: int) -> Workload:
    """The gradients of one operator alone; a broadcast's gradient is a sum over what was broadcast.

    Guards: a gradient that is copied or expanded in memory before it is summed.
    """
    inputs = tuple(torch.randn(shape) for shape in _shape(kind, rows, width))
    return Workload(Backward(_BACKWARD[kind]), inputs, items=rows, unit="rows")


class BatchNorm(nn.Module):
    """Batch normalisation with the statistics of the batch, then ReLU."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))
        self.shift = nn.Parameter(torch.zeros(channels))

    def forward(self, images: Tensor) -> Tensor:
        return F.batch_norm(images, None, None, self.scale, self.shift, training=True).relu()


@case(family="elementwise", batch=[8], channels=[64], side=[56])
def batch_norm(batch: int, channels: int, side: int) -> Workload:
    """Batch normalisation by the batch's own statistics, then ReLU.

    Guards: statistics that are taken in two passes, or in one thread.
    """
    images = torch.randn(batch, channels, side, side)
    return Workload(BatchNorm(channels), (images,), items=batch, unit="images", rotated=True)
