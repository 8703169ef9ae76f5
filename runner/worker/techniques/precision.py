"""Number formats: TF32, autocast with or without a GradScaler, whole models in a smaller type."""

import contextlib
from collections.abc import Callable, Generator, Mapping
from typing import Any

import torch

from ..case_key import CaseKey
from ..measurements import memory
from ..prepared_case import Act, Unsupported
from . import quantised

_AUTOCAST = {"amp-fp16": torch.float16, "amp-bf16": torch.bfloat16}
_WHOLE = {"fp16": torch.float16, "bf16": torch.bfloat16}


def apply(act: Act) -> None:
    """Put the act's model, inputs and surroundings into the precision of its key.

    Metric `model_size`: parameters and buffers in MiB as they are kept, each shared one counted once.
    """
    precision = act.key.axis("precision")
    if precision == "fp32":
        _require_fp32(act)
    act.context = context(act.key, act.device)
    if precision in _WHOLE:
        _cast(act, _WHOLE[precision])
    if precision.startswith("int8-"):
        quantised.apply(act)
    else:
        kept = (*act.model.parameters(), *act.model.buffers())
        act.metrics["model_size"] = sum(one.numel() * one.element_size() for one in kept) / memory.MIB
    if precision == "amp-fp16" and act.training:
        _scale(act)


def context(key: CaseKey, device: str) -> Callable[[], contextlib.AbstractContextManager[Any]]:
    """What makes the context manager around each call; decides on TF32 at once, for the whole process."""
    precision = key.axis("precision")
    if precision == "fp32":
        # Taken at its word: by PyTorch's default cuDNN computes convolutions in TF32.
        _allow_tf32((False, False))
    if precision == "tf32":
        _require_tf32(device)
        _allow_tf32((True, True))
    if precision not in _AUTOCAST:
        return contextlib.nullcontext
    kind, dtype = device.split(":")[0], _AUTOCAST[precision]
    _require_autocast(device, dtype)
    return lambda: torch.autocast(kind, dtype=dtype)


@contextlib.contextmanager
def exact_fp32() -> Generator[None]:
    """fp32 in fact, as a reference needs it, and afterwards whatever was before."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    _allow_tf32((False, False))
    try:
        yield
    finally:
        _allow_tf32(before)


def _allow_tf32(allowed: tuple[Any, Any]) -> None:
    # The older of PyTorch's two interfaces: every version has it, and mixing the two is an error.
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = allowed
    if not allowed[0]:
        # "medium", a line that people put into their models, has the CPU multiply fp32 in bf16.
        torch.set_float32_matmul_precision("highest")


def _require_fp32(act: Act) -> None:
    """Raise Unsupported for a case that was built in another number format, by whatever means."""
    kept = (*act.model.parameters(), *act.model.buffers())
    others = {one.dtype for one in kept if one.is_floating_point()} - {torch.float32, torch.float64}
    if others:
        raise Unsupported(
            f"the case builds weights of {others.pop()}: build them in fp32 and choose a precision"
        )


def _require_tf32(device: str) -> None:
    if not device.startswith("cuda") or torch.cuda.get_device_capability(device) < (8, 0):
        raise Unsupported("precision=tf32 needs a CUDA device of compute capability 8.0 or newer")


def _require_autocast(device: str, dtype: torch.dtype) -> None:
    """Raise Unsupported where autocast, asked for `dtype`, warns and computes in fp32."""
    ones = torch.ones(2, 2, device=device)
    with torch.no_grad(), torch.autocast(device.split(":")[0], dtype=dtype):
        if torch.mm(ones, ones).dtype != dtype:
            raise Unsupported(
                f"autocast on {device} has no {dtype} in this version of PyTorch ({torch.__version__})"
            )


def _cast(act: Act, dtype: torch.dtype) -> None:
    act.model.to(dtype)
    act.inputs = tuple(
        tuple(tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in inputs)
        for inputs in act.inputs
    )


def _scale(act: Act) -> None:
    """Train under a GradScaler; metric `scaler_skips` counts the steps whose gradients overflowed."""
    if not hasattr(torch.amp, "GradScaler"):
        raise Unsupported(f"torch.amp.GradScaler is not in this version of PyTorch ({torch.__version__})")
    scaler = torch.amp.GradScaler(act.device.split(":")[0])
    steps = 0
    optimizers: list[torch.optim.Optimizer] = []

    def backward(loss: torch.Tensor) -> None:
        scaler.scale(loss).backward()

    def update(optimizer: torch.optim.Optimizer) -> None:
        nonlocal steps
        steps += 1
        optimizers[:] = [optimizer]
        scaler.step(optimizer)
        scaler.update()

    def skips() -> Mapping[str, float]:
        # Asking the scale after each step would wait for the device: the optimizer counts what it has taken.
        states = [state for optimizer in optimizers for state in optimizer.state.values()]
        return {"scaler_skips": float(steps - max((int(state["step"]) for state in states), default=0))}

    act.backward, act.update = backward, update
    act.last_words.append(skips)
