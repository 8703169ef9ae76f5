"""NVML under one rule: a call answers a value, or `Absent` with the reason; nothing raises.

NVML counts devices in PCI order and knows nothing of CUDA_VISIBLE_DEVICES, so devices are identified by
UUID. No setter is called but those of clock_lock.py. Every call may hang in a broken driver: code that must
not hang runs this module in a process of its own (see probe.py).
"""

import math
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pynvml  # pyright: ignore[reportMissingTypeStubs]

from ..capability import UtilisationSource

#: The binding is made of ctypes, of which type checkers know nothing.
N: Any = pynvml

#: Field ids of counters in nanoseconds, by why the clock was held down (nvml.h, NVML_FI_DEV_PERF_POLICY_*
#: and NVML_FI_DEV_CLOCKS_EVENT_REASON_*).
THROTTLE_FIELDS: Mapping[str, int] = {
    "power": N.NVML_FI_DEV_PERF_POLICY_POWER,
    "thermal": N.NVML_FI_DEV_PERF_POLICY_THERMAL,
    "board": N.NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT,
    "reliability": N.NVML_FI_DEV_PERF_POLICY_RELIABILITY,
    "sw_thermal": N.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
    "hw_thermal": N.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
    "hw_power_brake": N.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN,
}

#: What the hardware counters are asked for (nvml.h, nvmlGpmMetricId_t): share of time in percent, or MiB/s.
GPM_METRICS: Mapping[str, int] = {
    "sm_utilisation": N.NVML_GPM_METRIC_SM_UTIL,
    "sm_occupancy": N.NVML_GPM_METRIC_SM_OCCUPANCY,
    "tensor": N.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    "tensor_half": N.NVML_GPM_METRIC_HMMA_TENSOR_UTIL,
    "dram_bandwidth": N.NVML_GPM_METRIC_DRAM_BW_UTIL,
    "fp32": N.NVML_GPM_METRIC_FP32_UTIL,
    "fp16": N.NVML_GPM_METRIC_FP16_UTIL,
    "pcie_tx": N.NVML_GPM_METRIC_PCIE_TX_PER_SEC,
    "pcie_rx": N.NVML_GPM_METRIC_PCIE_RX_PER_SEC,
    "nvlink_rx": N.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC,
    "nvlink_tx": N.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC,
}


#: Below 100 ms between two samples the counters' means are no numbers; NVIDIA's DCGM calls it a hard limit.
SHORTEST_WINDOW_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Absent:
    """There is no value; `reason` says why, without a full stop; `code` is NVML's."""

    reason: str
    code: int = 0


#: NVML's error codes as people would say them; others keep NVML's own text.
_REASONS = {
    N.NVML_ERROR_NOT_SUPPORTED: "this device does not support it",
    N.NVML_ERROR_NO_PERMISSION: "this user has no permission",
    N.NVML_ERROR_FUNCTION_NOT_FOUND: "the driver is too old",
    N.NVML_ERROR_LIBRARY_NOT_FOUND: "no NVIDIA driver is installed",
    N.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is installed but not loaded",
    N.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the driver was updated and the machine not restarted since",
    N.NVML_ERROR_GPU_IS_LOST: "the GPU has fallen off the bus",
}


def ask(call: Callable[..., Any], *arguments: Any) -> Any:
    """What `call` answers, or Absent."""
    try:
        return call(*arguments)
    except N.NVMLError as error:
        code = int(getattr(error, "value", 0))
        return Absent(_REASONS.get(code) or f"NVML says: {error}", code)


@contextmanager
def library() -> Generator[Absent | None]:
    """NVML for as long as the context lasts; yields why there is none, or None."""
    started = ask(N.nvmlInit)
    try:
        yield started
    finally:
        if not isinstance(started, Absent):
            ask(N.nvmlShutdown)


def text(answer: Any) -> str:
    """A string of NVML as text, empty for Absent; old bindings answer bytes."""
    if isinstance(answer, Absent):
        return ""
    return answer.decode(errors="replace") if isinstance(answer, bytes) else str(answer)


def gpus() -> list[Any]:
    """Handles of the devices NVML lists."""
    count = ask(N.nvmlDeviceGetCount)
    found = (ask(N.nvmlDeviceGetHandleByIndex, i) for i in range(0 if isinstance(count, Absent) else count))
    return [each for each in found if not isinstance(each, Absent)]


