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
from .prepared_case import PreparedCase
from .techniques import precision
from .techniques.apply import build, lift_limit

#: Largest relative error in the Euclidean norm that still counts as the same answer. fp32: reordered sums
#: of a deep network stay well below. tf32 and fp16 have 11 bits of significand (2**-11 = 0.05 % a rounding),
#: bf16 has 8 (0.4 %); either grows by about three through twelve transformer layers. int8: an activation
#: is rounded to 1/255 of its range, about 1 % of its norm, which twelve layers take to 6 % where the range
#: is found anew in each call (dynamic) and to 12 % where it was fixed beforehand (static). By calculation fp8
#: (e4m3) rounds weights and activations by 2.6 % of their norm each, int4 groups of 128 weights by 10 %:
#: three times as much through twelve layers is 11 % and 30 %.
TOLERANCE = {
    "fp32": 1e-3,
    "tf32": 2e-2,
    "amp-fp16": 2e-2,
    "fp16": 2e-2,
    "amp-bf16": 5e-2,
    "bf16": 5e-2,
    "int8-dynamic": 1e-1,
    "int8-torchao": 1e-1,
    "int8-static": 2e-1,
    "int8-pt2e": 2e-1,
    "int8-qat": 2e-1,
    "fp8-torchao": 2e-1,
    "int4-torchao": 5e-1,
}

#: Training steps whose losses are compared with the reference's.
STEPS = 3

#: Weights kept in these formats lose updates smaller than half the distance to the next number they have.
_LOSES_UPDATES = ("bf16", "fp16")


def tolerance(key: CaseKey) -> float:
    """The relative error a case of this precision may have."""
    return TOLERANCE[key.axis("precision")]


#: Numbers squared at a time.
_PART = 1 << 20


@dataclass(frozen=True, slots=True)
class Check:
    """The verdict: relative errors against the reference, their tolerance, and why it is wrong if it is.

    Of outputs, `error` is in the Euclidean norm, `worst` the largest difference over the largest value,
    `mean` the mean difference over the mean magnitude, and `agreement` the share of rows of class scores
    whose largest one is at the same class. Of a training, `error` is the larger one of the first
    step's loss and gradient norm, `drift` that of the loss after some steps.
    """

    error: float | None
    tolerance: float
    wrong: str = ""
    note: str = ""
    worst: float | None = None
    mean: float | None = None
    drift: float | None = None
    agreement: float | None = None

    @property
    def metrics(self) -> dict[str, float]:
        """The errors as metrics."""
        errors = {
            "error": self.error,
            "error_worst": self.worst,
            "error_mean": self.mean,
            "loss_drift": self.drift,
            "top1_agreement": self.agreement,
        }
        return {name: value for name, value in errors.items() if value is not None}


@dataclass(frozen=True, slots=True)
class LossTrace:
    """Trace of the first training steps: each one's loss and the norm of all its gradients."""

    losses: tuple[float, ...] = ()
    gradients: tuple[float, ...] = ()


def record_step(prepared: PreparedCase, returned: Any, so_far: LossTrace | None = None) -> LossTrace | None:
    """`so_far` and the training step that has just `returned` its loss; None for inference."""
    if prepared.key.phase != "train" or prepared.model is None:
        return None
    before = so_far or LossTrace()
    return LossTrace((*before.losses, float(returned)), (*before.gradients, _gradient_norm(prepared.model)))


def check(prepared: PreparedCase, device: str, seed: int, first: LossTrace | None) -> Check:
    """Compare the case's answer with an eager fp32 reference built from the same seed."""
    allowed = tolerance(prepared.key)
    if prepared.model is None:
        return Check(None, allowed, note="a closure has no reference to compare with")
    if not prepared.compared:
        return Check(None, allowed, note="the answer is not compared with a reference")
    lift_limit(prepared.key, device)
    with precision.exact_fp32():
        reference = build(prepared.key.eager, device, seed)
    if first is None:
        return _compare_outputs(prepared, reference, allowed)
    if prepared.key.axis("precision") not in _LOSES_UPDATES and not _moved(prepared.model, reference.model):
        return Check(None, allowed, wrong="no weight has changed in training")
    right = LossTrace()
    with precision.exact_fp32():
        for _ in first.losses:
            right = record_step(reference, reference.step(), right) or right
    return _compare_traces(prepared, first, right, allowed)


def _moved(model: torch.nn.Module, fresh: torch.nn.Module | None) -> bool:
    """Whether training has changed any of the weights it began with, those of a `fresh` model."""
    if fresh is None:
        return True
    pairs = list(zip(model.parameters(), fresh.parameters(), strict=False))
    return not pairs or any(not torch.equal(now.detach().to(was), was.detach()) for now, was in pairs)


def _compare_outputs(prepared: PreparedCase, reference: PreparedCase, allowed: float) -> Check:
    """The outputs for the first inputs of each shape and the second of all; of several, the worst."""
    prepared.rotation.rewind()
    firsts = {prepared.shapes.index(shapes) for shapes in set(prepared.shapes)}
    # The second inputs too, for something made from the first ones may answer those only.
    firsts |= {1} if len(prepared.shapes) > 1 else set()
    checks: list[Check] = []
    for index in range(max(firsts, default=0) + 1):
        with precision.exact_fp32():
            expected = reference.step()
        got = prepared.step()
        if index in firsts or not firsts:
            checks.append(compare(got, expected, allowed, classes=prepared.classes))
    return max(checks, key=lambda one: (bool(one.wrong), one.error or 0.0))


