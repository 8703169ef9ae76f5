"""The kernel of scaled dot product attention, chosen by axis `attention` and not by PyTorch."""

import contextlib
import importlib
from collections.abc import Callable, Generator
from typing import Any

import torch

from ..prepared_case import Preparation, Unsupported

#: The names that PyTorch has for them.
_BACKENDS = {
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
    "math": "MATH",
}


def apply(prep: Preparation) -> None:
    """Allow one kernel of attention around each call.

    Raises Unsupported where this PyTorch cannot choose or has no such kernel. A call for whose inputs the
    kernel cannot be taken raises it, too: PyTorch refuses instead of taking another.
    """
    wanted = prep.key.axis("attention")
    if wanted == "auto":
        return
    allow, backend = _find(wanted)
    around = prep.context

    @contextlib.contextmanager
    def context() -> Generator[None]:
        with around(), allow(backend):
            try:
                yield
            except RuntimeError as error:
                if "No available kernel" not in str(error):
                    raise
                raise Unsupported(
                    f"attention={wanted}: PyTorch has no such kernel for this case on {prep.device}"
                ) from error

    prep.context = context


def _find(wanted: str) -> tuple[Callable[[Any], Any], Any]:
    try:
        module = importlib.import_module("torch.nn.attention")
        return module.sdpa_kernel, getattr(module.SDPBackend, _BACKENDS[wanted])
    except (ImportError, AttributeError):
        raise Unsupported(
            f"attention={wanted} cannot be chosen in this version of PyTorch ({torch.__version__})"
        ) from None