def mig_devices(handle: Any) -> list[Any]:
    """The MIG devices of a GPU; none where MIG is off or unknown."""
    mode = ask(N.nvmlDeviceGetMigMode, handle)
    if isinstance(mode, Absent) or not mode[0]:
        return []
    most = ask(N.nvmlDeviceGetMaxMigDeviceCount, handle)
    found = (
        ask(N.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        for index in range(0 if isinstance(most, Absent) else most)
    )
    return [each for each in found if not isinstance(each, Absent)]


def has_gpm(handle: Any) -> bool | Absent:
    """Whether the device has the hardware counters of Hopper and newer."""
    support = ask(N.nvmlGpmQueryDeviceSupport, handle)
    return support if isinstance(support, Absent) else bool(support.isSupportedDevice)


def gpm_of(handle: Any, parent: Any = None) -> "Gpm | Absent":
    """The hardware counters of a device, or of a MIG device of `parent`, with the first sample taken.

    Absent where the device has none or they cannot be sampled. The caller closes it.
    """
    supported = has_gpm(handle if parent is None else parent)
    if supported is not True:
        return supported if isinstance(supported, Absent) else Absent("needs Hopper or newer (GPM)")
    instance = None if parent is None else ask(N.nvmlDeviceGetGpuInstanceId, handle)
    if isinstance(instance, Absent):
        return instance
    gpm = Gpm(handle if parent is None else parent, instance)
    refused = gpm.start()
    if refused is not None:
        gpm.close()
    return gpm if refused is None else refused


def busy_source(handle: Any) -> UtilisationSource:
    """Where busy time comes from on a device without hardware counters."""
    buffered = ask(N.nvmlDeviceGetSamples, handle, N.NVML_GPU_UTILIZATION_SAMPLES, 0)
    # An idle buffer is no missing one.
    if not isinstance(buffered, Absent) or buffered.code == N.NVML_ERROR_NOT_FOUND:
        return "samples"
    return "none" if isinstance(ask(N.nvmlDeviceGetUtilizationRates, handle), Absent) else "polling"


def memory(handle: Any) -> dict[str, float] | Absent:
    """Bytes total, used, and reserved by the driver; old drivers count what is reserved as used."""
    split = ask(N.nvmlDeviceGetMemoryInfo, handle, N.nvmlMemory_v2)
    if not isinstance(split, Absent):
        return {"total": split.total, "used": split.used, "reserved": split.reserved}
    whole = ask(N.nvmlDeviceGetMemoryInfo, handle)
    return whole if isinstance(whole, Absent) else {"total": whole.total, "used": whole.used}


def throttled_ns(handle: Any) -> dict[str, int] | Absent:
    """Nanoseconds each reason has held the clock down since the driver was loaded, where reported."""
    values = ask(N.nvmlDeviceGetFieldValues, handle, list(THROTTLE_FIELDS.values()))
    if isinstance(values, Absent):
        return values
    times = {
        reason: int(value.value.ullVal)
        for reason, value in zip(THROTTLE_FIELDS, values, strict=True)
        if value.nvmlReturn == N.NVML_SUCCESS
    }
    return times or Absent(_REASONS[N.NVML_ERROR_NOT_SUPPORTED], N.NVML_ERROR_NOT_SUPPORTED)


def processes(handle: Any) -> dict[int, int | None] | Absent:
    """Bytes of each compute process by pid (of the host, also inside a container); None where not known.

    No process computes without memory: 0, which drivers from 560 on answer inside a container, is not known.
    """
    found = ask(N.nvmlDeviceGetComputeRunningProcesses, handle)
    return found if isinstance(found, Absent) else {p.pid: p.usedGpuMemory or None for p in found}


def computing_pids(handle: Any, since_us: int) -> set[int] | Absent:
    """The pids of processes that used the SMs after a moment (CLOCK_REALTIME in microseconds)."""
    samples = ask(N.nvmlDeviceGetProcessUtilization, handle, since_us)
    if isinstance(samples, Absent):
        # No process was sampled: none was at work.
        return set() if samples.code in (N.NVML_SUCCESS, N.NVML_ERROR_NOT_FOUND) else samples
    return {sample.pid for sample in samples if sample.smUtil > 0 and sample.timeStamp > since_us}


class Gpm:
    """Pairs of samples of the hardware counters and what they mean together; the caller closes it.

    Windows are chained: the sample that ends one begins the next. `instance` is the GPU instance of a MIG
    device, whose counters are read through its parent.
    """

    def __init__(self, handle: Any, instance: int | None = None) -> None:
        self._handle = handle
        self._instance = instance
        self._first, self._last = ask(N.nvmlGpmSampleAlloc), ask(N.nvmlGpmSampleAlloc)
        self._answer = N.c_nvmlGpmMetricsGet_t()
        #: When the last sample was taken, CLOCK_MONOTONIC in ns: not before and not after.
        self.taken_ns = (0, 0)

    def start(self) -> Absent | None:
        """Take the sample a window begins with."""
        taken = self._take(self._first)
        return taken if isinstance(taken, Absent) else None

    def next(self) -> dict[str, float] | Absent:
        """Means since the sample before, by name: percent of time, or MiB/s; begins the next window.

        A window that is too short for the driver goes on instead, and is answered as Absent.
        """
        if time.monotonic_ns() - self.taken_ns[1] < SHORTEST_WINDOW_SECONDS * 1e9:
            return Absent("the window is shorter than the counters can tell")
        taken = self._take(self._last)
        if isinstance(taken, Absent):
            return taken
        answer = self._answer
        answer.version, answer.numMetrics = N.NVML_GPM_METRICS_GET_VERSION, len(GPM_METRICS)
        answer.sample1, answer.sample2 = self._first, self._last
        for slot, metric in enumerate(GPM_METRICS.values()):
            answer.metrics[slot].metricId = metric
        got = ask(N.nvmlGpmMetricsGet, answer)
        self._first, self._last = self._last, self._first
        if isinstance(got, Absent):
            return got
        values = {name: answer.metrics[slot] for slot, name in enumerate(GPM_METRICS)}
        means = {
            name: float(each.value) for name, each in values.items() if each.nvmlReturn == N.NVML_SUCCESS
        }
        return {name: mean for name, mean in means.items() if math.isfinite(mean)}

    def close(self) -> None:
        """Free the samples."""
        for sample in (self._first, self._last):
            if not isinstance(sample, Absent):
                ask(N.nvmlGpmSampleFree, sample)

    def _take(self, sample: Any) -> Any:
        if isinstance(sample, Absent):
            return sample
        before = time.monotonic_ns()
        if self._instance is None:
            taken = ask(N.nvmlGpmSampleGet, self._handle, sample)
        else:
            taken = ask(N.nvmlGpmMigSampleGet, self._handle, self._instance, sample)
        if not isinstance(taken, Absent):
            self.taken_ns = before, time.monotonic_ns()
        return taken
