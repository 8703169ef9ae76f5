"""The loss of training cases: cross-entropy against random targets, which every output shape admits."""

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
