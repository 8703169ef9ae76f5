"""Peaks of memory: resident on the host, allocated and reserved on the device; and its end."""

import contextlib
import ctypes
import errno
import gc
import resource
import sys
from pathlib import Path

import torch

MIB = 2**20
_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
#: Texts, in lower case, by which PyTorch, the C++ runtime, cuBLAS and cuDNN say that memory ran out. NCCL's
#: error has "out of memory" in it.
_OUT_OF_MEMORY = (
    *("out of memory", "can't allocate memory", "cannot allocate memory", "bad_alloc"),
    *("cublas_status_alloc_failed", "cudnn_status_alloc_failed", "device_allocation_failed"),
)


def peak_rss_mib() -> float | None:
    """Peak resident memory (VmHWM) of this process in MiB since the last reset; None off Linux."""
    peak = _status_kib("VmHWM:")
    return None if peak is None else peak / 1024


def reset_peak_rss() -> bool:
    """Start VmHWM anew from the present resident size; False where the kernel refuses."""
    try:
        # 5 means "reset the peak": Documentation/filesystems/proc.rst, clear_refs.
        _CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


def release_memory(device: str) -> None:
    """Return what preparing has freed, so that later peaks are those of the steps.

    The quiet preset has glibc keep freed memory: without this, a model that was cast or quantised seems to
    take the memory of both.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    if _in_use(device):
        torch.cuda.empty_cache()


def cuda_peaks(device: str, suffix: str = "") -> dict[str, float]:
    """Peak allocated and reserved MiB of the caching allocator since its last reset; empty off CUDA.

    Of a process on several devices, those of the device that needs most. What CUDA graphs keep in pools of
    their own counts as allocated: a replay uses it without asking.
    """
    devices = devices_in_use(device)
    if not devices:
        return {}
    return {
        f"cuda_peak_allocated{suffix}": max(map(_peak_allocated, devices)) / MIB,
        f"cuda_peak_reserved{suffix}": max(map(torch.cuda.max_memory_reserved, devices)) / MIB,
    }


def cuda_allocator(device: str) -> dict[str, float]:
    """How well the caching allocator fared; empty off CUDA.

    `fragmentation` is the share of the memory reserved at its peak that was not allocated at its own, of
    several devices the largest; `alloc_retries` counts, since the process began, the times that memory had
    run out and caches were freed.
    """
    devices = devices_in_use(device)
    if not devices:
        return {}
    retries = [torch.cuda.memory_stats(number).get("num_alloc_retries", 0) for number in devices]
    return {"fragmentation": max(map(_fragmentation, devices)), "alloc_retries": float(sum(retries))}


def reset_cuda_peaks(device: str) -> None:
    """Start the allocator's peaks anew; does nothing off CUDA."""
    for number in devices_in_use(device):
        torch.cuda.reset_peak_memory_stats(number)


def devices_in_use(device: str) -> list[int]:
    """The numbers of `device` and of other CUDA devices that hold memory of this process; none off CUDA."""
    if not _in_use(device):
        return []
    others = [number for number in range(torch.cuda.device_count()) if torch.cuda.memory_reserved(number)]
    return sorted({torch.device(device).index or 0, *others})


def _in_use(device: str) -> bool:
    """Whether this process works on the CUDA device; the leader of a group does not."""
    return device.startswith("cuda") and torch.cuda.is_initialized()


def _fragmentation(number: int) -> float:
    """Of one device, as in `cuda_allocator`."""
    reserved = torch.cuda.max_memory_reserved(number)
    return 1 - min(reserved, _peak_allocated(number)) / reserved if reserved else 0.0


def _peak_allocated(number: int) -> int:
    """Bytes of a device; of the pools of CUDA graphs, what no tensor holds bounds a replay's use."""
    try:
        segments = torch.cuda.memory_snapshot()
    except RuntimeError:
        # CUDA's own allocator (backend:cudaMallocAsync) has no segments, and refuses.
        segments = []
    pooled = sum(
        int(segment["total_size"]) - int(segment["allocated_size"])
        for segment in segments
        if segment.get("device") == number and tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0)
    )
    return torch.cuda.max_memory_allocated(number) + pooled


def log_cuda_memory() -> None:
    """Write what PyTorch's allocator holds of the device into the log of this process; nothing off CUDA."""
    if torch.cuda.is_initialized():
        # Whatever it lacks must not replace the error that is reported.
        with contextlib.suppress(Exception):
            sys.stderr.write(torch.cuda.memory_summary(abbreviated=True) + "\n")
            sys.stderr.flush()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the error says that the host's or the device's memory ran out."""
    # Before 2.5 PyTorch has its own error in `torch.cuda` only.
    own = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError
    if isinstance(error, (MemoryError, own)):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, SystemError):
        # So full that CPython could not even make the MemoryError: "error return without exception set".
        return _address_space_was_full()
    return isinstance(error, RuntimeError) and any(t in str(error).lower() for t in _OUT_OF_MEMORY)


def _status_kib(name: str) -> int | None:
    try:
        text = _STATUS.read_text()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(name)), None)


def _address_space_was_full() -> bool:
    """Whether this process has come within 1 % of its limit of address space (RLIMIT_AS)."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    peak = _status_kib("VmPeak:")
    return limit != resource.RLIM_INFINITY and peak is not None and peak * 1024 >= 0.99 * limit
