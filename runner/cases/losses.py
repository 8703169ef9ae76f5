"""The losses of training cases, against random targets: cross-entropy, and squared error for images."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F


def cross_entropy(*shape: int, classes: int) -> Callable[[Tensor], Tensor]:
    """A loss for logits of shape (*shape, classes), against targets drawn now from torch's generator.

    The targets follow the logits to their device at the first call, which is a warm-up call, so that a
    measured or captured step copies nothing. The loss is computed in fp32 whatever the logits are:
    autocast does so on CUDA, and a case has to compute the same thing everywhere.
    """
    targets = torch.randint(classes, shape).flatten()

    def loss(logits: Tensor) -> Tensor:
        nonlocal targets
        if targets.device != logits.device:
            targets = targets.to(logits.device)
        return F.cross_entropy(logits.flatten(0, -2).float(), targets)

    return loss


def squared_error(*shape: int) -> Callable[[Tensor], Tensor]:
    """The mean squared error of an output of `shape`, computed in fp32, against normal targets drawn now.

    What a diffusion model is trained with: the noise is its target. The targets move as those above do.
    """
    targets = torch.randn(shape)

    def loss(output: Tensor) -> Tensor:
        nonlocal targets
        if targets.device != output.device:
            targets = targets.to(output.device)
        return F.mse_loss(output.float(), targets)

    return loss
