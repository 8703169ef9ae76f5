"""Decoders token by token: Llama and GPT-2 with a key-value cache of fixed or growing length."""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..worker.case import Workload, case
from . import flops
from .layers import FeedForward, cross_entropy, initialise, submodule_names


@dataclass(frozen=True, slots=True)
class DecoderSize:
    """Sizes of a decoder; `cached_heads` hold keys and values. `llama` tells its kind from GPT-2's."""

    width: int
    heads: int
    cached_heads: int
    inner: int
    vocabulary: int
    llama: bool

    @property
    def head_width(self) -> int:
        """Numbers in each head."""
        return self.width // self.heads

    def flops(self, queries: int, keys: int) -> int:
        """Of one layer for `queries` tokens that attend to `keys` tokens."""
        cached = 2 * self.cached_heads * self.head_width
        products = 3 if self.llama else 2
        return (
            flops.linear(queries, self.width, self.width + cached)
            + flops.attention(1, queries, keys, self.width)
            + flops.linear(queries, self.width, self.width)
            + products * flops.linear(queries, self.width, self.inner)
        )

    def head_flops(self, tokens: int) -> int:
        """Of the last layer, from the width to the vocabulary."""
        return flops.linear(tokens, self.width, self.vocabulary)


#: Llama 3.2 with a billion weights (its published config.json), a quarter of its vocabulary.
LLAMA = DecoderSize(2048, 32, 8, 8192, 32064, llama=True)
#: GPT-2 small (Radford et al. 2019), its vocabulary cut as Llama's is.
GPT2 = DecoderSize(768, 12, 12, 3072, 12544, llama=False)
SIZES = {"llama": LLAMA, "gpt2": GPT2}
#: Positions that a cache of fixed length has.
POSITIONS = 256


class RootMeanSquareNorm(nn.Module):
    """Rows over their root mean square. Source: Zhang and Sennrich 2019, arXiv:1910.07467, equation 4."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, hidden: Tensor) -> Tensor:
        scale = torch.rsqrt(hidden.float().square().mean(-1, keepdim=True) + 1e-5)
        return (hidden * scale).type_as(hidden) * self.weight


class GatedFeedForward(nn.Module):
    """down(silu(gate(x)) * up(x)). Source: Shazeer 2020, arXiv:2002.05202, equation 6 (SwiGLU)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(hidden)) * self.up(hidden))


def rotate(heads: Tensor, places: Tensor) -> Tensor:
    """Heads (batch, heads, tokens, width) turned by angles that grow with their `places` (tokens,).

    Source: Su et al. 2021, arXiv:2104.09864, section 3.4.2; halves are turned, as Llama does, not neighbours.
    """
    half = heads.shape[-1] // 2
    steps = torch.arange(half, device=heads.device, dtype=torch.float32) / half
    angles = places.float()[:, None] * (10000.0**-steps)
    cosine, sine = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
    first, second = heads[..., :half], heads[..., half:]
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


