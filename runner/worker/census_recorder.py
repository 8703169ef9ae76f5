"""Runs a program with a dispatch mode that notes its operators. Needs PyTorch and nothing of Pyrometer.

    python census_recorder.py --raw FILE --steps N --skip K (-m MODULE | SCRIPT) [ARGUMENT ...]

A step is a call of an outermost `nn.Module`, with the backward pass and the update that follow it. After K
steps, N are recorded, and the program is ended at the next one. FILE is written after each step, and whatever
happens to the program: a JSON object with what was seen. No number of a tensor is in it, no name of a file.

A graph that `torch.compile` makes is a region: it runs compiled, and is noted as one call with its operators.
A PyTorch whose compiler steps aside for a dispatch mode runs the program uncompiled.
"""

import json
import math
import operator
import os
import re
import runpy
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

#: Operators that make memory or change its description, and compute nothing.
_NOTHING = (
    *("empty", "new_empty", "detach", "alias", "lift_fresh", "resize", "set_", "_local_scalar_dense"),
    *("from_file", "_record_function_"),
)
#: A word, or what `einsum` takes. Any other text may be the name of a file.
_WORD = re.compile(r"(?:[A-Za-z0-9_ ,>:-]|[.]{3}){0,64}")
#: A list this long in an operator's arguments is weights of a model, not a shape.
_LONGEST = 4096
#: Where the functions of a graph are looked for; a function of anything else cannot be called again.
_HOMES = {"torch.nn.functional": torch.nn.functional, "torch": torch, "operator": operator, "math": math}


class _RecordingEnd(SystemExit):
    """Ends the program when its steps are recorded."""


def _describe_argument(value: Any) -> Any:
    """An argument of an operator as JSON; of tensors shape, strides where they matter, format and device."""
    if isinstance(value, torch.Tensor):
        described = {
            "shape": list(value.shape),
            "dtype": str(value.dtype).replace("torch.", ""),
            "device": value.device.type,
        }
        if value.layout != torch.strided:
            described["layout"] = str(value.layout).replace("torch.", "")
        elif not value.is_contiguous():
            described["stride"] = list(value.stride())
        return {"tensor": described}
    if isinstance(value, (list, tuple)):
        if len(value) > _LONGEST:
            raise TypeError("too long a list")
        return [_describe_argument(one) for one in value]
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).replace("torch.", "")}
    if isinstance(value, torch.device):
        return {"device": value.type}
    if isinstance(value, torch.memory_format):
        return {"memory_format": str(value).replace("torch.", "")}
    if isinstance(value, torch.layout):
        return {"layout": str(value).replace("torch.", "")}
    if isinstance(value, str) and not _WORD.fullmatch(value):
        raise TypeError("a text")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(type(value).__name__)


def _function(function: Any) -> str:
    """The name of a function of PyTorch or of arithmetic; raises TypeError for any other."""
    name, module = getattr(function, "__name__", ""), getattr(function, "__module__", None) or ""
    homes = dict(_HOMES)
    if module.split(".")[0] == "torch" and module in sys.modules:
        homes[module] = sys.modules[module]
    for home, found in homes.items():
        if getattr(found, name, None) is function:
            return f"{home}.{name}"
    raise TypeError("a function of no known module")


