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
#: Pauses before a block, in ms. The first two are equal: their difference is that of the method.
_GAPS_MS = (0, 0, 20, 1000)
_GAP_ROUNDS = 6
#: How long samples are made, in ms; rounds in which each length has a block, and how long that is.
_SAMPLES_MS = (0.1, 0.2, 0.5, 1.0, 2.0)
_SAMPLE_ROUNDS, _SAMPLE_BLOCK_NS = 6, 80_000_000
#: Blocks by which the cost of events is found, and how long each is.
_SHORT_BLOCKS, _SHORT_BLOCK_NS = 20, 20_000_000
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
    return _repeatable(step)()


def _repeatable(step: Step) -> Callable[[], Block]:
    """Takes such blocks of a step, whose length is measured now."""
    # The controller's side, which needs psutil: without a device it is not wanted.
    from runner.execution.blocks import Blocks

    asked = Blocks(Timing(), on_cuda=True).request(_step_ns(step))
    return lambda: timing.block(
        step, DEVICE, asked.iterations, lead_in=asked.lead_in, per_sample=asked.per_sample
    )


def _step_ns(step: Step) -> int:
    """Nanoseconds of a step among others in the queue."""
    return timing.queued_step_ns(step, DEVICE, timing.first_call(step, DEVICE))


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
    """The worker's own ceiling in bf16 and a copy by the card's published peaks; and the ceiling in fp32."""
    name = torch.cuda.get_device_name(0)
    peaks = card_peaks(name)
    notes: dict[str, object] = {}
    single, single_seconds = _ceiling("eager", notes)
    tflops, seconds = _ceiling("precision=bf16", notes)
    # Each byte is read and written.
    copied = 2 * _COPY_BYTES / median(block_of(copy()).samples_ns)
    if peaks is None:
        raise NotHere(f"no published peak of {name} is known: {tflops} TFLOP/s, {copied:.0f} GB/s")
    return {
        "ceilings": {
            "bf16_tflops": tflops,
            "bf16_share": tflops and tflops / peaks.half,
            "bf16_seconds": seconds,
            "fp32_tflops": single,
            "fp32_seconds": single_seconds,
            "copy_gb_per_second": copied,
            "copy_share": copied / peaks.bandwidth,
            **notes,
        }
    }


def _ceiling(technique: str, notes: dict[str, object]) -> tuple[float | None, float]:
    """TFLOP/s of a product as the worker finds them, None where it finds none, and the seconds it takes."""
    started = time.monotonic()
    found = bounds.measure_matmul_peak(CaseKey.parse(f"gemm/infer/size=8192/{technique}"), DEVICE, notes)
    return found.get("ceiling_tflops"), time.monotonic() - started


def clock() -> Answer:
    """The clock that blocks measure by that of NVML, under copies and at the power limit of products.

    And blocks of products after an idle gap, by blocks without one, all in turn.
    """
    copies, products = _course(copy()), _course(step := product())
    figures: dict[str, Any] = {
        "queue_by_nvml": copies["queue_by_nvml"],
        # One SM measures, the others rest meanwhile: the clock rises at once, which NVML averages away.
        "at_limit_by_nvml": products["queue_by_nvml"],
        "copies": copies,
        "products": products,
    }
    return {"clock": figures | _after_gaps(step)}


def _after_gaps(step: Step) -> dict[str, Any]:
    """Products in blocks after idle gaps, and 20 without lead-in, by those in blocks without a gap.

    All in the same turns, forwards and backwards, so that a clock that drifts is the same to all. At the
    power limit blocks without a gap differ by several per cent: `beyond_range` is how far the median after a
    gap lies outside all of these.
    """
    timing.observe(step, DEVICE, 1.0)
    again = _repeatable(step)
    blocks: list[list[float]] = [[] for _ in _GAPS_MS]
    bursts: list[float] = []
    for turn in range(_GAP_ROUNDS):
        for number in _turned(len(_GAPS_MS), turn):
            time.sleep(_GAPS_MS[number] / 1e3)
            blocks[number].append(median(again().samples_ns))
        time.sleep(0.02)
        bursts.append(median(timing.block(step, DEVICE, 20).samples_ns))
    one, other, *_ = map(median, blocks)
    plain = median([*blocks[0], *blocks[1]])
    after = {gap: median(taken) / plain for gap, taken in zip(_GAPS_MS, blocks, strict=True) if gap}
    low, high = min(*blocks[0], *blocks[1]), max(*blocks[0], *blocks[1])
    beyond = [max(0.0, low / plain - share, share - high / plain) for share in after.values()]
    return {
        "blocks_ms": [[ns / 1e6 for ns in taken] for taken in blocks],
        "without_gap_apart": one / other - 1,
        "without_gap_range": high / low - 1,
        **{f"block_after_{gap}_ms": share for gap, share in after.items()},
        "burst_by_block": median(bursts) / plain,
        "beyond_range": max(beyond),
    }


