"""What the operator cases are made of: a function as a model, and its gradients alone."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class FunctionModel(nn.Module):
    """A function of tensors as a model without weights."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


class Backward(nn.Module):
    """The gradients of a function at its inputs, alone: the forward pass is taken in the first call and kept.

    Answers a tuple with the gradient for each input of floating point that the function uses, where the
    gradient of the output y is cos(y): drawn from no generator, and not near what a normalisation takes out,
    as y itself would be. Later calls ignore their inputs: a workload gives this model one set of
    inputs: no variants, and not `rotated`.
    """

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function
        self._leaves: tuple[Tensor, ...] = ()
        #: The output and the gradient that it is given; nothing before the first call.
        self._kept: tuple[Tensor, Tensor] | None = None

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        if self._kept is None:
            with torch.enable_grad():
                taken = [one.detach().requires_grad_(one.is_floating_point()) for one in inputs]
                self._leaves = tuple(one for one in taken if one.requires_grad)
                output = self.function(*taken)
            self._kept = output, output.detach().cos()
        output, outer = self._kept
        # PyTorch's annotation does not know that an unused input has no gradient.
        found: Any = torch.autograd.grad(output, self._leaves, outer, retain_graph=True, allow_unused=True)
        return tuple(gradient for gradient in found if gradient is not None)
