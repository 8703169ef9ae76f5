"""How much of a step the device waits for launches: the share in which no kernel ran."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from . import timing

#: Steps that are looked at, or a few more: not many, for a trace of every kernel is large.
_STEPS = 10


def measure(step: Callable[[], object], device: str, shapes: int = 1) -> Mapping[str, float]:
    """Metric `launch_bound` of a step on CUDA; empty off CUDA, or where the profiler shows no kernel.

    1 - (time in which a kernel, copy or fill ran) / (time of the step). Both are of the same number of steps
    queued one after the other, but only the first is taken under torch.profiler, which makes launching
    slower and leaves the kernels as they are. Of inputs of so many `shapes` in turn each comes equally
    often in both, wherever the turn stands.
    """
    if not device.startswith("cuda"):
        return {}
    steps = shapes * -(-_STEPS // shapes)
    timing.synchronize(device)
    started = time.perf_counter_ns()
    _run(step, steps)
    timing.synchronize(device)
    wall = (time.perf_counter_ns() - started) / 1e3
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        _run(step, steps)
        timing.synchronize(device)
    busy = union(_on_device(profiler.events()))
    return {"launch_bound": max(0.0, 1 - busy / wall)} if busy else {}


def union(intervals: Iterable[tuple[float, float]]) -> float:
    """The length of the union of intervals, in the unit of their ends."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _run(step: Callable[[], object], steps: int) -> None:
    for _ in range(steps):
        step()


def _on_device(events: Iterable[Any] | None) -> list[tuple[float, float]]:
    """Start and end in microseconds of what ran on the device."""
    return [
        (event.time_range.start, event.time_range.end)
        for event in events or ()
        # A user's annotation spans the kernels below it and what lies between them.
        if event.device_type.name == "CUDA" and not getattr(event, "is_user_annotation", False)
    ]
