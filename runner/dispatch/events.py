"""ATen operators and device kernels from the events of torch.profiler."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Names of operators; what else the profiler calls one are regions of its own, such as `AddmmBackward0`.
_OPERATOR = re.compile(r"[a-z]\w*::\w[\w.]*")
#: Namespaces that are no computation.
_OWN = ("profiler::", "autograd::", "record_function")
_DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
_TYPES = {
    "float": "fp32",
    "double": "fp64",
    "c10::Half": "fp16",
    "c10::BFloat16": "bf16",
    "long int": "int64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "short int": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
    "c10::complex<float>": "complex64",
}
_NO_TENSOR = ("", "Scalar", "ScalarList", "None")
_NAME_LENGTH = 160


@dataclass(frozen=True, slots=True)
class Events:
    """Counts by name. `layouts`: whether this PyTorch records strides, from which layouts are known."""

    operators: Mapping[str, int]
    kernels: Mapping[str, int]
    layouts: bool


def read_events(events: Iterable[Mapping[str, Any]]) -> Events:
    """Operators as `aten::addmm(fp32, fp32, fp32:transposed)` and kernels, with counts.

    `events` are the `traceEvents` of `torch.profiler.profile.export_chrome_trace`, recorded with shapes.
    Operators that others call are counted too. A layout is only written where it is not contiguous.
    """
    operators: Counter[str] = Counter()
    kernels: Counter[str] = Counter()
    strides = dims = False
    for event in events:
        category, name = event.get("cat"), str(event.get("name", ""))
        if category in _DEVICE_CATEGORIES:
            kernels[_shorten_name(name)] += 1
        elif category == "cpu_op" and _OPERATOR.fullmatch(name) and not name.startswith(_OWN):
            arguments = event.get("args", {})
            dims = dims or "Input Dims" in arguments
            strides = strides or "Input Strides" in arguments
            operators[f"{name}({', '.join(_inputs(arguments))})"] += 1
    return Events(operators, kernels, strides or not dims)


def _inputs(arguments: Mapping[str, Any]) -> Iterable[str]:
    types = arguments.get("Input type", ())
    dims = arguments.get("Input Dims", [[]] * len(types))
    strides = arguments.get("Input Strides", [[]] * len(types))
    for kind, sizes, steps in zip(types, dims, strides, strict=False):
        if kind not in _NO_TENSOR:
            layout = layout_of(sizes, steps)
            yield ":".join(filter(None, (_TYPES.get(kind, str(kind)), layout)))


def layout_of(sizes: Sequence[Any], strides: Sequence[Any]) -> str:
    """The memory format of a tensor: empty for contiguous (and for what has no strides), else a word."""
    if len(sizes) != len(strides) or any(isinstance(size, list) for size in sizes):
        return ""
    dense = [(size, step) for size, step in zip(sizes, strides, strict=True) if size != 1]
    if _contiguous(dense):
        return ""
    if any(step == 0 for _, step in dense):
        return "expanded"
    if len(sizes) in (4, 5):
        order = [0, *range(2, len(sizes)), 1]
        if _contiguous([(sizes[i], strides[i]) for i in order if sizes[i] != 1]):
            return "channels_last"
    if _contiguous([*dense[:-2], *reversed(dense[-2:])]):
        return "transposed"
    return "strided"


def _contiguous(dims: Sequence[tuple[int, int]]) -> bool:
    wanted = 1
    for size, step in reversed(dims):
        if step != wanted:
            return False
        wanted *= size
    return True


def _shorten_name(name: str) -> str:
    """A kernel's name, of bounded length; long ones that differ only in their end stay different."""
    name = re.sub(r"0x[0-9a-f]+", "0x", re.sub(r"\s+", " ", name))
    if len(name) <= _NAME_LENGTH:
        return name
    mark = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:8]
    return f"{name[: _NAME_LENGTH - len(mark) - 1]}~{mark}"
