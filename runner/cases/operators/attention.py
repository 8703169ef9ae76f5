"""Attention as one operator: causal, masked, with grouped queries, and over more dimensions than four."""

import importlib
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...worker.case import Workload, case
from ...worker.prepared_case import Unsupported
from .. import flops
from .operator import Backward, FunctionModel, copies

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
        variants=copies(*inputs),
    )


def _plain(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value)


def _masked(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def _grouped(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
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


#: Query heads that share one head of keys and values, as in Llama 3 with 8 billion weights.
_GROUP = 4


@case(
    family="attention",
    kind=["plain", "masked", "boolean", "one_query", "five_dimensions", "windows", "grouped"],
    heads=[12],
    tokens=[256],
)
def attention(kind: str, heads: int, tokens: int) -> Workload:
    """Attention without a causal mask: plain, masked, one query, five dimensions, windows, grouped queries.

    Guards: a shape or mask for which the fused kernel is not taken, so that scores are written to memory.
    """
    function, query, key, others = _plain, (1, heads, tokens), (1, heads, tokens), ()
    if kind == "masked":
        function, others = _masked, (torch.randn(1, 1, tokens, tokens),)
    elif kind == "boolean":
        function, others = _masked, (torch.rand(1, 1, tokens, tokens) > 0.1,)
    elif kind == "windows":
        function = _windows
    elif kind == "one_query":
        query = (1, heads, 1)
    elif kind == "five_dimensions":
        # Blocks of tokens that attend to themselves, as in NesT.
        query = key = (1, heads, 4, tokens // 4)
    elif kind == "grouped":
        _require_grouped_queries()
        function, key = _grouped, (1, heads // _GROUP, tokens)
    elif kind != "plain":
        raise ValueError(f"attention has no kind {kind!r}")
    inputs = (
        torch.randn(*query, HEAD_WIDTH),
        torch.randn(*key, HEAD_WIDTH),
        torch.randn(*key, HEAD_WIDTH),
        *others,
    )
    rows = query[-1] * (query[-2] if kind == "five_dimensions" else 1)
    return Workload(
        FunctionModel(function),
        inputs,
        items=rows,
        unit="tokens",
        flops=flops.attention(1, rows, _WINDOW if kind == "windows" else key[-1], heads * HEAD_WIDTH),
        variants=copies(*inputs),
    )


def _require_grouped_queries() -> None:
    if "enable_gqa" not in (F.scaled_dot_product_attention.__doc__ or ""):
        raise Unsupported(
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
    try:
        function = importlib.import_module("torch.nn.attention.flex_attention").flex_attention
    except ImportError:
        raise Unsupported(f"flex_attention is not in this version of PyTorch ({torch.__version__})") from None
    inputs = tuple(torch.randn(1, heads, tokens, HEAD_WIDTH) for _ in range(3))
    return Workload(
        FlexAttention(function),
        inputs,
        items=tokens,
        unit="tokens",
        flops=flops.attention(1, tokens, tokens, heads * HEAD_WIDTH),
        variants=copies(*inputs),
    )