def _turned(count: int, turn: int) -> list[int]:
    """The numbers below `count`, begun elsewhere in each turn, and backwards in every other one."""
    order = [(turn // 2 + number) % count for number in range(count)]
    return order[::-1] if turn % 2 else order


def _course(step: Step) -> dict[str, Any]:
    """Steps and a measurement of the clock, over and over, while NVML is asked for the same clock."""
    step_ns = _step_ns(step)
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
    step_ns = _step_ns(step)
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


def sample_length() -> Answer:
    """What the events between samples add to steps, by the same steps between two events in all.

    Blocks with samples of each length are taken in turn. Of a step: its length in us; by the length of
    samples the share that the mean, and the median, over samples is above the truth; what an event costs, by
    samples of 0.1 ms. `worst_error` is the share that is furthest from 0 with samples as blocks have them, of
    steps that the clock does not change; `limited_error` is that of attention, which runs at the power limit.
    """
    query = torch.randn(8, 16, 1024, 64, device=DEVICE, dtype=torch.bfloat16)
    square = torch.randn(4096, 4096, device=DEVICE)
    high = torch.randn(16384, 4096, device=DEVICE)
    steps: dict[str, Step] = {
        "attention": lambda: torch.nn.functional.scaled_dot_product_attention(query, query, query),
        "softmax": lambda: torch.softmax(square, -1),
        "softmax_long": lambda: torch.softmax(high, -1),
    }
    timing.settle()
    figures: dict[str, Any] = {}
    errors: list[float] = []
    for name, step in steps.items():
        found, used = _by_sample_length(step)
        figures |= {f"{name}_{figure}": value for figure, value in found.items()}
        if name == "attention":
            figures["limited_error"] = used
        else:
            errors.append(used)
    return {"sample_length": figures | {"worst_error": max(errors, key=abs)}}


def _by_sample_length(step: Step) -> tuple[dict[str, Any], float]:
    """Figures of one step, and the error of the mean with samples as blocks have them."""
    from runner.execution.blocks import Blocks

    step_ns = _step_ns(step)
    most = max(1, round(_SAMPLE_BLOCK_NS / step_ns))
    used = Blocks(Timing(), on_cuda=True).request(step_ns).per_sample
    # One sample in all, then as blocks have them, then of each length.
    shared = [most, used, *(max(1, math.ceil(ms * 1e6 / step_ns)) for ms in _SAMPLES_MS)]
    means: list[list[float]] = [[] for _ in shared]
    middles: list[list[float]] = [[] for _ in shared]
    for turn in range(_SAMPLE_ROUNDS):
        for number in _turned(len(shared), turn):
            each = shared[number]
            count = each * max(1, most // each)
            samples = timing.block(step, DEVICE, count, lead_in=most // 4, per_sample=each).samples_ns
            means[number].append(fmean(samples))
            middles[number].append(median(samples))
    truth = median(means[0])
    errors = [median(taken) / truth - 1 for taken in means]
    middle_errors = [median(taken) / truth - 1 for taken in middles]
    return {
        "us": truth / 1e3,
        "event_us": errors[2] * truth * shared[2] / 1e3,
        "used_steps": used,
        "used_error": errors[1],
        "error": dict(zip(map(str, _SAMPLES_MS), errors[2:], strict=True)),
        "median_error": dict(zip(map(str, _SAMPLES_MS), middle_errors[2:], strict=True)),
    }, errors[1]


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
    figures = dict.fromkeys(("timer_steady", "timer_limited", "timer_short", "do_bench"), 0.0)
    for name, step in steps.items():
        ours, theirs = _in_turn(step)
        flushed = do_bench(step, return_mode="median")
        figures |= {
            f"{name}_ms": ours,
            f"{name}_by_timer": ours / theirs,
            f"{name}_by_do_bench": ours / flushed,
        }
        # At the power limit every timer finds another clock; a product in bf16 is too far off to tell.
        if name == "gemm_bf16":
            continue
        limited = "timer_limited" if name in ("gemm_fp32", "sdpa") else "timer_steady"
        kind = limited if ours >= 0.05 else "timer_short"
        figures[kind] = max(figures[kind], abs(ours / theirs - 1))
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


def collectives() -> Answer:
    """GB/s of each collective of 64 MiB over NCCL, by the code of cases over ranks; there is one rank."""
    from runner.worker.distributed import collectives, parallel, rank

    if not torch.distributed.is_available() or not torch.distributed.is_nccl_available():
        raise NotHere("this PyTorch was built without NCCL")
    size = 64 * _MIB
    meeting = parallel.store(0, leads=True)
    rank.barrier(DEVICE, 0, 1, meeting.port)
    try:
        kinds = ("all_reduce", "all_gather", "reduce_scatter")
        taken = {kind: collectives.collective_seconds(kind, size, DEVICE) for kind in kinds}
    finally:
        torch.distributed.destroy_process_group()
    return {"collectives": {kind: seconds and size / seconds / 1e9 for kind, seconds in taken.items()}}


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
    each.__name__: each
    for each in (
        *(device, ceilings, clock, droop, event_cost),
        *(sample_length, other_timers, allocator, collectives),
    )
}

if __name__ == "__main__":
    if sys.argv[1:2] == ["load"]:
        load(sys.argv[2])
    else:
        serve(PROBES)
