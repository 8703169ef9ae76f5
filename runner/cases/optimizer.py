"""An optimizer's step over the weights of transformer layers, with next to nothing before it."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..worker.case import Workload, case
from .bert import BASE, BertLayer


class _HandGradients(torch.autograd.Function):
    """Passes a loss through; its backward leaves the stored gradients at the weights, without copying."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, model: "StoredGradients") -> Tensor:
        ctx.model = model
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[None, None]:
        ctx.model.hand_out(outer[0])
        return None, None


class StoredGradients(nn.Module):
    """Weights w with the loss sum(w * g), whose gradient is g at any w: drawn once, and kept.

    Through autograd, every gradient would be written anew in every step, an eighth of what AdamW moves and,
    on a GPU, more launches than its fused kernel has. The loss that `forward` returns covers the smallest
    weight alone, for the same reason. Gradients cannot be scaled, nor shared between ranks, who wait for what
    autograd writes: NotImplementedError under a GradScaler and where torch.distributed is in use.
    """

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(BertLayer(BASE) for _ in range(layers)))
        self.weights = tuple(self.layers.parameters())
        for index, weight in enumerate(self.weights):
            self.register_buffer(f"gradient_{index}", torch.randn_like(weight), persistent=False)
        self._smallest = min(range(len(self.weights)), key=lambda index: self.weights[index].numel())
        self._unscaled = False

    def forward(self) -> Tensor:
        weight, gradient = self.weights[self._smallest], self.get_buffer(f"gradient_{self._smallest}")
        return _HandGradients.apply((weight * gradient).sum(), self)

    def hand_out(self, outer: Tensor) -> None:
        """Make the stored gradients those of the weights; `outer` is the gradient of the loss, to be 1."""
        if not self._unscaled:
            # Once: reading a number from a GPU waits for it.
            if float(outer) != 1.0:
                raise NotImplementedError("stored gradients cannot be scaled, and fp32 ones need not be")
            if torch.distributed.is_available() and torch.distributed.is_initialized():
                raise NotImplementedError("stored gradients cannot be shared between ranks")
            self._unscaled = True
        for index, weight in enumerate(self.weights):
            weight.grad = self.get_buffer(f"gradient_{index}")


@case(family="optimizers", phases=("train",), layers=[1, 12])
def optimizer_step(layers: int) -> Workload:
    """AdamW over the 7.1 million weights of each layer of BERT-base; axis `optimizer` says which AdamW."""
    model = StoredGradients(layers)
    return Workload(
        model,
        (),
        items=sum(weight.numel() for weight in model.weights),
        unit="weights",
        loss=lambda loss: loss,
    )


_DEFAULTS: dict[str, Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    # It had no default rate before PyTorch 2.3.
    "sgd": partial(torch.optim.SGD, lr=1e-3),
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
}


class DefaultStep(nn.Module):
    """A step of an optimizer that was made with nothing but the weights, whose gradients stand.

    Answers nothing: the weights change from step to step, so that there is no answer to compare.
    """

    def __init__(self, kind: str, weights: tuple[nn.Parameter, ...]) -> None:
        super().__init__()
        self.weights = nn.ParameterList(weights)
        self._make = _DEFAULTS[kind]
        self._optimizer: torch.optim.Optimizer | None = None

    def forward(self) -> None:
        if self._optimizer is None:
            for weight in self.weights:
                weight.grad = torch.full_like(weight, 1e-3)
            self._optimizer = self._make(self.weights)
        self._optimizer.step()


@case(family="optimizers", kind=["adam", "adamw", "sgd", "adagrad", "rmsprop"], layers=[1])
def default_optimizer(kind: str, layers: int) -> Workload:
    """The step of an optimizer made with nothing but the weights, such as `Adam(weights)`.

    Guards: PyTorch's own choice of implementation, which changes with versions, and its memory.
    """
    weights = tuple(one for _ in range(layers) for one in BertLayer(BASE).parameters())
    return Workload(DefaultStep(kind, weights), (), items=sum(one.numel() for one in weights), unit="weights")


class ClippedGradients(nn.Module):
    """Gradients whose norm is clipped, in place; it answers nothing, since they change from step to step."""

    def __init__(self, weights: tuple[nn.Parameter, ...]) -> None:
        super().__init__()
        self.weights = nn.ParameterList(weights)

    def forward(self) -> None:
        for weight in self.weights:
            if weight.grad is None:
                weight.grad = torch.full_like(weight, 1e-3)
        nn.utils.clip_grad_norm_(self.weights, 1.0)


@case(family="optimizers", layers=[1])
def gradient_clipping(layers: int) -> Workload:
    """The norm of all gradients of a transformer layer, to which they are then clipped.

    Guards: norms that are taken one by one, and a number that a GPU has to be waited for.
    """
    weights = tuple(one for _ in range(layers) for one in BertLayer(BASE).parameters())
    return Workload(ClippedGradients(weights), (), items=sum(one.numel() for one in weights), unit="weights")


@case(
    family="optimizers",
    kind=["adam", "adamw", "sgd", "adagrad", "rmsprop", "clipping"],
    count=[500],
)
def small_weights(kind: str, count: int) -> Workload:
    """The step of a default optimizer over many tensors of 64 numbers, or the clipping of their gradients.

    Guards: what each tensor costs before its kernel, in a loop over the weights or in making lists of them.
    """
    weights = tuple(nn.Parameter(torch.randn(64)) for _ in range(count))
    model = ClippedGradients(weights) if kind == "clipping" else DefaultStep(kind, weights)
    return Workload(model, (), items=count, unit="tensors")
