"""Single operations of attention: the fused kernel, and the softmax that it took the place of."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..worker.case import Workload, case
from . import flops
from .rotation import copies

HEAD_WIDTH = 64


class CausalAttention(nn.Module):
    """`scaled_dot_product_attention` with a causal mask; the device's own choice of kernel."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)


class Softmax(nn.Module):
    """Over the last dimension."""

    def forward(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)


@case(batch=[1, 8], heads=[12], tokens=[128, 1024])
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


@case(rows=[4096], columns=[512, 4096])
def softmax(rows: int, columns: int) -> Workload:
    """Softmax along rows: bound by memory, so its items per second are bytes in disguise."""
    scores = torch.randn(rows, columns)
    return Workload(Softmax(), (scores,), items=rows, unit="rows", variants=copies(scores))
