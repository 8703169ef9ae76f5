"""Which kernels PyTorch may take: those of attention, oneDNN's on a CPU, and how cuDNN chooses its own."""

import contextlib
import importlib
from collections.abc import Callable, Generator
from typing import Any

import torch

from ..prepared_case import Preparation, UnsupportedCase

#: The names that PyTorch has for them.
_BACKENDS = {
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
    "math": "MATH",
}


def apply(prep: Preparation) -> None:
    """Apply the axes `attention`, `cudnn` and `onednn`; raises UnsupportedCase where that cannot be done."""
    _attention(prep)
    _cudnn(prep)
    _onednn(prep)


def _attention(prep: Preparation) -> None:
    """Allow one kernel of attention around each call, and around backward passes, which may recompute it.

    Raises UnsupportedCase where this PyTorch cannot choose or has no such kernel. A call for whose inputs the
    kernel cannot be taken raises it, too: PyTorch refuses instead of taking another.
    """
    kernel = prep.key.axis("attention")
    if kernel == "auto":
        return
    allow, backend = _find(kernel)
    around, backward = prep.context, prep.backward

    @contextlib.contextmanager
    def allow_backend() -> Generator[None]:
        with allow(backend):
            try:
                yield
            except RuntimeError as error:
                if "No available kernel" not in str(error):
                    raise
                raise UnsupportedCase(
                    f"attention={kernel}: PyTorch has no such kernel for this case on {prep.device}"
                ) from error

    @contextlib.contextmanager
    def context() -> Generator[None]:
        with around(), allow_backend():
            yield

    def backward_with_backend(loss: torch.Tensor) -> None:
        with allow_backend():
            backward(loss)

    prep.context, prep.backward = context, backward_with_backend


def _find(kernel: str) -> tuple[Callable[[Any], Any], Any]:
    try:
        module = importlib.import_module("torch.nn.attention")
        return module.sdpa_kernel, getattr(module.SDPBackend, _BACKENDS[kernel])
    except (ImportError, AttributeError):
        raise UnsupportedCase(
            f"attention={kernel} cannot be chosen in this version of PyTorch ({torch.__version__})"
        ) from None


def _cudnn(prep: Preparation) -> None:
    """Let cuDNN try its algorithms in the first call of each shape; for the whole process."""
    if prep.key.axis("cudnn") == "heuristic":
        return
    if not prep.device.startswith("cuda"):
        raise UnsupportedCase(f"cudnn=benchmark is for a CUDA device, and this one is {prep.device}")
    torch.backends.cudnn.benchmark = True


def _onednn(prep: Preparation) -> None:
    """Leave oneDNN out of the forward and the backward pass."""
    if prep.key.axis("onednn") == "on":
        return
    if prep.device != "cpu":
        raise UnsupportedCase(f"onednn=off is for a CPU, and this device is {prep.device}")
    if not torch.backends.mkldnn.is_available():
        raise UnsupportedCase("onednn=off changes nothing: this PyTorch was built without oneDNN")
    around, backward = prep.context, prep.backward

    @contextlib.contextmanager
    def context() -> Generator[None]:
        with around(), _without_onednn():
            yield

    def backward_without(loss: torch.Tensor) -> None:
        with _without_onednn():
            backward(loss)

    prep.context, prep.backward = context, backward_without


@contextlib.contextmanager
def _without_onednn() -> Generator[None]:
    # Not `mkldnn.flags`, which in newer versions also decides on TF32.
    onednn: Any = torch.backends.mkldnn
    before = onednn.enabled
    onednn.enabled = False
    try:
        yield
    finally:
        onednn.enabled = before