class DecoderLayer(nn.Module):
    """A layer whose attention is given the keys and values of earlier tokens.

    `forward` takes hidden states (batch, tokens, width) at `places` (tokens,) and what attends returns:
    keys and values (batch, cached heads, keys, head width) with a mask (tokens, keys), True where seen.
    """

    def __init__(self, size: DecoderSize) -> None:
        super().__init__()
        self.size = size
        cached = size.cached_heads * size.head_width
        bias = not size.llama
        self.query = nn.Linear(size.width, size.width, bias=bias)
        self.key_value = nn.Linear(size.width, 2 * cached, bias=bias)
        self.output = nn.Linear(size.width, size.width, bias=bias)
        make_norm = RootMeanSquareNorm if size.llama else nn.LayerNorm
        self.attention_norm, self.feed_forward_norm = make_norm(size.width), make_norm(size.width)
        self.feed_forward = (
            GatedFeedForward(size.width, size.inner)
            if size.llama
            else FeedForward(size.width, size.inner, "tanh")
        )

    def project(self, hidden: Tensor, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of these tokens."""
        size = self.size
        normalised = self.attention_norm(hidden)
        query = self.query(normalised).unflatten(-1, (size.heads, -1)).transpose(1, 2)
        split = self.key_value(normalised).unflatten(-1, (2, size.cached_heads, -1))
        key, value = split.permute(2, 0, 3, 1, 4).unbind()
        if size.llama:
            query, key = rotate(query, places), rotate(key, places)
        return query, key, value

    def attend(
        self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
    ) -> Tensor:
        """The layer's output, where queries attend to keys and values."""
        groups = self.size.heads // self.size.cached_heads
        if groups > 1:
            key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        hidden = hidden + self.output(attended.transpose(1, 2).flatten(2))
        return hidden + self.feed_forward(self.feed_forward_norm(hidden))


class Decoder(nn.Module):
    """Embedding, layers and head: maps tokens (batch, tokens) to logits (batch, tokens, vocabulary)."""

    def __init__(self, size: DecoderSize, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = None if size.llama else nn.Embedding(POSITIONS, size.width)
        self.layers = nn.ModuleList(DecoderLayer(size) for _ in range(layers))
        self.norm = RootMeanSquareNorm(size.width) if size.llama else nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)
        initialise(self)

    def each_layer(self) -> "list[DecoderLayer]":
        """The layers in their order."""
        return cast("list[DecoderLayer]", list(self.layers))

    def embed(self, tokens: Tensor, places: Tensor) -> Tensor:
        """Hidden states of tokens at their places."""
        hidden = self.tokens(tokens)
        return hidden if self.positions is None else hidden + self.positions(places)

    def forward(self, tokens: Tensor) -> Tensor:
        count = tokens.shape[1]
        places = torch.arange(count, device=tokens.device)
        mask = places[:, None] >= places
        hidden = self.embed(tokens, places)
        for layer in self.each_layer():
            hidden = layer.attend(hidden, *layer.project(hidden, places), mask)
        return self.head(self.norm(hidden))


class FixedCacheStep(nn.Module):
    """One token, with keys and values of all positions in memory of fixed size that is written in place.

    `forward` takes tokens (batch, 1) and place (1,), and answers logits (batch, 1, vocabulary).
    """

    def __init__(self, decoder: Decoder, size: DecoderSize, batch: int) -> None:
        super().__init__()
        self.decoder = decoder
        for index in range(len(decoder.layers)):
            for name in ("keys", "values"):
                shape = batch, size.cached_heads, POSITIONS, size.head_width
                self.register_buffer(f"{name}_{index}", torch.randn(shape), persistent=False)

    def forward(self, tokens: Tensor, place: Tensor) -> Tensor:
        mask = torch.arange(POSITIONS, device=tokens.device) <= place
        hidden = self.decoder.embed(tokens, place)
        for index, layer in enumerate(self.decoder.each_layer()):
            query, key, value = layer.project(hidden, place)
            keys, values = self.get_buffer(f"keys_{index}"), self.get_buffer(f"values_{index}")
            keys.index_copy_(2, place, key)
            values.index_copy_(2, place, value)
            hidden = layer.attend(hidden, query, keys, values, mask[None])
        return self.decoder.head(self.decoder.norm(hidden))


class GrowingCacheStep(nn.Module):
    """One token, with the keys and values of all layers before it as an input that is one longer each step.

    `forward` takes tokens (batch, 1) and the past (layers, 2, batch, cached heads, past, head width), and
    answers the logits and the past with this token.
    """

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, tokens: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        place = torch.full((1,), past.shape[-2], device=tokens.device)
        hidden, grown = self.decoder.embed(tokens, place), []
        for layer, (keys, values) in zip(self.decoder.each_layer(), past, strict=True):
            query, key, value = layer.project(hidden, place)
            keys, values = torch.cat([keys, key], -2), torch.cat([values, value], -2)
            grown.append(torch.stack([keys, values]))
            hidden = layer.attend(hidden, query, keys, values, None)
        return self.decoder.head(self.decoder.norm(hidden)), torch.stack(grown)


@case(
    family="decoding", phases=("infer", "train"), model=["llama", "gpt2"], batch=[1], tokens=[128], layers=[1]
)
def decoder_block(model: str, batch: int, tokens: int, layers: int) -> Workload:
    """Layers of Llama or GPT-2 over a whole prompt: its latency is the time to the first token.

    Guards: the mix of normalisation, rotation, grouped attention and gated products that language models run.
    """
    size = SIZES[model]
    return Workload(
        Decoder(size, layers),
        (torch.randint(size.vocabulary, (batch, tokens)),),
        items=batch * tokens,
        unit="tokens",
        flops=batch * (layers * size.flops(tokens, tokens) + size.head_flops(tokens)),
        loss=cross_entropy(batch, tokens, classes=size.vocabulary),
        classes=True,
        checkpointed=submodule_names("layers", layers),
    )


#: Tokens that a measurement decodes before it begins with the same prompt again.
_STEPS = 8


@case(
    family="decoding", model=["llama", "gpt2"], cache=["fixed", "growing"], batch=[1], past=[128], layers=[1]
)
def decoding(model: str, cache: str, batch: int, past: int, layers: int) -> Workload:
    """The next token after `past` others, eight in turn; its items per second are tokens per second.

    A growing cache has another shape each step, which a compiled model must not compile anew.
    Guards: one-row products, copies of the cache, recompilation, int8 weights (precision=int8-dynamic).
    """
    size = SIZES[model]
    decoder = Decoder(size, layers)
    steps: list[tuple[Tensor, ...]] = []
    for step in range(_STEPS):
        tokens = torch.randint(size.vocabulary, (batch, 1))
        if cache == "fixed":
            steps.append((tokens, torch.tensor([past + step])))
        else:
            shape = layers, 2, batch, size.cached_heads, past + step, size.head_width
            steps.append((tokens, torch.randn(shape)))
    first, *others = steps
    # A fixed cache is attended to as a whole; of a growing one the mean length counts.
    keys = POSITIONS if cache == "fixed" else past + (_STEPS + 1) / 2
    attention = flops.attention(1, 1, 1, size.width) * keys
    rest = size.flops(1, 0)
    return Workload(
        FixedCacheStep(decoder, size, batch) if cache == "fixed" else GrowingCacheStep(decoder),
        first,
        items=batch,
        unit="tokens",
        flops=batch * (layers * (rest + attention) + size.head_flops(1)),
        variants=tuple(others),
        classes=True,
    )
