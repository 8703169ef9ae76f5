"""The catalogue of metrics: name, unit, which direction is better."""

from dataclasses import dataclass
from typing import Literal, get_args

Better = Literal["lower", "higher", "neither"]
DIRECTIONS: tuple[Better, ...] = get_args(Better)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of the catalogue. `name` is the slug used in the database and in URLs."""

    name: str
    title: str
    unit: str
    better: Better
    meaning: str

    @property
    def cost(self) -> int:
        """+1 where more is worse, -1 where more is better."""
        return -1 if self.better == "higher" else 1


_ALL = (
    Metric("latency", "Latency", "ms", "lower", "median of all timed iterations of one process"),
    Metric("latency_p10", "Latency p10", "ms", "lower", "10th percentile of the timed iterations"),
    Metric("latency_p90", "Latency p90", "ms", "lower", "90th percentile of the timed iterations"),
    Metric("latency_min", "Latency min", "ms", "lower", "fastest timed iteration"),
    Metric(
        "latency_floor",
        "Latency (min-based)",
        "ms",
        "lower",
        "median over blocks of each block's fastest iteration: the quietest estimate on a shared machine; on "
        "CUDA of each block's median",
    ),
    Metric(
        "latency_burst",
        "Latency burst",
        "ms",
        "lower",
        "on CUDA the median over blocks of each block's fastest iteration, at a clock that may not last",
    ),
    Metric(
        "throughput",
        "Throughput",
        "items/s",
        "higher",
        "items of a step / median latency; of instances, their sum",
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
    Metric("model_tflops", "Model TFLOP/s", "TFLOP/s", "higher", "analytic FLOPs of an item x throughput"),
    Metric(
        "generated_kernels", "Generated kernels", "count", "lower", "kernels that Inductor fused the graph to"
    ),
    Metric("graph_breaks", "Graph breaks", "count", "lower", "times Dynamo had to split the graph"),
    Metric("recompiles", "Recompiles", "count", "lower", "graphs compiled anew after the first"),
    Metric("latency_p99", "Latency p99", "ms", "lower", "99th percentile, of at least 662 timed iterations"),
    Metric("cold_start", "Cold start", "s", "lower", "from the interpreter's start to a steady step"),
    Metric("cudagraph_skips", "CUDA graph skips", "count", "lower", "graphs Inductor did not capture"),
    Metric("export_time", "Export time", "s", "lower", "taking the model out of eager Python"),
    Metric("package_size", "Package size", "MiB", "lower", "the exported model on disk"),
    Metric("model_size", "Model size", "MiB", "lower", "parameters and buffers as they are kept"),
    Metric("error", "Error", "share", "lower", "L2 norm of the difference / L2 norm of the reference"),
    Metric("error_worst", "Worst error", "share", "lower", "largest difference / largest reference value"),
    Metric("error_mean", "Mean error", "share", "lower", "mean difference / mean magnitude of the reference"),
    Metric(
        "top1_agreement", "Top-1 agreement", "share", "higher", "rows with the class that eager fp32 names"
    ),
    Metric("loss_drift", "Loss drift", "share", "lower", "relative difference of the loss after k steps"),
    Metric("scaler_skips", "GradScaler skips", "count", "lower", "steps that overflowed and were skipped"),
    Metric("capture", "Graph capture", "ms", "lower", "recording the CUDA graph, warm-up excluded"),
    Metric("instantiate", "Graph instantiate", "ms", "lower", "making the CUDA graph executable"),
    Metric("first_replay", "First replay", "ms", "lower", "first replay of the CUDA graph"),
    Metric("graph_pool", "Graph pool", "MiB", "lower", "memory the CUDA graph's private pool holds"),
    Metric(
        "device_time", "Device time", "ms", "lower", "time of a step in which a kernel or copy ran (CUPTI)"
    ),
    Metric("launch_bound", "Launch-bound share", "share", "lower", "1 - device time / latency"),
    Metric(
        "request_latency", "Request latency", "ms", "lower", "one at a time, until the host has the answer"
    ),
    Metric("request_latency_p90", "Request latency p90", "ms", "lower", "90th percentile of the requests"),
    Metric("request_latency_p99", "Request latency p99", "ms", "lower", "99th percentile of 662 requests"),
    Metric("sustained_throughput", "Sustained throughput", "items/s", "higher", "over the telemetry window"),
    Metric(
        *("timed_sm_clock", "SM clock, timed", "MHz", "neither"),
        "right after the timed iterations of each block, while one SM works",
    ),
    Metric(
        "step_cycles", "Cycles of a step", "kcycles", "lower", "latency x SM clock of the timed iterations"
    ),
    Metric("ceiling_tflops", "Ceiling", "TFLOP/s", "higher", "fastest matrix product, of all its processes"),
    Metric("peak_share", "Share of the ceiling", "share", "higher", "TFLOP/s of the case / the ceiling"),
    Metric(
        "mfu", "MFU", "share", "higher", "TFLOP/s of the case / the card's published dense peak in its format"
    ),
    Metric(
        "intensity_by_ridge",
        "Intensity by ridge",
        "share",
        "neither",
        "FLOP a byte of device memory / the ridge point: below 1 memory bounds the case, above it arithmetic",
    ),
    Metric(
        "roofline_share",
        "Share of the roofline",
        "share",
        "higher",
        "TFLOP/s / what memory or arithmetic allows",
    ),
    Metric("throughput_per_core", "Throughput per core", "items/s", "higher", "throughput / CPUs in use"),
    Metric("migrations", "Migrations", "1/s", "lower", "moves of the process's threads between CPUs"),
    Metric("switches", "Context switches", "1/s", "lower", "of all threads of the process, of both kinds"),
    Metric("pages_local", "Local pages", "share", "higher", "resident pages on the NUMA nodes of its CPUs"),
    Metric("exposed_communication", "Exposed communication", "ms", "lower", "step less the same without it"),
    Metric("exposed_share", "Exposed share", "share", "lower", "exposed communication / step"),
    Metric("rank_skew", "Rank skew", "share", "lower", "(slowest - fastest rank) / slowest, local work only"),
    Metric("bus_bandwidth", "Bus bandwidth", "GB/s", "higher", "all-reduce, S/t x 2(n-1)/n as nccl-tests do"),
    Metric("all_gather_bandwidth", "All-gather", "GB/s", "higher", "64 MiB, S/t x (n-1)/n as nccl-tests do"),
    Metric("reduce_scatter_bandwidth", "Reduce-scatter", "GB/s", "higher", "64 MiB, S/t x (n-1)/n likewise"),
    Metric(
        "bandwidth",
        "Bandwidth",
        "GB/s",
        "higher",
        "bytes that a step moves / median latency; of instances, their sum",
    ),
    Metric("fragmentation", "Fragmentation", "share", "lower", "1 - allocated / reserved at the peak"),
    Metric("alloc_retries", "Allocator retries", "count", "lower", "cudaMalloc retried after freeing caches"),
    Metric("queue_latency", "Queue latency", "ms", "lower", "from a request's arrival to its answer, median"),
    Metric("queue_latency_p99", "Queue latency p99", "ms", "lower", "the same, 99th percentile"),
    Metric("data_wait", "Waiting for data", "share", "lower", "share of the step spent waiting for a batch"),
    Metric("new_shape", "New shape", "s", "lower", "first call of a shape not seen before, median"),
    Metric("known_shape", "Known shape", "ms", "lower", "second call of a shape, median"),
    # Of the telemetry window. SM utilisation and GPU busy are different metrics, and each source has its own
    # name.
    Metric("sm_utilisation", "SM utilisation", "%", "neither", "share of SM time with a warp on it (GPM)"),
    Metric("sm_occupancy", "SM occupancy", "%", "neither", "warps on an SM / the most it holds (GPM)"),
    Metric("tensor_active", "Tensor cores active", "%", "neither", "share of cycles of any type (GPM)"),
    Metric("dram_active", "DRAM bandwidth", "%", "neither", "of the device's peak (GPM)"),
    Metric("fp32_active", "FP32 active", "%", "neither", "share of cycles of the FP32 pipes (GPM)"),
    Metric("fp16_active", "FP16 active", "%", "neither", "share of cycles of the FP16 pipes (GPM)"),
    Metric("pcie_tx", "PCIe sent", "MiB/s", "neither", "from the GPU to the host (GPM)"),
    Metric("pcie_rx", "PCIe received", "MiB/s", "neither", "from the host to the GPU (GPM)"),
    Metric("nvlink_tx", "NVLink sent", "MiB/s", "neither", "over all links (GPM)"),
    Metric("nvlink_rx", "NVLink received", "MiB/s", "neither", "over all links (GPM)"),
    Metric("dcgm_sm_utilisation", "SM utilisation, DCGM", "%", "neither", "as GPM's, by a DCGM host engine"),
    Metric("dcgm_sm_occupancy", "SM occupancy, DCGM", "%", "neither", "as GPM's, by a DCGM host engine"),
    Metric("dcgm_tensor_active", "Tensor cores active, DCGM", "%", "neither", "as GPM's, by DCGM"),
    Metric("dcgm_dram_active", "DRAM bandwidth, DCGM", "%", "neither", "as GPM's, by a DCGM host engine"),
    Metric("gpu_busy", "GPU busy", "%", "neither", "share of time with a kernel; not SM utilisation"),
    Metric("gpu_busy_polled", "GPU busy, polled", "%", "neither", "the same, polled"),
    Metric("power", "Power", "W", "neither", "of the board; most devices answer the mean of the last second"),
    Metric("sm_clock", "SM clock", "MHz", "neither", "median over the window"),
    Metric("memory_clock", "Memory clock", "MHz", "neither", "median over the window"),
    Metric("temperature", "Temperature", "°C", "neither", "of the GPU, highest in the window"),
    Metric("memory_temperature", "Memory temperature", "°C", "neither", "highest in the window"),
    Metric("device_memory", "Device memory", "MiB", "lower", "in use on the device by all processes, peak"),
    Metric("process_memory", "Process's device memory", "MiB", "lower", "context and libraries included"),
    # A GPU at full load is limited by its power cap, which is normal.
    Metric("throttled", "Throttled", "%", "neither", "time with the clock held down, for any reason"),
    Metric("throttled_power", "Throttled, power", "%", "neither", "clock held down by the power cap"),
    Metric("throttled_heat", "Throttled, heat", "%", "neither", "clock held down by a temperature limit"),
    Metric("throttled_hardware", "Throttled, hardware", "%", "neither", "by voltage, board or power brake"),
    Metric("energy_per_item", "Energy per item", "J", "lower", "of all its GPUs, by items of the window"),
    Metric("cpu_busy", "CPU busy", "%", "neither", "mean over the measured CPUs, by any program"),
    Metric("foreign_cpu", "Foreign CPU", "%", "lower", "used by others on the measured CPUs; 100 is one CPU"),
    Metric("steal", "Steal", "%", "lower", "time the hypervisor took, where it reports it"),
    Metric("run_delay", "Run delay", "%", "lower", "time its threads waited for a CPU, added up"),
    Metric("cpu_frequency", "CPU frequency", "MHz", "neither", "median over the window"),
    Metric("tree_memory", "Tree memory", "MiB", "lower", "proportional set size of all its processes, most"),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}

#: Metrics that include compiling: for compiled cases only a process with an empty cache can measure them.
COLD = frozenset(
    {
        "compile_cold",
        "first_call",
        "cold_start",
        "new_shape",
        "rss_peak",
        "cuda_peak_allocated_compile",
        "cuda_peak_reserved_compile",
    }
)

#: Compile time and peak memory, by the metrics that an upgrade's are judged by.
COMPILE_TIME = ("compile_warm", "compile_cold", "first_call")
PEAK_MEMORY = ("cuda_peak_allocated", "rss_peak_steady")
