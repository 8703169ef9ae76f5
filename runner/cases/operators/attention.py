"""Attention as one operator: causal, masked, with grouped queries, and over more dimensions than four."""

import importlib
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...worker.case import Workload, case
from ...worker.prepared_case import UnsupportedCase
from .. import flops
from ..layers import squared_error
from .operator import Backward, FunctionModel

HEAD_WIDTH = 64


class CausalAttention(nn.Module):
    """`scaled_dot_product_attention` with a causal mask; the device's own choice of kernel."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)


@case(family="attention", batch=[1, 8], heads=[12], tokens=[128, 1024])
def sdpa(batch: int, heads: int, tokens: int) -> Workload:
    """Causal scaled-dot-product attention with heads of 64, as in GPT-2."""
    inputs = tuple(torch.randn(batch, heads, tokens, HEAD_WIDTH) for _ in range(3))
    return Workload(
        CausalAttention(),
        inputs,
        items=batch * tokens,
        unit="tokens",
        flops=flops.attention(batch, tokens, tokens, heads * HEAD_WIDTH),
        rotated=True,
    )


def _plain(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value)


def _attend_masked(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def _attend_grouped(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, enable_gqa=True)


def _causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


#: Tokens of a window, about the 7 x 7 of a Swin transformer.
_WINDOW = 64


def _windows(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention within windows, which lie half a window further than the input begins.

    Source: Liu et al. 2021, arXiv:2103.14030, section 3.2, without the mask of the last window.
    """
    query, key, value = (
        one.roll(-(_WINDOW // 2), -2).unflatten(-2, (-1, _WINDOW)) for one in (query, key, value)
    )
    return F.scaled_dot_product_attention(query, key, value).flatten(-3, -2).roll(_WINDOW // 2, -2)


def _talking(query: Tensor, key: Tensor, value: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """Attention whose heads are mixed, before and after the softmax, by matrices (heads, heads).

    Source: Shazeer et al. 2020, arXiv:2003.02436, section 5.
    """
    scores = torch.einsum("bhqk,hg->bgqk", query @ key.mT / HEAD_WIDTH**0.5, before)
    return torch.einsum("bhqk,hg->bgqk", scores.softmax(-1), after) @ value


#: Query heads that share one head of keys and values, as in Llama 3 with 8 billion weights.
_GROUP = 4


@case(
    family="attention",
    kind=[
        "plain",
        "masked",
        "boolean",
        "one_query",
        "five_dimensions",
        "windows",
        "grouped",
        "strided",
        "talking",
    ],
    heads=[12],
    tokens=[256],
)
def attention(kind: str, heads: int, tokens: int) -> Workload:
    """Attention without a causal mask, as one operator and by kinds that leave its fused kernel.

    The heads of `strided` lie beside each other in memory, token by token, as a projection leaves them; those
    of `talking` are mixed by matrices.

    Guards: a shape or mask for which the fused kernel is not taken, so that scores are written to memory.
    """
    function, query, key, others = _plain, (1, heads, tokens), (1, heads, tokens), ()
    if kind == "masked":
        function, others = _attend_masked, (torch.randn(1, 1, tokens, tokens),)
    elif kind == "boolean":
        function, others = _attend_masked, (torch.rand(1, 1, tokens, tokens) > 0.1,)
    elif kind == "windows":
        function = _windows
    elif kind == "one_query":
        query = (1, heads, 1)
    elif kind == "five_dimensions":
        # Blocks of tokens that attend to themselves, as in NesT.
        query = key = (1, heads, 4, tokens // 4)
    elif kind == "grouped":
        _require_grouped_queries()
        function, key = _attend_grouped, (1, heads // _GROUP, tokens)
    elif kind == "talking":
        function, others = _talking, (torch.randn(heads, heads), torch.randn(heads, heads))
    elif kind not in ("plain", "strided"):
        raise ValueError(f"attention has no kind {kind!r}")
    inputs = (
        torch.randn(*query, HEAD_WIDTH),
        torch.randn(*key, HEAD_WIDTH),
        torch.randn(*key, HEAD_WIDTH),
        *others,
    )
    if kind == "strided":
        inputs = tuple(one.transpose(1, 2).contiguous().transpose(1, 2) for one in inputs)
    rows = query[-1] * (query[-2] if kind == "five_dimensions" else 1)
    seen = _WINDOW if kind == "windows" else key[-1]
    mixing = 2 * flops.linear(rows * tokens, heads, heads) if kind == "talking" else 0
    return Workload(
        FunctionModel(function),
        inputs,
        items=rows,
        unit="tokens",
        flops=mixing + flops.attention(1, rows, seen, heads * HEAD_WIDTH),
        rotated=True,
    )


class _AttentionLayer(nn.Module):
    """`nn.MultiheadAttention` of a sequence to itself, (batch, tokens, width), with or without weights."""

    def __init__(self, width: int, heads: int, weights: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.weights = weights

    def forward(self, hidden: Tensor) -> tuple[Tensor, Tensor] | Tensor:
        attended, weights = self.attention(hidden, hidden, hidden, need_weights=self.weights)
        return (attended, weights) if self.weights else attended


@case(family="attention", phases=("infer", "train"), weights=[False, True], batch=[4], tokens=[128])
def attention_layer(weights: bool, batch: int, tokens: int) -> Workload:
    """PyTorch's own attention layer, 768 wide with 12 heads, asked for the attention weights or not.

    Guards: its fast path, and the fused kernel that it takes only where no weights are asked for.
    """
    width, heads = 12 * HEAD_WIDTH, 12
    rows = batch * tokens
    error = squared_error(batch, tokens, width)
    return Workload(
        _AttentionLayer(width, heads, weights),
        (torch.randn(batch, tokens, width),),
        items=rows,
        unit="tokens",
        flops=flops.linear(rows, width, 4 * width) + flops.attention(batch, tokens, tokens, width),
        loss=lambda output: error(output[0] if weights else output),
    )


def _require_grouped_queries() -> None:
    if "enable_gqa" not in (F.scaled_dot_product_attention.__doc__ or ""):
        raise UnsupportedCase(
            f"scaled_dot_product_attention has no enable_gqa in this version of PyTorch ({torch.__version__})"
        )


@case(family="attention", kind=["plain", "causal"], heads=[12], tokens=[256])
def attention_backward(kind: str, heads: int, tokens: int) -> Workload:
    """The gradients of attention at queries, keys and values, alone.

    Guards: a fused forward kernel whose backward pass writes the scores to memory.
    """
    inputs = tuple(torch.randn(1, heads, tokens, HEAD_WIDTH) for _ in range(3))
    return Workload(
        Backward({"plain": _plain, "causal": _causal}[kind]),
        inputs,
        items=tokens,
        unit="tokens",
        # Each of the two products has two gradients, and the scores are computed again.
        flops=2.5 * flops.attention(1, tokens, tokens, heads * HEAD_WIDTH),
    )


class FlexAttention(nn.Module):
    """`flex_attention` with a score that falls with the distance between query and key."""

    def __init__(self, flex_attention: Any) -> None:
        super().__init__()
        self.flex_attention = flex_attention

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.flex_attention(query, key, value, score_mod=_nearer_is_more)


def _nearer_is_more(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return score - (query - key).abs() / 16


@case(family="attention", heads=[12], tokens=[256])
def flex_attention(heads: int, tokens: int) -> Workload:
    """FlexAttention with a relative position in the score; `compile=default` makes its fused kernel.

    Guards: the template's kernel that is lost, so that scores are written to memory.
    """
    function = _require_flex_attention().flex_attention
    inputs = tuple(torch.randn(1, heads, tokens, HEAD_WIDTH) for _ in range(3))
    return Workload(
        FlexAttention(function),
        inputs,
        items=tokens,
        unit="tokens",
        flops=flops.attention(1, tokens, tokens, heads * HEAD_WIDTH),
        rotated=True,
    )


def _require_flex_attention() -> Any:
    """The module of FlexAttention; raises UnsupportedCase before PyTorch 2.5, which has it for CUDA alone."""
    try:
        library = importlib.import_module("torch.nn.attention.flex_attention")
    except ImportError:
        raise UnsupportedCase(
            f"flex_attention is not in this version of PyTorch ({torch.__version__})"
        ) from None
    if torch.__version__.startswith("2.5.") and not torch.cuda.is_available():
        raise UnsupportedCase(f"flex_attention is for CUDA alone in this PyTorch ({torch.__version__})")
    return library


class BlockMasks(nn.Module):
    """The blocks that a token sees: those before it, of its own document; how many for each block of queries.

    Maps `documents` (tokens,), the number of each token's document, to (1, 1, blocks).
    """

    def __init__(self, library: Any) -> None:
        super().__init__()
        self._library = library

    def mask(self, documents: Tensor) -> Any:
        """The block mask itself."""

        def sees(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return (documents[query] == documents[key]) & (query >= key)

        tokens = len(documents)
        return self._library.create_block_mask(sees, None, None, tokens, tokens, device=str(documents.device))

    def forward(self, documents: Tensor) -> Tensor:
        mask = self.mask(documents)
        return mask.kv_num_blocks + mask.full_kv_num_blocks


class MaskedFlexAttention(nn.Module):
    """`flex_attention` under the mask of `BlockMasks`, which is made in the first call and kept."""

    def __init__(self, library: Any) -> None:
        super().__init__()
        self._attend = library.flex_attention
        # No part of what is compiled: programs make their masks ahead.
        self._make: Any = torch.compiler.disable(BlockMasks(library).mask)
        self._mask: Any = None

    def forward(self, query: Tensor, key: Tensor, value: Tensor, documents: Tensor) -> Tensor:
        if self._mask is None:
            self._mask = self._make(documents)
        return self._attend(query, key, value, block_mask=self._mask)


@case(family="attention", kind=["made", "used"], tokens=[1024])
def block_mask(kind: str, tokens: int) -> Workload:
    """The mask of three documents in one sequence, as FlexAttention skips blocks by it: made, or used.

    Guards: a mask that takes longer to make than attention takes, and empty blocks that are computed.
    """
    library = _require_flex_attention()
    documents = torch.arange(tokens) * 3 // tokens
    if kind == "made":
        return Workload(BlockMasks(library), (documents,), items=tokens, unit="tokens")
    heads = tuple(torch.randn(1, 12, tokens, HEAD_WIDTH) for _ in range(3))
    return Workload(MaskedFlexAttention(library), (*heads, documents), items=tokens, unit="tokens")


class FlexSelfAttention(nn.Module):
    """Self-attention of documents (1, tokens, width) by FlexAttention, between its projections."""

    def __init__(self, library: Any, heads: int) -> None:
        super().__init__()
        width = heads * HEAD_WIDTH
        self.projections = nn.Linear(width, 3 * width)
        self.attention = MaskedFlexAttention(library)
        self.output = nn.Linear(width, width)

    def forward(self, hidden: Tensor, documents: Tensor) -> Tensor:
        split = self.projections(hidden).unflatten(-1, (3, -1, HEAD_WIDTH))
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind()
        return self.output(self.attention(query, key, value, documents).transpose(1, 2).flatten(2))


@case(family="attention", phases=("infer", "train"), heads=[12], tokens=[1024])
def flex_layer(heads: int, tokens: int) -> Workload:
    """A layer of attention over three documents in one sequence by FlexAttention, which trains on CUDA only.

    Guards: the fused kernel's backward pass, and copies between its layout and that of the projections.
    """
    width = heads * HEAD_WIDTH
    return Workload(
        FlexSelfAttention(_require_flex_attention(), heads),
        (torch.randn(1, tokens, width), torch.arange(tokens) * 3 // tokens),
        items=tokens,
        unit="tokens",
        flops=flops.linear(tokens, width, 4 * width) + flops.attention(1, tokens, tokens, width),
        loss=squared_error(1, tokens, width),
    )
