"""XLA: a workload on torch_xla's device, compiled there by torch.compile's backend `openxla`."""

import importlib
import importlib.util
import os
from typing import Any

import torch

from ..prepared_case import Act, Unsupported

#: Formats in which the whole model is kept; autocast and quantisation are others' business.
_PRECISIONS = ("fp32", "bf16", "fp16")


def apply(act: Act) -> None:
    """Move model and inputs to XLA's device and let each call end when the device has ended.

    Without waiting a call takes the time of asking for it: `torch_xla.sync(wait=True)` sees nothing to
    wait for in what a compiled model has asked for, `wait_device_ops` does.
    """
    _refuse(act)
    runtime, device = _start()
    act.model.to(device)
    act.inputs = tuple(tuple(tensor.to(device) for tensor in inputs) for inputs in act.inputs)
    compiled = torch.compile(act.model, backend="openxla")
    wait = importlib.import_module("torch_xla.core.xla_model").wait_device_ops

    def called(*inputs: torch.Tensor) -> Any:
        answer = compiled(*inputs)
        wait()
        return answer

    act.called = called
    act.facts["xla"] = {"version": runtime.__version__, "device": os.environ["PJRT_DEVICE"]}


def _refuse(act: Act) -> None:
    if act.training:
        raise Unsupported("compile=openxla is measured for inference only")
    if act.device != "cpu":
        raise Unsupported(f"compile=openxla is measured on torch_xla's CPU runtime, not on {act.device}")
    if (precision := act.key.axis("precision")) not in _PRECISIONS:
        raise Unsupported(f"precision={precision} is nothing that compile=openxla takes over")
    if (dynamic := act.key.axis("dynamic")) != "auto":
        raise Unsupported(f"dynamic={dynamic} means nothing to XLA, which compiles each shape for itself")


def _start() -> tuple[Any, torch.device]:
    """torch_xla and its device, with as many threads as torch has."""
    if importlib.util.find_spec("torch_xla") is None:
        raise Unsupported(
            "torch_xla is not installed in this environment: it needs one of its own, "
            "with the PyTorch that it was built for (pip install torch==2.9.0 torch_xla==2.9.0)"
        )
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    # The name by which XLA's CPU client takes its number of threads.
    os.environ.setdefault("NPROC", str(torch.get_num_threads()))
    try:
        runtime = importlib.import_module("torch_xla")
        return runtime, runtime.device()
    except (ImportError, OSError, RuntimeError) as error:
        raise Unsupported(f"torch_xla cannot start here: {str(error).strip().splitlines()[0]}") from error
