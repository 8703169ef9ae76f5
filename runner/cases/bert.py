"""BERT, base and large: a bidirectional encoder, dense matrix products and little else."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..worker.case import Workload, case
from . import flops
from .blocks import FeedForward, SelfAttention, initialise, repeated
from .losses import cross_entropy

VOCABULARY, POSITIONS, TOKEN_TYPES = 30522, 512, 2
EPSILON = 1e-12


@dataclass(frozen=True)
class Size:
    """What tells the published models apart, but for the number of layers."""

    width: int
    heads: int
    inner: int


BASE = Size(width=768, heads=12, inner=3072)
LARGE = Size(width=1024, heads=16, inner=4096)


class Layer(nn.Module):
    """Attention and feed-forward, each added to its input and normalised after."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.attention = SelfAttention(size.width, size.heads, causal=False)
        self.attention_norm = nn.LayerNorm(size.width, eps=EPSILON)
        self.feed_forward = FeedForward(size.width, size.inner)
        self.feed_forward_norm = nn.LayerNorm(size.width, eps=EPSILON)

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = self.attention_norm(hidden + self.attention(hidden))
        return self.feed_forward_norm(hidden + self.feed_forward(hidden))


class Bert(nn.Module):
    """The encoder with its pooler, without a task's head and without dropout.

    Source: Devlin et al. 2018, arXiv:1810.04805, the uncased models. Maps tokens and token types, both
    (batch, tokens), to the last hidden states (batch, tokens, width) and the pooled first (batch, width).
    """

    def __init__(self, layers: int, size: Size) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, size.width)
        self.positions = nn.Embedding(POSITIONS, size.width)
        self.token_types = nn.Embedding(TOKEN_TYPES, size.width)
        self.norm = nn.LayerNorm(size.width, eps=EPSILON)
        self.layers = nn.Sequential(*(Layer(size) for _ in range(layers)))
        self.pooler = nn.Linear(size.width, size.width)
        initialise(self)

    def forward(self, tokens: Tensor, token_types: Tensor) -> tuple[Tensor, Tensor]:
        positions = self.positions.weight[: tokens.shape[1]]
        hidden = self.norm(self.tokens(tokens) + positions + self.token_types(token_types))
        hidden = self.layers(hidden)
        return hidden, torch.tanh(self.pooler(hidden[:, 0]))


def draw(batch: int, tokens: int) -> tuple[Tensor, Tensor]:
    """Random tokens and token types, both (batch, tokens)."""
    return torch.randint(VOCABULARY, (batch, tokens)), torch.randint(TOKEN_TYPES, (batch, tokens))


def operations(batch: int, tokens: int, layers: int, size: Size) -> int:
    """Floating-point operations of one forward pass."""
    encoder = layers * flops.transformer_layer(batch, tokens, size.width, size.inner)
    return encoder + flops.linear(batch, size.width, size.width)


def _workload(batch: int, tokens: int, layers: int, size: Size) -> Workload:
    inputs = draw(batch, tokens)
    classify = cross_entropy(batch, classes=size.width)
    return Workload(
        Bert(layers, size),
        inputs,
        items=batch * tokens,
        unit="tokens",
        flops=operations(batch, tokens, layers, size),
        loss=lambda output: classify(output[1]),
        checkpointed=repeated("layers", layers),
    )


@case(phases=("infer", "train"), batch=[1, 4, 16, 32], tokens=[128], layers=[2, 12])
def bert_base(batch: int, tokens: int, layers: int) -> Workload:
    """BERT-base, uncased; trained as a classifier whose class scores are the pooled state itself."""
    return _workload(batch, tokens, layers, BASE)


@case(phases=("infer", "train"), batch=[4, 8, 16], tokens=[128], layers=[2, 24])
def bert_large(batch: int, tokens: int, layers: int) -> Workload:
    """BERT-large, uncased; trained as BERT-base is. What mixed precision is usually shown on."""
    return _workload(batch, tokens, layers, LARGE)
