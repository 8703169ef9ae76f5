"""Inputs whose shapes vary: images of several sizes, and sentences padded to the longest of all."""

import torch
from torch.nn import functional as F

from ...worker.case import Workload, case
from ..bert import BASE, MIDDLE_LENGTH, Bert, dynamic_lengths, operations
from ..bert import draw as draw_tokens
from ..resnet import ResNet50


@case(family="convolutional networks", batch=[1], largest=[64, 224])
def image_sizes(batch: int, largest: int) -> Workload:
    """ResNet-50 over images of three sizes in turn: `largest` pixels a side, three quarters and half of it.

    Guards: a compilation for each size, where one for all of them was made before. Metrics `new_shape` and
    `known_shape` are the first and the second call of a size: what a service spares its users by warming up.
    """
    first, *others = (
        (torch.randn(batch, 3, side, side),) for side in (largest, largest * 3 // 4, largest // 2)
    )
    return Workload(ResNet50(), first, items=batch, unit="images", variants=tuple(others))


@case(family="transformers", batch=[4], layers=[2], lengths=[3, 9])
def padded_lengths(batch: int, layers: int, lengths: int) -> Workload:
    """The sentences of `dynamic_shapes`, each padded to the longest, as a graph of one shape wants them.

    Items are the tokens without the padding: its throughput against that of `dynamic_shapes` is what the
    padding costs. Nothing is masked; a mask would make the padding no cheaper.

    Guards: kernels that become slower at one length, which the other case spreads over several.
    """
    sizes = dynamic_lengths(lengths)
    longest = max(sizes)
    first, *others = (
        tuple(F.pad(one, (0, longest - tokens)) for one in draw_tokens(batch, tokens)) for tokens in sizes
    )
    return Workload(
        Bert(layers, BASE),
        first,
        items=batch * MIDDLE_LENGTH,
        unit="tokens",
        flops=operations(batch, longest, layers, BASE),
        variants=tuple(others),
    )
