"""torch.compile: a mode of Inductor or another backend, and what it does about shapes; XLA by torch_xla."""

import importlib
import importlib.util
import os
from collections.abc import Callable
from typing import Any

import torch

from ..case_key import AXES, CaseKey
from ..measurements import compiling
from ..prepared_case import Preparation, UnsupportedCase

#: Formats in which the whole model is kept; autocast and quantisation are others' business.
_XLA_PRECISIONS = ("fp32", "bf16", "fp16")


def apply_xla(prep: Preparation) -> None:
    """Move model and inputs to XLA's device and let each call end when the device has ended.

    Without waiting a call takes the time of asking for it: `torch_xla.sync(wait=True)` sees nothing to
    wait for in what a compiled model has asked for, `wait_device_ops` does.
    """
    _refuse_xla(prep)
    runtime, device = _start_xla()
    prep.model.to(device)
    prep.inputs = tuple(tuple(tensor.to(device) for tensor in inputs) for inputs in prep.inputs)
    compiled = torch.compile(prep.model, backend="openxla")
    wait = importlib.import_module("torch_xla.core.xla_model").wait_device_ops

    def call_and_wait(*inputs: torch.Tensor) -> Any:
        answer = compiled(*inputs)
        wait()
        return answer

    prep.called = call_and_wait
    prep.facts["xla"] = {"version": runtime.__version__, "device": os.environ["PJRT_DEVICE"]}


def _refuse_xla(prep: Preparation) -> None:
    if prep.training:
        raise UnsupportedCase("compile=openxla is measured for inference only")
    if prep.device != "cpu":
        raise UnsupportedCase(f"compile=openxla is measured on torch_xla's CPU runtime, not on {prep.device}")
    if (precision := prep.key.axis("precision")) not in _XLA_PRECISIONS:
        raise UnsupportedCase(f"precision={precision} is nothing that compile=openxla takes over")
    if (dynamic := prep.key.axis("dynamic")) != "auto":
        raise UnsupportedCase(f"dynamic={dynamic} means nothing to XLA, which compiles each shape for itself")
    _inductor_options(prep.key)
    for axis in ("attention", "layout", "onednn", "region"):
        if (value := prep.key.axis(axis)) != AXES[axis].default:
            raise UnsupportedCase(f"{axis}={value} means nothing to XLA, which does this its own way")


