"""Runs a program with a dispatch mode that notes its operators. Needs PyTorch and nothing of Pyrometer.

    python census_recorder.py --raw FILE --steps N --skip K (-m MODULE | SCRIPT) [ARGUMENT ...]

A step is a call of an outermost `nn.Module`, with the backward pass and the update that follow it. After K
steps, N are recorded, and the program is ended at the next one. FILE is written after each step, and whatever
happens to the program: a JSON object with what was seen. No number of a tensor is in it, no name of a file.
"""

import json
import os
import runpy
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

#: Operators that make memory or change its description, and compute nothing.
_NOTHING = ("empty", "new_empty", "detach", "alias", "lift_fresh", "resize", "set_", "_local_scalar_dense")
#: A list this long in an operator's arguments is weights of a model, not a shape.
_LONGEST = 4096


class _Recorded(SystemExit):
    """Ends the program when its steps are recorded."""


def _described(value: Any) -> Any:
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
        return [_described(one) for one in value]
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).replace("torch.", "")}
    if isinstance(value, torch.device):
        return {"device": value.type}
    if isinstance(value, torch.memory_format):
        return {"memory_format": str(value).replace("torch.", "")}
    if isinstance(value, torch.layout):
        return {"layout": str(value).replace("torch.", "")}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(type(value).__name__)


def _storages(value: Any) -> Iterator[int]:
    if isinstance(value, torch.Tensor):
        if value.layout == torch.strided:
            yield value.untyped_storage().data_ptr()
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _storages(one)


class OperatorRecorder(TorchDispatchMode):
    """Notes each operator with its arguments, how often it was called and how long it took."""

    def __init__(self, raw: str, steps: int, skip: int) -> None:
        super().__init__()
        self._raw, self._steps, self._skip = raw, steps, skip
        self._process = os.getpid()
        self._depth = self._seen = 0
        self._compiled = 0
        self._operators: dict[str, dict[str, Any]] = {}
        self._left_out: dict[str, float] = {}

    @property
    def _recording(self) -> bool:
        return os.getpid() == self._process and self._skip < max(self._seen, 1) <= self._skip + self._steps

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator; while recording, note it."""
        kwargs = kwargs or {}
        if not self._recording:
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
        if self._depth == 0:
            self._seen += 1
            if self._seen > self._skip + 1:
                self.write()
            if self._seen > self._skip + self._steps:
                raise _Recorded(0)
        self._depth += 1
        if type(module).__name__ == "OptimizedModule":
            self._compiled += 1

    def after(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        """A module has been called."""
        self._depth = max(0, self._depth - 1)

    def write(self) -> None:
        """Write what was seen so far; the file is whole at any moment."""
        steps = max(0, min(self._seen, self._skip + self._steps + 1) - self._skip)
        over = self._seen > self._skip + self._steps
        body = {
            "torch": torch.__version__,
            "steps": self._steps if over else steps,
            "compiled": self._compiled > 0,
            "operators": list(self._operators.values()),
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
            arguments = {"args": _described(args), "kwargs": {k: _described(v) for k, v in kwargs.items()}}
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


def main(arguments: "list[str]") -> None:
    """Run the program that the arguments name."""
    options: dict[str, str] = {}
    while arguments and arguments[0] in ("--raw", "--steps", "--skip"):
        options[arguments[0]] = arguments[1]
        arguments = arguments[2:]
    recorder = OperatorRecorder(options["--raw"], int(options["--steps"]), int(options["--skip"]))
    register_module_forward_pre_hook(recorder.before)
    # Also of a module that raises: the step would never end.
    register_module_forward_hook(recorder.after, always_call=True)
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
    except _Recorded:
        pass
    finally:
        if os.getpid() == recorder._process:
            recorder.write()


if __name__ == "__main__":
    main(sys.argv[1:])
