"""Decompositions and solutions of linear algebra, at a small and a larger size."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...worker.case import Workload, case
from .operator import FunctionModel


def _positive(numbers: Tensor) -> Tensor:
    """A symmetric matrix whose eigenvalues are at least 1."""
    size = numbers.shape[-1]
    return numbers @ numbers.mT / size + torch.eye(size)


def _eigenvalues(matrix: Tensor) -> Tensor:
    # The order of eigenvalues and the length of eigenvectors are free; sorted magnitudes are not.
    return torch.linalg.eig(matrix).eigenvalues.abs().sort(-1).values


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "eig": _eigenvalues,
    "eigh": lambda matrix: torch.linalg.eigh(matrix).eigenvalues,
    "svd": lambda matrix: torch.linalg.svd(matrix, full_matrices=False).S,
    "solve": torch.linalg.solve,
    "cholesky": torch.linalg.cholesky,
    "qr": lambda matrix: torch.linalg.qr(matrix).R.diagonal(dim1=-2, dim2=-1).abs(),
    "inverse": torch.linalg.inv,
}


@case(
    family="linear algebra",
    kind=["eig", "eigh", "svd", "solve", "cholesky", "qr", "inverse"],
    size=[32, 256],
    batch=[1],
)
def linear_algebra(kind: str, size: int, batch: int) -> Workload:
    """One decomposition or solution of a square matrix; eigenvectors and singular vectors are computed too.

    Guards: another library behind the same function, whose choice by size is wrong by a factor of ten.
    """
    matrix = torch.randn(batch, size, size)
    if kind != "eig":
        matrix = _positive(matrix)
    inputs = (matrix, torch.randn(batch, size, 1)) if kind == "solve" else (matrix,)
    return Workload(FunctionModel(_FUNCTIONS[kind]), inputs, items=batch, unit="matrices", rotated=True)
