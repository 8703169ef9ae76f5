"""The fastest matrix product that this process gets out of its device, to hold a case's TFLOP/s against."""

import heapq
import time
from typing import Any

import torch

from ..case_key import CaseKey
from . import timing

#: Sides of a square product: large enough that no other is faster, on the grid of every tensor core.
_SIDE = {"cuda": 8192, "cpu": 1024}
_UNTIMED, _TIMED = 3, 10
#: Where the fastest do not agree, products are taken until they have lasted as long as this, all together.
_CAP_NS = 5_000_000_000
_FORMATS = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "amp-fp16": torch.float16,
    "amp-bf16": torch.bfloat16,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}


def measure(key: CaseKey, device: str, facts: dict[str, Any]) -> dict[str, float]:
    """`ceiling_tflops` in the number format of `key`, from the fastest of ten products; empty for int8.

    In the same process, after the blocks: power caps, threads and number formats are those of the case. Of
    random numbers, because products of zeros run at higher clocks. A neighbour can only slow a product down:
    one during which the process was kept from its core does not count, and more are taken until the two
    fastest agree within `timing.STEADY`. Where they never do, `ceiling_note` in `facts` says so.
    """
    dtype = _FORMATS.get(key.axis("precision"))
    if dtype is None:
        return {}
    side = _SIDE[device.partition(":")[0]]
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    for _ in range(_UNTIMED):
        _product(left, right, device)
    count, spent, own = 0, 0, list[int]()
    while count < _TIMED or spent < _CAP_NS:
        taken, disturbed = _product(left, right, device)
        count, spent = count + 1, spent + taken
        own += [] if disturbed else [taken]
        if count >= _TIMED and _agree(own):
            return {"ceiling_tflops": 2 * side**3 / min(own) / 1e3}
    facts["ceiling_note"] = (
        f"no ceiling: of {count} products the two fastest do not agree, as beside others on the machine"
    )
    return {}


def _product(left: torch.Tensor, right: torch.Tensor, device: str) -> tuple[int, bool]:
    """Nanoseconds of a product, and whether the process did not even have one core for as long.

    With several threads one that waits is not seen by this; on a GPU it is no matter of cores.
    """
    before = time.process_time_ns()
    taken = timing.first_call(lambda: left @ right, device)
    computed = time.process_time_ns() - before
    return taken, device == "cpu" and computed < (1 - timing.STEADY) * taken


def _agree(taken: list[int]) -> bool:
    """Whether the two fastest differ by no more than `timing.STEADY`."""
    fastest = heapq.nsmallest(2, taken)
    return len(fastest) == 2 and fastest[1] - fastest[0] <= timing.STEADY * fastest[0]
