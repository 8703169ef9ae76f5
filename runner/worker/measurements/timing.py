"""Timing: warm up until steady, then blocks of iterations, and at the end requests one by one."""

import gc
import itertools
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles
from typing import Any, ClassVar, cast

import torch

from ..messages import Block, Window

#: Two windows of warm-up whose fastest steps differ by less than this are called steady.
STEADY = 0.02
#: On CUDA its clock is called steady when it differs by less than this after two windows.
STEADY_CLOCK = 0.01
#: A window of warm-up spans at least this many steps and this many nanoseconds.
_WINDOW_STEPS = 3
_WINDOW_NS = 50_000_000

#: The NVTX range around the timed steps of a block, for Nsight Systems: `nsys profile pyrometer run ...`.
NVTX_RANGE = "pyrometer: timed steps"
#: SM cycles that the clock is measured over: half a millisecond, of which the kernel's start takes 0.6 %.
_CLOCK_CYCLES = 1_000_000
#: SM cycles before that, in which the host queues the measurement: it must not wait for a launch.
_AHEAD_CYCLES = 200_000

Step = Callable[[], object]


class EventsUnreliable(Exception):
    """CUDA's events do not tell how long a step takes; the text says why."""


def synchronize(device: str) -> None:
    """Wait for the device; the CPU needs no waiting."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


@dataclass(frozen=True, slots=True)
class WarmUp:
    """How a warm-up went: `ended` is `steady` or `cap`; `step_ns` is the last window's median step.

    On CUDA `step_ns` is that of steps queued one after the other, as in a block, and `steady` says that the
    SM clock was, too. `reached_seconds` is when a step was first about as fast as it stayed: what comes after
    is proof.
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
    down: medians would wait for the neighbour, not for the warm-up. On CUDA windows of queued steps follow,
    until the SM clock after two of them agrees within STEADY_CLOCK: a GPU lowers it under load.
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
            by_steps = seconds_to_steady(steps, elapsed)
            if device.startswith("cuda"):
                until = started + round(max_seconds * 1e9)
                middle, is_steady = _queued_until_clock_is_steady(step, device, middle, until)
                ended = ended if is_steady else "cap"
                elapsed = (time.perf_counter_ns() - started) / 1e9
            return WarmUp(len(steps), elapsed, ended, middle, by_steps)


def _queued_until_clock_is_steady(step: Step, device: str, alone_ns: int, until_ns: int) -> tuple[int, bool]:
    """Nanoseconds of a queued step, and whether the SM clock was steady by `until_ns` or is not known."""
    before = None
    while True:
        taken = queued_step_ns(step, device, alone_ns)
        clock = clock_now()
        if clock is None or (before is not None and abs(clock - before) <= STEADY_CLOCK * before):
            return taken, True
        if time.perf_counter_ns() >= until_ns:
            return taken, False
        before = clock


def clock_now() -> int | None:
    """The SM clock in MHz, right after what was queued; None where it cannot be measured."""
    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    has_clock = queue_clock(begun, ended)
    ended.synchronize()
    return clock_mhz(begun, ended) if has_clock else None


