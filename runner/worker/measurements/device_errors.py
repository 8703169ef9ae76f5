"""What CUDA reports where the GPU or its driver is at fault, and not the case."""

#: Errors after which no case can be measured on this GPU, in lower case: cudaErrorECCUncorrectable,
#: cudaErrorNvlinkUncorrectable, cudaErrorSystemNotReady (the fabric manager is down), cudaErrorNoDevice, and
#: a driver that cannot start.
_LOST = (
    "uncorrectable ecc error",
    "uncorrectable nvlink error",
    "fallen off the bus",
    "system not yet initialized",
    "no cuda-capable device is detected",
    "cuda driver initialization failed",
)
#: cudaErrorDevicesUnavailable: the compute mode or another process keeps the GPU.
_BUSY = "busy or unavailable"


def device_is_lost(error: BaseException) -> bool:
    """Whether the GPU failed."""
    return isinstance(error, RuntimeError) and any(text in str(error).lower() for text in _LOST)


def device_is_busy(error: BaseException) -> bool:
    """Whether another process has the GPU to itself."""
    return isinstance(error, RuntimeError) and _BUSY in str(error).lower()
