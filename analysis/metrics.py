"""The catalogue of metrics: name, unit, which direction is better."""

from dataclasses import dataclass
from typing import Literal

Better = Literal["lower", "higher", "neither"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric as people see it. `name` is the slug used in the database and in URLs."""

    name: str
    title: str
    unit: str
    better: Better
    meaning: str


_ALL = (
    Metric("latency", "Latency", "ms", "lower", "median of all timed iterations of one process"),
    Metric("latency_p10", "Latency p10", "ms", "lower", "10th percentile of the timed iterations"),
    Metric("latency_p90", "Latency p90", "ms", "lower", "90th percentile of the timed iterations"),
    Metric("latency_min", "Latency min", "ms", "lower", "fastest timed iteration"),
    Metric(
        "latency_floor",
        "Latency floor",
        "ms",
        "lower",
        "median over blocks of each block's fastest iteration: the quietest estimate on a shared machine",
    ),
    Metric(
        "throughput", "Throughput", "items/s", "higher", "items of one step divided by its median latency"
    ),
    Metric(
        "first_call", "First call", "s", "lower", "first call of the step, cold caches for compiled cases"
    ),
    Metric(
        "compile_cold", "Compile, cold cache", "s", "lower", "first call less one steady step, empty cache"
    ),
    Metric(
        "compile_warm", "Compile, warm cache", "s", "lower", "the same in a new process that finds the cache"
    ),
    Metric(
        "rss_peak",
        "Peak RSS",
        "MiB",
        "lower",
        "peak resident memory of the process tree; with a cold cache for compiled cases",
    ),
    Metric(
        "rss_peak_steady",
        "Peak RSS, steady",
        "MiB",
        "lower",
        "peak resident memory of the worker process itself after warm-up",
    ),
    Metric("cuda_peak_allocated", "Peak allocated", "MiB", "lower", "CUDA allocator's peak after warm-up"),
    Metric(
        "cuda_peak_reserved", "Peak reserved", "MiB", "lower", "CUDA caching allocator's peak after warm-up"
    ),
    Metric("cuda_peak_allocated_compile", "Peak allocated, first call", "MiB", "lower", "until warm"),
    Metric("cuda_peak_reserved_compile", "Peak reserved, first call", "MiB", "lower", "until warm"),
    Metric(
        "model_tflops", "Model TFLOP/s", "TFLOP/s", "higher", "analytic FLOPs of one step / median latency"
    ),
    Metric("graph_breaks", "Graph breaks", "count", "lower", "times Dynamo had to split the graph"),
    Metric("recompiles", "Recompiles", "count", "lower", "graphs compiled anew after the first"),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}
