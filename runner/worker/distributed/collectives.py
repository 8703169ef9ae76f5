"""How long a collective of all ranks takes, as nccl-tests time it."""

import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from ..measurements import memory, timing

#: Collectives that are timed on a CPU, after one that is not.
_TIMED = 3
#: On CUDA those before the timed ones, and the timed ones: nccl-tests' defaults (-w, -n).
_CUDA_UNTIMED, _CUDA_TIMED = 5, 20


def collective_seconds(kind: str, size: int, device: str) -> float | None:
    """Mean seconds of an `all_reduce`, `all_gather` or `reduce_scatter` of fp32; None where there is none.

    There is none either where a rank lacks the memory for it. `size` in bytes is that of nccl-tests: of all
    ranks' parts together. Every rank has to call it.
    """
    run = _prepared_if_it_fits(kind, max(1, size // 4), device)
    fits = torch.tensor(0.0 if run is None else 1.0, device=device)
    # One rank alone must not leave the others waiting.
    dist.all_reduce(fits, op=dist.ReduceOp.MIN)
    if run is None or not fits:
        return None
    if device.startswith("cuda"):
        queue = timing.CudaQueue(1)
        timing.synchronize(device)
        queue.run(run, _CUDA_UNTIMED, _CUDA_TIMED)
        return queue.samples(_CUDA_TIMED)[0] / 1e9
    try:
        run()
    except RuntimeError:
        # gloo of older releases has no reduce-scatter.
        if not backend_lacks(lambda group: _make_collective(kind, 1, device, group)()):
            raise
        return None
    started = time.perf_counter()
    for _ in range(_TIMED):
        run()
    return (time.perf_counter() - started) / _TIMED


def backend_lacks(collective: Callable[[dist.ProcessGroup], object]) -> bool:
    """Whether the backend has no such collective; the process group has to be formed.

    A backend refuses one before it sends anything, and so also in a group of this rank alone, where no
    other rank can be why it fails.
    """
    group = dist.new_group([dist.get_rank()], use_local_synchronization=True)
    assert isinstance(group, dist.ProcessGroup)
    try:
        collective(group)
    except RuntimeError:
        return True
    finally:
        dist.destroy_process_group(group)
    return False


def _prepared_if_it_fits(kind: str, numbers: int, device: str) -> Callable[[], object] | None:
    """The collective, or None where memory runs out: everything else is measured, and must not be lost."""
    try:
        return _make_collective(kind, numbers, device)
    except Exception as error:
        if not memory.is_out_of_memory(error):
            raise
        return None


def _make_collective(
    kind: str, numbers: int, device: str, group: dist.ProcessGroup | None = None
) -> Callable[[], object]:
    """The collective over as many numbers, rounded up to equal parts; without a group of all ranks."""
    ranks = dist.get_world_size(group)
    part = torch.zeros(-(-numbers // ranks), device=device)
    whole = torch.zeros(ranks * part.numel(), device=device)
    # Releases before 2.13 have no other names for these.
    return {
        "all_reduce": lambda: dist.all_reduce(whole, group=group),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part, group=group),  # pyright: ignore[reportDeprecated]
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, group=group),  # pyright: ignore[reportDeprecated]
    }[kind]
