"""The fastest matrix product that this process gets out of its device, to hold a case's TFLOP/s against."""

import torch

from . import timing
from .case_key import CaseKey

#: Sides of a square product: large enough that no other is faster, on the grid of every tensor core.
_SIDE = {"cuda": 8192, "cpu": 1024}
_UNTIMED, _TIMED = 3, 10
_FORMATS = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "amp-fp16": torch.float16,
    "amp-bf16": torch.bfloat16,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}


def measure(key: CaseKey, device: str) -> dict[str, float]:
    """`ceiling_tflops` in the number format of `key`, from the fastest of ten products; empty for int8.

    In the same process, after the blocks: power caps, threads and number formats are those of the case. Of
    random numbers, because products of zeros run at higher clocks.
    """
    dtype = _FORMATS.get(key.axis("precision"))
    if dtype is None:
        return {}
    side = _SIDE[device.partition(":")[0]]
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    taken = [timing.first_call(lambda: left @ right, device) for _ in range(_UNTIMED + _TIMED)]
    return {"ceiling_tflops": 2 * side**3 / min(taken[_UNTIMED:]) / 1e3}
