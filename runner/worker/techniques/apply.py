"""From a case key to a prepared case: memory format, checkpointing and limits, then each technique."""

import os
from collections.abc import Callable
from typing import Any

import torch

from ..case import Workload
from ..case_key import CaseKey
from ..prepared_case import Preparation, PreparedCase, UnknownCase, UnsupportedCase, begin, finish, make
from ..variables import ALLOCATOR_VARIABLE
from . import compilation, export, graphs, kernels, precision

#: The share of the device's memory that axis `memory` leaves to PyTorch's allocator.
FRACTIONS = {"all": 1.0, "0.8": 0.8, "half": 0.5, "quarter": 0.25}


def apply_storage(prep: Preparation) -> None:
    """Do what the axes `memory`, `layout`, `checkpoint` and `optimizer` say before anything is computed."""
    limit(prep.key, prep.device)
    _require_allocator(prep)
    _channels_last(prep)
    _checkpoint(prep)
    if (optimizer := prep.key.axis("optimizer")) != "fused" and not prep.training:
        raise UnsupportedCase(f"optimizer={optimizer} is for training: inference takes no optimizer's step")


def limit(key: CaseKey, device: str) -> None:
    """Leave PyTorch's allocator the share of the device that axis `memory` names."""
    if (share := key.axis("memory")) == "all":
        return
    if not device.startswith("cuda"):
        raise UnsupportedCase(
            f"memory={share} limits PyTorch's allocator for CUDA, and this device is {device}"
        )
    torch.cuda.set_per_process_memory_fraction(FRACTIONS[share], _index(device))


def lift_limit(key: CaseKey, device: str) -> None:
    """Give the whole device back, after measuring."""
    if key.axis("memory") != "all":
        torch.cuda.set_per_process_memory_fraction(1.0, _index(device))


def _index(device: str) -> int:
    return torch.device(device).index if ":" in device else torch.cuda.current_device()


def _require_allocator(prep: Preparation) -> None:
    """Raise UnsupportedCase where axis `device_allocator` has no device, or the process began without it."""
    allocator = prep.key.axis("device_allocator")
    if allocator == "default":
        return
    if not prep.device.startswith("cuda"):
        raise UnsupportedCase(
            f"device_allocator={allocator} is PyTorch's allocator for CUDA, and this device is {prep.device}"
        )
    if not os.environ.get(ALLOCATOR_VARIABLE):
        raise UnsupportedCase(
            f"device_allocator={allocator} takes {ALLOCATOR_VARIABLE} before the process begins"
        )


def _channels_last(prep: Preparation) -> None:
    if prep.key.axis("layout") == "contiguous":
        return
    if not any(tensor.dim() == 4 for inputs in prep.inputs for tensor in inputs):
        raise UnsupportedCase(
            "layout=channels-last is for images: no input of this workload has 4 dimensions"
        )
    # Of the model, this changes parameters and buffers with 4 dimensions and no others.
    prep.model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    prep.inputs = tuple(tuple(_as_image(tensor) for tensor in inputs) for inputs in prep.inputs)


def _as_image(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def _checkpoint(prep: Preparation) -> None:
    if prep.key.axis("checkpoint") == "off":
        return
    if not prep.training:
        raise UnsupportedCase("checkpoint=on is for training: inference keeps no activations")
    if not prep.workload.checkpointed:
        raise UnsupportedCase(
            "checkpoint=on needs a workload that names the blocks to wrap, and this one does not"
        )
    for name in prep.workload.checkpointed:
        block = prep.model.get_submodule(name)
        # Instead of a wrapping module, which would give every parameter of the model another name.
        block.forward = _checkpoint_forward(block.forward)
    prep.facts["checkpointed"] = len(prep.workload.checkpointed)


def _checkpoint_forward(forward: Callable[..., Any]) -> Callable[..., Any]:
    from torch.utils.checkpoint import checkpoint

    def recompute(*inputs: Any, **others: Any) -> Any:
        return checkpoint(forward, *inputs, use_reentrant=False, **others)

    return recompute


#: Each changes the preparation for the axes it knows and leaves it alone where they have their defaults.
IN_ORDER = (apply_storage, precision.apply, kernels.apply, export.apply, compilation.apply, graphs.apply)

#: The axes a closure can be measured under: what surrounds or compiles the call.
_FOR_CLOSURES = (
    "compile",
    "dynamic",
    "wrapper",
    "freezing",
    "precision",
    "cpus",
    "threads",
    "omp",
    "allocator",
    "memory",
)

#: The precisions that are a matter of surroundings.
_FORMATS_FOR_CLOSURES = ("fp32", "tf32", "amp-fp16", "amp-bf16")


def build(key: CaseKey, device: str, seed: int) -> PreparedCase:
    """The case of `key` with seeded weights and inputs on `device`, under its technique, in this process.

    Raises UnknownCase for a key that fits no case, UnsupportedCase for a technique that cannot be had here.
    """
    made = make(key, seed)
    if isinstance(made, Workload):
        return apply_techniques(begin(key, device, made))
    return _closure(key, device, made)


def apply_techniques(prep: Preparation) -> PreparedCase:
    """Apply every technique of the preparation's key and make its prepared case."""
    for apply in IN_ORDER:
        apply(prep)
    return finish(prep)


def _closure(key: CaseKey, device: str, function: Callable[[], object]) -> PreparedCase:
    if key.phase != "infer":
        raise UnknownCase(f"case {key.name} is a closure and has no phase {key.phase}")
    if beyond := [axis for axis, _ in key.technique if axis not in _FOR_CLOSURES]:
        raise UnsupportedCase(f"a case given as a closure has no model to put under {beyond[0]}")
    if (number := key.axis("precision")) not in _FORMATS_FOR_CLOSURES:
        raise UnsupportedCase(f"a case given as a closure has no model to put into {number}")
    if key.axis("dynamic") == "mark":
        raise UnsupportedCase("a case given as a closure has no inputs to mark as dynamic")
    if key.axis("freezing") == "on" and torch.is_grad_enabled():
        raise UnsupportedCase(
            "freezing=on takes a closure that is called without gradients: torch.set_grad_enabled(False)"
        )
    limit(key, device)
    called: Callable[..., Any] = compilation.compile_function(key, device, function)
    context = precision.context(key, device)

    # As it stands: what surrounds the call, gradients included, is the closure's own business.
    def step() -> Any:
        with context():
            return called()

    return PreparedCase(key, step if key.axis("precision") != "fp32" else called, None, 1, "steps", None)
