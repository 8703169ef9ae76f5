"""What bounds a step: the device's own time, launches that it waits for, and the fastest matrix product."""

import hashlib
import heapq
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from ..case_key import CaseKey
from . import memory, timing
from .card_peaks import card_peaks

#: Sides of a square product: large enough that no other is faster, on the grid of every tensor core.
_SIDE = {"cuda": 8192, "cpu": 1024}
_UNTIMED, _TIMED = 3, 10
#: Untimed ones last so long on CUDA: until then a GPU at its power limit is faster than it stays, and one of
#: the two fastest would be of that time.
_LEAD_IN_NS = {"cuda": 200_000_000, "cpu": 0}
#: Of products that take longer each, as in a format for which a CPU has no kernels, the two fastest are
#: enough, and the first one is timed.
_LONG_NS = 500_000_000
#: Products on CUDA are queued as steps are, so that none waits for its launch: so many, or as many as take
#: so long. One of a millisecond alone is about 1 % slower.
_MOST_QUEUED, _QUEUED_NS = 20, 30_000_000
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


def peak_facts(device: str, precision: str) -> dict[str, float]:
    """Facts of a process on CUDA: on how many devices it computes, and the peaks of their cards together.

    The peaks are those of the case's number format; without them where a card's are not published.
    """
    used = memory.devices_in_use(device)
    facts: dict[str, float] = {"cuda_devices": len(used)} if used else {}
    cards = [card_peaks(torch.cuda.get_device_name(number)) for number in used]
    peaks = [(tflops, card.bandwidth) for card in cards if card and (tflops := card.tflops(precision))]
    if not peaks or len(peaks) < len(used):
        return facts
    tflops, bandwidth = map(sum, zip(*peaks, strict=True))
    return facts | {"card_peak_tflops": tflops, "card_peak_gb_per_second": bandwidth}


def measure_matmul_peak(key: CaseKey, device: str, facts: dict[str, Any]) -> dict[str, float]:
    """`ceiling_tflops` in the number format of `key`, from the fastest of ten products; empty for int8.

    In the same process, after the blocks: power caps, threads and number formats are those of the case. Of
    random numbers, because products of zeros run at higher clocks. A neighbour can only slow a product down:
    one during which the process was kept from its core does not count, and more are taken until the two
    fastest agree within `timing.STEADY`. Where they never do, `ceiling_note` in `facts` says so.
    """
    dtype = _FORMATS.get(key.axis("precision"))
    if dtype is None:
        return {}
    kind = device.partition(":")[0]
    side = _SIDE[kind]
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    taken, disturbed, long = 0, False, False
    queued, count, spent = 1, 0, 0
    while not long and (count < _UNTIMED or spent < _LEAD_IN_NS[kind]):
        taken, disturbed = _product(left, right, device, queued)
        count, spent = count + 1, spent + taken * queued
        queued = _queue_length(device, taken)
        # On CUDA the first one also loads its kernel.
        long = kind == "cpu" and taken > _LONG_NS
    count, spent = (1, taken) if long else (0, 0)
    own = [taken] if long and not disturbed else []
    fewest = 2 if long else _TIMED
    while count < fewest or spent < _CAP_NS:
        taken, disturbed = _product(left, right, device, queued)
        count, spent = count + 1, spent + taken * queued
        own += [] if disturbed else [taken]
        if count >= fewest and _agree(own):
            return {"ceiling_tflops": 2 * side**3 / min(own) / 1e3}
    facts["ceiling_note"] = (
        f"no ceiling: of {count} products the two fastest do not agree, as beside other programs"
    )
    return {}


