"""Probes that compute on the device, by the worker's own code; run under the measured interpreter.

python benchmarks/gpu/torch_probes.py              answer probes (see probe_loop)
python benchmarks/gpu/torch_probes.py load KIND    compute until standard input ends: product, copy or idle
"""

import itertools
import math
import select
import sys
import threading
import time
from collections.abc import Callable
from statistics import fmean, median
from typing import Any

import torch
from probe_loop import Answer, NotHere, serve

from runner.session_plan import Timing
from runner.worker.case_key import CaseKey
from runner.worker.measurements import bounds, memory, timing
from runner.worker.measurements.card_peaks import card_peaks
from runner.worker.messages import Block

DEVICE = "cuda:0"
#: Side of the product that fills any card, and bytes of the copy.
_SIDE = 8192
_COPY_BYTES = 4 << 30
#: How long the clock is followed, and how often it is measured.
_COURSE_SECONDS, _COURSE_PARTS = 1.5, 60
#: Blocks by which the cost of events is found, and how long each is.
_SHORT_BLOCKS, _SHORT_BLOCK_NS = 40, 20_000_000
_MIB = 1 << 20

Step = Callable[[], object]


def product(side: int = _SIDE, dtype: torch.dtype = torch.bfloat16) -> Step:
    """A matrix product of random numbers."""
    left, right = (torch.randn(side, side, device=DEVICE).to(dtype) for _ in range(2))
    return lambda: torch.matmul(left, right)


def copy() -> Step:
    """A copy within the device's memory, of random bytes."""
    source = torch.empty(_COPY_BYTES, dtype=torch.uint8, device=DEVICE).random_()
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def tiny() -> Step:
    """A kernel that does next to nothing."""
    one = torch.zeros(1, device=DEVICE)
    return lambda: one.add_(1)


def block_of(step: Step) -> Block:
    """One block, as long and with as many events and steps of lead-in as the controller asks for."""
    # The controller's side, which needs psutil: without a device it is not wanted.
    from runner.execution.blocks import Blocks

    step_ns = timing.queued_step_ns(step, DEVICE, timing.first_call(step, DEVICE))
    asked = Blocks(Timing(), on_cuda=True).request(step_ns)
    return timing.block(step, DEVICE, asked.iterations, lead_in=asked.lead_in, per_sample=asked.per_sample)


