"""Matrix products: square and not, with and without batch, bias and transposed operands."""

import torch
from torch import Tensor, nn

from ...worker.case import Workload, case
from .. import flops
from .operator import Backward, FunctionModel


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
        rotated=True,
    )


@case(family="products", m=[128, 512], n=[3072], k=[768])
def matmul(m: int, n: int, k: int) -> Workload:
    """The product (m, k) @ (k, n); by default BERT-base's widening layer over m tokens, without its bias.

    Guards: one row (m=1), one column (n=1), a long sum (large k), a number format without a fast kernel.
    """
    return _matmul_workload(m, n, k)


@case(family="products", size=[511, 512, 4088, 4090, 4095, 4096])
def gemm(size: int) -> Workload:
    """A square product whose side is a multiple of 16 (512, 4096), of 8 (4088), of 2 (4090), or odd.

    Tensor cores want rows that begin at multiples of 16 bytes: 8 numbers of 16 bits, 4 of 32. Source:
    NVIDIA, "Matrix Multiplication Background User's Guide", section "Tensor Core Requirements".
    """
    return _matmul_workload(size, size, size)


_TRANSPOSED = {
    "left": lambda left, right: left.t() @ right,
    "right": lambda left, right: left @ right.t(),
    "both": lambda left, right: left.t() @ right.t(),
}


@case(family="products", operand=["left", "right", "both"], size=[512])
def matmul_transposed(operand: str, size: int) -> Workload:
    """A square product of which one or both operands are transposed views, as backward passes have them.

    Guards: a copy made before the product, where the library took the strides before.
    """
    left, right = torch.randn(size, size), torch.randn(size, size)
    return Workload(
        FunctionModel(_TRANSPOSED[operand]),
        (left, right),
        items=size,
        unit="rows",
        flops=flops.linear(size, size, size),
        rotated=True,
    )


@case(family="products", m=[16, 512], n=[16, 512], k=[16, 512])
def matmul_backward(m: int, n: int, k: int) -> Workload:
    """The gradients of the product (m, k) @ (k, n) at both operands, alone.

    Guards: operands copied before the products of a backward pass, and what the autograd engine itself costs,
    which a small product shows.
    """
    return Workload(
        Backward(torch.matmul),
        (torch.randn(m, k), torch.randn(k, n)),
        items=m,
        unit="rows",
        flops=2 * flops.linear(m, k, n),
    )


def _complex_product(left: Tensor, right: Tensor) -> Tensor:
    return torch.view_as_real(torch.view_as_complex(left) @ torch.view_as_complex(right))


@case(family="products", size=[256])
def complex_product(size: int) -> Workload:
    """A square product of complex numbers, each of which is two of the input.

    Guards: complex numbers that are left to a slow loop, or taken apart.
    """
    inputs = torch.randn(size, size, 2), torch.randn(size, size, 2)
    return Workload(FunctionModel(_complex_product), inputs, items=size, unit="rows", rotated=True)


_EINSUM = {
    "scores": "bqhd,bkhd->bhqk",
    "chain": "ij,jk,kl->il",
    "outer": "bi,bj->bij",
}


@case(family="products", kind=["scores", "chain", "outer"], size=[256])
def einsum(kind: str, size: int) -> Workload:
    """torch.einsum: the scores of 8 attention heads of 64, a chain of three products, products of all pairs.

    Guards: operands copied where a view would do, and an order of products that makes a large one first.
    """
    heads = torch.randn(2, size, 8, 64), torch.randn(2, size, 8, 64)
    matrices = torch.randn(size, size), torch.randn(size, size), torch.randn(size, 16)
    inputs = {"scores": heads, "chain": matrices, "outer": matrices[:2]}[kind]

    def function(*operands: Tensor) -> Tensor:
        return torch.einsum(_EINSUM[kind], *operands)

    return Workload(FunctionModel(function), inputs, items=size, unit="rows", rotated=True)


