"""The columns of a recording: name, unit, and how a window's rows become one metric.

`share` columns are percent of time as the source reports it. A column about GPU utilisation belongs to one
source, so that numbers of two sources never share a name.
"""

from dataclasses import dataclass
from typing import Literal

#: How rows become a metric: `mean` weighted by the rows' lengths, `max` or `median`.
Summary = Literal["mean", "max", "median"]


@dataclass(frozen=True, slots=True)
class SampleColumn:
    """One column. `metric` is the name in the catalogue of metrics, empty for what is only kept as rows."""

    name: str
    unit: str
    metric: str = ""
    summary: Summary = "mean"


_GPU = (
    # Source gpm: hardware counters over exactly the row.
    SampleColumn("sm_utilisation", "%", "sm_utilisation"),
    SampleColumn("sm_occupancy", "%", "sm_occupancy"),
    SampleColumn("tensor", "%", "tensor_active"),
    SampleColumn("tensor_half", "%"),
    SampleColumn("dram_bandwidth", "%", "dram_active"),
    SampleColumn("fp32", "%", "fp32_active"),
    SampleColumn("fp16", "%", "fp16_active"),
    SampleColumn("pcie_tx", "MiB/s", "pcie_tx"),
    SampleColumn("pcie_rx", "MiB/s", "pcie_rx"),
    SampleColumn("nvlink_tx", "MiB/s", "nvlink_tx"),
    SampleColumn("nvlink_rx", "MiB/s", "nvlink_rx"),
    # Source dcgm: the same counters through a DCGM host engine, multiplexed on older GPUs.
    SampleColumn("dcgm_sm_utilisation", "%", "dcgm_sm_utilisation"),
    SampleColumn("dcgm_sm_occupancy", "%", "dcgm_sm_occupancy"),
    SampleColumn("dcgm_tensor", "%", "dcgm_tensor_active"),
    SampleColumn("dcgm_dram_bandwidth", "%", "dcgm_dram_active"),
    # Source samples: the driver's buffer, averaged over the row. Source polling: at the row's end.
    SampleColumn("gpu_busy", "%", "gpu_busy"),
    SampleColumn("gpu_busy_polled", "%", "gpu_busy_polled"),
    SampleColumn("power", "W", "power"),
    SampleColumn("energy", "J"),
    SampleColumn("sm_clock", "MHz", "sm_clock", "median"),
    SampleColumn("memory_clock", "MHz", "memory_clock", "median"),
    SampleColumn("temperature", "°C", "temperature", "max"),
    SampleColumn("memory_temperature", "°C", "memory_temperature", "max"),
    SampleColumn("memory_used", "MiB", "device_memory", "max"),
    SampleColumn("memory_reserved", "MiB"),
    SampleColumn("process_memory", "MiB", "process_memory", "max"),
    SampleColumn("throttled", "%", "throttled"),
    SampleColumn("throttled_power", "%", "throttled_power"),
    SampleColumn("throttled_heat", "%", "throttled_heat"),
    SampleColumn("throttled_hardware", "%", "throttled_hardware"),
)
_HOST = (
    SampleColumn("cpu_busy", "%", "cpu_busy"),
    SampleColumn("foreign", "%", "foreign_cpu"),
    SampleColumn("steal", "%", "steal"),
    SampleColumn("delay", "%", "run_delay"),
    SampleColumn("run_queue", "tasks"),
    SampleColumn("frequency", "MHz", "cpu_frequency", "median"),
    SampleColumn("tree_memory", "MiB", "tree_memory", "max"),
    SampleColumn("switches", "1/s"),
    SampleColumn("pages_local", "%"),
)

#: Every column by its name. In addition a host's recording has `cpu0`, `cpu1`...: each CPU's busy share, %.
COLUMNS: dict[str, SampleColumn] = {column.name: column for column in (*_GPU, *_HOST)}
