"""Transformer-XL: attention by relative position over a remembered segment, which no fused kernel covers."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..worker.case import Workload, case
from . import flops
from .layers import cross_entropy, initialise, submodule_names

#: The paper's WikiText-103 base model, but for the vocabulary: 267 735 words behind an adaptive softmax
#: there, a plain tied head over 32 768 here. An adaptive softmax sorts tokens into clusters by their
#: values, so its shapes, and with them the work of a step, would hang on the random targets.
VOCABULARY = 32768
WIDTH, HEADS, HEAD_WIDTH, INNER = 410, 10, 41, 2100
MEMORY = 150


def relative_shift(scores: Tensor) -> Tensor:
    """Scores by distance, turned into scores by key: out[..., i, j] = scores[..., i, queries - 1 - i + j].

    `scores` is (..., queries, keys) with distances falling from keys - 1 to 0. Where the formula runs
    over the row's end the result is meaningless and has to be masked. Source: Dai et al. 2019,
    arXiv:1901.02860, appendix B.
    """
    queries, keys = scores.shape[-2:]
    folded = F.pad(scores, (1, 0)).flatten(-2).unflatten(-1, (keys + 1, queries))
    return folded[..., 1:, :].reshape(scores.shape)


class RelativeLayer(nn.Module):
    """Relative attention over memory and segment, then feed-forward; each normalised after its addition."""

    def __init__(self) -> None:
        super().__init__()
        inner_width = HEADS * HEAD_WIDTH
        self.query = nn.Linear(WIDTH, inner_width, bias=False)
        self.key_value = nn.Linear(WIDTH, 2 * inner_width, bias=False)
        self.relative = nn.Linear(WIDTH, inner_width, bias=False)
        self.output = nn.Linear(inner_width, WIDTH, bias=False)
        self.content_bias = nn.Parameter(torch.randn(HEADS, 1, HEAD_WIDTH) * 0.02)
        self.position_bias = nn.Parameter(torch.randn(HEADS, 1, HEAD_WIDTH) * 0.02)
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, INNER), nn.ReLU(), nn.Linear(INNER, WIDTH))
        self.feed_forward_norm = nn.LayerNorm(WIDTH)

    def forward(self, hidden: Tensor, memory: Tensor, positions: Tensor, future: Tensor) -> Tensor:
        hidden = self.attention_norm(hidden + self._attend(hidden, memory, positions, future))
        return self.feed_forward_norm(hidden + self.feed_forward(hidden))

    def _attend(self, hidden: Tensor, memory: Tensor, positions: Tensor, future: Tensor) -> Tensor:
        query = _heads(self.query(hidden))
        key, value = (_heads(part) for part in self.key_value(torch.cat([memory, hidden], 1)).chunk(2, -1))
        content = (query + self.content_bias) @ key.mT
        position = (query + self.position_bias) @ _heads(self.relative(positions)).mT
        scores = (content + relative_shift(position)) / math.sqrt(HEAD_WIDTH)
        weights = scores.masked_fill(future, -math.inf).softmax(-1)
        return self.output((weights @ value).transpose(-3, -2).flatten(-2))


class TransformerXL(nn.Module):
    """The language model for segments of `tokens` tokens, without dropout.

    Source: Dai et al. 2019, arXiv:1901.02860. Maps tokens (batch, tokens) and the memory of the segment
    before (layers, batch, 150, 410), the inputs of each layer then, to logits (batch, tokens, 32768) and
    the memory for the segment after.
    """

    positions: Tensor
    future: Tensor

    def __init__(self, layers: int, tokens: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(RelativeLayer() for _ in range(layers))
        keys = MEMORY + tokens
        self.register_buffer("future", torch.ones(tokens, keys).triu(MEMORY + 1).bool(), persistent=False)
        self.register_buffer("positions", _sinusoids(keys), persistent=False)
        initialise(self)

    def forward(self, tokens: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.tokens(tokens) * math.sqrt(WIDTH)
        remembered: list[Tensor] = []
        for layer, past in zip(self.layers, memory.unbind(), strict=True):
            remembered.append(torch.cat([past, hidden], 1)[:, -MEMORY:].detach())
            hidden = layer(hidden, past, self.positions, self.future)
        return F.linear(hidden, self.tokens.weight), torch.stack(remembered)


def _heads(projected: Tensor) -> Tensor:
    """(..., tokens, heads · width) as (..., heads, tokens, width)."""
    return projected.unflatten(-1, (HEADS, HEAD_WIDTH)).transpose(-3, -2)


def _sinusoids(keys: int) -> Tensor:
    """Encodings (keys, 410) of the distances keys - 1 to 0 (Vaswani et al. 2017, section 3.5)."""
    distances = torch.arange(keys - 1, -1, -1, dtype=torch.float32)
    frequencies = 10000 ** (-torch.arange(0, WIDTH, 2, dtype=torch.float32) / WIDTH)
    angles = distances[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], -1)


def _flops(batch: int, tokens: int, layers: int) -> int:
    rows, keys, width = batch * tokens, MEMORY + tokens, HEADS * HEAD_WIDTH
    projections = 2 * flops.linear(rows, WIDTH, width) + flops.linear(batch * keys, WIDTH, 2 * width)
    relative = flops.linear(keys, WIDTH, width) + flops.linear(rows * keys, width, 1)
    feed_forward = flops.linear(rows, WIDTH, INNER) + flops.linear(rows, INNER, WIDTH)
    layer = projections + relative + flops.attention(batch, tokens, keys, width) + feed_forward
    return layers * layer + flops.linear(rows, WIDTH, VOCABULARY)


@case(family="transformers", phases=("infer", "train"), batch=[1, 4], tokens=[150], layers=[2, 16])
def transformer_xl(batch: int, tokens: int, layers: int) -> Workload:
    """Transformer-XL base: one segment with a full memory of 150 tokens from the segment before."""
    predict = cross_entropy(batch, tokens, classes=VOCABULARY)
    return Workload(
        TransformerXL(layers, tokens),
        (torch.randint(VOCABULARY, (batch, tokens)), torch.randn(layers, batch, MEMORY, WIDTH)),
        items=batch * tokens,
        unit="tokens",
        flops=_flops(batch, tokens, layers),
        loss=lambda output: predict(output[0]),
        checkpointed=submodule_names("layers", layers),
    )