def queued_step_ns(step: Step, device: str, alone_ns: int) -> int:
    """Nanoseconds of a step among others in the queue of a CUDA device; `alone_ns` is that of one alone."""
    count = max(_WINDOW_STEPS, _WINDOW_NS // max(1, alone_ns))

    def steps() -> None:
        # None of their answers is kept, as in a block: together they may not fit into the device's memory.
        for _ in range(count):
            step()

    return first_call(steps, device) // count


def steady(steps: list[int]) -> bool:
    """Whether the last two windows of `steps` (nanoseconds each) agree within STEADY."""
    window = max(_WINDOW_STEPS, -(-_WINDOW_NS // max(1, steps[-1])))
    if len(steps) < 2 * window:
        return False
    older, newer = min(steps[-2 * window : -window]), min(steps[-window:])
    return abs(newer - older) <= STEADY * older


def seconds_to_steady(steps: list[int], seconds: float) -> float:
    """After how many of `seconds`, which `steps` took, one came within 10 % of the fastest of the last."""
    target = 1.1 * min(steps[-_WINDOW_STEPS:])
    first = next(index for index, step in enumerate(steps) if step <= target)
    return seconds * sum(steps[: first + 1]) / sum(steps)


def settle() -> None:
    """Hide what exists now from the garbage collector, so that collecting before a block is cheap."""
    gc.collect()
    gc.freeze()


def block(
    step: Step,
    device: str,
    iterations: int,
    ready: Callable[[], object] = lambda: None,
    lead_in: int = 0,
    per_sample: int = 1,
) -> Block:
    """Time `iterations` calls: one by one on the CPU, `per_sample` together by events on CUDA.

    `ready` is called when everything is prepared, right before the first: it may wait for others. On CUDA
    `lead_in` untimed calls come first in the same queue, so that the timed ones find the clocks, the caches
    and the power draw of steady work; `iterations` is a multiple of `per_sample`. Raises EventsUnreliable.

    The garbage collector runs before the block and is off within it. Page faults, involuntary context
    switches and CPU time of the process over the block come from getrusage(2).
    """
    gc.collect()
    gc.disable()
    try:
        queue = CudaQueue(iterations // per_sample) if device.startswith("cuda") else None
        synchronize(device)
        ready()
        before = resource.getrusage(resource.RUSAGE_SELF)
        monotonic = time.monotonic_ns()
        started = time.perf_counter_ns()
        samples: tuple[int, ...] = ()
        if queue is None:
            samples = _cpu_samples(step, iterations)
        else:
            queue.run(step, lead_in, per_sample)
        wall = time.perf_counter_ns() - started
        after = resource.getrusage(resource.RUSAGE_SELF)
    finally:
        gc.enable()
    clocks: tuple[int, ...] = ()
    if queue is not None:
        samples, clocks = queue.samples(per_sample), queue.sm_clocks_mhz()
    return Block(
        samples_ns=samples,
        wall_ns=wall,
        started_ns=monotonic,
        minor_faults=after.ru_minflt - before.ru_minflt,
        involuntary_switches=after.ru_nivcsw - before.ru_nivcsw,
        cpu_ns=round((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e9),
        per_sample=per_sample if queue is not None else 1,
        sm_clocks_mhz=clocks,
    )


def typical_step_ns(blocks: Sequence[tuple[int, Sequence[float]]], shapes: int) -> float:
    """Nanoseconds of a step: the median over blocks of each block's median; 0 where that is not known.

    `blocks` are the samples of each, with the place of the first one in the turn. Of inputs of several
    `shapes` in turn it is the mean over them of each one's median, as the latency is.
    """
    if shapes == 1:
        return median(median(samples) for _, samples in blocks) if blocks else 0.0
    places: list[list[float]] = [[] for _ in range(shapes)]
    for first, samples in blocks:
        for place, ns in enumerate(samples, first):
            places[place % shapes].append(ns)
    return fmean(map(median, places)) if all(places) else 0.0


def _cpu_samples(step: Step, iterations: int) -> tuple[int, ...]:
    clock = time.perf_counter_ns
    stamps = [0] * (iterations + 1)
    stamps[0] = clock()
    for index in range(iterations):
        step()
        stamps[index + 1] = clock()
    return tuple(later - earlier for earlier, later in itertools.pairwise(stamps))


class CudaQueue:
    """The timed calls of one block on the current stream of a CUDA device, between recorded events.

    The events come from a pool of the process. CUDA makes an event when it is first recorded, which takes
    longer than a short step: those that are new are recorded here, before anything is timed.
    """

    _pool: ClassVar[list[Any]] = []

    def __init__(self, samples: int) -> None:
        pool = self._pool
        if not pool:
            # CUDA loads a kernel when it is first launched: that would be taken for a slow clock.
            _spin(_AHEAD_CYCLES)
        # Two pairs more are for the SM clock.
        while len(pool) < samples + 1 + 4:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            pool.append(event)
        self._clock_events = pool[:4]
        self._marks = pool[4 : samples + 1 + 4]
        self._has_clock = False

    def run(self, step: Step, lead_in: int, per_sample: int) -> None:
        """Queue the untimed and the timed calls without a synchronisation between them; return at the end.

        The clock is measured before the last of the untimed ones: meanwhile the host runs ahead, and steps
        that are bound by their launches would be too fast until it no longer is.
        """
        last = -(-lead_in // 5)
        for _ in range(lead_in - last):
            step()
        queue_clock(*self._clock_events[:2])
        for _ in range(last):
            step()
        first, *others = self._marks
        with torch.cuda.nvtx.range(NVTX_RANGE):
            first.record()
            for mark in others:
                for _ in range(per_sample):
                    step()
                mark.record()
        self._has_clock = queue_clock(*self._clock_events[2:])
        self._clock_events[3].synchronize()

    def samples(self, per_sample: int) -> tuple[int, ...]:
        """Nanoseconds of a call, one mean for each `per_sample` of them; raises EventsUnreliable."""
        # elapsed_time is in milliseconds, resolved to about half a microsecond.
        spans = [earlier.elapsed_time(later) for earlier, later in itertools.pairwise(self._marks)]
        if min(spans) < 0:
            raise EventsUnreliable(
                "CUDA events are stamped in the wrong order, as with confidential computing: nothing is timed"
            )
        return tuple(round(span * 1e6 / per_sample) for span in spans)

    def sm_clocks_mhz(self) -> tuple[int, ...]:
        """The SM clock shortly before and right after the timed calls; empty where it cannot be measured."""
        if not self._has_clock:
            return ()
        measured = [clock_mhz(*self._clock_events[at : at + 2]) for at in (0, 2)]
        return tuple(mhz for mhz in measured if mhz is not None) if None not in measured else ()


def queue_clock(begun: Any, ended: Any) -> bool:
    """Queue a measurement of the SM clock between two events; answers whether this device has one."""
    _spin(_AHEAD_CYCLES)
    begun.record()
    has_clock = _spin(_CLOCK_CYCLES)
    ended.record()
    return has_clock


def clock_mhz(begun: Any, ended: Any) -> int | None:
    """The SM clock that was measured between two events, in MHz; None where they are in the wrong order."""
    span = begun.elapsed_time(ended)
    return round(_CLOCK_CYCLES / span / 1e3) if span > 0 else None


def _spin(cycles: int) -> bool:
    """Queue a kernel that keeps one SM busy for so many of its cycles; answers whether there is one."""
    sleep = getattr(torch.cuda, "_sleep", None)
    # A ROCm device counts by a clock of its own.
    if sleep is None or not torch.version.cuda:
        return False
    sleep(cycles)
    return True


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


#: As many as a 99th percentile takes (see runner/execution/metrics.py), or this long.
_REQUESTS = 662
_REQUEST_SECONDS = 2.0
_FEWEST_REQUESTS = 10
#: From how many requests on a percentile is published.
_PERCENTILES = {"request_latency_p90": (90, 64), "request_latency_p99": (99, _REQUESTS)}


def measure_request_latency(step: Callable[[], object], device: str) -> Mapping[str, float]:
    """Metrics `request_latency` and its percentiles in ms of an inference on CUDA; empty off CUDA.

    Blocks queue their steps, so the time between two of them is a throughput and no request's latency: a
    request is not queued behind another, and is done when its answer has been copied to the host.
    """
    if not device.startswith("cuda"):
        return {}
    taken: list[int] = []
    synchronize(device)
    ends = time.perf_counter() + _REQUEST_SECONDS
    while len(taken) < _REQUESTS and (len(taken) < _FEWEST_REQUESTS or time.perf_counter() < ends):
        started = time.perf_counter_ns()
        to_host(step())
        synchronize(device)
        taken.append(time.perf_counter_ns() - started)
    cuts = quantiles(taken, n=100, method="inclusive")
    found = {"request_latency": cuts[49] / 1e6}
    return found | {
        name: cuts[share - 1] / 1e6 for name, (share, enough) in _PERCENTILES.items() if len(taken) >= enough
    }


def to_host(answer: Any) -> None:
    """Copy every tensor of an answer to the host; its parts may be tuples, lists and mappings."""
    if isinstance(answer, torch.Tensor):
        answer.to("cpu")
    elif isinstance(answer, Mapping):
        for part in cast("Mapping[Any, Any]", answer).values():
            to_host(part)
    elif isinstance(answer, (tuple, list)):
        for part in cast("list[Any]", answer):
            to_host(part)
