"""Timing: warm up until steady, then blocks of iterations between two synchronisations."""

import gc
import itertools
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..messages import Block, Window

#: Two windows of warm-up whose fastest steps differ by less than this are called steady.
STEADY = 0.02
#: A window of warm-up spans at least this many steps and this many nanoseconds.
_WINDOW_STEPS = 3
_WINDOW_NS = 50_000_000

Step = Callable[[], object]


def synchronize(device: str) -> None:
    """Wait for the device; the CPU needs no waiting."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


@dataclass(frozen=True, slots=True)
class WarmUp:
    """How a warm-up went: `ended` is `steady` or `cap`; `step_ns` is the last window's median step.

    `reached_seconds` is when a step was first about as fast as it stayed: what comes after is proof.
    """

    iterations: int
    seconds: float
    ended: str
    step_ns: int
    reached_seconds: float


def first_call(step: Step, device: str) -> int:
    """Nanoseconds of one call, synchronised before and after."""
    synchronize(device)
    started = time.perf_counter_ns()
    step()
    synchronize(device)
    return time.perf_counter_ns() - started


def warm_up(step: Step, device: str, min_seconds: float, max_seconds: float) -> WarmUp:
    """Run `step` until two neighbouring windows agree within STEADY, or the cap of `max_seconds`.

    Windows are compared by their fastest step, because a neighbour on the machine can only slow a step
    down: medians would wait for the neighbour, not for the warm-up.
    """
    steps: list[int] = []
    started = time.perf_counter_ns()
    while True:
        steps.append(first_call(step, device))
        elapsed = (time.perf_counter_ns() - started) / 1e9
        recent = sorted(steps[-_WINDOW_STEPS:])
        middle = recent[len(recent) // 2]
        ended = "steady" if elapsed >= min_seconds and steady(steps) else ""
        ended = ended or ("cap" if elapsed >= max_seconds else "")
        if ended:
            return WarmUp(len(steps), elapsed, ended, middle, reached(steps, elapsed))


def steady(steps: list[int]) -> bool:
    """Whether the last two windows of `steps` (nanoseconds each) agree within STEADY."""
    window = max(_WINDOW_STEPS, -(-_WINDOW_NS // max(1, steps[-1])))
    if len(steps) < 2 * window:
        return False
    older, newer = min(steps[-2 * window : -window]), min(steps[-window:])
    return abs(newer - older) <= STEADY * older


def reached(steps: list[int], seconds: float) -> float:
    """After how many of `seconds`, which `steps` took, one came within 10 % of the fastest of the last."""
    target = 1.1 * min(steps[-_WINDOW_STEPS:])
    first = next(index for index, step in enumerate(steps) if step <= target)
    return seconds * sum(steps[: first + 1]) / sum(steps)


def settle() -> None:
    """Hide what exists now from the garbage collector, so that collecting before a block is cheap."""
    gc.collect()
    gc.freeze()


def block(step: Step, device: str, iterations: int, ready: Callable[[], object] = lambda: None) -> Block:
    """Time `iterations` calls one by one; on CUDA by events on the current stream.

    `ready` is called when everything is prepared, right before the first: it may wait for others.

    The garbage collector runs before the block and is off within it. Page faults, involuntary context
    switches and CPU time of the process over the block come from getrusage(2).
    """
    gc.collect()
    gc.disable()
    try:
        measure = _cuda_samples if device.startswith("cuda") else _cpu_samples
        synchronize(device)
        ready()
        before = resource.getrusage(resource.RUSAGE_SELF)
        monotonic = time.monotonic_ns()
        started = time.perf_counter_ns()
        samples = measure(step, iterations)
        wall = time.perf_counter_ns() - started
        after = resource.getrusage(resource.RUSAGE_SELF)
    finally:
        gc.enable()
    return Block(
        samples_ns=samples,
        wall_ns=wall,
        started_ns=monotonic,
        minor_faults=after.ru_minflt - before.ru_minflt,
        involuntary_switches=after.ru_nivcsw - before.ru_nivcsw,
        cpu_ns=round((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e9),
    )


def _cpu_samples(step: Step, iterations: int) -> tuple[int, ...]:
    clock = time.perf_counter_ns
    stamps = [0] * (iterations + 1)
    stamps[0] = clock()
    for index in range(iterations):
        step()
        stamps[index + 1] = clock()
    return tuple(later - earlier for earlier, later in itertools.pairwise(stamps))


def _cuda_samples(step: Step, iterations: int) -> tuple[int, ...]:
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(iterations + 1)]
    marks[0].record()
    for index in range(iterations):
        step()
        marks[index + 1].record()
    marks[-1].synchronize()
    # elapsed_time is in milliseconds, resolved to about half a microsecond.
    return tuple(round(earlier.elapsed_time(later) * 1e6) for earlier, later in itertools.pairwise(marks))


def observe(step: Step, device: str, seconds: float) -> Window:
    """Run freely for `seconds`; nothing is timed inside, so a sampler may look on."""
    synchronize(device)
    started = time.monotonic_ns()
    iterations = 0
    while True:
        step()
        iterations += 1
        if time.monotonic_ns() - started >= seconds * 1e9:
            break
    synchronize(device)
    return Window(started, time.monotonic_ns(), iterations)
