"""Rows picked, added and counted by index, and reductions that sort or scan."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...worker.case import Workload, case
from .operator import Backward, FunctionModel

#: GPT-2's. The table of 154 MB (fp32, width 768) is more than the caches of most machines hold.
VOCABULARY = 50257
#: As many batches of tokens as together ask for nearly every row of the table.
_BATCHES_OF_TOKENS = 16


@case(family="indexing and reductions", tokens=[8192], width=[768])
def embedding(tokens: int, width: int) -> Workload:
    """Rows of a table of 50 257, at random: memory read in pieces of one row."""
    first, *others = ((torch.randint(VOCABULARY, (tokens,)),) for _ in range(_BATCHES_OF_TOKENS))
    table = nn.Embedding(VOCABULARY, width)
    return Workload(table, first, items=tokens, unit="tokens", variants=tuple(others))


@case(family="indexing and reductions", rows=[1000, 100000], bags=[512], length=[20])
def embedding_bag(rows: int, bags: int, length: int) -> Workload:
    """Sums of `length` rows of a table for each of `bags` samples, as in a recommender's sparse features.

    Guards: a generic loop in place of the kernel for sums of rows.
    """
    table = nn.EmbeddingBag(rows, 64, mode="sum")
    offsets = torch.arange(0, bags * length, length)
    first, *others = ((torch.randint(rows, (bags * length,)), offsets) for _ in range(_BATCHES_OF_TOKENS))
    return Workload(table, first, items=bags, unit="bags", variants=tuple(others))


class TableGradient(nn.Module):
    """Rows looked up, and the gradient of their sum of squares at the table: all of it, or its used rows."""

    def __init__(self, rows: int, width: int, sparse: bool) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(rows, width))
        self.sparse = sparse

    def forward(self, places: Tensor) -> Tensor:
        with torch.enable_grad():
            loss = F.embedding(places, self.table, sparse=self.sparse).square().sum()
            (gradient,) = torch.autograd.grad(loss, self.table)
        return gradient


@case(family="indexing and reductions", sparse=[False, True], rows=[100000], tokens=[2048], width=[64])
def embedding_gradient(sparse: bool, rows: int, tokens: int, width: int) -> Workload:
    """The gradient of a large table of which few rows were looked up, dense or sparse.

    Guards: a dense gradient of the whole table where a sparse one was asked for.
    """
    first, *others = ((torch.randint(rows, (tokens,)),) for _ in range(_BATCHES_OF_TOKENS))
    model = TableGradient(rows, width, sparse)
    return Workload(model, first, items=tokens, unit="tokens", variants=tuple(others))


def _index_add(rows: Tensor, places: Tensor, values: Tensor) -> Tensor:
    return rows.index_add(0, places, values)


def _index_put(rows: Tensor, places: Tensor, values: Tensor) -> Tensor:
    return rows.index_put((places,), values, accumulate=True)


def _gather(rows: Tensor, places: Tensor, values: Tensor) -> Tensor:
    return rows.gather(0, places[:, None].expand_as(values))


def _scatter_reduce(reduce: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def function(rows: Tensor, places: Tensor, values: Tensor) -> Tensor:
        return rows.scatter_reduce(0, places[:, None].expand_as(values), values, reduce, include_self=False)

    return function


def _mask_put(rows: Tensor, places: Tensor, values: Tensor) -> Tensor:
    changed = rows.clone()
    changed[rows > 0] = 0.0
    return changed


_BY_INDEX: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "gather": _gather,
    "index_select": lambda rows, places, values: rows.index_select(0, places),
    "index_add": _index_add,
    "index_put": _index_put,
    "scatter_sum": _scatter_reduce("sum"),
    "scatter_amax": _scatter_reduce("amax"),
    "pairs": lambda rows, places, values: rows[places, places % rows.shape[1]],
    "mask": lambda rows, places, values: rows[rows > 0],
    "mask_put": _mask_put,
    "nonzero": lambda rows, places, values: (rows > 0).nonzero(),
    "isin": lambda rows, places, values: torch.isin(places, places[: len(places) // 8]),
    "repeat": lambda rows, places, values: rows.repeat_interleave(places[: len(rows)] % 3, 0),
}


@case(
    family="indexing and reductions",
    kind=[
        "gather",
        "index_select",
        "index_add",
        "index_put",
        "scatter_sum",
        "scatter_amax",
        "pairs",
        "mask",
        "mask_put",
        "nonzero",
        "isin",
        "repeat",
    ],
    rows=[8, 4096],
    width=[32, 128],
)
def by_index(kind: str, rows: int, width: int) -> Workload:
    """Rows read, added or reduced at given places, two for each row: the messages of a graph network.

    `pairs` reads numbers by row and column, `mask` and `mask_put` read and write those above zero, `nonzero`
    names their places; `isin` looks for places in a list of others, `repeat` takes each row up to twice.

    Guards: a kernel that is no longer vectorised or no longer parallel for one reduction, small or large, and
    what indexing costs before its kernel.
    """
    inputs = torch.randn(rows, width), torch.randint(rows, (2 * rows,)), torch.randn(2 * rows, width)
    return Workload(FunctionModel(_BY_INDEX[kind]), inputs, items=2 * rows, unit="rows", rotated=True)


@case(
    family="indexing and reductions",
    kind=["gather", "index_select", "index_add", "scatter_sum", "scatter_amax"],
    rows=[4096],
    width=[128],
)
def by_index_backward(kind: str, rows: int, width: int) -> Workload:
    """The gradients of reading, adding or reducing rows by index, alone.

    Guards: the backward pass that sorts, or runs in one thread.
    """
    inputs = torch.randn(rows, width), torch.randint(rows, (2 * rows,)), torch.randn(2 * rows, width)
    return Workload(Backward(_BY_INDEX[kind]), inputs, items=2 * rows, unit="rows")


def _buckets(numbers: Tensor) -> Tensor:
    bounds = torch.linspace(-3.0, 3.0, 64, dtype=numbers.dtype, device=numbers.device)
    return torch.bucketize(numbers, bounds)


_REDUCTIONS: dict[str, Callable[[Tensor], Any]] = {
    "topk": lambda numbers: numbers.topk(40, -1).values,
    "sort": lambda numbers: numbers.sort(-1).values,
    "cumsum": lambda numbers: numbers.cumsum(-1),
    "sum": lambda numbers: numbers.sum(0),
    "amax": lambda numbers: numbers.amax(-1),
    "logsumexp": lambda numbers: numbers.logsumexp(-1),
    "norm": lambda numbers: torch.linalg.vector_norm(numbers, dim=-1),
    "argmax": lambda numbers: numbers.argmax(-1),
    "median": lambda numbers: numbers.median(-1).values,
    "variance": lambda numbers: numbers.var(-1),
    "masked": lambda numbers: numbers[numbers > 0],
    "histogram": lambda numbers: torch.histc(numbers, 100, -4.0, 4.0),
    "quantile": lambda numbers: numbers.quantile(0.9, -1),
    "nanmean": lambda numbers: numbers.nanmean(-1),
    "buckets": _buckets,
    "product": lambda numbers: (1.0 + numbers / 64).prod(-1),
    "all": lambda numbers: (numbers < 3.0).all(-1),
    "count": lambda numbers: (numbers > 0).sum(-1),
    "cummax": lambda numbers: numbers.cummax(-1).values,
    "logcumsumexp": lambda numbers: numbers.logcumsumexp(-1),
}


@case(
    family="indexing and reductions",
    kind=[
        "topk",
        "sort",
        "cumsum",
        "sum",
        "amax",
        "logsumexp",
        "norm",
        "argmax",
        "median",
        "variance",
        "masked",
        "histogram",
        "quantile",
        "nanmean",
        "buckets",
        "product",
        "all",
        "count",
        "cummax",
        "logcumsumexp",
    ],
    rows=[16, 512],
    columns=[1024],
)
def reduction(kind: str, rows: int, columns: int) -> Workload:
    """Rows sorted, scanned, selected or reduced, as in the sampling of tokens and in losses.

    Guards: a reduction that loses its vectors, its threads, or its in-place output.
    """
    numbers = torch.randn(rows, columns)
    return Workload(FunctionModel(_REDUCTIONS[kind]), (numbers,), items=rows, unit="rows", rotated=True)


_INTEGERS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda numbers: numbers.sum(-1),
    "amax": lambda numbers: numbers.amax(-1),
    "sort": lambda numbers: numbers.sort(-1).values,
    "cumsum": lambda numbers: numbers.cumsum(-1),
    "bincount": lambda numbers: torch.bincount(numbers.flatten(), minlength=1000),
    "bits": lambda numbers: (numbers << 1) ^ (numbers & 255),
}


@case(
    family="indexing and reductions",
    kind=["sum", "amax", "sort", "cumsum", "bincount", "bits"],
    rows=[512],
    columns=[1024],
)
def integers(kind: str, rows: int, columns: int) -> Workload:
    """Rows of 64-bit integers below 1000: reduced, sorted, scanned, counted, and their bits changed.

    Guards: vectors and threads that only numbers of floating point still have.
    """
    numbers = torch.randint(1000, (rows, columns))
    return Workload(FunctionModel(_INTEGERS[kind]), (numbers,), items=rows, unit="rows", rotated=True)


@case(family="indexing and reductions", numbers=[1000, 1000000])
def unique(numbers: int) -> Workload:
    """The distinct ones of many whole numbers, with counts.

    Guards: sorting where hashing was, or hashing where sorting was.
    """
    drawn = torch.randint(numbers // 10, (numbers,))

    def function(values: Tensor) -> tuple[Tensor, ...]:
        return torch.unique(values, return_counts=True)

    return Workload(FunctionModel(function), (drawn,), items=numbers, unit="numbers", rotated=True)


@case(family="indexing and reductions", left=[256], right=[256], width=[100])
def cosine_similarity(left: int, right: int, width: int) -> Workload:
    """Each row against each other row by broadcasting, which must not write the broadcast rows.

    Guards: peak memory, where an intermediate of (left, right, width) numbers is written.
    """
    inputs = torch.rand(1, left, width), torch.rand(right, 1, width)

    def function(one: Tensor, other: Tensor) -> Tensor:
        return F.cosine_similarity(one, other, dim=2)

    return Workload(FunctionModel(function), inputs, items=left * right, unit="pairs", rotated=True)


@case(family="indexing and reductions", left=[512], right=[512], width=[64])
def distances(left: int, right: int, width: int) -> Workload:
    """The Euclidean distance of each row to each other row.

    Guards: distances pair by pair where a product of matrices gave them all.
    """
    inputs = torch.randn(left, width), torch.randn(right, width)
    return Workload(FunctionModel(torch.cdist), inputs, items=left * right, unit="pairs", rotated=True)
