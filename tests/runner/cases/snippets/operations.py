"""The single operations, small, on the real CPU: answers by the formula, operations counted, rotation."""

import json
import math

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from runner.cases.operators import attention, convolutions, elementwise, indexing, operator, products  # noqa: F401
from runner.worker.case import REGISTER

#: Small enough to be quick, while copies are still taken.
operator.ROTATED_BYTES = 1 << 20

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


def rotation_of(workload):
    sets = [workload.inputs, *workload.variants]
    pairs = [(a, b) for others in workload.variants for a, b in zip(workload.inputs, others, strict=True)]
    return {
        "bytes": sum(tensor.nbytes for one in sets for tensor in one),
        "set_bytes": sum(tensor.nbytes for tensor in workload.inputs),
        "apart": len({tensor.data_ptr() for one in sets for tensor in one}) == len(sets) * len(sets[0]),
        "equal": all(torch.equal(a, b) for a, b in pairs),
    }


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
        "rotation": rotation_of(workload),
    }


with torch.no_grad():
    small = {name: check(name) for name in SMALL}
    operator.ROTATED_BYTES = 1 << 10
    larger_than_all = len(build("softmax").variants)
phases = {name: list(REGISTER[name].phases) for name in SMALL}
summaries = {name: REGISTER[name].summary for name in SMALL}
print(json.dumps({"small": small, "larger": larger_than_all, "phases": phases, "summaries": summaries}))
