"""Each model, small, on the real CPU: its answers, a few training steps, and one graph for the compiler."""

import json
import math

import torch
from torch._dynamo.utils import counters

from runner.cases import bert, diffusion, gpt2, resnet, small_networks, transformer_xl, vit  # noqa: F401
from runner.worker.case import REGISTER

#: Their layers are all alike and their number is no parameter; sizes.py has all of them, and all words.
#: Of ResNet's stages the first keeps a block that projects nothing.
vit.LAYERS = 2
resnet.STAGES = tuple((width, 2 if width == 64 else 1, stride) for width, _, stride in resnet.STAGES)
bert.VOCABULARY = gpt2.VOCABULARY = transformer_xl.VOCABULARY = small_networks.LSTM_VOCABULARY = 512

SMALL = {
    "resnet50": {"batch": 2, "image": 64},
    "bert_base": {"batch": 2, "tokens": 16, "layers": 2},
    "bert_large": {"batch": 2, "tokens": 16, "layers": 1},
    "vit_b": {"batch": 2, "image": 32},
    "unet_block": {"batch": 2, "channels": 32, "side": 8},
    "gpt2_small": {"batch": 2, "tokens": 16, "layers": 2},
    "transformer_xl": {"batch": 2, "tokens": 16, "layers": 2},
    "lstm_lm": {"batch": 2, "tokens": 4},
    "custom_gru_cell": {"batch": 4, "steps": 4, "hidden": 32},
    "custom_cnn": {"batch": 4},
    "mlp_overhead": {"batch": 4},
}


def build(name, seed=0):
    torch.manual_seed(seed)
    return REGISTER[name].build(**SMALL[name])


def tensors(output):
    return [output] if isinstance(output, torch.Tensor) else list(output)


def distance(ours, theirs):
    """Largest relative error in the Euclidean norm between two outputs."""
    pairs = zip(tensors(ours), tensors(theirs), strict=True)
    return max(float((a - b).norm() / b.norm()) for a, b in pairs)


def infer(output, workload):
    seen = [*tensors(output), *workload.inputs]
    return {
        "shapes": [list(part.shape) for part in tensors(output)],
        "dtypes": sorted({str(part.dtype) for part in tensors(output)}),
        "finite": all(bool(part.isfinite().all()) for part in tensors(output)),
        "constant": any(float(part.float().std()) == 0.0 for part in seen),
    }


def gradients_of(workload, called):
    """The loss of one training step, and every gradient it leaves."""
    workload.model.train()
    workload.model.zero_grad()
    loss = workload.loss(called(*workload.inputs))
    loss.backward()
    return float(loss.detach()), [parameter.grad for parameter in workload.model.parameters()]


def train(workload):
    """Losses of three steps of plain gradient descent."""
    optimizer = torch.optim.SGD(workload.model.parameters(), lr=0.01)
    losses = []
    for _ in range(3):
        losses.append(gradients_of(workload, workload.model)[0])
        optimizer.step()
    return losses


def check(name):
    first, again, other = build(name), build(name), build(name, seed=1)
    torch._dynamo.reset()
    counters.clear()
    # Dynamo refuses PyTorch's own LSTM; everything else has to be one graph, or this raises.
    graph = torch.compile(first.model, fullgraph=name != "lstm_lm", backend="aot_eager")
    with torch.no_grad():
        answers = [workload.model.eval()(*workload.inputs) for workload in (first, again, other)]
        compiled_answer = graph(*first.inputs)
        again.model.train()
        repeated = [float(again.loss(again.model(*again.inputs))) for _ in range(2)]
    loss, gradients = gradients_of(first, graph)
    expected_loss, expected = gradients_of(again, again.model)
    names = [name for name, _ in again.model.named_parameters()]
    return {
        "infer": infer(answers[0], first),
        "same_seed": distance(answers[1], answers[0]),
        "other_seed": distance(answers[2], answers[0]),
        "repeated": repeated,
        "untouched": [n for n, g in zip(names, expected, strict=True) if g is None or not bool(g.any())],
        "compiled": {
            "graphs": counters["stats"]["unique_graphs"],
            "answer": distance(compiled_answer, answers[0]),
            "loss": math.fabs(loss - expected_loss),
            "gradient": max(distance(a, b) for a, b in zip(gradients, expected, strict=True)),
        },
        "losses": train(again),
    }


print(json.dumps({name: check(name) for name in SMALL}))
