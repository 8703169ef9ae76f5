"""The columns of a recording: name, unit, and how a window's rows become one metric.

`share` columns are percent of time as the source tells it. A column about GPU utilisation belongs to one
rung, so that numbers of two rungs never share a name.
"""

from dataclasses import dataclass
from typing import Literal

#: How rows become a metric: `mean` weighted by the rows' lengths, `max`, `median`, or `sum`.
Summary = Literal["mean", "max", "median", "sum"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `metric` is the name in the catalogue of metrics, empty for what is only kept as rows."""

    name: str
    unit: str
    metric: str = ""
    summary: Summary = "mean"


_GPU = (
    # Source gpm: hardware counters over exactly the row.
    Column("sm_utilisation", "%", "sm_utilisation"),
    Column("sm_occupancy", "%", "sm_occupancy"),
    Column("tensor", "%", "tensor_active"),
    Column("tensor_half", "%"),
    Column("dram_bandwidth", "%", "dram_active"),
    Column("fp32", "%", "fp32_active"),
    Column("fp16", "%", "fp16_active"),
    Column("pcie_tx", "MiB/s", "pcie_tx"),
    Column("pcie_rx", "MiB/s", "pcie_rx"),
    Column("nvlink_tx", "MiB/s", "nvlink_tx"),
    Column("nvlink_rx", "MiB/s", "nvlink_rx"),
    # Source dcgm: the same counters through a DCGM host engine, multiplexed on older GPUs.
    Column("dcgm_sm_utilisation", "%", "dcgm_sm_utilisation"),
    Column("dcgm_sm_occupancy", "%", "dcgm_sm_occupancy"),
    Column("dcgm_tensor", "%", "dcgm_tensor_active"),
    Column("dcgm_dram_bandwidth", "%", "dcgm_dram_active"),
    # Source samples: the driver's buffer, averaged over the row. Source polling: at the row's end.
    Column("gpu_busy", "%", "gpu_busy"),
    Column("gpu_busy_polled", "%", "gpu_busy_polled"),
    Column("power", "W", "power"),
    Column("energy", "J"),
    Column("sm_clock", "MHz", "sm_clock", "median"),
    Column("memory_clock", "MHz", "memory_clock", "median"),
    Column("temperature", "°C", "temperature", "max"),
    Column("memory_temperature", "°C", "memory_temperature", "max"),
    Column("memory_used", "MiB", "device_memory", "max"),
    Column("memory_reserved", "MiB"),
    Column("process_memory", "MiB", "process_memory", "max"),
    Column("throttled", "%", "throttled"),
)
_HOST = (
    Column("cpu_busy", "%", "cpu_busy"),
    Column("foreign", "%", "foreign_cpu"),
    Column("steal", "%", "steal"),
    Column("delay", "%", "run_delay"),
    Column("run_queue", "tasks"),
    Column("frequency", "MHz", "cpu_frequency", "median"),
    Column("tree_memory", "MiB", "tree_memory", "max"),
    Column("switches", "1/s"),
    Column("pages_local", "%"),
)

#: Every column by its name. Beside them a host's recording has `cpu0`, `cpu1`...: each CPU's busy share, %.
COLUMNS: dict[str, Column] = {column.name: column for column in (*_GPU, *_HOST)}
