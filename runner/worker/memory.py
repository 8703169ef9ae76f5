"""Peaks of memory: resident on the host, allocated and reserved on the device."""

from pathlib import Path

import torch

MIB = 2**20
_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


def peak_rss_mib() -> float | None:
    """Peak resident memory (VmHWM) of this process in MiB since the last reset; None off Linux."""
    try:
        text = _STATUS.read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return None


def reset_peak_rss() -> bool:
    """Start VmHWM anew from the present resident size; False where the kernel refuses."""
    try:
        # 5 means "reset the peak": Documentation/filesystems/proc.rst, clear_refs.
        _CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


def cuda_peaks(device: str, suffix: str = "") -> dict[str, float]:
    """Peak allocated and reserved MiB of the caching allocator since its last reset; empty off CUDA."""
    if not device.startswith("cuda"):
        return {}
    return {
        f"cuda_peak_allocated{suffix}": torch.cuda.max_memory_allocated(device) / MIB,
        f"cuda_peak_reserved{suffix}": torch.cuda.max_memory_reserved(device) / MIB,
    }


def reset_cuda_peaks(device: str) -> None:
    """Start the allocator's peaks anew; does nothing off CUDA."""
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats(device)
