"""From the blocks of one replicate to its metrics."""

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from records.telemetry import HOST, Recording

from ..worker.messages import Block, Finished, Ready, Window

#: What includes compiling: of a compiled case it is measured with a cold cache.
_COMPILING = ("rss_peak", "cuda_peak_allocated_compile", "cuda_peak_reserved_compile", "new_shape")

#: A percentile is published from this many timed iterations on: the fewest of which, 99 times of 100, two or
#: more lie beyond it (binomial). Source: MLPerf inference rules, early stopping: p90 64, p99 662.
_PERCENTILES = {"latency_p10": (0.10, 64), "latency_p90": (0.90, 64), "latency_p99": (0.99, 662)}


def percentile(ordered: Sequence[int], share: float) -> float:
    """The `share` quantile of sorted values by linear interpolation (Hyndman and Fan 1996, definition 7)."""
    position = (len(ordered) - 1) * share
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def replicate_metrics(
    ready: Ready,
    blocks: Sequence[Block],
    finished: Finished,
    exit_report: Mapping[str, Any],
    cache: str,
    ready_seconds: float | None = None,
    left_out: Collection[int] = (),
    on_cuda: bool = False,
    instances: int = 1,
) -> dict[str, float]:
    """All metrics of one replicate in the catalogue's units.

    `cache` is `cold` or `warm` for a compiled case and empty for an eager one. Latency comes from every
    timed iteration; `latency_floor`, which is what is compared, is the median over blocks of each block's
    fastest iteration, or of its median with `on_cuda`, where the fastest is `latency_burst`. Where steps
    take inputs of several shapes in turn, all are means over the shapes, of each shape's median and fastest
    iteration: a faster contender fits more shapes into a block, and the fastest step is the shortest shape's.
    Where no sample of a shape counts, there is none, nor what follows from them.
    `ready_seconds` is the time until the process was steady: its cold start, unless a cache was filled.
    `left_out` are the numbers, from 0, of blocks of which no sample counts; one block at least does. Of
    several `instances` only they themselves know the throughput.
    """
    samples = sorted(ns for each in _block_samples(blocks, left_out) for ns in each)
    metrics: dict[str, float] = {}
    if all(block.per_sample == 1 for block in blocks):
        # Of means neither the fastest nor a percentile is that of iterations.
        metrics |= {"latency_min": samples[0] / 1e6} | _percentiles(samples)
    shapes = int(ready.facts.get("shapes", 1))
    if step := _center_and_floor(blocks, shapes, left_out):
        center, floor = step
        metrics |= _step_metrics(ready, center, floor, cache)
        if on_cuda:
            # Of inputs of several shapes blocks have no median to compare.
            middle = median(map(median, _block_samples(blocks, left_out))) if shapes == 1 else center
            metrics |= {"latency_floor": middle / 1e6, "latency_burst": floor / 1e6}
    if cache != "warm":
        metrics["first_call"] = ready.first_call_ns / 1e9
        if ready_seconds is not None:
            metrics["cold_start"] = ready_seconds
    metrics |= _clock(blocks, left_out, metrics.get("latency"))
    if instances > 1:
        metrics.pop("throughput", None)
    metrics |= _worker_metrics(ready, blocks, finished, cache)
    if "rss_peak" in metrics:
        metrics["rss_peak"] = max(metrics["rss_peak"], exit_report.get("peak_tree_mib", 0.0))
    # Of instances the throughput is the sum of what each does in its own time, and so are these.
    if (flops := ready.facts.get("flops")) and "throughput" in metrics:
        metrics["model_tflops"] = flops / ready.facts["items"] * metrics["throughput"] / 1e12
    if (moved := ready.facts.get("bytes_moved")) and "throughput" in metrics:
        metrics["bandwidth"] = moved / ready.facts["items"] * metrics["throughput"] / 1e9
    return metrics | _shares(metrics, ready.facts.get("cpus_in_use")) | mfu(metrics, ready.facts)


def _worker_metrics(
    ready: Ready, blocks: Sequence[Block], finished: Finished, cache: str
) -> dict[str, float]:
    """The worker's own metrics, without those of which this process has too little to go by."""
    # A warm process finds its code compiled: neither its peak nor a new shape includes compiling.
    left_out = set[str](_COMPILING if cache == "warm" else ())
    # Of several instances each has the percentile of its own requests, and the items are those of all.
    members = max(1, len(ready.facts.get("members", ())))
    requests = ready.facts["items"] // members * sum(block.iterations for block in blocks)
    if requests < _PERCENTILES["latency_p99"][1]:
        # Of few requests it is the longest one.
        left_out.add("queue_latency_p99")
    return {name: value for name, value in finished.metrics.items() if name not in left_out}


def _clock(blocks: Sequence[Block], left_out: Collection[int], latency_ms: float | None) -> dict[str, float]:
    """The GPU's clock after the timed steps, and a step in its cycles; empty where it is not known."""
    clocks = [
        # Out of rest a GPU at its power limit is still slowing down when a block begins.
        block.sm_clocks_mhz[-1]
        for number, block in enumerate(blocks)
        if number not in left_out and block.sm_clocks_mhz
    ]
    if not clocks:
        return {}
    clock = {"timed_sm_clock": median(clocks)}
    return clock | ({} if latency_ms is None else {"step_cycles": latency_ms * clock["timed_sm_clock"]})