@case(family="products", m=[1, 512], n=[3072], k=[768])
def linear_layer(m: int, n: int, k: int) -> Workload:
    """A linear layer with bias over m rows; one row is the step of a decoder.

    Guards: the bias added apart from the product, weights packed anew in every call, int8 kernels.
    """
    rows = torch.randn(m, k)
    return Workload(
        nn.Linear(k, n),
        (rows,),
        items=m,
        unit="rows",
        flops=flops.linear(m, k, n),
        rotated=True,
    )


@case(family="products", m=[128], n=[768], k=[768])
def addmm(m: int, n: int, k: int) -> Workload:
    """A matrix added to the product (m, k) @ (k, n).

    Guards: the sum taken out of the product's kernel.
    """
    inputs = torch.randn(m, n), torch.randn(m, k), torch.randn(k, n)
    return Workload(
        FunctionModel(torch.addmm),
        inputs,
        items=m,
        unit="rows",
        flops=flops.linear(m, k, n),
        rotated=True,
    )


@case(family="products", size=[1008, 1016, 1023])
def square_layer(size: int) -> Workload:
    """A linear layer, as wide as long, whose size is a multiple of 16 (1008), of 8 (1016), or odd (1023).

    Under precision=int8-dynamic the rows of its product are numbers of one byte: tensor cores, and vectors of
    a CPU, want multiples of 16.

    Guards: a quantised product that falls to a slow kernel off the grid.
    """
    rows = torch.randn(size, size)
    return Workload(
        nn.Linear(size, size),
        (rows,),
        items=size,
        unit="rows",
        flops=flops.linear(size, size, size),
        rotated=True,
    )


def _batch_operands(batch: int, m: int, n: int, k: int) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, m, k), torch.randn(batch, k, n)


@case(family="products", batch=[96], m=[128], n=[128], k=[64])
def bmm(batch: int, m: int, n: int, k: int) -> Workload:
    """A batch of small products; by default the scores of 96 attention heads over 128 tokens.

    Guards: a loop over the batch, one thread for all of it, a kernel for large products on small ones.
    """
    inputs = _batch_operands(batch, m, n, k)
    return Workload(
        FunctionModel(torch.bmm),
        inputs,
        items=batch,
        unit="products",
        flops=batch * flops.linear(m, k, n),
        rotated=True,
    )


@case(family="products", batch=[128], m=[64], n=[64], k=[32])
def baddbmm(batch: int, m: int, n: int, k: int) -> Workload:
    """A batch of small products added to a batch of matrices, as attention scores are to their bias.

    Guards: the fall from a batched product to a loop with a copy for each.
    """
    inputs = (torch.randn(batch, m, n), *_batch_operands(batch, m, n, k))
    return Workload(
        FunctionModel(torch.baddbmm),
        inputs,
        items=batch,
        unit="products",
        flops=batch * flops.linear(m, k, n),
        rotated=True,
    )


#: Entries of each row of a sparse matrix.
_ENTRIES = 32


@case(family="products", format=["coo", "csr"], size=[4096], width=[64])
def sparse_product(format: str, size: int, width: int) -> Workload:
    """A sparse matrix of 32 entries a row, made of its parts, times a dense one of (size, width).

    Guards: a format that is converted, sorted or checked in every call.
    """
    stripe = size // _ENTRIES
    # One entry in each of 32 stripes: in order, and none twice.
    columns = torch.randint(stripe, (size, _ENTRIES)) + stripe * torch.arange(_ENTRIES)
    if format == "csr":
        places = torch.arange(size + 1) * _ENTRIES
    else:
        places = torch.arange(size).repeat_interleave(_ENTRIES)

    def function(places: Tensor, columns: Tensor, values: Tensor, dense: Tensor) -> Tensor:
        if format == "csr":
            return torch.sparse_csr_tensor(places, columns, values, (size, size)) @ dense
        both = torch.stack((places, columns))
        return torch.sparse_coo_tensor(both, values, (size, size), is_coalesced=True) @ dense

    inputs = places, columns.flatten(), torch.randn(size * _ENTRIES), torch.randn(size, width)
    return Workload(FunctionModel(function), inputs, items=size, unit="rows", rotated=True)
