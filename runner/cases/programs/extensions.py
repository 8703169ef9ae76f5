"""Operators of one's own: in C++, compiled by torch.utils.cpp_extension, and in Python."""

import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...worker.case import Workload, case
from ...worker.prepared_case import UnsupportedCase

WIDTH = 256
_SOURCE = """
#include <ATen/ATen.h>
#include <torch/library.h>

at::Tensor squared_relu(const at::Tensor& rows) {
  const auto positive = rows.clamp_min(0);
  return positive * positive;
}

TORCH_LIBRARY(pyrometer, library) {
  library.def("squared_relu(Tensor rows) -> Tensor");
}

TORCH_LIBRARY_IMPL(pyrometer, CPU, library) {
  library.impl("squared_relu", &squared_relu);
}

TORCH_LIBRARY_IMPL(pyrometer, CUDA, library) {
  library.impl("squared_relu", &squared_relu);
}
"""


def _load() -> Callable[[Tensor], Tensor]:
    """The operator in C++, compiled and loaded; raises UnsupportedCase without a compiler or ninja."""
    from torch.utils import cpp_extension

    compiler = os.environ.get("CXX", "c++")
    if not shutil.which(compiler) or not shutil.which("ninja"):
        raise UnsupportedCase(f"an operator in C++ needs a compiler ({compiler}) and ninja")
    if not hasattr(torch.ops.pyrometer, "squared_relu"):
        with tempfile.TemporaryDirectory(prefix="pyrometer-extension-") as folder:
            source = Path(folder) / "squared_relu.cpp"
            source.write_text(_SOURCE)
            # The library stays mapped when its file is gone.
            cpp_extension.load("squared_relu", [str(source)], build_directory=folder, is_python_module=False)
    return torch.ops.pyrometer.squared_relu


class ExtensionNetwork(nn.Module):
    """A linear layer, the square of its positive part, and another linear layer, over (rows, 256)."""

    def __init__(self, own: bool) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self._function = _load() if own else _squared_relu

    def forward(self, rows: Tensor) -> Tensor:
        return self.leave(self._function(self.enter(rows)))


def _squared_relu(rows: Tensor) -> Tensor:
    return rows.clamp_min(0).square()


@case(family="programs", own=[False, True], rows=[512])
def extension(own: bool, rows: int) -> Workload:
    """Two linear layers around an operator in C++ (`own`), or around the same by PyTorch's operators.

    The operator says nothing of its output's shape, so that torch.compile cannot look through it: metric
    `graph_breaks`.

    Guards: what a call into an extension costs, and an extension that no longer compiles or breaks more.
    """
    return Workload(
        ExtensionNetwork(own),
        (torch.randn(rows, WIDTH),),
        items=rows,
        unit="rows",
        flops=2 * 2 * rows * WIDTH * WIDTH,
    )


class _ByFunction(torch.autograd.Function):
    """Adds one, with its gradient by hand."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        return rows + 1.0

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> Tensor:
        return outer[0]


def _add_one(rows: Tensor) -> Tensor:
    return rows + 1.0


@cache
def _by_library() -> Callable[[Tensor], Tensor]:
    """The same as an operator of the library, in Python; raises UnsupportedCase before PyTorch 2.4."""
    if not hasattr(torch.library, "custom_op"):
        raise UnsupportedCase(
            f"torch.library.custom_op is not in this version of PyTorch ({torch.__version__})"
        )
    operator: Any = torch.library.custom_op("pyrometer_python::add_one", _add_one, mutates_args=())
    operator.register_fake(torch.empty_like)
    operator.register_autograd(lambda ctx, outer: outer)
    return operator


class OperatorChain(nn.Module):
    """An operator, many times in a row, over (rows, 64) that a weight was added to."""

    CALLS = 32

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(64))
        self._function = function

    def forward(self, rows: Tensor) -> Tensor:
        rows = rows + self.shift
        for _ in range(self.CALLS):
            rows = self._function(rows)
        return rows


@case(family="programs", phases=("infer", "train"), kind=["function", "library"], rows=[16])
def python_operator(kind: str, rows: int) -> Workload:
    """An operator in Python, 32 times in a row: an autograd.Function, or one made by torch.library.

    Guards: what the way into Python and out of it costs, and the same of its gradient.
    """
    function = _by_library() if kind == "library" else _ByFunction.apply
    return Workload(
        OperatorChain(function),
        (torch.randn(rows, 64),),
        items=rows,
        unit="rows",
        loss=lambda output: output.square().mean(),
    )
