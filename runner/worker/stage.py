"""A case on stage: built from its key, under its technique, ready to be called."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .case import REGISTER, Workload
from .case_key import CaseKey

#: Small enough that training changes no number's size, large enough to be a real update.
LEARNING_RATE = 1e-5


class UnknownCase(LookupError):
    """The key names a workload that this harness does not have, or parameters it does not take."""


@dataclass
class Stage:
    """The callable that is timed and what surrounds it.

    `step()` runs one inference (returning the model's output) or one training step (returning the loss,
    gradients left in place). `model` is None for a case given as a closure.
    """

    key: CaseKey
    step: Callable[[], Any]
    model: torch.nn.Module | None
    items: int
    unit: str
    flops: float | None

    @property
    def dtype(self) -> str | None:
        """What the model's weights are kept in."""
        first = None if self.model is None else next(self.model.parameters(), None)
        return None if first is None else str(first.dtype)

    @property
    def parameters(self) -> int | None:
        """Number of trained numbers, each shared tensor counted once."""
        return None if self.model is None else sum(p.numel() for p in self.model.parameters())


def build(key: CaseKey, device: str, seed: int) -> Stage:
    """Build the workload of `key` with seeded weights and inputs, moved to `device`, under its technique."""
    made = _make(key, seed)
    if not isinstance(made, Workload):
        if key.phase != "infer":
            raise UnknownCase(f"case {key.name} is a closure and has no phase {key.phase}")
        compiled = torch.compile(made) if key.axis("compile") != "none" else made
        # As it stands: what surrounds the call, gradients included, is the closure's own business.
        step = compiled if key.axis("precision") == "fp32" else _autocasted(compiled, key, device)
        return Stage(key, step, None, 1, "steps", None)
    model = made.model.to(device)
    inputs = tuple(tensor.to(device) for tensor in made.inputs)
    called = torch.compile(model) if key.axis("compile") != "none" else model
    if key.phase == "train":
        flops = None if made.flops is None else 3 * made.flops
        step = _training_step(key, device, made, model, called, inputs)
    else:
        flops = made.flops
        model.eval()
        step = _inference_step(key, device, called, inputs)
    return Stage(key, step, model, made.items, made.unit, flops)


def _make(key: CaseKey, seed: int) -> Any:
    registered = REGISTER.get(key.name)
    if registered is None:
        raise UnknownCase(f"no case is named {key.name!r}")
    if key.phase not in registered.phases:
        raise UnknownCase(f"case {key.name} has no phase {key.phase}: one of {', '.join(registered.phases)}")
    given = dict(key.parameters)
    if sorted(given) != sorted(registered.grid):
        raise UnknownCase(f"case {key.name} takes {sorted(registered.grid)}, not {sorted(given)}")
    torch.manual_seed(seed)
    return registered.build(**given)


def _autocast(key: CaseKey, device: str) -> contextlib.AbstractContextManager[Any]:
    if key.axis("precision") == "amp-bf16":
        return torch.autocast(device.split(":")[0], dtype=torch.bfloat16)
    return contextlib.nullcontext()


def _autocasted(function: Callable[[], Any], key: CaseKey, device: str) -> Callable[[], Any]:
    def step() -> Any:
        with _autocast(key, device):
            return function()

    return step


def _inference_step(
    key: CaseKey, device: str, called: Callable[..., Any], inputs: tuple[torch.Tensor, ...]
) -> Callable[[], Any]:
    def step() -> Any:
        with torch.no_grad(), _autocast(key, device):
            return called(*inputs)

    return step


def _training_step(
    key: CaseKey,
    device: str,
    made: Workload,
    model: torch.nn.Module,
    called: Callable[..., Any],
    inputs: tuple[torch.Tensor, ...],
) -> Callable[[], torch.Tensor]:
    loss_of = made.loss
    if loss_of is None:
        raise UnknownCase(f"case {key.name} has no loss and cannot train")
    model.train()
    optimizer = _optimizer(model)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        with _autocast(key, device):
            loss = loss_of(called(*inputs))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def _optimizer(model: torch.nn.Module) -> torch.optim.Optimizer:
    """AdamW, fused where this PyTorch has it for the model's device."""
    try:
        return torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)
    except RuntimeError:
        return torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
