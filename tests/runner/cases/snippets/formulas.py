"""The hand-written parts against a second way to compute the same thing."""

import copy
import json
import math

import torch
from torch import nn

from runner.cases import gpt2, resnet, transformer_xl  # noqa: F401
from runner.cases.gpt2 import Gpt2
from runner.cases.layers import SelfAttention, cross_entropy
from runner.cases.small_networks import FEATURES, GruCell
from runner.cases.transformer_xl import (
    HEAD_WIDTH,
    HEADS,
    MEMORY,
    WIDTH,
    RelativeLayer,
    TransformerXL,
    relative_shift,
)
from runner.worker.case import REGISTER

#: None of this is about words.
gpt2.VOCABULARY = transformer_xl.VOCABULARY = 512
torch.manual_seed(0)
torch.set_grad_enabled(False)


def error(ours, theirs):
    return float((ours - theirs).abs().max())


def gru_against_torch():
    cell, reference = GruCell(48), nn.GRU(FEATURES, 48, batch_first=True)
    reference.weight_ih_l0.copy_(cell.from_input.weight)
    reference.weight_hh_l0.copy_(cell.from_state.weight)
    reference.bias_ih_l0.copy_(cell.from_input.bias)
    reference.bias_hh_l0.copy_(cell.from_state.bias)
    sequence = torch.randn(3, 7, FEATURES)
    return error(cell(sequence), reference(sequence)[1][0])


def attention_against_torch(causal):
    width, heads, tokens = 64, 4, 9
    ours, reference = (
        SelfAttention(width, heads, causal),
        nn.MultiheadAttention(width, heads, batch_first=True),
    )
    reference.in_proj_weight.copy_(ours.projections.weight)
    reference.in_proj_bias.copy_(ours.projections.bias)
    reference.out_proj.load_state_dict(ours.output.state_dict())
    hidden = torch.randn(2, tokens, width)
    mask = torch.ones(tokens, tokens, dtype=torch.bool).triu(1) if causal else None
    return error(ours(hidden), reference(hidden, hidden, hidden, attn_mask=mask)[0])


def relative_attention_by_loops():
    """Attention of one Transformer-XL layer, each score from its own distance, no shift and no mask."""
    tokens, layer, model = 5, RelativeLayer(), TransformerXL(1, 5)
    hidden, memory = torch.randn(1, tokens, WIDTH), torch.randn(1, MEMORY, WIDTH)
    context = torch.cat([memory, hidden], 1)[0]
    query = layer.query(hidden[0]).view(tokens, HEADS, HEAD_WIDTH)
    key, value = layer.key_value(context).view(-1, 2, HEADS, HEAD_WIDTH).unbind(1)
    rows = []
    for i in range(tokens):
        seen = range(MEMORY + i + 1)
        distances = torch.tensor([float(MEMORY + i - j) for j in seen])
        angles = distances[:, None] / 10000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
        relative = layer.relative(torch.cat([angles.sin(), angles.cos()], -1)).view(-1, HEADS, HEAD_WIDTH)
        content = ((query[i] + layer.content_bias[:, 0]) * key[: len(seen)]).sum(-1)
        position = ((query[i] + layer.position_bias[:, 0]) * relative).sum(-1)
        weights = ((content + position) / math.sqrt(HEAD_WIDTH)).softmax(0)
        rows.append((weights[..., None] * value[: len(seen)]).sum(0).flatten())
    ours = layer._attend(hidden, memory, model.positions, model.future)[0]
    return error(ours, layer.output(torch.stack(rows)))


def shift_by_index():
    queries, keys = 4, 9
    scores = torch.randn(2, queries, keys)
    shifted = relative_shift(scores)
    return [
        error(shifted[:, i, j], scores[:, i, queries - 1 - i + j])
        for i in range(queries)
        for j in range(keys - queries + i + 1)
    ]


def reach(model, inputs, position):
    """Which positions of the logits move when the token at `position` does."""
    changed = copy.deepcopy(inputs)
    changed[0][0, position] += 1
    before, after = (
        call if isinstance(call, torch.Tensor) else call[0] for call in (model(*inputs), model(*changed))
    )
    return [bool(moved) for moved in ((after - before)[0].abs().amax(-1) > 1e-6)]


def memory_of_transformer_xl():
    """What the next segment gets to remember, and whether this one used what it was given."""
    model = TransformerXL(2, 6).eval()
    tokens, memory = torch.randint(100, (1, 6)), torch.randn(2, 1, MEMORY, WIDTH)
    logits, remembered = model(tokens, memory)
    other = memory.clone()
    other[1, 0, 0] += 1.0
    return {
        "carried": error(remembered[:, :, :-6], memory[:, :, 6:]),
        "embedded": error(remembered[0, :, -6:], model.tokens(tokens) * math.sqrt(WIDTH)),
        "used": error(logits, model(tokens, other)[0]),
    }


def residual_shapes():
    """Sides of the feature maps after each stage of ResNet-50, for 224 pixels."""
    workload = REGISTER["resnet50"].build(batch=1, image=224)
    sides = []
    for block in workload.model.blocks:
        block.register_forward_hook(lambda _module, _inputs, output: sides.append(list(output.shape[1:])))
    workload.model.eval()(*workload.inputs)
    return sides


def gradients_of_resnet_in_double():
    """Relative error of its gradients in fp32 against fp64, at the size where rounding hurts most."""
    workload = REGISTER["resnet50"].build(batch=2, image=64)
    double = copy.deepcopy(workload.model).double()
    with torch.enable_grad():
        workload.loss(workload.model.train()(*workload.inputs)).backward()
        logits = double.train()(workload.inputs[0].double())
        # The loss rounds to fp32; its gradient at the logits is as exact as fp32 gets.
        workload.loss(logits).backward()
    pairs = zip(workload.model.parameters(), double.parameters(), strict=True)
    squares = [((a.grad - b.grad).square().sum(), b.grad.square().sum()) for a, b in pairs]
    return math.sqrt(sum(float(e) for e, _ in squares) / sum(float(n) for _, n in squares))


def loss_of_known_logits():
    """-log softmax at the targets, which a second draw from the same seed reveals."""
    torch.manual_seed(5)
    loss = cross_entropy(2, 3, classes=7)
    torch.manual_seed(5)
    targets = torch.randint(7, (2, 3))
    logits = torch.randn(2, 3, 7)
    expected = -logits.log_softmax(-1).gather(-1, targets[..., None]).mean()
    half = loss(logits.bfloat16())
    return {"error": error(loss(logits), expected), "dtype_from_bf16": str(half.dtype)}


print(
    json.dumps(
        {
            "gru": gru_against_torch(),
            "attention": [attention_against_torch(causal) for causal in (False, True)],
            "relative_attention": relative_attention_by_loops(),
            "shift": shift_by_index(),
            "reach": {
                "gpt2": reach(Gpt2(2).eval(), (torch.randint(100, (1, 8)),), 5),
                "transformer_xl": reach(
                    TransformerXL(2, 8).eval(),
                    (torch.randint(100, (1, 8)), torch.randn(2, 1, MEMORY, WIDTH)),
                    5,
                ),
            },
            "memory": memory_of_transformer_xl(),
            "resnet": residual_shapes(),
            "resnet_gradients": gradients_of_resnet_in_double(),
            "loss": loss_of_known_logits(),
        }
    )
)
