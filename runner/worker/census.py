"""What a census holds as cases: operators and compiled regions, with tensors of the recorded shapes."""

import functools
import importlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import torch
from torch import Tensor, fx, nn
from torch.overrides import get_overridable_functions

from .case import Workload, case
from .prepared_case import UnsupportedCase

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
#: Functions of arithmetic that make functions, or call one they are given.
_OF_FUNCTIONS = ("attrgetter", "itemgetter", "methodcaller", "call")
#: What a graph calls beside functions of tensors: what makes tensors, and what sets modes.
_MAKERS = (
    *("arange", "empty", "empty_like", "eye", "full", "full_like", "linspace", "ones", "ones_like"),
    *("rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "scalar_tensor", "tensor"),
    *("zeros", "zeros_like"),
)
_MODES = (
    "torch._C._set_grad_enabled",
    "torch.amp.autocast_mode._enter_autocast",
    "torch.amp.autocast_mode._exit_autocast",
)


def register(workload: str, name: str, arguments: Mapping[str, Any]) -> None:
    """Register the operator `name` (`aten.addmm.default`) with these arguments as `workload`."""

    def build() -> Workload:
        return _workload(name, arguments)

    build.__name__ = workload
    build.__doc__ = f"{name} as a census recorded it."
    case()(build)


def register_region(workload: str, phase: str, arguments: Mapping[str, Any]) -> None:
    """Register the compiled region with these arguments as `workload` in `phase`."""

    def build() -> Workload:
        return _region_workload(arguments)

    build.__name__ = workload
    build.__doc__ = "A compiled region as a census recorded it."
    case(phases=(phase,))(build)


class RecordedRegion(nn.Module):
    """The graph of a compiled region. Tensors with gradients are its parameters, the others its inputs."""

    def __init__(self, graph: fx.GraphModule, places: Sequence[Tensor | None], kind: str) -> None:
        super().__init__()
        self.graph = graph
        self._names = [None if one is None else f"input_{place}" for place, one in enumerate(places)]
        self._kind = kind
        self.dtype: torch.dtype | None = None
        for name, one in zip(self._names, places, strict=True):
            if name is not None and one is not None:
                self.register_parameter(name, nn.Parameter(one))

    def forward(self, *tensors: Tensor) -> Any:
        left = iter(tensors)
        values = [next(left) if name is None else getattr(self, name) for name in self._names]
        if self.dtype is None:
            return self.graph(*values)
        with torch.autocast(self._kind, self.dtype):
            return self.graph(*values)


def _region_workload(arguments: Mapping[str, Any]) -> Workload:
    torch.set_flush_denormal(True)
    given: list[Any] = arguments["inputs"]
    bound = _bound("", given)
    tensors: list[Tensor] = []
    places: list[Tensor | None] = []
    for place, one in enumerate(given):
        if isinstance(one, dict) and "tensor" in one:
            made = _make_tensor(cast("dict[str, Any]", one)["tensor"], bound)
            if place in arguments["grads"]:
                # Small, so that the activations of many layers stay finite.
                places.append(made * 0.02 if made.dim() > 1 else made)
            else:
                places.append(None)
                tensors.append(made)
    mixed: dict[str, str] | None = arguments["autocast"]
    model = RecordedRegion(_graph_module(arguments), places, "cpu" if mixed is None else mixed["device"])
    if mixed is not None:
        model.dtype = getattr(torch, mixed["dtype"])
    return Workload(model, tuple(tensors), items=1, unit="calls", loss=_loss, compared=False)


def _loss(answer: Any) -> Tensor:
    """The sum of all that has gradients: it costs little, and its gradient is one number."""
    answers = cast("list[Any]", answer if isinstance(answer, (list, tuple)) else [answer])
    return torch.stack(
        [one.float().sum() for one in answers if isinstance(one, Tensor) and one.requires_grad]
    ).sum()


def _graph_module(arguments: Mapping[str, Any]) -> fx.GraphModule:
    """The recorded graph; an input that was no tensor is the number that it was."""
    graph = fx.Graph()
    nodes: list[Any] = []
    inputs = iter(arguments["inputs"])
    for node in arguments["nodes"]:
        if "input" in node:
            one = next(inputs)
            is_tensor = isinstance(one, dict) and "tensor" in one
            nodes.append(graph.placeholder(f"input_{len(nodes)}") if is_tensor else _argument(one, nodes))
        elif "output" in node:
            graph.output(_argument(node["output"], nodes))
        else:
            args = tuple(_argument(one, nodes) for one in node["args"])
            # A graph becomes Python code, in which names stand as they are.
            kwargs = {_name(name): _argument(one, nodes) for name, one in node["kwargs"].items()}
            if "function" in node:
                nodes.append(graph.call_function(_function(node["function"]), args, kwargs))
            else:
                nodes.append(graph.call_method(_method(node["method"]), args, kwargs))
    return fx.GraphModule(nn.Module(), graph)


def _name(text: str) -> str:
    if not text.isidentifier():
        raise UnsupportedCase(f"{text!r} is no name of an argument")
    return text


def _method(name: str) -> str:
    """The name of a method of tensors; raises UnsupportedCase for any other, which could do anything."""
    if not name.isidentifier() or name.startswith("_") or not callable(getattr(Tensor, name, None)):
        raise UnsupportedCase(
            f"this version of PyTorch ({torch.__version__}) has no method {name!r} of tensors"
        )
    return name


def _function(name: str) -> Callable[..., Any]:
    """A function that computes; raises UnsupportedCase for any other, such as one that writes a file."""
    home, _, function = name.rpartition(".")
    found: Any = None
    if home.partition(".")[0] in ("torch", "operator", "math"):
        with suppress(ImportError):
            found = getattr(importlib.import_module(home), function, None)
    if home in ("operator", "math"):
        computes = function not in _OF_FUNCTIONS
    else:
        makes = home == "torch" and function in _MAKERS
        computes = makes or name in _MODES or (callable(found) and found in _of_tensors())
    if not callable(found) or not computes:
        raise UnsupportedCase(
            f"this version of PyTorch ({torch.__version__}) has no function {name!r} of tensors"
        )
    return found


@functools.cache
def _of_tensors() -> frozenset[Any]:
    """Every function that takes tensors, and none that reads or writes a file."""
    return frozenset(itertools.chain.from_iterable(get_overridable_functions().values()))


def _argument(described: Any, nodes: Sequence[Any]) -> Any:
    """An argument of a graph's node from its description."""
    if isinstance(described, list):
        return [_argument(one, nodes) for one in cast("list[Any]", described)]
    if not isinstance(described, dict):
        return described
    ((kind, value),) = cast("dict[str, Any]", described).items()
    if kind == "node":
        return nodes[value]
    if kind == "tuple":
        return tuple(_argument(one, nodes) for one in value)
    if kind == "slice":
        return slice(*(_argument(one, nodes) for one in value))
    if kind == "ellipsis":
        return ...
    if kind == "device":
        return torch.device(value if torch.cuda.is_available() else "cpu")
    return _constant(value)


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
    tensors = tuple(_make_tensor(one, bound) for value in values for one in _tensors(value))
    return Workload(RecordedCall(function, arguments), tensors, items=1, unit="calls")


def _operator(name: str) -> Callable[..., Any]:
    found: Any = torch.ops
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise UnsupportedCase(
                f"this version of PyTorch ({torch.__version__}) has no operator {name}"
            ) from None
    # `torch.ops` also has functions of its own, and one operator makes files.
    if not isinstance(found, type(torch.ops.aten.add.Tensor)) or ".from_file." in name:
        raise UnsupportedCase(f"{name} is no operator that a census measures")
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


def _make_tensor(described: Mapping[str, Any], bound: int) -> Tensor:
    """A tensor of that description with random content; indices are whole numbers below `bound`."""
    if described.get("layout", "strided") != "strided":
        raise UnsupportedCase(f"a census does not make tensors with layout {described['layout']} again")
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
    return _constant(value)


def _constant(name: str) -> Any:
    """A dtype, layout or memory format; raises UnsupportedCase for anything else."""
    found = getattr(torch, name, None)
    if not isinstance(found, (torch.dtype, torch.layout, torch.memory_format)):
        raise UnsupportedCase(f"this version of PyTorch ({torch.__version__}) has no format {name!r}")
    return found
