"""Is the answer right? A fast wrong answer is `wrong`, never a gain.

The check runs after everything is measured, so that the reference model disturbs no memory peak: the
case is built once more from the same seed, eager and in fp32, and the two answers are compared.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .case_key import CaseKey
from .stage import Stage, build

#: Largest relative error in the Euclidean norm that still counts as the same answer. fp32: reordered
#: sums of a deep network stay well below; bf16 has 8 bits of significand (2**-8 = 0.4 % a rounding).
TOLERANCE = {"fp32": 1e-3, "amp-bf16": 5e-2}


def tolerance(key: CaseKey) -> float:
    """The relative error a case of this precision may have."""
    return TOLERANCE[key.axis("precision")]


@dataclass(frozen=True, slots=True)
class Check:
    """The verdict: relative error against the reference, its tolerance, and why it is wrong if it is."""

    error: float | None
    tolerance: float
    wrong: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class FirstStep:
    """What the first training step said, before any weight changed: loss and norm of all gradients."""

    loss: float
    gradient: float


def first_step(stage: Stage, returned: Any) -> FirstStep | None:
    """Loss and gradient norm right after the first training step; None for inference."""
    if stage.key.phase != "train" or stage.model is None:
        return None
    return FirstStep(float(returned), _gradient_norm(stage.model))


def check(stage: Stage, device: str, seed: int, first: FirstStep | None) -> Check:
    """Compare the case's answer with an eager fp32 reference built from the same seed."""
    allowed = tolerance(stage.key)
    if stage.model is None:
        return Check(None, allowed, note="a closure has no reference to compare with")
    reference_key = CaseKey.of(stage.key.name, stage.key.phase, dict(stage.key.parameters), {})
    with _no_tf32():
        reference = build(reference_key, device, seed)
        expected = reference.step()
    if first is None:
        return compare(stage.step(), expected, allowed)
    right = first_step(reference, expected)
    if right is None:
        return Check(None, allowed, note="the reference did not train")
    pairs = ((first.loss, right.loss), (first.gradient, right.gradient))
    if not all(math.isfinite(got) for got, _ in pairs):
        return Check(None, allowed, wrong=f"loss {first.loss}, gradient norm {first.gradient}: not finite")
    if not all(math.isfinite(want) for _, want in pairs):
        return Check(None, allowed, wrong="the reference's loss or gradient is not finite, the case's is")
    error = max(abs(got - want) / (abs(want) or 1.0) for got, want in pairs)
    return _judged(error, allowed)


def compare(got: Any, expected: Any, tolerance: float) -> Check:
    """Relative error of `got` against `expected` (tensors, or tuples and dicts of tensors)."""
    ours, theirs = list(_tensors(got)), list(_tensors(expected))
    if not ours and not theirs:
        return Check(None, tolerance, note="the output holds no tensor to compare")
    if len(ours) != len(theirs):
        return Check(
            None, tolerance, wrong=f"{len(ours)} output tensors where the reference has {len(theirs)}"
        )
    error = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape:
            return Check(None, tolerance, wrong=f"shape {tuple(a.shape)} instead of {tuple(b.shape)}")
        got, want = _plain(a), _plain(b)
        if bool(got.isnan().any()):
            return Check(None, tolerance, wrong="the output holds NaN")
        if bool(want.isnan().any()):
            return Check(None, tolerance, wrong="the reference holds NaN, the output does not")
        finite = torch.isfinite(want)
        # Masked logits are -inf by right, in the places where the reference has them.
        if not torch.equal(finite, torch.isfinite(got)) or not torch.equal(got[~finite], want[~finite]):
            return Check(None, tolerance, wrong="infinities stand elsewhere than in the reference")
        got, want = got[finite], want[finite]
        scale = float(want.norm()) or 1.0
        error = max(error, float((got - want).norm()) / scale)
    return _judged(error, tolerance)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers, dense, real and in double precision."""
    dense = tensor.to_dense() if tensor.layout != torch.strided else tensor
    return (torch.view_as_real(dense.resolve_conj()) if dense.is_complex() else dense).double()


def _judged(error: float, tolerance: float) -> Check:
    wrong = "" if error <= tolerance else f"relative error {error:.2g} above the tolerance {tolerance:g}"
    return Check(error, tolerance, wrong=wrong)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _tensors(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)


def _gradient_norm(model: torch.nn.Module) -> float:
    squares = sum(float(p.grad.double().square().sum()) for p in model.parameters() if p.grad is not None)
    return math.sqrt(squares)


class _no_tf32:
    """The reference must be fp32 in fact: cuDNN allows TF32 convolutions by default."""

    def __enter__(self) -> None:
        self._was = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False

    def __exit__(self, *_: object) -> None:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = self._was
