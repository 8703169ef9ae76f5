"""ONNX Runtime: an exported model run by another engine on torch's tensors, in place."""

import importlib
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..prepared_case import Act, Unsupported

_PACKAGES = ("onnx", "onnxscript", "onnxruntime")

#: Numbers of ONNX's TensorProto.DataType (onnx.proto), which bind tensors that NumPy has no type for.
_TYPES = {
    torch.float32: 1,
    torch.uint8: 2,
    torch.int8: 3,
    torch.int16: 5,
    torch.int32: 6,
    torch.int64: 7,
    torch.bool: 9,
    torch.float16: 10,
    torch.float64: 11,
    torch.bfloat16: 16,
}


def require(act: Act) -> None:
    """Raise Unsupported unless ONNX Runtime is here and can run what the act's key asks for."""
    if missing := [name for name in _PACKAGES if importlib.util.find_spec(name) is None]:
        absent = (
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed in this environment"
        )
        raise Unsupported(f"{absent}: pip install {' '.join(_PACKAGES)}")
    if (provider := _provider(act)) not in importlib.import_module("onnxruntime").get_available_providers():
        raise Unsupported(
            f"the onnxruntime of this environment has no {provider}: pip install onnxruntime-gpu"
        )
    for axis, default in (("layout", "contiguous"), ("graph", "none")):
        if (value := act.key.axis(axis)) != default:
            raise Unsupported(f"{axis}={value} means nothing to ONNX Runtime, which does this its own way")


def session(act: Act, file: Path) -> Callable[..., Any]:
    """What calls the model in `file` on the act's device and answers in the structure of the eager model.

    Inputs are read and outputs written in place, into tensors that each call uses again.
    """
    runtime: Any = importlib.import_module("onnxruntime")
    made = runtime.InferenceSession(str(file), _options(runtime), providers=[(_provider(act), _tf32(act))])
    if made.get_providers()[0] != _provider(act):
        raise Unsupported(f"ONNX Runtime could not start its {_provider(act)} here")
    binding = made.io_binding()
    leaves, structure = pytree.tree_flatten(act.model(*act.inputs[0]))
    answers = [torch.empty_like(leaf, memory_format=torch.contiguous_format) for leaf in leaves]
    for node, answer in zip(made.get_outputs(), answers, strict=True):
        binding.bind_output(node.name, *_place(answer))
    names = [node.name for node in made.get_inputs()]
    answer = pytree.tree_unflatten(answers, structure)
    act.facts["onnxruntime"] = {
        "version": runtime.__version__,
        "providers": made.get_providers(),
        "threads": torch.get_num_threads(),
    }

    def called(*inputs: torch.Tensor) -> Any:
        given = [tensor.contiguous() for tensor in inputs]
        for name, tensor in zip(names, given, strict=True):
            binding.bind_input(name, *_place(tensor))
        # Returns when the device is done: the run's options do not say otherwise.
        made.run_with_iobinding(binding)
        return answer

    return called


def _provider(act: Act) -> str:
    return "CUDAExecutionProvider" if act.device.startswith("cuda") else "CPUExecutionProvider"


def _tf32(act: Act) -> dict[str, str]:
    """Options of the provider: on CUDA it would use TF32 unless told not to."""
    if not act.device.startswith("cuda"):
        return {}
    device = torch.device(act.device).index or 0
    return {"device_id": str(device), "use_tf32": "1" if act.key.axis("precision") == "tf32" else "0"}


def _options(runtime: Any) -> Any:
    """As many threads as torch has, waiting as the measurement preset has OpenMP's threads wait."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    if os.environ.get("OMP_WAIT_POLICY", "").lower() == "passive":
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _place(tensor: torch.Tensor) -> tuple[str, int, int, tuple[int, ...], int]:
    """Where a contiguous tensor lies, as an I/O binding wants to hear it."""
    device = tensor.device
    return device.type, device.index or 0, _TYPES[tensor.dtype], tuple(tensor.shape), tensor.data_ptr()
