"""How long a collective of all ranks takes, as nccl-tests time it."""

import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from ..measurements import timing

#: Collectives that are timed on a CPU, after one that is not.
_TIMED = 3
#: On CUDA those before the timed ones, and the timed ones: nccl-tests' defaults (-w, -n).
_CUDA_UNTIMED, _CUDA_TIMED = 5, 20


def collective_seconds(kind: str, size: int, device: str) -> float | None:
    """Mean seconds of an `all_reduce`, `all_gather` or `reduce_scatter` of fp32; None where there is none.

    `size` in bytes is that of nccl-tests: of all ranks' parts together. Every rank has to call it.
    """
    run = _prepared(kind, max(1, size // 4), device)
    if device.startswith("cuda"):
        queue = timing.CudaQueue(1)
        timing.synchronize(device)
        queue.run(run, _CUDA_UNTIMED, _CUDA_TIMED)
        return queue.samples(_CUDA_TIMED)[0] / 1e9
    try:
        run()
    except RuntimeError as error:
        # gloo of older releases has no reduce-scatter, which it says before it sends anything.
        if "support" not in str(error):
            raise
        return None
    started = time.perf_counter()
    for _ in range(_TIMED):
        run()
    return (time.perf_counter() - started) / _TIMED


def _prepared(kind: str, numbers: int, device: str) -> Callable[[], object]:
    """The collective over as many numbers, rounded up to equal parts."""
    ranks = dist.get_world_size()
    part = torch.zeros(-(-numbers // ranks), device=device)
    whole = torch.zeros(ranks * part.numel(), device=device)
    # Releases before 2.13 have no other names for these.
    return {
        "all_reduce": lambda: dist.all_reduce(whole),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part),  # pyright: ignore[reportDeprecated]
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),  # pyright: ignore[reportDeprecated]
    }[kind]
