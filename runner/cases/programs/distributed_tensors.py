"""Tensors of torch.distributed on a single rank: what DTensor costs around each operator."""

import contextlib
import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, distributed, nn

from ...worker.case import Workload, case
from ...worker.prepared_case import UnsupportedCase

_WIDTH = 64


def _library() -> Any:
    """The module of DTensor; raises UnsupportedCase before PyTorch 2.5, or without torch.distributed."""
    library: Any = None
    if distributed.is_available():
        with contextlib.suppress(ImportError):
            library = importlib.import_module("torch.distributed.tensor")
    if not hasattr(library, "distribute_tensor"):
        raise UnsupportedCase(
            f"torch.distributed.tensor has no DTensor in this version ({torch.__version__})"
        )
    return library


def _distribute_rows(rows: Tensor) -> list[Any]:
    """Each row as a tensor that is divided over the ranks, of which this process is all there are."""
    library = _library()
    if not distributed.is_initialized():
        backend, stores = "nccl" if rows.is_cuda else "gloo", importlib.import_module("torch.distributed")
        distributed.init_process_group(backend, store=stores.HashStore(), rank=0, world_size=1)
    meshes: Any = importlib.import_module("torch.distributed.device_mesh")
    mesh = meshes.init_device_mesh(rows.device.type, (1,))
    return [library.distribute_tensor(row.clone(), mesh, [library.Shard(0)]) for row in rows]


def _sums(rows: Tensor) -> Callable[[], Tensor]:
    first, *others = _distribute_rows(rows)

    def function() -> Tensor:
        total: Any = first
        for one in others:
            total = total + one
        return total.to_local()

    return function


def _stack(rows: Tensor) -> Callable[[], Tensor]:
    tensors = _distribute_rows(rows)

    def function() -> Tensor:
        stacked: Any = torch.stack(tensors)
        return stacked.to_local()

    return function


def _weights(rows: Tensor) -> list[nn.Parameter]:
    """Distributed weights with a gradient each."""
    weights = [nn.Parameter(one) for one in _distribute_rows(rows)]
    for weight in weights:
        weight.grad = torch.full_like(weight, 1e-3)
    return weights


def _clipping(rows: Tensor) -> Callable[[], None]:
    weights = _weights(rows)

    def function() -> None:
        nn.utils.clip_grad_norm_(weights, 1.0)

    return function


def _step(rows: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(_weights(rows), foreach=True)

    def function() -> None:
        optimizer.step()

    return function


_MAKERS: dict[str, Callable[[Tensor], Callable[[], Tensor | None]]] = {
    "sum": _sums,
    "stack": _stack,
    "clipping": _clipping,
    "step": _step,
}


class OnDistributed(nn.Module):
    """A function of distributed tensors, which are made of the rows of the first call and kept."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._make = _MAKERS[kind]
        self._function: Callable[[], Tensor | None] | None = None

    def forward(self, rows: Tensor) -> Tensor | None:
        if self._function is None:
            self._function = self._make(rows)
        return self._function()


@case(family="programs", kind=["sum", "stack", "clipping", "step"], count=[48])
def distributed_tensors(kind: str, count: int) -> Workload:
    """Small tensors of torch.distributed: summed, stacked, their gradients clipped, an optimizer's step.

    One rank holds them whole, so that nothing is sent: what is measured is Python around each operator.

    Guards: sharding that is worked out anew for each call, or for each pair of many tensors.
    """
    _library()
    return Workload(OnDistributed(kind), (torch.randn(count, _WIDTH),), items=count, unit="tensors")
