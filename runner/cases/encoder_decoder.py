"""T5: an encoder, a decoder that attends to it, and its loop of generation."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..worker.case import Workload, case
from . import flops
from .decoding import RootMeanSquareNorm
from .layers import cross_entropy, initialise

#: T5-small's widths (Raffel et al. 2020, arXiv:1910.10683, section 2.1), with a fourth of its vocabulary.
WIDTH, HEADS, INNER, VOCABULARY = 512, 8, 2048, 8032
HEAD_WIDTH = WIDTH // HEADS
#: Distances that have a bias of their own; all larger ones share the last.
DISTANCES = 32


class Attention(nn.Module):
    """Attention without scale and bias terms, whose scores get a bias from outside, as in T5."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = RootMeanSquareNorm(WIDTH)
        self.query, self.key, self.value, self.output = (
            nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)
        )

    def forward(self, hidden: Tensor, other: Tensor | None, bias: Tensor | None) -> Tensor:
        """`hidden` plus what it attends to: itself, or `other` where there is one."""
        normalised = self.norm(hidden)
        source = normalised if other is None else other
        query, key, value = (
            layer(rows).unflatten(-1, (HEADS, HEAD_WIDTH)).transpose(1, 2)
            for layer, rows in ((self.query, normalised), (self.key, source), (self.value, source))
        )
        # The kernel scales by the root of the head's width, T5 does not.
        attended = F.scaled_dot_product_attention(query * HEAD_WIDTH**0.5, key, value, attn_mask=bias)
        return hidden + self.output(attended.transpose(1, 2).flatten(2))


class ReluFeedForward(nn.Module):
    """Two products with a ReLU between them, on normalised input, added to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = RootMeanSquareNorm(WIDTH)
        self.widen, self.narrow = nn.Linear(WIDTH, INNER, bias=False), nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + self.narrow(self.widen(self.norm(hidden)).relu())


class EncoderLayer(nn.Module):
    """Attention of the source to itself, and the products."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.feed_forward = Attention(), ReluFeedForward()

    def forward(self, hidden: Tensor, bias: Tensor) -> Tensor:
        return self.feed_forward(self.attention(hidden, None, bias))


class CrossAttendingLayer(nn.Module):
    """Attention of the target to itself and to what the encoder left, and the products."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.cross_attention, self.feed_forward = Attention(), Attention(), ReluFeedForward()

    def forward(self, hidden: Tensor, encoded: Tensor, bias: Tensor) -> Tensor:
        return self.feed_forward(self.cross_attention(self.attention(hidden, None, bias), encoded, None))


class T5(nn.Module):
    """Maps source (batch, tokens) and target (batch, tokens) to logits (batch, target tokens, vocabulary)."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.source_distances = nn.Embedding(2 * DISTANCES + 1, HEADS)
        self.target_distances = nn.Embedding(2 * DISTANCES + 1, HEADS)
        self.encoder = nn.ModuleList(EncoderLayer() for _ in range(layers))
        self.decoder = nn.ModuleList(CrossAttendingLayer() for _ in range(layers))
        self.norm = RootMeanSquareNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        initialise(self)

    def encode(self, source: Tensor) -> Tensor:
        """Hidden states (batch, tokens, width) of the source."""
        bias = _distance_bias(self.source_distances, source.shape[1], causal=False)
        hidden = self.tokens(source)
        for layer in self.encoder:
            hidden = layer(hidden, bias)
        return hidden

    def decode(self, target: Tensor, encoded: Tensor) -> Tensor:
        """Logits of every position of the target."""
        bias = _distance_bias(self.target_distances, target.shape[1], causal=True)
        hidden = self.tokens(target)
        for layer in self.decoder:
            hidden = layer(hidden, encoded, bias)
        return self.head(self.norm(hidden))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(target, self.encode(source))


def _distance_bias(table: nn.Embedding, tokens: int, causal: bool) -> Tensor:
    """The bias (1, heads, tokens, tokens) by distance; if causal, -inf for later tokens."""
    places = torch.arange(tokens, device=table.weight.device)
    distances = (places - places[:, None]).clamp(-DISTANCES, DISTANCES)
    bias = table(distances + DISTANCES).permute(2, 0, 1)[None]
    return bias.masked_fill(distances > 0, float("-inf")) if causal else bias


class Generation(nn.Module):
    """Maps source (batch, tokens) to the logits (batch, steps, vocabulary) of each generated token."""

    def __init__(self, model: T5, steps: int) -> None:
        super().__init__()
        self.model = model
        self.steps = steps

    def forward(self, source: Tensor) -> Tensor:
        encoded = self.model.encode(source)
        target = source.new_zeros(source.shape[0], 1)
        chosen: list[Tensor] = []
        for _ in range(self.steps):
            logits = self.model.decode(target, encoded)[:, -1]
            chosen.append(logits)
            target = torch.cat([target, logits.argmax(-1, keepdim=True)], 1)
        return torch.stack(chosen, 1)


def _flops(batch: int, layers: int, source: int, target: int) -> int:
    encoder = flops.transformer_layer(batch, source, WIDTH, INNER)
    decoder = flops.transformer_layer(batch, target, WIDTH, INNER)
    # Attention to the encoder: queries and outputs of the target, keys and values of the source.
    cross = flops.linear(batch * target, WIDTH, 2 * WIDTH) + flops.linear(batch * source, WIDTH, 2 * WIDTH)
    cross += flops.attention(batch, target, source, WIDTH)
    return layers * (encoder + decoder + cross) + flops.linear(batch * target, WIDTH, VOCABULARY)


@case(family="encoder-decoder", phases=("infer", "train"), batch=[1, 4], tokens=[64], layers=[1, 6])
def t5(batch: int, tokens: int, layers: int) -> Workload:
    """T5's encoder and decoder over a source and a target of `tokens` each.

    Guards: attention with a bias on its scores and attention to another sequence.
    """
    return Workload(
        T5(layers),
        (torch.randint(VOCABULARY, (batch, tokens)), torch.randint(VOCABULARY, (batch, tokens))),
        items=batch * tokens,
        unit="tokens",
        flops=_flops(batch, layers, tokens, tokens),
        loss=cross_entropy(batch, tokens, classes=VOCABULARY),
    )


@case(family="encoder-decoder", batch=[1], tokens=[32], steps=[3], layers=[1])
def t5_generate(batch: int, tokens: int, steps: int, layers: int) -> Workload:
    """T5's loop of generation without a cache, whose target is one longer in each of `steps`.

    Guards: the time to compile a loop, and recompilation for each length.
    """
    encoder = layers * flops.transformer_layer(batch, tokens, WIDTH, INNER)
    decoders = sum(_flops(batch, layers, tokens, target) - encoder for target in range(1, steps + 1))
    return Workload(
        Generation(T5(layers), steps),
        (torch.randint(VOCABULARY, (batch, tokens)),),
        items=batch * steps,
        unit="tokens",
        flops=encoder + decoders,
    )