def _compare_traces(prepared: PreparedCase, trace: LossTrace, right: LossTrace, allowed: float) -> Check:
    """The loss and gradients of the first step, and the loss after some."""
    scaled = prepared.key.axis("precision") == "amp-fp16"
    # A GradScaler tries its scale by letting gradients overflow: such a step changes no weight.
    taken = [index for index, norm in enumerate(trace.gradients) if math.isfinite(norm) or not scaled]
    pairs = [(trace.losses[0], right.losses[0])]
    pairs += [(trace.gradients[taken[0]], right.gradients[0])] if taken else []
    if not all(math.isfinite(got) for got, _ in pairs):
        return Check(
            None, allowed, wrong=f"loss {trace.losses[0]}, gradient norm {trace.gradients[0]}: not finite"
        )
    if not all(math.isfinite(want) for _, want in pairs):
        return Check(None, allowed, wrong="the reference's loss or gradient is not finite, the case's is")
    error = max(relative(got, want) for got, want in pairs)
    skipped = len(trace.losses) - len(taken)
    if skipped and len(prepared.shapes) > 1:
        note = f"GradScaler skipped {skipped} of {len(trace.losses)} steps: the others had other inputs"
        return judge_error(relative(*pairs[0]), allowed, note=note)
    note = "" if taken else f"gradients not compared: GradScaler skipped the first {skipped} steps"
    updates = sum(1 for index in taken if index < len(trace.losses) - 1)
    drift = relative(trace.losses[-1], right.losses[updates])
    permitted = allowed
    if prepared.key.axis("precision") in _LOSES_UPDATES:
        # As if it had not trained at all is as bad as the format alone can make it.
        permitted += relative(right.losses[0], right.losses[updates])
        if drift > allowed:
            note = (
                f"the loss is off by {drift:.2g} after {updates} updates, of which such weights lose a part"
            )
    first = judge_error(error, allowed, note=note, drift=drift if len(trace.losses) > 1 else None)
    if first.wrong or drift <= permitted:
        return first
    wrong = f"loss off by {drift:.2g} after {updates} updates, above the tolerance {permitted:.2g}"
    return Check(error, allowed, wrong=wrong, note=note, drift=drift if math.isfinite(drift) else None)


def relative(got: float, want: float) -> float:
    """The relative error of a number; of one that should be 0, the number itself."""
    return abs(got - want) / (abs(want) or 1.0)


def compare(got: Any, expected: Any, tolerance: float, *, classes: bool = False) -> Check:
    """Relative errors of `got` against `expected` (tensors, or tuples and dicts of tensors).

    With `classes` both are one tensor of class scores, of which the top class is compared, too.
    """
    outputs, references = list(_tensors(got)), list(_tensors(expected))
    if not outputs and not references:
        return Check(None, tolerance, note="the output holds no tensor to compare")
    if len(outputs) != len(references):
        return Check(
            None, tolerance, wrong=f"{len(outputs)} output tensors where the reference has {len(references)}"
        )
    error = worst = mean = 0.0
    for a, b in zip(outputs, references, strict=True):
        if a.shape != b.shape:
            return Check(None, tolerance, wrong=f"shape {tuple(a.shape)} instead of {tuple(b.shape)}")
        if _identical(a, b):
            continue
        got, want = _plain(a), _plain(b)
        if bool(got.isnan().any()):
            return Check(None, tolerance, wrong="the output holds NaN")
        if bool(want.isnan().any()):
            return Check(None, tolerance, wrong="the reference holds NaN, the output does not")
        finite = torch.isfinite(want)
        # Masked logits are -inf by right, in the places where the reference has them.
        if not torch.equal(finite, torch.isfinite(got)) or not torch.equal(got[~finite], want[~finite]):
            return Check(None, tolerance, wrong="infinities stand elsewhere than in the reference")
        off, want = (got[finite] - want[finite]).abs(), want[finite].abs()
        if want.numel():
            error = max(error, float(off.norm()) / (float(want.norm()) or 1.0))
            worst = max(worst, float(off.max()) / (float(want.max()) or 1.0))
            mean = max(mean, float(off.mean()) / (float(want.mean()) or 1.0))
    agreement = _top1_agreement(outputs[0], references[0]) if classes and len(outputs) == 1 else None
    return judge_error(error, tolerance, worst=worst, mean=mean, agreement=agreement)


def _identical(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether both hold the same numbers and no NaN, where that can be seen without a conversion."""
    if a.dtype != b.dtype or a.device != b.device or not a.layout == b.layout == torch.strided:
        return False
    return torch.equal(a, b)


def _top1_agreement(got: torch.Tensor, expected: torch.Tensor) -> float:
    """The share of rows in which both have their largest score at the same class (Top-1)."""
    same = got.argmax(-1).cpu() == expected.argmax(-1).cpu()
    return float(same.double().mean())


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers on the CPU, dense, real and in double precision."""
    dense = (tensor.to_dense() if tensor.layout != torch.strided else tensor).cpu()
    return (torch.view_as_real(dense.resolve_conj()) if dense.is_complex() else dense).double()


def judge_error(error: float, tolerance: float, note: str = "", **others: float | None) -> Check:
    """The verdict on a relative error."""
    # Written so that an error that is no number is no pass.
    wrong = "" if error <= tolerance else f"relative error {error:.2g} above the tolerance {tolerance:g}"
    return Check(error, tolerance, wrong, note, **others)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _tensors(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)


def square_sum(tensor: torch.Tensor) -> float:
    """The sum of squares in double precision, part by part: a large copy would show in the memory peaks."""
    return sum(float(part.double().square().sum()) for part in tensor.flatten().split(_PART))


def _gradient_norm(model: torch.nn.Module) -> float:
    return math.sqrt(sum(square_sum(p.grad) for p in model.parameters() if p.grad is not None))
