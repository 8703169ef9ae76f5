"""Single operations: products, convolutions, attention, softmax, normalisation, embedding, cross-entropy."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..worker.case import Workload, case
from . import flops

#: All copies together. Three times the level-2 cache of every GPU there is (the largest has 126 MiB) and of
#: most last-level caches of CPUs. A constant, not what this machine would need: a case is the same workload
#: everywhere. Behind a larger cache, as of a virtual machine that sees its host's, part may still be found.
ROTATED_BYTES = 512 << 20
#: Of small inputs no more copies than this; below 128 KiB a set, the cache may keep them.
_MOST = 4096


def copies(*inputs: Tensor) -> tuple[tuple[Tensor, ...], ...]:
    """Variants for a workload with these inputs: the same numbers at other addresses.

    The same, because a cache goes by address, and copying is much faster than drawing. Together with the
    inputs they fill ROTATED_BYTES, or are the inputs alone where these are larger.
    """
    count = min(_MOST, ROTATED_BYTES // sum(tensor.nbytes for tensor in inputs))
    return tuple(tuple(tensor.clone() for tensor in inputs) for _ in range(count - 1))


class Matmul(nn.Module):
    """The product of (m, k) and (k, n)."""

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return left @ right


def _matmul_workload(m: int, n: int, k: int) -> Workload:
    left, right = torch.randn(m, k), torch.randn(k, n)
    return Workload(
        Matmul(),
        (left, right),
        items=m,
        unit="rows",
        flops=flops.linear(m, k, n),
        ceiling=True,
        variants=copies(left, right),
    )


@case(m=[128, 512], n=[3072], k=[768])
def matmul(m: int, n: int, k: int) -> Workload:
    """The product (m, k) @ (k, n); by default BERT-base's widening layer over m tokens, without its bias."""
    return _matmul_workload(m, n, k)


@case(size=[511, 512, 4088, 4090, 4095, 4096])
def gemm(size: int) -> Workload:
    """A square product whose side is a multiple of 16 (512, 4096), of 8 (4088), of 2 (4090), or odd.

    Tensor cores want rows that begin at multiples of 16 bytes: 8 numbers of 16 bits, 4 of 32. Source:
    NVIDIA, "Matrix Multiplication Background User's Guide", section "Tensor Core Requirements".
    """
    return _matmul_workload(size, size, size)


KERNEL = 3


class Convolution(nn.Module):
    """3 x 3 over images (batch, inputs, side, side) with weights (outputs, inputs, 3, 3), same size out."""

    def forward(self, images: Tensor, weights: Tensor) -> Tensor:
        return F.conv2d(images, weights, padding=KERNEL // 2)


def _convolution_workload(batch: int, channels: int, image: int) -> Workload:
    images = torch.randn(batch, channels, image, image)
    weights = torch.randn(channels, channels, KERNEL, KERNEL)
    return Workload(
        Convolution(),
        (images, weights),
        items=batch,
        unit="images",
        flops=flops.conv2d(batch, channels, channels, KERNEL, image),
        ceiling=True,
        variants=copies(images, weights),
    )


@case(batch=[8, 32], channels=[64, 256], image=[14, 56])
def conv2d(batch: int, channels: int, image: int) -> Workload:
    """A 3 x 3 convolution without bias; ResNet-50 has 64 channels at 56 pixels a side and 256 at 14."""
    return _convolution_workload(batch, channels, image)


@case(batch=[4, 32], channels=[60, 63, 64], image=[56])
def conv_channels(batch: int, channels: int, image: int) -> Workload:
    """The same convolution with channels that are a multiple of 16 (64), of 4 (60), or odd (63)."""
    return _convolution_workload(batch, channels, image)


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


class LayerNormGelu(nn.Module):
    """GELU of the normalised rows (rows, width), with scale and shift of (width,)."""

    def forward(self, rows: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        return F.gelu(F.layer_norm(rows, scale.shape, scale, shift))


@case(rows=[4096], width=[768, 1024])
def layernorm_gelu(rows: int, width: int) -> Workload:
    """Layer normalisation, then GELU: what fusion is worth in its simplest case."""
    inputs = torch.randn(rows, width), 1.0 + 0.1 * torch.randn(width), torch.randn(width)
    return Workload(LayerNormGelu(), inputs, items=rows, unit="rows", variants=copies(*inputs))


#: GPT-2's. The table of 154 MB (fp32, width 768) is more than the caches of most machines hold.
VOCABULARY = 50257
#: As many batches of tokens as together ask for nearly every row of the table.
_BATCHES_OF_TOKENS = 16


class CrossEntropy(nn.Module):
    """Mean over rows of -log softmax(logits) at the target; logits (rows, classes), targets (rows,)."""

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits, targets)


@case(tokens=[8192], width=[768])
def embedding(tokens: int, width: int) -> Workload:
    """Rows of a table of 50 257, at random: memory read in pieces of one row."""
    first, *others = ((torch.randint(VOCABULARY, (tokens,)),) for _ in range(_BATCHES_OF_TOKENS))
    table = nn.Embedding(VOCABULARY, width)
    return Workload(table, first, items=tokens, unit="tokens", variants=tuple(others))


@case(rows=[512], classes=[1000, 50257])
def cross_entropy(rows: int, classes: int) -> Workload:
    """Cross-entropy of random logits; 512 rows over GPT-2's vocabulary are a batch of 4 at 128 tokens."""
    inputs = torch.randn(rows, classes), torch.randint(classes, (rows,))
    return Workload(CrossEntropy(), inputs, items=rows, unit="rows", variants=copies(*inputs))