def _queue_length(device: str, product_ns: int) -> int:
    """How many products are queued together, where one takes so long."""
    if not device.startswith("cuda"):
        return 1
    return min(_MOST_QUEUED, max(1, -(-_QUEUED_NS // max(1, product_ns))))


def _product(left: torch.Tensor, right: torch.Tensor, device: str, queued: int) -> tuple[int, bool]:
    """Nanoseconds of a product, the mean of `queued`, and whether the process lacked a core meanwhile.

    With several threads one that waits is not seen by this; on a GPU it is no matter of cores.
    """

    def products() -> None:
        for _ in range(queued):
            torch.matmul(left, right)

    before = time.process_time_ns()
    taken = timing.first_call(products, device) // queued
    computed = time.process_time_ns() - before
    return taken, device == "cpu" and computed < (1 - timing.STEADY) * taken


def _agree(taken: list[int]) -> bool:
    """Whether the two fastest differ by no more than `timing.STEADY`."""
    fastest = heapq.nsmallest(2, taken)
    return len(fastest) == 2 and fastest[1] - fastest[0] <= timing.STEADY * fastest[0]


#: Steps that are looked at last this long together, and are no fewer and about no more than so many: a trace
#: holds every kernel.
_LOOKED_AT_NS = 50_000_000
_FEWEST_STEPS, _MOST_STEPS = 10, 2000
#: Of a step's kernels so many are stored, with so much of their names, which templates make long.
_KERNELS, _KERNEL_NAME = 30, 200


def measure_device_time(
    step: Callable[[], object],
    device: str,
    step_ns: float,
    shapes: int = 1,
    facts: dict[str, Any] | None = None,
) -> Mapping[str, float]:
    """Metrics `device_time` in ms and `launch_bound` of a step on CUDA; empty off CUDA.

    The device is busy while a kernel, copy or fill runs, as torch.profiler (CUPTI) has it. `launch_bound` is
    the share of the `step_ns` that the case's own timed steps take in which it is not: what the kernels leave
    of them, but no more than the idle share that the profiler saw. The profiler makes launching slower, so
    that it sees too much of it; kernels may be too fast, as a GPU at its power limit is in its first 0.1 s.
    `device_time` is the rest of the step. Where the steps are not known (0), it is the kernels' time alone.
    Of inputs of so many `shapes` in turn each comes equally often, wherever the turn stands. Both are empty
    where the profiler shows fewer kernels than steps, and so not all of them. Else `facts` get `kernels`,
    those that take longest.
    """
    if not device.startswith("cuda"):
        return {}
    steps = steps_looked_at(step_ns, shapes)
    timing.synchronize(device)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(steps):
            step()
        timing.synchronize(device)
    events = _on_device(profiler.events())
    ran = [(event.time_range.start, event.time_range.end) for event in events]
    if len(ran) < steps:
        return {}
    if facts is not None:
        facts["kernels"] = kernel_table(events, steps)
    busy_us = union(ran)
    busy_ns = busy_us * 1e3 / steps
    if not step_ns:
        return {"device_time": busy_ns / 1e6}
    idle = 1 - busy_us / (max(end for _, end in ran) - min(start for start, _ in ran))
    waits = max(0.0, min(idle, 1 - busy_ns / step_ns))
    return {"device_time": (1 - waits) * step_ns / 1e6, "launch_bound": waits}


def steps_looked_at(step_ns: float, shapes: int = 1) -> int:
    """How many steps `measure_device_time` takes; `step_ns` and `shapes` are as there."""
    enough = round(_LOOKED_AT_NS / step_ns) if step_ns else _FEWEST_STEPS
    steps = min(_MOST_STEPS, max(_FEWEST_STEPS, enough))
    return shapes * -(-steps // shapes)


def union(intervals: Iterable[tuple[float, float]]) -> float:
    """The length of the union of intervals, in the unit of their ends."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def kernel_table(events: Iterable[Any], steps: int) -> list[list[Any]]:
    """Name, calls a step and microseconds a step of what ran on the device, the longest first, at most 30."""
    totals: dict[str, list[float]] = {}
    for event in events:
        total = totals.setdefault(_kernel_name(str(event.name)), [0.0, 0.0])
        total[0] += 1
        total[1] += event.time_range.end - event.time_range.start
    longest = heapq.nlargest(_KERNELS, totals.items(), key=lambda item: item[1][1])
    return [[name, round(calls / steps, 3), round(us / steps, 3)] for name, (calls, us) in longest]


def _kernel_name(name: str) -> str:
    """The name that a kernel is stored under; long ones that differ only in their end stay different."""
    # Of a graph the memory that is set has another word: `Memset (Device)` and `Memset (Unknown)`.
    if name.startswith("Memset "):
        return "Memset"
    if len(name) <= _KERNEL_NAME:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: _KERNEL_NAME - len(mark) - 1]}~{mark}"


def _on_device(events: Iterable[Any] | None) -> list[Any]:
    """What ran on the device: kernels, copies and fills."""
    return [
        event
        for event in events or ()
        # A user's annotation spans the kernels below it and what lies between them.
        if event.device_type.name == "CUDA" and not getattr(event, "is_user_annotation", False)
    ]
