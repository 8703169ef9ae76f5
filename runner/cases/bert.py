"""BERT: a bidirectional encoder, dense matrix products and little else."""

import torch
from torch import Tensor, nn

from ..worker.case import Workload, case
from . import flops
from .blocks import FeedForward, SelfAttention, initialise
from .losses import cross_entropy

VOCABULARY, POSITIONS, TOKEN_TYPES = 30522, 512, 2
WIDTH, HEADS, INNER = 768, 12, 3072
EPSILON = 1e-12


class Layer(nn.Module):
    """Attention and feed-forward, each added to its input and normalised after."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = SelfAttention(WIDTH, HEADS, causal=False)
        self.attention_norm = nn.LayerNorm(WIDTH, eps=EPSILON)
        self.feed_forward = FeedForward(WIDTH, INNER)
        self.feed_forward_norm = nn.LayerNorm(WIDTH, eps=EPSILON)

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = self.attention_norm(hidden + self.attention(hidden))
        return self.feed_forward_norm(hidden + self.feed_forward(hidden))


class Bert(nn.Module):
    """The encoder with its pooler, without a task's head and without dropout.

    Source: Devlin et al. 2018, arXiv:1810.04805, the uncased base model. Maps tokens and token types,
    both (batch, tokens), to the last hidden states (batch, tokens, 768) and the pooled first (batch, 768).
    """

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(POSITIONS, WIDTH)
        self.token_types = nn.Embedding(TOKEN_TYPES, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=EPSILON)
        self.layers = nn.Sequential(*(Layer() for _ in range(layers)))
        self.pooler = nn.Linear(WIDTH, WIDTH)
        initialise(self)

    def forward(self, tokens: Tensor, token_types: Tensor) -> tuple[Tensor, Tensor]:
        positions = self.positions.weight[: tokens.shape[1]]
        hidden = self.norm(self.tokens(tokens) + positions + self.token_types(token_types))
        hidden = self.layers(hidden)
        return hidden, torch.tanh(self.pooler(hidden[:, 0]))


@case(phases=("infer", "train"), batch=[1, 4], tokens=[128], layers=[2, 12])
def bert_base(batch: int, tokens: int, layers: int) -> Workload:
    """BERT-base, uncased; trained as a classifier whose class scores are the pooled state itself."""
    inputs = torch.randint(VOCABULARY, (batch, tokens)), torch.randint(TOKEN_TYPES, (batch, tokens))
    classify = cross_entropy(batch, classes=WIDTH)
    return Workload(
        Bert(layers),
        inputs,
        items=batch * tokens,
        unit="tokens",
        flops=layers * flops.transformer_layer(batch, tokens, WIDTH, INNER)
        + flops.linear(batch, WIDTH, WIDTH),
        loss=lambda output: classify(output[1]),
    )