def _argument(value: Any, numbers: "dict[torch.fx.Node, int]") -> Any:
    """An argument of a node of a graph as JSON; another node by its number."""
    if isinstance(value, torch.fx.Node):
        return {"node": numbers[value]}
    if isinstance(value, slice):
        return {"slice": [_argument(one, numbers) for one in (value.start, value.stop, value.step)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, torch.Tensor):
        raise TypeError("a constant tensor")
    if isinstance(value, (list, tuple)):
        values = [_argument(one, numbers) for one in value]
        return {"tuple": values} if isinstance(value, tuple) else values
    return _describe_argument(value)


def _graph(graph: "torch.fx.GraphModule") -> "list[Any] | None":
    """The nodes of a graph as JSON, without any name of the program's; None where it cannot be made again."""
    nodes: list[Any] = []
    numbers: dict[torch.fx.Node, int] = {}
    try:
        for node in graph.graph.nodes:
            numbers[node] = len(numbers)
            arguments = {
                "args": [_argument(one, numbers) for one in node.args],
                "kwargs": {name: _argument(one, numbers) for name, one in node.kwargs.items()},
            }
            if node.op == "placeholder":
                nodes.append({"input": True})
            elif node.op == "call_function":
                nodes.append({"function": _function(node.target), **arguments})
            elif node.op == "call_method":
                nodes.append({"method": str(node.target), **arguments})
            elif node.op == "output":
                nodes.append({"output": arguments["args"][0]})
            else:
                return None
    except TypeError:
        return None
    return nodes


def _calls(graph: "torch.fx.GraphModule") -> "dict[str, int]":
    """How often a graph calls what, by the last part of each name."""
    names: Counter[str] = Counter()
    for node in graph.graph.nodes:
        if node.op in ("call_function", "call_method"):
            names[str(getattr(node.target, "__name__", node.target)).split(".")[-1]] += 1
    names.pop("getitem", None)
    return dict(names.most_common())


def _autocast(inputs: "tuple[Any, ...]") -> "dict[str, str] | None":
    """The device and format of automatic mixed precision around a call; None where there is none."""
    for kind in sorted({one.device.type for one in inputs if isinstance(one, torch.Tensor)}, reverse=True):
        if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
            return {"device": kind, "dtype": str(torch.get_autocast_dtype(kind)).replace("torch.", "")}
    return None


def _storages(value: Any) -> Iterator[int]:
    if isinstance(value, torch.Tensor):
        if value.layout == torch.strided:
            yield value.untyped_storage().data_ptr()
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _storages(one)


class OperatorRecorder(TorchDispatchMode):
    """Notes each operator with its arguments, how often it was called and how long it took.

    `compile_region` is a backend of torch.compile that notes the regions which it compiles.
    """

    def __init__(self, raw: str, steps: int, skip: int) -> None:
        super().__init__()
        self._raw, self._steps, self._skip = raw, steps, skip
        self._process = os.getpid()
        self._depth = self._seen = 0
        self._compiled = self._modules = False
        # Within a region nothing is noted: the time of its operators is the region's.
        self._within = False
        self._began = 0.0
        self._graphs = 0
        self._operators: dict[str, dict[str, Any]] = {}
        self._regions: dict[str, dict[str, Any]] = {}
        self._left_out: dict[str, float] = {}

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let torch.compile compile; without this it steps aside for a dispatch mode."""
        return True

    @property
    def _recording(self) -> bool:
        return os.getpid() == self._process and self._skip < max(self._seen, 1) <= self._skip + self._steps

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator; while recording, note it."""
        kwargs = kwargs or {}
        if self._within or not self._recording:
            return func(*args, **kwargs)
        _wait()
        started = time.perf_counter()
        answer = func(*args, **kwargs)
        _wait()
        taken = time.perf_counter() - started
        self._note(func, args, kwargs, answer, taken)
        return answer

    def before(self, module: torch.nn.Module, inputs: Any) -> None:
        """A module is about to be called: the outermost begins a step."""
        if os.getpid() != self._process:
            return
        self._modules = True
        if self._depth == 0:
            self._begin_step()
        self._depth += 1
        self._compiled |= type(module).__name__ == "OptimizedModule"

    def after(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        """A module has been called."""
        self._depth = max(0, self._depth - 1)

    def compile_region(
        self, graph: "torch.fx.GraphModule", inputs: "list[Any]", **_: Any
    ) -> "Callable[..., Any]":
        """Compile a graph with Inductor, and note its calls; what Inductor refuses runs uncompiled."""
        from torch._dynamo import lookup_backend

        nodes, calls = _graph(graph), _calls(graph)
        try:
            compiled = lookup_backend("inductor")(graph, inputs)
        except Exception as error:
            # Dynamo's own are no failures: it begins again.
            if type(error).__module__.startswith("torch._dynamo"):
                raise
            return graph.forward
        number, self._graphs, self._compiled = self._graphs, self._graphs + 1, True

        def region(*given: Any) -> Any:
            # A compiled function with no module around: the first graph of a program marks its steps.
            if number == 0 and not self._modules and os.getpid() == self._process:
                self._begin_step()
            if self._within or not self._recording:
                return compiled(*given)
            noted = self._note_region(nodes, calls, given)
            self._begin_region()
            try:
                answer = compiled(*given)
            finally:
                self._end_region(noted)
            self._follow_backward(noted, answer)
            return answer

        return region

    def _note_region(self, nodes: Any, calls: "dict[str, int]", given: "tuple[Any, ...]") -> "dict[str, Any]":
        try:
            inputs: Any = [_describe_argument(one) for one in given]
        except TypeError:
            nodes, inputs = None, []
        grads = [
            place for place, one in enumerate(given) if isinstance(one, torch.Tensor) and one.requires_grad
        ]
        arguments = {
            "nodes": nodes,
            "inputs": inputs,
            "grads": grads if torch.is_grad_enabled() else [],
            "autocast": _autocast(given),
        }
        key = json.dumps([arguments, calls], sort_keys=True)
        empty = {"arguments": arguments, "calls": calls, "trained": False, "count": 0, "seconds": 0.0}
        noted = self._regions.setdefault(key, empty)
        noted["count"] += 1
        return noted

    def _begin_region(self) -> None:
        self._within = True
        _wait()
        self._began = time.perf_counter()

    def _end_region(self, noted: "dict[str, Any]") -> None:
        _wait()
        noted["seconds"] += time.perf_counter() - self._began
        self._within = False

    def _follow_backward(self, noted: "dict[str, Any]", answer: Any) -> None:
        """Add the time of the region's backward pass, when it comes."""

        def begin(_: Any) -> None:
            if self._recording:
                self._begin_region()

        def end(_: Any, __: Any) -> None:
            if self._within:
                self._end_region(noted)
                noted["trained"] = True

        answers = answer if isinstance(answer, (list, tuple)) else [answer]
        nodes = {one.grad_fn for one in answers if isinstance(one, torch.Tensor) and one.grad_fn is not None}
        for node in nodes:
            if "CompiledFunction" in node.name():
                node.register_prehook(begin)
                node.register_hook(end)

    def _begin_step(self) -> None:
        if self._seen == 0:
            # What came before makes the model, and belongs to no step.
            for seen in (self._operators, self._regions, self._left_out):
                seen.clear()
        self._seen += 1
        self._within = False
        if self._seen > self._skip + 1:
            self.write()
        if self._seen > self._skip + self._steps:
            raise _RecordingEnd(0)

    def write(self) -> None:
        """Write what was seen so far; the file is whole at any moment."""
        steps = max(0, min(self._seen, self._skip + self._steps + 1) - self._skip)
        over = self._seen > self._skip + self._steps
        body = {
            "torch": torch.__version__,
            "steps": self._steps if over else steps,
            "compiled": self._compiled,
            "operators": list(self._operators.values()),
            "regions": list(self._regions.values()),
            "left_out": self._left_out,
        }
        with open(self._raw + ".new", "w", encoding="utf-8") as file:
            json.dump(body, file)
        os.replace(self._raw + ".new", self._raw)

    def _note(self, func: Any, args: Any, kwargs: "dict[str, Any]", answer: Any, taken: float) -> None:
        name = str(func)
        operator = name.split(".")[1] if "." in name else name
        if operator.startswith(_NOTHING):
            return
        # A view answers with memory of its input; an operator that writes its input has a name that says so.
        given = set(_storages(args))
        if not operator.endswith("_") and given & set(_storages([answer])):
            return
        try:
            arguments = {
                "args": _describe_argument(args),
                "kwargs": {k: _describe_argument(v) for k, v in kwargs.items()},
            }
        except TypeError:
            # An argument that cannot be made again, such as an object of a library.
            self._left_out[name] = self._left_out.get(name, 0.0) + taken
            return
        key = name + json.dumps(arguments, sort_keys=True)
        noted = self._operators.setdefault(
            key, {"name": name, "arguments": arguments, "count": 0, "seconds": 0.0}
        )
        noted["count"] += 1
        noted["seconds"] += taken


def _wait() -> None:
    """Wait for the device that an operator runs on, so that its time is its own."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _follow(recorder: OperatorRecorder) -> None:
    """Have the recorder see calls of modules, and compiled regions where PyTorch compiles under a mode."""
    before: Any = recorder.before
    after: Any = recorder.after
    tracing: Callable[[], bool] = getattr(torch.compiler, "is_compiling", lambda: False)
    if hasattr(torch.compiler, "set_stance"):
        if hasattr(TorchDispatchMode, "ignore_compile_internals"):
            torch.compiler.set_stance("default", force_backend=recorder.compile_region)
            before, after = torch.compiler.disable(before), torch.compiler.disable(after)
        else:
            # With fullgraph=True a compiler that steps aside would be an error of the program.
            torch.compiler.set_stance("force_eager")

    # A module that the compiler traces is part of a region. Its frame holds nothing else to be traced.
    def enter(module: torch.nn.Module, inputs: Any) -> None:
        if not tracing():
            before(module, inputs)

    def leave(module: torch.nn.Module, inputs: Any, output: Any) -> None:
        if not tracing():
            after(module, inputs, output)

    # torch.compile warns of hooks, which the program knows nothing of.
    warnings.filterwarnings("ignore", message=".*when there are global hooks on modules")
    register_module_forward_pre_hook(enter)
    # Also of a module that raises: the step would never end.
    register_module_forward_hook(leave, always_call=True)


def main(arguments: "list[str]") -> None:
    """Run the program that the arguments name."""
    options: dict[str, str] = {}
    while arguments and arguments[0] in ("--raw", "--steps", "--skip"):
        options[arguments[0]] = arguments[1]
        arguments = arguments[2:]
    recorder = OperatorRecorder(options["--raw"], int(options["--steps"]), int(options["--skip"]))
    _follow(recorder)
    try:
        with recorder:
            if arguments[0] == "-m":
                sys.argv = arguments[1:]
                sys.path[0] = os.getcwd()
                runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
            else:
                sys.argv = arguments
                sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
                runpy.run_path(arguments[0], run_name="__main__")
    except _RecordingEnd:
        pass
    finally:
        if os.getpid() == recorder._process:
            recorder.write()


if __name__ == "__main__":
    main(sys.argv[1:])