def _start_xla() -> tuple[Any, torch.device]:
    """torch_xla and its device, with as many threads as torch has."""
    if importlib.util.find_spec("torch_xla") is None:
        raise UnsupportedCase(
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
        raise UnsupportedCase(f"torch_xla cannot start here: {str(error).strip().splitlines()[0]}") from error


#: Values of axis `compile` that name a backend; the others name a mode of Inductor.
_BACKENDS = ("aot_eager", "cudagraphs", "tensorrt", "onnxrt")
#: The modes that have Inductor record CUDA graphs.
RECORDS_GRAPHS = ("reduce-overhead", "max-autotune")
#: Backends that come with a package, and its name.
_PACKAGES = {"tensorrt": "torch_tensorrt", "onnxrt": "onnxruntime"}
_DYNAMIC = {"auto": None, "off": False, "on": True, "mark": None}


def apply(prep: Preparation) -> None:
    """Compile what the step calls, as the axes `compile`, `dynamic` and `region` say."""
    mode = prep.key.axis("compile")
    if mode == "openxla":
        apply_xla(prep)
        return
    if prep.key.axis("dynamic") == "mark":
        _mark(prep)
    if mode in RECORDS_GRAPHS and not prep.device.startswith("cuda"):
        prep.facts["cudagraphs"] = (
            f"none: compile={mode} records CUDA graphs, and this device is {prep.device}"
        )
    if prep.key.axis("region") == "blocks":
        _compile_blocks(prep)
    else:
        prep.called = compile_function(prep.key, prep.device, prep.called)


def _compile_blocks(prep: Preparation) -> None:
    """Compile each repeated block of the model, which stays eager itself: alike blocks are compiled once.

    Fact `compiled_blocks` is their number. Raises UnsupportedCase where no block is named. Source: the
    PyTorch recipe "Reducing torch.compile cold start compilation time with regional compilation".
    """
    if prep.key.axis("compile") == "none":
        raise UnsupportedCase("region=blocks says what to compile, and this case does not compile")
    if not prep.workload.checkpointed:
        raise UnsupportedCase("region=blocks needs a workload that names its blocks, and this one does not")
    for name in prep.workload.checkpointed:
        block = prep.model.get_submodule(name)
        block.forward = compile_function(prep.key, prep.device, block.forward)
    prep.facts["compiled_blocks"] = len(prep.workload.checkpointed)


def records_graphs(key: CaseKey, device: str) -> bool:
    """Whether the case has PyTorch record CUDA graphs of what it compiles."""
    return device.startswith("cuda") and key.axis("compile") in (*RECORDS_GRAPHS, "cudagraphs")


def compile_function(key: CaseKey, device: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` under torch.compile as the key's axes say; itself for `compile=none`.

    Raises UnsupportedCase where the backend is not installed, or is not for `device`.
    """
    mode, dynamic = key.axis("compile"), key.axis("dynamic")
    options = _inductor_options(key)
    if mode == "none":
        if dynamic != "auto":
            raise UnsupportedCase(f"dynamic={dynamic} says how to compile, and this case does not compile")
        return function
    if mode == "openxla":
        raise UnsupportedCase("compile=openxla moves a model to XLA's device, and this case has none")
    compiling.keep_all_compilations()
    if options.get("freezing"):
        _freeze()
    if mode in _BACKENDS:
        _require(mode, device)
        return torch.compile(function, backend=mode, dynamic=_DYNAMIC[dynamic])
    if options:
        return torch.compile(function, options=options, dynamic=_DYNAMIC[dynamic])
    return torch.compile(function, mode=mode, dynamic=_DYNAMIC[dynamic])


def _inductor_options(key: CaseKey) -> dict[str, Any]:
    """Inductor's options that the axes `wrapper` and `freezing` ask for.

    Raises UnsupportedCase where nothing is compiled by Inductor's default mode (torch.compile takes a mode or
    options, not both), and for freezing in training, whose weights are no constants.
    """
    options: dict[str, Any] = {}
    if key.axis("wrapper") == "cpp":
        options["cpp_wrapper"] = True
    if key.axis("freezing") == "on":
        options["freezing"] = True
        if key.phase == "train":
            raise UnsupportedCase("freezing=on is for inference: weights that train are no constants")
    if options and (mode := key.axis("compile")) != "default":
        option = "wrapper=cpp" if "cpp_wrapper" in options else "freezing=on"
        raise UnsupportedCase(f"{option} is an option of compile=default, not of compile={mode}")
    return options


def _freeze() -> None:
    """Have Dynamo keep weights out of a graph's inputs, for the whole process.

    It reads Inductor's settings for that, not the options of one torch.compile: as inputs of the graph, which
    they are from 2.5 on, weights would not become constants.
    """
    inductor: Any = importlib.import_module("torch._inductor.config")
    inductor.freezing = True


def _require(backend: str, device: str) -> None:
    if backend in ("cudagraphs", "tensorrt") and not device.startswith("cuda"):
        raise UnsupportedCase(f"compile={backend} needs a CUDA device, and this one is {device}")
    package = _PACKAGES.get(backend)
    if package is not None:
        if importlib.util.find_spec(package) is None:
            raise UnsupportedCase(f"compile={backend}: {package} is not installed in this environment")
        # Some backends are known to PyTorch only once their package is loaded.
        importlib.import_module(package)
    if backend not in torch.compiler.list_backends(exclude_tags=None):
        raise UnsupportedCase(f"this version of PyTorch ({torch.__version__}) has no backend {backend}")


def _mark(prep: Preparation) -> None:
    """Mark for Dynamo which dimensions differ between the inputs of one step and another."""
    if prep.key.axis("compile") == "none":
        return
    several = False
    for position, shapes in enumerate(zip(*prep.shapes, strict=True)):
        if len({len(shape) for shape in shapes}) > 1:
            raise UnsupportedCase("dynamic=mark is for inputs whose number of dimensions stays the same")
        varying = [number for number, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1]
        several = several or bool(varying)
        for inputs in prep.inputs:
            for number in varying:
                torch._dynamo.mark_dynamic(inputs[position], number)
    if not several:
        raise UnsupportedCase(
            "dynamic=mark needs inputs of several shapes, and all of this workload's are alike"
        )
