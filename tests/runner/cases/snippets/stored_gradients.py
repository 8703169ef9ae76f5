"""`optimizer_step` on stage, under each value of axis `optimizer`, beside AdamW written out."""

import json

import torch

from runner.cases import optimizer  # noqa: F401
from runner.worker.case_key import CaseKey
from runner.worker.prepared_case import LEARNING_RATE, begin, finish, make

STEPS = 3


def on_stage(implementation):
    key = CaseKey.of("optimizer_step", "train", {"layers": 1}, {"optimizer": implementation})
    return finish(begin(key, "cpu", make(key, seed=0)))


def adamw(weight, gradient):
    """STEPS steps by Loshchilov and Hutter 2017, arXiv:1711.05101, algorithm 2, with torch's defaults."""
    first = second = torch.zeros_like(weight)
    for step in range(1, STEPS + 1):
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient.square()
        denominator = (second / (1 - 0.999**step)).sqrt() + 1e-8
        weight = weight * (1 - LEARNING_RATE * 0.01)
        weight = weight - LEARNING_RATE * first / (1 - 0.9**step) / denominator
    return weight


def error_after_steps(implementation):
    """Largest relative error of the weights' way, over all tensors."""
    prepared = on_stage(implementation)
    gradients = [buffer.clone() for buffer in prepared.model.buffers()]
    before = [weight.detach().clone() for weight in prepared.model.parameters()]
    for _ in range(STEPS):
        prepared.step()
    worst = 0.0
    for weight, start, gradient in zip(prepared.model.parameters(), before, gradients, strict=True):
        # In double precision: the steps are small beside the weights.
        expected = adamw(start.double(), gradient.double())
        worst = max(worst, float((weight.detach() - expected).norm() / expected.norm()))
    return worst


def handed_out():
    prepared = on_stage("fused")
    buffers = list(prepared.model.buffers())
    before = [buffer.clone() for buffer in buffers]
    prepared.step()
    prepared.step()
    weights = list(prepared.model.parameters())
    return {
        "weights": prepared.items,
        "tensors": len(weights),
        "handed": sum(w.grad is b for w, b in zip(weights, buffers, strict=True)),
        "unchanged": all(torch.equal(a, b) for a, b in zip(before, buffers, strict=True)),
    }


def loss_moves():
    """How far the loss moves when every number of one weight does by 1, beside the sum of its gradient."""
    model = on_stage("fused").model
    moves = []
    with torch.no_grad():
        for weight, gradient in zip(model.parameters(), model.buffers(), strict=True):
            before = float(model())
            weight += 1.0
            moves.append((float(model()) - before, float(gradient.sum())))
    return [pair for pair in moves if pair[0]]


def scaled():
    try:
        (on_stage("fused").model() * 65536.0).backward()
    except NotImplementedError as refused:
        return str(refused)
    return "not refused"


def shared():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        on_stage("fused").model().backward()
    except NotImplementedError as refused:
        return str(refused)
    finally:
        torch.distributed.destroy_process_group()
    return "not refused"


print(
    json.dumps(
        {
            **handed_out(),
            "steps": {name: error_after_steps(name) for name in ("fused", "foreach", "loop")},
            "loss_moves": loss_moves(),
            "scaled": scaled(),
            "shared": shared(),
        }
    )
)