def _step_metrics(ready: Ready, center_ns: float, floor_ns: float, cache: str) -> dict[str, float]:
    """What follows from how long a step is."""
    seconds = center_ns / 1e9
    metrics = {
        "latency": center_ns / 1e6,
        "latency_floor": floor_ns / 1e6,
        "throughput": ready.facts["items"] / seconds,
    }
    if cache:
        # One steady step is part of the first call and is not compilation.
        metrics[f"compile_{cache}"] = max(0.0, ready.first_call_ns / 1e9 - seconds)
    return metrics


def _shares(metrics: Mapping[str, float], cpus: float | None) -> dict[str, float]:
    """What follows from a replicate's other metrics, the worker's own included; `cpus` are those in use."""
    shares: dict[str, float] = {}
    if cpus and "throughput" in metrics:
        shares["throughput_per_core"] = metrics["throughput"] / cpus
    if "ceiling_tflops" in metrics and "model_tflops" in metrics:
        shares["peak_share"] = metrics["model_tflops"] / metrics["ceiling_tflops"]
    return shares


def _percentiles(ordered: Sequence[int]) -> dict[str, float]:
    return {
        name: percentile(ordered, share) / 1e6
        for name, (share, enough) in _PERCENTILES.items()
        if len(ordered) >= enough
    }


def _block_samples(blocks: Sequence[Block], left_out: Collection[int]) -> list[tuple[int, ...]]:
    """The samples of each block that counts."""
    return [block.samples_ns for number, block in enumerate(blocks) if number not in left_out]


def _center_and_floor(
    blocks: Sequence[Block], shapes: int, left_out: Collection[int]
) -> tuple[float, float] | None:
    """Latency and its floor in nanoseconds, for inputs of so many `shapes` in turn; None where one lacks."""
    if shapes == 1:
        counted = _block_samples(blocks, left_out)
        return median(ns for samples in counted for ns in samples), median(map(min, counted))
    # The turn goes on from block to block, whether they count or not, so a shape is known by its place.
    places: list[list[int]] = [[] for _ in range(shapes)]
    place = 0
    for number, block in enumerate(blocks):
        for ns in block.samples_ns:
            if number not in left_out:
                places[place % shapes].append(ns)
            place += 1
    if not all(places):
        return None
    return fmean(median(each) for each in places), fmean(min(each) for each in places)


def all_sampled(recordings: Collection[Recording], facts: Mapping[str, Any]) -> bool:
    """Whether there are recordings of every GPU of this machine that the case computes on."""
    sampled = sum(one.device != HOST for one in recordings)
    return facts.get("cuda_devices", 0) <= sampled


def sustained_throughput(window: Window, items: float) -> dict[str, float]:
    """Items a second over a whole telemetry window; `items` are those of one step."""
    seconds = (window.ended_ns - window.started_ns) / 1e9
    return {"sustained_throughput": window.iterations * items / seconds} if seconds > 0 else {}


def disturbance(blocks: Sequence[Block]) -> dict[str, float]:
    """How undisturbed the blocks were: per iteration counts, and CPU time over wall time.

    A single-threaded CPU case that owns its core has a `cpu_share` near 1. Of instances it is that of the
    one that had least, of ranks, which sleep while they wait for each other, the sum.
    """
    iterations = sum(block.iterations for block in blocks)
    wall = sum(block.wall_ns for block in blocks)
    return {
        "minor_faults_per_iteration": sum(b.minor_faults for b in blocks) / iterations,
        "involuntary_switches_per_second": sum(b.involuntary_switches for b in blocks) / (wall / 1e9),
        "cpu_share": sum(b.cpu_ns for b in blocks) / wall,
        "iterations": float(iterations),
        "blocks": float(len(blocks)),
    }


def mfu(metrics: Mapping[str, float], facts: Mapping[str, Any]) -> dict[str, float]:
    """Metric `mfu`: the case's TFLOP/s by the card's published peak; empty where either is not known."""
    peak, tflops = facts.get("card_peak_tflops"), metrics.get("model_tflops")
    return {"mfu": tflops / peak} if peak and tflops is not None else {}


def roofline(metrics: Mapping[str, float], facts: Mapping[str, Any]) -> dict[str, float]:
    """Metrics `intensity_by_ridge` and `roofline_share` of a telemetry window; empty where something lacks.

    The arithmetic intensity is FLOP a byte of device memory, by `sustained_throughput` and `dram_active`
    (percent of the card's bandwidth). At the ridge point the bandwidth feeds the peak: below it a case is
    bound by its memory traffic, above it by its arithmetic. `roofline_share` is its TFLOP/s by what the
    roofline allows. After Williams, Waterman and Patterson (2009), Roofline: an insightful visual performance
    model for multicore architectures.
    """
    peak, flops = facts.get("card_peak_tflops"), facts.get("flops")
    items, active = metrics.get("sustained_throughput"), metrics.get("dram_active")
    if not (peak and flops and items and active):
        return {}
    tflops = flops / facts["items"] * items / 1e12
    by_ridge = tflops / (active / 100) / peak
    return {"intensity_by_ridge": by_ridge, "roofline_share": tflops / (peak * min(1.0, by_ridge))}
