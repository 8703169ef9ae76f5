"""Operators on images besides convolutions: pooling, resizing, warping, padding, normalisation of groups."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from ...worker.case import Workload, case
from .operator import Backward, FunctionModel


def _warp(images: Tensor, turns: Tensor) -> Tensor:
    """The images sampled bilinearly where `turns`, an affine matrix for each, place their pixels.

    `turns` has no gradient: it is a sum of terms that cancel, and off by 4 % in fp32.
    """
    grid = F.affine_grid(turns.detach(), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def _thumbnails(images: Tensor) -> Tensor:
    return F.interpolate(images, scale_factor=0.5, mode="bilinear", antialias=True)


def _inputs(kind: str, batch: int, channels: int, side: int) -> tuple[Tensor, ...]:
    if kind == "uint8":
        return (torch.randint(256, (batch, channels, side, side), dtype=torch.uint8),)
    images = torch.randn(batch, channels, side, side)
    if kind != "warp":
        return (images,)
    # A rotation by a sixth of a radian.
    return images, torch.tensor([[0.986, -0.166, 0.0], [0.166, 0.986, 0.0]]).repeat(batch, 1, 1)


_ON_IMAGES: dict[str, Callable[..., Tensor]] = {
    "max_pool": lambda images: F.max_pool2d(images, 3, 2, 1),
    "average_pool": lambda images: F.avg_pool2d(images, 3, 2, 1),
    "adaptive_pool": lambda images: F.adaptive_avg_pool2d(images, 7),
    "nearest": lambda images: F.interpolate(images, scale_factor=2.0, mode="nearest"),
    "bilinear": lambda images: F.interpolate(images, scale_factor=2.0, mode="bilinear"),
    "bicubic": lambda images: F.interpolate(images, scale_factor=2.0, mode="bicubic"),
    "antialias": _thumbnails,
    "uint8": _thumbnails,
    "warp": _warp,
    "reflect": lambda images: F.pad(images, (1, 1, 1, 1), mode="reflect"),
    "unfold": lambda images: F.unfold(images, 3, padding=1),
    "pixel_shuffle": lambda images: F.pixel_shuffle(images, 2),
    "channel_shuffle": lambda images: F.channel_shuffle(images, 8),
    "group_norm": lambda images: F.group_norm(images, 8),
    "instance_norm": lambda images: F.instance_norm(images),
}


@case(
    family="indexing and reductions",
    kind=[
        "max_pool",
        "average_pool",
        "adaptive_pool",
        "nearest",
        "bilinear",
        "bicubic",
        "antialias",
        "uint8",
        "warp",
        "reflect",
        "unfold",
        "pixel_shuffle",
        "channel_shuffle",
        "group_norm",
        "instance_norm",
    ],
    batch=[4],
    channels=[64],
    side=[56],
)
def on_images(kind: str, batch: int, channels: int, side: int) -> Workload:
    """One operator on images: pooling, resizing, warping, padding, windows as columns, norms of groups.

    `uint8` halves images of 8-bit integers, as an input pipeline does.

    Guards: a kernel for one layout that is lost, so that images are copied or read number by number.
    """
    inputs = _inputs(kind, batch, channels, side)
    return Workload(FunctionModel(_ON_IMAGES[kind]), inputs, items=batch, unit="images", rotated=True)


@case(
    family="indexing and reductions",
    kind=["max_pool", "average_pool", "adaptive_pool", "bilinear", "bicubic", "warp", "group_norm"],
    batch=[4],
    channels=[64],
    side=[56],
)
def on_images_backward(kind: str, batch: int, channels: int, side: int) -> Workload:
    """The gradients of pooling, resizing, warping and group norm, alone.

    Guards: gradients that are scattered number by number, or by one thread.
    """
    inputs = _inputs(kind, batch, channels, side)
    return Workload(Backward(_ON_IMAGES[kind]), inputs, items=batch, unit="images")
