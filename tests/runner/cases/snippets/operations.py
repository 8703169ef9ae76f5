"""The single operations, small, on the real CPU: answers by the formula, operations counted, rotation."""

import io
import json
import math
from unittest import mock

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from runner.cases.operators import attention, convolutions, elementwise, indexing, products  # noqa: F401
from runner.worker import correctness, prepared_case
from runner.worker.case import REGISTER, Workload
from runner.worker.case_key import CaseKey
from runner.worker.measurements import tracing
from runner.worker.messages import TakeFingerprint
from runner.worker.prepared_case import begin
from runner.worker.single_process import SingleProcess
from runner.worker.techniques.apply import apply_techniques
from runner.worker.techniques.apply import build as build_case
from runner.worker.worker_loop import Worker

#: Small enough to be quick, while copies are still taken.
prepared_case.ROTATED_BYTES = 1 << 20

SMALL = {
    "matmul": {"m": 24, "n": 40, "k": 56},
    "gemm": {"size": 33},
    "conv2d": {"batch": 2, "channels": 5, "image": 9},
    "conv_channels": {"batch": 3, "channels": 7, "image": 6},
    "sdpa": {"batch": 2, "heads": 3, "tokens": 10},
    "softmax": {"rows": 12, "columns": 70},
    "layernorm_gelu": {"rows": 12, "width": 70},
    "embedding": {"tokens": 40, "width": 6},
    "cross_entropy": {"rows": 12, "classes": 70},
}


def by_convolution(images, weights):
    """Every output pixel from the patch that it sees."""
    side = images.shape[-1]
    patches = torch.nn.functional.unfold(images, 3, padding=1)
    return (weights.flatten(1) @ patches).unflatten(-1, (side, side))


def by_attention(query, key, value):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return by_softmax(scores.masked_fill(future, -math.inf)) @ value


def by_softmax(scores):
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)


def by_normalisation(rows, scale, shift):
    centred = rows - rows.mean(-1, keepdim=True)
    normal = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * scale + shift
    return normal * 0.5 * (1 + torch.erf(normal / math.sqrt(2)))


def by_cross_entropy(logits, targets):
    return -by_softmax(logits).log()[range(len(targets)), targets].mean()


FORMULAS = {
    "matmul": lambda left, right: (left[:, :, None] * right[None]).sum(1),
    "gemm": lambda left, right: (left[:, :, None] * right[None]).sum(1),
    "conv2d": by_convolution,
    "conv_channels": by_convolution,
    "sdpa": by_attention,
    "softmax": by_softmax,
    "layernorm_gelu": by_normalisation,
    "cross_entropy": by_cross_entropy,
}


def build(name, seed=0):
    torch.manual_seed(seed)
    return REGISTER[name].build(**SMALL[name])


def distance(ours, theirs):
    return float((ours - theirs).norm() / theirs.norm())


def rotation_of(name, workload, technique="eager"):
    """The sets of inputs that timed steps of the workload take in turn."""
    prep = begin(CaseKey.parse(f"{name}/infer/-/{technique}"), "cpu", workload)
    rotation = apply_techniques(prep).rotation
    rotation.fill()
    first, *others = rotation.inputs
    pairs = [(a, b) for other in others for a, b in zip(first, other, strict=True)]
    places = {tensor.data_ptr() for one in rotation.inputs for tensor in one}
    return {
        "sets": len(rotation.inputs),
        "bytes": sum(tensor.nbytes for one in rotation.inputs for tensor in one),
        "set_bytes": sum(tensor.nbytes for tensor in first),
        "apart": len(places) == len(first) * len(rotation.inputs),
        "equal": all(torch.equal(a, b) for a, b in pairs),
        "alike": all((a.stride(), a.dtype) == (b.stride(), b.dtype) for a, b in pairs),
        "channels_last": first[0].dim() == 4 and first[0].is_contiguous(memory_format=torch.channels_last),
    }


def laid_out():
    """Workloads whose input is no block of memory: transposed, with gaps, with one row for all."""
    rows = torch.randn(16, 32)
    inputs = {"transposed": rows.t(), "gaps": rows[:, ::2], "expanded": rows[:1].expand(16, 32)}
    return {
        name: Workload(torch.nn.Identity(), (tensor,), items=16, rotated=True)
        for name, tensor in inputs.items()
    }


def sets_taken():
    """How many sets of inputs there are for timed steps, for the check, and for a fingerprint."""
    key = CaseKey.parse("softmax/infer/columns=70,rows=12/eager")
    timed = SingleProcess(key, "cpu", 0)
    timed.first_call()
    timed.warm_up(0.0, 0.1)
    references = []

    def recorded(*about):
        references.append(build_case(*about))
        return references[-1]

    with mock.patch.object(correctness, "build", recorded):
        checked = timed.check()
    return {
        "timed": len(timed.prepared.rotation.inputs),
        "check": [len(one.rotation.inputs) for one in references],
        "error": checked.error,
        "fingerprint": fingerprinted(key),
    }


def fingerprinted(key):
    """How many sets of inputs a fingerprint is taken of."""
    with mock.patch.object(tracing, "capture_dispatch", return_value={}) as taken:
        Worker(io.StringIO(), lambda: None).serve([TakeFingerprint(str(key), "unused").to_json()])
    return len(taken.call_args.args[0].rotation.inputs)


def check(name):
    workload, again, other = build(name), build(name), build(name, seed=1)
    answer = workload.model(*workload.inputs)
    double = [tensor.double() if tensor.is_floating_point() else tensor for tensor in workload.inputs]
    formula = FORMULAS.get(name, lambda tokens: workload.model.weight.double()[tokens])
    error = distance(answer.double(), formula(*double))
    # The fused kernels of the CPU are invisible to the counter; written-out attention is not.
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        workload.model(*workload.inputs)
    # In bf16 the same modules have to run on inputs in bf16.
    halved = [tensor.bfloat16() if tensor.is_floating_point() else tensor for tensor in workload.inputs]
    half = workload.model.bfloat16()(*halved)
    return {
        "error": error,
        "same_seed": distance(again.model(*again.inputs), answer),
        "other_seed": distance(other.model(*other.inputs), answer),
        "flops": workload.flops,
        "counted": counter.get_total_flops(),
        "items": workload.items,
        "unit": workload.unit,
        "bf16": {"dtype": str(half.dtype), "error": distance(half.float(), answer)},
        "rotation": rotation_of(name, build(name)),
    }


with torch.no_grad():
    result = {
        "small": {name: check(name) for name in SMALL},
        "precisions": {
            "bf16": rotation_of("conv2d", build("conv2d"), "precision=bf16"),
            "channels-last": rotation_of("conv2d", build("conv2d"), "layout=channels-last"),
        },
        "layouts": {name: rotation_of("softmax", workload) for name, workload in laid_out().items()},
        "sets": sets_taken(),
    }
    with mock.patch.object(prepared_case, "ROTATED_BYTES", 1 << 10):
        result["larger"] = rotation_of("softmax", build("softmax"))["sets"]
result["phases"] = {name: list(REGISTER[name].phases) for name in SMALL}
result["summaries"] = {name: REGISTER[name].summary for name in SMALL}
print(json.dumps(result))
