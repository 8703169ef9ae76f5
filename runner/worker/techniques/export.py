"""Models exported from eager Python: TorchScript, torch.export, AOTInductor, ONNX Runtime."""

import contextlib
import importlib
import importlib.util
import os
import re
import tempfile
import time
import warnings
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..case_key import AXES
from ..measurements import compiling, memory, timing
from ..prepared_case import Inputs, Preparation, UnsupportedCase

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


def require_onnx(prep: Preparation) -> None:
    """Raise UnsupportedCase unless ONNX Runtime is here and can run what the preparation's key asks for."""
    for axis in ("attention", "cudnn", "graph", "layout", "onednn"):
        if (value := prep.key.axis(axis)) != AXES[axis].default:
            raise UnsupportedCase(
                f"{axis}={value} means nothing to ONNX Runtime, which does this its own way"
            )
    if missing := [name for name in _PACKAGES if importlib.util.find_spec(name) is None]:
        absent = (
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed in this environment"
        )
        raise UnsupportedCase(f"{absent}: pip install {' '.join(_PACKAGES)}")
    if (provider := _provider(prep)) not in importlib.import_module("onnxruntime").get_available_providers():
        raise UnsupportedCase(
            f"the onnxruntime of this environment has no {provider}: pip install onnxruntime-gpu"
        )


def onnx_session(prep: Preparation, file: Path) -> Callable[..., Any]:
    """What calls the model in `file` on the device and answers in the structure of the eager model.

    Inputs are read and outputs written in place, into tensors that each call uses again.
    """
    runtime: Any = importlib.import_module("onnxruntime")
    made = runtime.InferenceSession(str(file), _options(runtime), providers=[(_provider(prep), _tf32(prep))])
    if made.get_providers()[0] != _provider(prep):
        raise UnsupportedCase(f"ONNX Runtime could not start its {_provider(prep)} here")
    binding = made.io_binding()
    leaves, structure = pytree.tree_flatten(prep.model(*prep.inputs[0]))
    answers = [torch.empty_like(leaf, memory_format=torch.contiguous_format) for leaf in leaves]
    for node, answer in zip(made.get_outputs(), answers, strict=True):
        binding.bind_output(node.name, *_place(answer))
    names = [node.name for node in made.get_inputs()]
    answer = pytree.tree_unflatten(answers, structure)
    prep.facts["onnxruntime"] = {
        "version": runtime.__version__,
        "providers": made.get_providers(),
        "threads": torch.get_num_threads(),
    }

    def run_session(*inputs: torch.Tensor) -> Any:
        given = [tensor.contiguous() for tensor in inputs]
        for name, tensor in zip(names, given, strict=True):
            binding.bind_input(name, *_place(tensor))
        # Returns when the device is done: the run's options do not say otherwise.
        made.run_with_iobinding(binding)
        return answer

    return run_session


def _provider(prep: Preparation) -> str:
    return "CUDAExecutionProvider" if prep.device.startswith("cuda") else "CPUExecutionProvider"


def _tf32(prep: Preparation) -> dict[str, str]:
    """Options of the provider: on CUDA it uses TF32 unless configured otherwise."""
    if not prep.device.startswith("cuda"):
        return {}
    device = torch.device(prep.device).index or 0
    return {"device_id": str(device), "use_tf32": "1" if prep.key.axis("precision") == "tf32" else "0"}


def _options(runtime: Any) -> Any:
    """As many threads as torch has, waiting as the measurement preset has OpenMP's threads wait."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    if os.environ.get("OMP_WAIT_POLICY", "").lower() == "passive":
        options.add_session_config_entry("onnx_session.intra_op.allow_spinning", "0")
    return options


def _place(tensor: torch.Tensor) -> tuple[str, int, int, tuple[int, ...], int]:
    """Where a contiguous tensor lies, as an I/O binding expects it."""
    device = tensor.device
    return device.type, device.index or 0, _TYPES[tensor.dtype], tuple(tensor.shape), tensor.data_ptr()


#: What stands for the model afterwards, and what writes it into a folder (nothing where it lies there).
Exported = tuple[Callable[..., Any], Callable[[], object]]

#: These hold weights of their own; the eager model's would be an unused second copy.
_OWN_WEIGHTS = ("aot-inductor", "onnxruntime")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def apply(prep: Preparation) -> None:
    """Replace what the step calls by the exported model, as axis `export` says.

    Metrics: `export_time`, from the eager model to something that can be called, with every cache empty;
    `package_size`, what it takes on disk as its own tool saves it (torch.export keeps the example inputs
    too). Raises UnsupportedCase for a model that the exporter refuses.
    """
    way = prep.key.axis("export")
    if way == "none":
        return
    _refuse(prep, way)
    with contextlib.ExitStack() as around:
        folder = Path(around.enter_context(tempfile.TemporaryDirectory(prefix="pyrometer-export-")))
        package = folder / "package"
        package.mkdir()
        around.enter_context(_private_places(folder))
        around.enter_context(torch.no_grad())
        # AOTInductor chooses kernels now, and not when it is called.
        around.enter_context(prep.context())
        around.enter_context(warnings.catch_warnings())
        # That an old way is on its way out is no failure, not even where warnings are errors.
        warnings.simplefilter("ignore", DeprecationWarning)
        timing.synchronize(prep.device)
        started = time.perf_counter()
        prep.called, save = _WAYS[way](prep, package)
        timing.synchronize(prep.device)
        prep.metrics["export_time"] = time.perf_counter() - started
        save()
        if way in _OWN_WEIGHTS:
            prep.model.to("meta")
        prep.metrics["package_size"] = size_of(package) / memory.MIB


def size_of(folder: Path) -> int:
    """Bytes of all files in the folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _refuse(prep: Preparation, way: str) -> None:
    if prep.training:
        raise UnsupportedCase(f"export={way} is for inference: an exported model cannot train")
    if prep.key.axis("compile") != "none":
        raise UnsupportedCase(f"export={way} leaves nothing to compile: give either export or compile")
    if prep.key.axis("precision").startswith("amp-"):
        raise UnsupportedCase(
            f"export={way} fixes number formats when exporting, and autocast chooses them when called: "
            "give the whole model a format, such as precision=bf16"
        )
    if prep.workload.report is not None:
        # A trace would keep one batch as a constant, and load nothing any more.
        raise UnsupportedCase(
            f"export={way} would leave behind what this workload measures by itself in Python"
        )
    shapes = {tuple((tensor.shape, tensor.dtype) for tensor in inputs) for inputs in prep.inputs}
    if len(shapes) > 1 and way != "jit-script":
        raise UnsupportedCase(f"export={way} is for inputs of one shape, and this workload brings several")


