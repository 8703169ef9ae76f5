"""BERT, base and large: a bidirectional encoder; also with sequences whose lengths vary from step to step."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..worker.case import Workload, case
from . import flops
from .layers import FeedForward, SelfAttention, cross_entropy, initialise, submodule_names

VOCABULARY, POSITIONS, TOKEN_TYPES = 30522, 512, 2
EPSILON = 1e-12


@dataclass(frozen=True)
class BertSize:
    """The differences between the published models, except the number of layers."""

    width: int
    heads: int
    inner: int


BASE = BertSize(width=768, heads=12, inner=3072)
LARGE = BertSize(width=1024, heads=16, inner=4096)


class BertLayer(nn.Module):
    """Attention and feed-forward, each added to its input and normalised after."""

    def __init__(self, size: BertSize) -> None:
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

    def __init__(self, layers: int, size: BertSize) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, size.width)
        self.positions = nn.Embedding(POSITIONS, size.width)
        self.token_types = nn.Embedding(TOKEN_TYPES, size.width)
        self.norm = nn.LayerNorm(size.width, eps=EPSILON)
        self.layers = nn.Sequential(*(BertLayer(size) for _ in range(layers)))
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


def operations(batch: int, tokens: int, layers: int, size: BertSize) -> int:
    """Floating-point operations of one forward pass."""
    encoder = layers * flops.transformer_layer(batch, tokens, size.width, size.inner)
    return encoder + flops.linear(batch, size.width, size.width)


def _bert_workload(batch: int, tokens: int, layers: int, size: BertSize) -> Workload:
    inputs = draw(batch, tokens)
    classify = cross_entropy(batch, classes=size.width)
    return Workload(
        Bert(layers, size),
        inputs,
        items=batch * tokens,
        unit="tokens",
        flops=operations(batch, tokens, layers, size),
        loss=lambda output: classify(output[1]),
        checkpointed=submodule_names("layers", layers),
    )


@case(family="transformers", phases=("infer", "train"), batch=[1, 4, 16, 32], tokens=[128], layers=[2, 12])
def bert_base(batch: int, tokens: int, layers: int) -> Workload:
    """BERT-base, uncased; trained as a classifier whose class scores are the pooled state itself."""
    return _bert_workload(batch, tokens, layers, BASE)


@case(family="transformers", phases=("infer", "train"), batch=[4, 8, 16], tokens=[128], layers=[2, 24])
def bert_large(batch: int, tokens: int, layers: int) -> Workload:
    """BERT-large, uncased; trained as BERT-base is. What mixed precision is usually shown on."""
    return _bert_workload(batch, tokens, layers, LARGE)


MIDDLE_LENGTH, LENGTH_STEP = 128, 16
#: As many lengths as there are steps around the middle that leave a token.
MOST_LENGTHS = 2 * (MIDDLE_LENGTH // LENGTH_STEP) - 1


def dynamic_lengths(count: int) -> list[int]:
    """`count` lengths around 128, so that 128 is mean and median; 128 comes first.

    Raises ValueError for an even number of lengths, and for more than there are.
    """
    if count > MOST_LENGTHS:
        raise ValueError(f"lengths must be {MOST_LENGTHS} at most, or the shortest has no token, not {count}")
    if count % 2 == 0:
        raise ValueError(f"lengths must be odd, so that their mean is one of them, not {count}")
    reach = count // 2
    around = [MIDDLE_LENGTH + LENGTH_STEP * offset for offset in range(-reach, reach + 1) if offset]
    # Neither rising nor falling, so that no length can be guessed from the one before.
    return [MIDDLE_LENGTH, *around[::2], *around[1::2]]


@case(family="transformers", batch=[4], layers=[2], lengths=[3, 9])
def dynamic_shapes(batch: int, layers: int, lengths: int) -> Workload:
    """BERT-base of few layers over an odd number of sequence lengths in turn; 9 exceed Dynamo's limit of 8.

    Items and operations of a step are means over the lengths.
    """
    sizes = dynamic_lengths(lengths)
    first, *others = (draw(batch, tokens) for tokens in sizes)
    return Workload(
        Bert(layers, BASE),
        first,
        items=batch * MIDDLE_LENGTH,
        unit="tokens",
        flops=sum(operations(batch, tokens, layers, BASE) for tokens in sizes) / lengths,
        variants=tuple(others),
    )
