"""An operator in C++ between layers of PyTorch, compiled by torch.utils.cpp_extension."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from ...worker.case import Workload, case
from ...worker.prepared_case import Unsupported

WIDTH = 256
_SOURCE = """
#include <ATen/ATen.h>
#include <torch/library.h>

at::Tensor squared_relu(const at::Tensor& rows) {
  const auto positive = rows.clamp_min(0);
  return positive * positive;
}

TORCH_LIBRARY(pyrometer, library) {
  library.def("squared_relu(Tensor rows) -> Tensor", &squared_relu);
}
"""


def _load() -> Callable[[Tensor], Tensor]:
    """The operator in C++, compiled and loaded; raises Unsupported without a compiler or ninja."""
    from torch.utils import cpp_extension

    compiler = os.environ.get("CXX", "c++")
    if not shutil.which(compiler) or not shutil.which("ninja"):
        raise Unsupported(f"an operator in C++ needs a compiler ({compiler}) and ninja")
    if not hasattr(torch.ops.pyrometer, "squared_relu"):
        with tempfile.TemporaryDirectory(prefix="pyrometer-extension-") as folder:
            source = Path(folder) / "squared_relu.cpp"
            source.write_text(_SOURCE)
            # The library stays mapped when its file is gone.
            cpp_extension.load("squared_relu", [str(source)], build_directory=folder, is_python_module=False)
    return torch.ops.pyrometer.squared_relu


class Extended(nn.Module):
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
        Extended(own),
        (torch.randn(rows, WIDTH),),
        items=rows,
        unit="rows",
        flops=2 * 2 * rows * WIDTH * WIDTH,
    )