@contextlib.contextmanager
def refusal_of(exporter: str) -> Generator[None]:
    """Turn an error of the exporter into UnsupportedCase; running out of memory or disk stays an error."""
    try:
        yield
    except Exception as error:
        out_of_something = isinstance(error, OSError) and error.errno is not None
        if isinstance(error, UnsupportedCase) or out_of_something or memory.is_out_of_memory(error):
            raise
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        line = _COLOURS.sub("", str(cause)).strip().split("\n")[0].rstrip(": ")
        raise UnsupportedCase(f"{exporter} refuses the model: {type(cause).__name__}: {line}") from error


def find(path: str) -> Callable[..., Any]:
    """The function `torch.<path>`; raises UnsupportedCase where this PyTorch has none."""
    module, _, name = f"torch.{path}".rpartition(".")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        verb = "was removed in" if module == "torch.jit" else "is not in"
        raise UnsupportedCase(f"torch.{path} {verb} this version of PyTorch ({torch.__version__})") from None
    return found


@contextlib.contextmanager
def _private_places(folder: Path) -> Generator[None]:
    """Have compilers begin cold and keep what they write inside `folder`.

    The worker ends without tidying up, so no file may remain outside of it. AOTInductor unpacks
    into TMPDIR what it loads; on Linux, loaded code outlives its file. A cache that the shell has named is
    left alone: an earlier compilation has filled it.
    """
    cache = str(folder / "cache")
    places = {"TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": cache, "TRITON_CACHE_DIR": cache}
    before = {name: os.environ.get(name) for name in places}
    os.environ.update(places)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _example(prep: Preparation) -> tuple[torch.nn.Module, Inputs]:
    return prep.model, prep.inputs[0]


def _jit_trace(prep: Preparation, package: Path) -> Exported:
    trace = find("jit.trace")
    model, inputs = _example(prep)
    with refusal_of("torch.jit.trace"):
        # Not strict, or a model that answers with a dict would be refused; the answer is checked anyway.
        traced = trace(model, inputs, strict=False)
    return traced, lambda: traced.save(str(package / "model.pt"))


def _jit_freeze(prep: Preparation, package: Path) -> Exported:
    """A trace whose weights are constants, so that batch normalisation is folded into convolutions."""
    traced, _ = _jit_trace(prep, package)
    freeze = find("jit.freeze")
    with refusal_of("torch.jit.freeze"):
        frozen = freeze(traced)
    return frozen, lambda: frozen.save(str(package / "model.pt"))


def _jit_script(prep: Preparation, package: Path) -> Exported:
    script = find("jit.script")
    with refusal_of("torch.jit.script"):
        scripted = script(prep.model)
    return scripted, lambda: scripted.save(str(package / "model.pt"))


def _export(prep: Preparation, package: Path) -> Exported:
    program = _program(prep)
    with refusal_of("torch.export"):
        module = program.module()
    return module, lambda: find("export.save")(program, package / "model.pt2")


def _program(prep: Preparation) -> Any:
    export = find("export.export")
    model, inputs = _example(prep)
    with refusal_of("torch.export"):
        return export(model, inputs)


def _aot_inductor(prep: Preparation, package: Path) -> Exported:
    program = _program(prep)
    compile_package = find("_inductor.aoti_compile_and_package")
    load = find("_inductor.aoti_load_package")
    compiling.keep_headers_next_to_the_cache()
    # What fails from here on is a failing compiler, as it would be under torch.compile.
    path = compile_package(program, package_path=str(package / "model.pt2"))
    return load(path), lambda: None


def _onnxruntime(prep: Preparation, package: Path) -> Exported:
    require_onnx(prep)
    export = find("onnx.export")
    model, inputs = _example(prep)
    file = package / "model.onnx"
    with refusal_of("torch.onnx.export"):
        export(model, inputs, str(file), dynamo=True, verbose=False)
    with refusal_of("ONNX Runtime"):
        return onnx_session(prep, file), lambda: None


_WAYS: dict[str, Callable[[Preparation, Path], Exported]] = {
    "jit-trace": _jit_trace,
    "jit-freeze": _jit_freeze,
    "jit-script": _jit_script,
    "export": _export,
    "aot-inductor": _aot_inductor,
    "onnxruntime": _onnxruntime,
}