def device() -> Answer:
    """What PyTorch computes on; answers without a GPU too."""
    if not torch.cuda.is_available():
        return {"device": {"torch": torch.__version__, "cuda": 0}}
    known = torch.cuda.get_device_properties(0)
    torch.ones(1, device=DEVICE).add_(1)
    torch.cuda.synchronize()
    found = {"torch": torch.__version__, "cuda": 1, "devices": torch.cuda.device_count()}
    about = {"name": known.name, "memory_mib": known.total_memory // _MIB, "uuid": str(known.uuid)}
    return {"device": found | about}


def ceilings() -> Answer:
    """The worker's own ceiling in bf16, and a copy, by the card's published peaks."""
    name = torch.cuda.get_device_name(0)
    peaks = card_peaks(name)
    key = CaseKey.parse("gemm/infer/size=8192/precision=bf16")
    notes: dict[str, object] = {}
    tflops = bounds.measure_matmul_peak(key, DEVICE, notes).get("ceiling_tflops")
    # Each byte is read and written.
    copied = 2 * _COPY_BYTES / median(block_of(copy()).samples_ns)
    if peaks is None:
        raise NotHere(f"no published peak of {name} is known: {tflops} TFLOP/s, {copied:.0f} GB/s")
    return {
        "ceilings": {
            "bf16_tflops": tflops,
            "bf16_share": tflops and tflops / peaks.half,
            "copy_gb_per_second": copied,
            "copy_share": copied / peaks.bandwidth,
            **notes,
        }
    }


def clock() -> Answer:
    """The clock that blocks measure by that of NVML, under copies and at the power limit of products.

    And blocks after an idle gap, in milliseconds, by blocks of a device that never rested.
    """
    copies, products = _course(copy()), _course(step := product())
    figures: dict[str, Any] = {
        "queue_by_nvml": copies["queue_by_nvml"],
        # One SM measures, the others rest meanwhile: the clock rises at once, which NVML averages away.
        "at_limit_by_nvml": products["queue_by_nvml"],
        "copies": copies,
        "products": products,
    }
    timing.observe(step, DEVICE, 1.0)
    middle, worst = median(median(block_of(step).samples_ns) for _ in range(3)), 0.0
    for gap in (0, 1, 5, 20, 100, 1000):
        bursts: list[float] = []
        blocks: list[float] = []
        for _ in range(3):
            time.sleep(gap / 1e3)
            bursts.append(median(timing.block(step, DEVICE, 20).samples_ns) / middle)
            time.sleep(gap / 1e3)
            blocks.append(median(block_of(step).samples_ns) / middle)
        figures |= {f"burst_after_{gap}_ms": median(bursts), f"block_after_{gap}_ms": median(blocks)}
        worst = max(worst, abs(median(blocks) - 1))
    return {"clock": figures | {"worst_after_gap": worst}}


def _course(step: Step) -> dict[str, Any]:
    """Steps and a measurement of the clock, over and over, while NVML is asked for the same clock."""
    step_ns = timing.queued_step_ns(step, DEVICE, timing.first_call(step, DEVICE))
    marks = [[torch.cuda.Event(enable_timing=True) for _ in range(4)] for _ in range(_COURSE_PARTS)]
    for mark in itertools.chain(*marks):
        mark.record()
    torch.cuda.synchronize()
    time.sleep(2.0)
    ends, read = threading.Event(), list[tuple[float, float]]()
    reader = threading.Thread(target=_read_nvml_clock, args=(ends, read))
    reader.start()
    steps = max(1, round(_COURSE_SECONDS * 1e9 / _COURSE_PARTS / step_ns))
    started = time.monotonic()
    for begun, ended, *clock_marks in marks:
        begun.record()
        for _ in range(steps):
            step()
        ended.record()
        timing.queue_clock(*clock_marks)
    torch.cuda.synchronize()
    ends.set()
    reader.join()
    course = [
        [marks[0][0].elapsed_time(ended) / 1e3, begun.elapsed_time(ended) / steps, timing.clock_mhz(*own)]
        for begun, ended, *own in marks
    ]
    late = [mhz for _, _, mhz in course[_COURSE_PARTS // 2 :] if mhz is not None]
    nvml = [mhz for at, mhz in read if at - started > _COURSE_SECONDS / 2]
    queue = fmean(late)
    return {
        # Seconds, ms of a step and MHz; seconds and MHz.
        "course": course,
        "nvml_course": [[at - started, mhz] for at, mhz in read],
        "queue_mhz": queue,
        "nvml_mhz": fmean(nvml) if nvml else None,
        "queue_by_nvml": queue / fmean(nvml) if nvml else None,
    }


def _read_nvml_clock(ends: threading.Event, read: list[tuple[float, float]]) -> None:
    """Collect moments of time.monotonic and MHz of the SMs by NVML, every 10 ms until `ends`."""
    from runner.telemetry.gpu.nvml import Absent, N, ask, gpus, library, text
    from runner.telemetry.sample_log import bare

    own = bare(str(torch.cuda.get_device_properties(0).uuid))
    with library():
        handles = [one for one in gpus() if bare(text(ask(N.nvmlDeviceGetUUID, one))) == own]
        while handles and not ends.wait(0.01):
            answer = ask(N.nvmlDeviceGetClockInfo, handles[0], N.NVML_CLOCK_SM)
            if not isinstance(answer, Absent):
                read.append((time.monotonic(), float(answer)))


def droop() -> Answer:
    """TFLOP/s of ten seconds of products, from their start out of rest."""
    step = product()
    step_ns = timing.queued_step_ns(step, DEVICE, timing.first_call(step, DEVICE))
    time.sleep(2.0)
    block = timing.block(step, DEVICE, max(100, round(10e9 / step_ns)))
    ends, total = [0.0], 0.0
    for taken in block.samples_ns:
        total += taken
        ends.append(total)
    figures = {
        f"tflops_until_{until:g}_s": _tflops(ends, 0.0, until * 1e9) for until in (0.01, 0.1, 1.0, 10.0)
    }
    last = _tflops(ends, total - 1e9, total)
    return {
        "droop": {**figures, "tflops_last_s": last, "last_by_first": last / figures["tflops_until_0.01_s"]}
    }


def _tflops(ends: list[float], start: float, stop: float) -> float:
    """Of the products between two moments; `ends` are those at which they ended, in ns, the first one 0."""
    within = [end for end in ends if start <= end <= stop]
    within = within if len(within) > 1 else ends[:2]
    return 2 * _SIDE**3 * (len(within) - 1) / (within[-1] - within[0]) / 1e3


def event_cost() -> Answer:
    """Microseconds that a block's events add to a short step, by the same steps with two events in all."""
    step = tiny()
    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        step()
    figures: dict[str, float] = {}
    for name, each in (("eager", step), ("replay", graph.replay)):
        asked = block_of(each)
        # Short blocks in turn, and the best of each: what else the host does only makes a launch slower.
        sample_ns = round(asked.per_sample * fmean(asked.samples_ns))
        count = asked.per_sample * max(1, _SHORT_BLOCK_NS // sample_ns)
        alone = events = math.inf
        for _ in range(_SHORT_BLOCKS):
            mine, theirs = (
                timing.block(each, DEVICE, count, lead_in=count // 8, per_sample=shared)
                for shared in (asked.per_sample, count)
            )
            events, alone = min(events, fmean(mine.samples_ns)), min(alone, theirs.samples_ns[0])
        figures |= {f"{name}_us": (events - alone) / 1e3, f"{name}_step_us": alone / 1e3}
        fresh = _fresh_events(each, min(count, 2000))
        figures[f"{name}_fresh_events_us"] = (fresh - alone) / 1e3
    return {"event_cost": figures}


def _fresh_events(step: Step, count: int) -> float:
    """Nanoseconds of a step with an event of its own that CUDA makes in the loop, as a naive timer has it."""
    torch.cuda.synchronize()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    marks[-1].synchronize()
    return marks[0].elapsed_time(marks[-1]) * 1e6 / count


def other_timers() -> Answer:
    """Our latency of four operators by PyTorch's Timer, and by triton's do_bench, which empties the L2."""
    try:
        from triton.testing import do_bench
    except ImportError:
        raise NotHere("triton is not installed") from None
    query = torch.randn(8, 16, 1024, 64, device=DEVICE, dtype=torch.bfloat16)
    square = torch.randn(4096, 4096, device=DEVICE)
    steps: dict[str, Step] = {
        "gemm_fp32": product(4096, torch.float32),
        "gemm_bf16": product(4096),
        "softmax": lambda: torch.softmax(square, -1),
        "sdpa": lambda: torch.nn.functional.scaled_dot_product_attention(query, query, query),
        "softmax_small": lambda: torch.softmax(square[:64], -1),
    }
    figures: dict[str, float] = {"timer_long": 0.0, "timer_short": 0.0, "do_bench": 0.0}
    for name, step in steps.items():
        ours, theirs = _in_turn(step)
        flushed = do_bench(step, return_mode="median")
        figures |= {
            f"{name}_ms": ours,
            f"{name}_by_timer": ours / theirs,
            f"{name}_by_do_bench": ours / flushed,
        }
        # A product in bf16 takes the card to its power limit, where every timer finds another clock.
        if name == "gemm_bf16":
            continue
        length = "timer_long" if ours >= 0.05 else "timer_short"
        figures[length] = max(figures[length], abs(ours / theirs - 1))
        if ours >= 0.05:
            figures["do_bench"] = max(figures["do_bench"], abs(ours / flushed - 1))
    return {"other_timers": figures}


def _in_turn(step: Step) -> tuple[float, float]:
    """Milliseconds of a step by our blocks and by PyTorch's Timer: medians of three, taken in turn."""
    from torch.utils import benchmark

    ours: list[float] = []
    theirs: list[float] = []
    timer = benchmark.Timer("step()", globals={"step": step})
    for _ in range(3):
        ours.append(median(block_of(step).samples_ns) / 1e6)
        theirs.append(timer.blocked_autorange(min_run_time=0.2).median * 1e3)
    return median(ours), median(theirs)


def allocator() -> Answer:
    """The worker's peak of allocated memory, around an allocation of 256 MiB."""
    torch.cuda.synchronize()
    memory.release_memory(DEVICE)
    memory.reset_cuda_peaks(DEVICE)
    before = torch.cuda.memory_stats(0)["allocated_bytes.all.current"] / _MIB
    held = torch.empty(256 * _MIB, dtype=torch.uint8, device=DEVICE)
    del held
    peak = memory.cuda_peaks(DEVICE)["cuda_peak_allocated"]
    return {"allocator": {"before_mib": before, "peak_mib": peak, "allocated_off_mib": peak - before - 256}}


def load(kind: str) -> None:
    """Hold a context and compute `kind` until standard input ends; print `ready` once it does."""
    step = {"product": product, "copy": copy, "idle": tiny}[kind]()
    timing.first_call(step, DEVICE)
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0.0 if kind != "idle" else 0.2)[0]:
        if kind != "idle":
            timing.observe(step, DEVICE, 0.1)


PROBES: dict[str, Callable[[], Answer]] = {
    each.__name__: each for each in (device, ceilings, clock, droop, event_cost, other_timers, allocator)
}

if __name__ == "__main__":
    if sys.argv[1:2] == ["load"]:
        load(sys.argv[2])
    else:
        serve(PROBES)
