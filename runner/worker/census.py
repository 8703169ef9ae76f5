"""An operator of a census as a case: called with tensors of the recorded shapes, formats and strides."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from .case import Workload, case
from .prepared_case import Unsupported

#: Which dimension of which argument bounds the whole numbers that an operator takes as indices.
_BOUNDS: Mapping[str, tuple[int, int | None]] = {
    "embedding": (0, 0),
    "_embedding_bag": (0, 0),
    "_embedding_bag_forward_only": (0, 0),
    "nll_loss_forward": (0, -1),
    "nll_loss_backward": (1, -1),
    # The dimension is the operator's second argument.
    "index_select": (0, None),
    "index_add": (0, None),
    "gather": (0, None),
    "scatter": (0, None),
    "scatter_add": (0, None),
    "scatter_reduce": (0, None),
}
#: Arguments that are a number of rows.
_COUNTS = {"embedding_dense_backward": 2}


def register(workload: str, name: str, arguments: Mapping[str, Any]) -> None:
    """Register the operator `name` (`aten.addmm.default`) with these arguments as `workload`."""

    def build() -> Workload:
        return _workload(name, arguments)

    build.__name__ = workload
    build.__doc__ = f"{name} as a census recorded it."
    case()(build)


class RecordedCall(nn.Module):
    """Calls an operator with its recorded arguments, in which the inputs take the places of the tensors.

    Answers nothing: what an operator makes of random numbers need not be finite, and one that writes its
    input answers something else each time.
    """

    def __init__(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
        super().__init__()
        self._function = function
        self._arguments = arguments

    def forward(self, *tensors: Tensor) -> None:
        left = iter(tensors)
        device = tensors[0].device if tensors else torch.device("cpu")
        args = [_value(one, left, device) for one in self._arguments["args"]]
        kwargs = {name: _value(one, left, device) for name, one in self._arguments["kwargs"].items()}
        self._function(*args, **kwargs)


def _workload(name: str, arguments: Mapping[str, Any]) -> Workload:
    # First, for threads begun later to take it over. An operator that writes its input, as `mul_` by 0.9, is
    # called with what it left: soon numbers too small for their format, which cost a CPU many times as much.
    torch.set_flush_denormal(True)
    function = _operator(name)
    values = [*arguments["args"], *arguments["kwargs"].values()]
    bound = _bound(name.split(".")[1], arguments["args"])
    tensors = tuple(_made(one, bound) for value in values for one in _tensors(value))
    return Workload(RecordedCall(function, arguments), tensors, items=1, unit="calls")


def _operator(name: str) -> Callable[..., Any]:
    found: Any = torch.ops
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise Unsupported(
                f"this version of PyTorch ({torch.__version__}) has no operator {name}"
            ) from None
    return found


def _tensors(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        for one in cast("list[Any]", value):
            yield from _tensors(one)
    elif isinstance(value, dict) and "tensor" in value:
        yield cast("dict[str, Any]", value)["tensor"]


def _bound(operator: str, args: Sequence[Any]) -> int:
    """Below which number indices are valid, whatever tensor they index."""
    name = operator.rstrip("_")
    if name in _COUNTS:
        return int(args[_COUNTS[name]])
    if name in _BOUNDS:
        position, dimension = _BOUNDS[name]
        shape = args[position]["tensor"]["shape"]
        return max(1, shape[args[1] if dimension is None else dimension])
    sizes = [size for value in args for one in _tensors(value) if _is_float(one) for size in one["shape"]]
    return max(1, min(sizes, default=1))


def _is_float(described: Mapping[str, Any]) -> bool:
    return getattr(torch, described["dtype"]).is_floating_point


def _made(described: Mapping[str, Any], bound: int) -> Tensor:
    """A tensor of that description with random content; indices are whole numbers below `bound`."""
    if described.get("layout", "strided") != "strided":
        raise Unsupported(f"a census does not make tensors with layout {described['layout']} again")
    dtype: torch.dtype = getattr(torch, described["dtype"])
    shape: list[int] = described["shape"]
    strides: list[int] | None = described.get("stride")
    count = _elements(shape, strides)
    if dtype.is_floating_point or dtype.is_complex:
        flat = torch.randn(count, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
    elif dtype == torch.bool:
        flat = torch.rand(count) < 0.5
    else:
        flat = torch.randint(bound, (count,)).to(dtype)
    return flat.view(shape) if strides is None else flat.as_strided(shape, strides)


def _elements(shape: Sequence[int], strides: Sequence[int] | None) -> int:
    if strides is None or 0 in shape:
        count = 1
        for size in shape:
            count *= size
        return count
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def _value(described: Any, tensors: Iterator[Tensor], device: torch.device) -> Any:
    """An argument from its description; each tensor is the next of `tensors`."""
    if isinstance(described, list):
        return [_value(one, tensors, device) for one in cast("list[Any]", described)]
    if not isinstance(described, dict):
        return described
    ((kind, value),) = cast("dict[str, Any]", described).items()
    if kind == "tensor":
        return next(tensors)
    if kind == "device":
        return device if value != "cpu" else torch.device("cpu")
    return getattr(torch, value)
