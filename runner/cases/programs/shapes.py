"""Inputs whose shapes vary: sentences padded to the longest of all, or in a nested tensor."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...worker.case import Workload, case
from ...worker.prepared_case import UnsupportedCase
from .. import flops
from ..bert import BASE, MIDDLE_LENGTH, Bert, dynamic_lengths, operations
from ..bert import draw as draw_tokens
from ..layers import squared_error

WIDTH = 256


class PaddedEncoder(nn.Module):
    """`nn.TransformerEncoder` over sentences (batch, tokens, 256); zero at the `padding` (batch, tokens)."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, WIDTH // 64, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)

    def forward(self, hidden: Tensor, padding: Tensor, mask: Tensor | None = None) -> Tensor:
        encoded = self.encoder(hidden, mask, src_key_padding_mask=padding)
        return encoded.masked_fill(padding[..., None], 0.0)


@case(family="transformers", phases=("infer", "train"), batch=[4], tokens=[128], layers=[2])
def padded_encoder(batch: int, tokens: int, layers: int) -> Workload:
    """PyTorch's own encoder over a batch of sentences, the last of them the longest, the others padded.

    In inference it packs the sentences into a nested tensor and leaves the padding out. Items are the tokens
    without the padding.

    Guards: its fast path, which is left for small reasons, and what nested tensors cost.
    """
    lengths = torch.linspace(tokens / batch, tokens, batch).int()
    padding = torch.arange(tokens) >= lengths[:, None]
    return Workload(
        PaddedEncoder(layers),
        (torch.randn(batch, tokens, WIDTH), padding),
        items=int(lengths.sum()),
        unit="tokens",
        loss=squared_error(batch, tokens, WIDTH),
    )


@case(family="transformers", batch=[4], tokens=[128], layers=[2])
def masked_encoder(batch: int, tokens: int, layers: int) -> Workload:
    """PyTorch's own encoder over whole sentences under a mask: each token sees 16 on either side.

    Guards: its fast path under a mask, which may write all scores to memory.
    """
    places = torch.arange(tokens)
    inputs = (
        torch.randn(batch, tokens, WIDTH),
        torch.zeros(batch, tokens, dtype=torch.bool),
        (places[:, None] - places).abs() > 16,
    )
    return Workload(PaddedEncoder(layers), inputs, items=batch * tokens, unit="tokens")


@case(family="transformers", batch=[4], layers=[2], lengths=[3, 9])
def padded_lengths(batch: int, layers: int, lengths: int) -> Workload:
    """The sentences of `dynamic_shapes`, each padded to the longest, as a graph of one shape wants them.

    Items are the tokens without the padding: its throughput against that of `dynamic_shapes` is what the
    padding costs. Nothing is masked; a mask would make the padding no cheaper.

    Guards: kernels that become slower at one length, which the other case spreads over several.
    """
    sizes = dynamic_lengths(lengths)
    longest = max(sizes)
    first, *others = (
        tuple(F.pad(one, (0, longest - tokens)) for one in draw_tokens(batch, tokens)) for tokens in sizes
    )
    return Workload(
        Bert(layers, BASE),
        first,
        items=batch * MIDDLE_LENGTH,
        unit="tokens",
        flops=operations(batch, longest, layers, BASE),
        variants=tuple(others),
    )


class RaggedFeedForward(nn.Module):
    """Two linear layers with a GELU between them, added to what came in, over sentences in a nested tensor.

    Maps the tokens of all sentences (tokens, 256), which begin at `offsets`, to the same shape.
    """

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self._nested: Any = torch.nested.nested_tensor_from_jagged

    def forward(self, tokens: Tensor, offsets: Tensor) -> Tensor:
        sentences = self._nested(tokens, offsets)
        return (sentences + self.down(F.gelu(self.up(sentences)))).values()


@case(family="transformers", phases=("infer", "train"), batch=[4], tokens=[128])
def ragged_feed_forward(batch: int, tokens: int) -> Workload:
    """The feed-forward part of a transformer over a nested tensor of sentences, the longest of `tokens`.

    Guards: what an operator costs on a tensor whose type is written in Python.
    """
    if not hasattr(torch.nested, "nested_tensor_from_jagged"):
        raise UnsupportedCase(
            f"nested_tensor_from_jagged is not in this version of PyTorch ({torch.__version__})"
        )
    lengths = torch.linspace(tokens / batch, tokens, batch).long()
    rows = int(lengths.sum())
    return Workload(
        RaggedFeedForward(),
        (torch.randn(rows, WIDTH), F.pad(lengths.cumsum(0), (1, 0))),
        items=rows,
        unit="tokens",
        flops=2 * flops.linear(rows, WIDTH, 4 * WIDTH),
        loss=squared_error(rows, WIDTH),
    )
