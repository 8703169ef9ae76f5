"""Number formats: TF32, autocast with or without a GradScaler, whole models in a smaller type, quantised."""

import contextlib
import importlib
import importlib.util
import io
import warnings
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import IO, Any, cast

import torch

from ..case_key import CaseKey
from ..measurements import memory
from ..prepared_case import Preparation, UnsupportedCase
from .export import refusal_of

#: Where PyTorch keeps the modules that compute in int8.
_INT8_MODULES = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")


def quantise(prep: Preparation) -> None:
    """Replace the preparation's model by a quantised one, as axis `precision` says.

    Metric `model_size`: MiB of the saved state, because packed weights are no parameters. Fact
    `quantised`: the layers that now compute so, by kind. Raises UnsupportedCase where there are none.
    """
    precision = prep.key.axis("precision")
    if prep.training:
        kind = precision.partition("-")[0]
        raise UnsupportedCase(f"precision={precision} is for inference: {kind} weights do not train")
    if precision == "int8-qat":
        raise UnsupportedCase(
            "precision=int8-qat is for training: it rounds weights and activations that train"
        )
    prep.facts["parameters"] = sum(one.numel() for one in prep.model.parameters())
    with _old_ways(), torch.no_grad():
        prep.facts["quantised"] = _QUANTISED[precision](prep)
    if not prep.facts["quantised"]:
        raise UnsupportedCase(f"precision={precision} finds no layer that it can quantise in this model")
    prep.called = prep.model
    # Or the step would keep the fp32 model alive as well.
    prep.workload = replace(prep.workload, model=prep.model, checkpointed=())
    prep.facts["dtype"] = _KEPT_IN.get(precision, "torch.qint8")
    prep.metrics["model_size"] = _saved_bytes(prep.model) / memory.MIB


def _dynamic(prep: Preparation) -> dict[str, int]:
    quantize = _find("torch.ao.quantization", "quantize_dynamic")
    _require_cpu(prep)
    # It replaces the children of what it is given: a model may be a single layer. In place, because a copy
    # calls the original where `forward` is an attribute of the model, as `torch.compiler.disable` makes one.
    kinds = {torch.nn.Linear, torch.nn.LSTM}
    prep.model = quantize(torch.nn.Sequential(prep.model), kinds, dtype=torch.qint8, inplace=True)[0]
    return _kinds(prep.model)


def _static(prep: Preparation) -> dict[str, int]:
    """Convolutions and linear layers with ranges fixed by running the case's own inputs once."""
    prepare = _find("torch.ao.quantization.quantize_fx", "prepare_fx")
    convert = _find("torch.ao.quantization.quantize_fx", "convert_fx")
    mapping = _find("torch.ao.quantization", "get_default_qconfig_mapping")
    _require_cpu(prep)
    engine = torch.backends.quantized.engine
    if engine == "none":
        raise UnsupportedCase("precision=int8-static: this PyTorch was built without int8 kernels")
    prep.facts["quantised_by"] = engine
    try:
        observed = prepare(prep.model, mapping(engine), prep.inputs[0])
    except _find("torch.fx.proxy", "TraceError") as error:
        line = str(error).split(". ")[0]
        raise UnsupportedCase(f"precision=int8-static cannot trace this model: {line}") from error
    for inputs in prep.inputs:
        observed(*inputs)
    prep.model = convert(observed)
    return _kinds(prep.model)


def _pt2e(prep: Preparation) -> dict[str, int]:
    """An exported graph with roundings in it, their ranges fixed as `_static` does.

    Inductor makes int8 kernels of it when it freezes weights, and otherwise products in fp32.
    """
    _require_cpu(prep)
    if prep.key.axis("freezing") == "off":
        raise UnsupportedCase("precision=int8-pt2e is lowered by Inductor: give compile=default,freezing=on")
    if len(set(prep.shapes)) > 1 or prep.workload.report is not None:
        raise UnsupportedCase(
            "precision=int8-pt2e exports the model: it is for inputs of one shape, and for workloads that "
            "measure nothing by themselves"
        )
    quantize, x86 = _pt2e_modules()
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(_x86_config(x86.get_default_x86_inductor_quantization_config))
    with refusal_of("torch.export"):
        # Strict, for the quantiser finds layers by what only Dynamo notes of a node before PyTorch 2.13.
        exported = _export()(prep.model, prep.inputs[0], strict=True).module()
    observed = quantize.prepare_pt2e(exported, quantizer)
    for inputs in prep.inputs:
        observed(*inputs)
    prep.model = quantize.convert_pt2e(observed)
    return _count_operators(prep.model)


def _x86_config(make: Callable[..., Any]) -> Any:
    """Activations of 7 bits, on every CPU: without VNNI the sum of two products of 8 bits overflows."""
    try:
        return make(reduce_range=True)
    except TypeError:
        # In releases that leave no choice.
        return make()


def _pt2e_modules() -> tuple[Any, Any]:
    """PT2E quantisation and the quantiser for x86: of torch.ao, or of torchao, to which both have moved."""
    for package in ("torch.ao.quantization", "torchao.quantization.pt2e"):
        with contextlib.suppress(ImportError):
            quantize = importlib.import_module(f"{package}.quantize_pt2e")
            return quantize, importlib.import_module(f"{package}.quantizer.x86_inductor_quantizer")
    raise UnsupportedCase(
        f"PyTorch {torch.__version__} has no PT2E quantisation, and torchao is not installed in this "
        "environment: pip install torchao"
    )


def _export() -> Callable[..., Any]:
    """What exports a graph as PT2E quantisation takes it, before operators are decomposed."""
    if hasattr(torch.export, "export_for_training"):
        return _find("torch.export", "export_for_training")
    if hasattr(torch.export, "default_decompositions"):
        return torch.export.export
    raise UnsupportedCase(
        f"PyTorch {torch.__version__} has no public function that exports a model for PT2E quantisation"
    )


def _count_operators(model: torch.nn.Module) -> dict[str, int]:
    """How many operators of an exported graph take a rounded weight, by their names."""
    kinds: dict[str, int] = {}
    graph: Any = model.graph
    for node in graph.nodes:
        if any("dequantize_per_channel" in str(one.target) for one in node.all_input_nodes):
            # aten.conv2d.default
            name = str(node.target).split(".")[1]
            kinds[name] = kinds.get(name, 0) + 1
    return dict(sorted(kinds.items()))


def train_for_int8(prep: Preparation) -> None:
    """Train a model that rounds weights and activations to int8 in each step: quantisation-aware training.

    Fact `quantised`: how many tensors are rounded. Source: Jacob et al. 2018, arXiv:1712.05877.
    """
    prepare = _find("torch.ao.quantization.quantize_fx", "prepare_qat_fx")
    mapping = _find("torch.ao.quantization", "get_default_qat_qconfig_mapping")
    rounding = _find("torch.ao.quantization", "FakeQuantizeBase")
    _require_cpu(prep)
    if prep.key.axis("checkpoint") != "off":
        raise UnsupportedCase(
            "precision=int8-qat traces the blocks, and their recomputation (checkpoint=on) is lost"
        )
    with _old_ways():
        prep.model = prepare(prep.model, mapping(torch.backends.quantized.engine), prep.inputs[0])
    prep.called = prep.model
    prep.workload = replace(prep.workload, model=prep.model, checkpointed=())
    prep.facts["quantised"] = {"rounded": sum(isinstance(one, rounding) for one in prep.model.modules())}


@dataclass(frozen=True, slots=True)
class _TorchAo:
    """A configuration of torchao; with a `capability` it is for models in bf16, on such a GPU or newer."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    capability: tuple[int, int] | None = None

    def make(self) -> tuple[Any, str]:
        """The configuration, and its description: releases that lack the options have their own defaults."""
        make = _find("torchao.quantization", self.name)
        version = getattr(importlib.import_module("torchao"), "__version__", "?")
        try:
            return make(**self.options), " ".join((f"torchao {version}", *map(str, self.options.values())))
        except TypeError:
            return make(), f"torchao {version} by its defaults"


#: Weights and, but for int4, activations of each call. Ada and Hopper have kernels of fp8; those of int4 are
#: PyTorch's own, which take bf16: other layouts of int4 need another package.
_TORCHAO = {
    "int8-torchao": _TorchAo("Int8DynamicActivationInt8WeightConfig"),
    "fp8-torchao": _TorchAo("Float8DynamicActivationFloat8WeightConfig", capability=(8, 9)),
    "int4-torchao": _TorchAo(
        "Int4WeightOnlyConfig", {"int4_packing_format": "tile_packed_to_4d"}, capability=(8, 0)
    ),
}
#: In what weights are kept, where that is not int8.
_KEPT_IN = {"fp8-torchao": "torch.float8_e4m3fn", "int4-torchao": "int4"}


def _torchao(prep: Preparation) -> dict[str, int]:
    """torchao's weights for linear layers, in place."""
    precision = prep.key.axis("precision")
    chosen = _TORCHAO[precision]
    if chosen.capability:
        _require_capability(f"precision={precision}", prep.device, chosen.capability)
    if importlib.util.find_spec("torchao") is None:
        raise UnsupportedCase("torchao is not installed in this environment: pip install torchao")
    quantize = _find("torchao.quantization", "quantize_")
    if chosen.capability:
        _cast(prep, torch.bfloat16)
    linear = [one for one in prep.model.modules() if isinstance(one, torch.nn.Linear)]
    before = [id(one.weight) for one in linear]
    configuration, prep.facts["quantised_by"] = chosen.make()
    quantize(prep.model, configuration)
    changed = sum(1 for one, old in zip(linear, before, strict=True) if id(one.weight) != old)
    return {"Linear": changed} if changed else {}


_QUANTISED: dict[str, Callable[[Preparation], dict[str, int]]] = {
    "int8-dynamic": _dynamic,
    "int8-static": _static,
    "int8-pt2e": _pt2e,
    **dict.fromkeys(_TORCHAO, _torchao),
}


def _require_cpu(prep: Preparation) -> None:
    if prep.device != "cpu":
        raise UnsupportedCase(
            f"precision={prep.key.axis('precision')} computes on the CPU only, not on {prep.device}"
        )


def _find(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        package = module.split(".")[0]
        version = getattr(importlib.import_module(package), "__version__", "?")
        sentence = f"{module}.{name} was removed in this version"
        raise UnsupportedCase(
            f"{sentence} of {'PyTorch' if package == 'torch' else package} ({version})"
        ) from None


@contextlib.contextmanager
def _old_ways() -> Generator[None]:
    """That torch.ao.quantization is on its way out is no failure, not even where warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _kinds(model: torch.nn.Module) -> dict[str, int]:
    kinds: dict[str, int] = {}
    for module in model.modules():
        kind, name = type(module).__module__, type(module).__name__
        # What holds a layer's weights, or changes formats around it, is no layer.
        if kind.startswith(_INT8_MODULES) and "Packed" not in name and "Quantize" not in name:
            kinds[name] = kinds.get(name, 0) + 1
    return dict(sorted(kinds.items()))


class _Length(io.RawIOBase):
    """A file that keeps nothing but its length."""

    length = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        size = len(memoryview(data).cast("B"))
        self.length += size
        return size


def _saved_bytes(model: torch.nn.Module) -> int:
    file = _Length()
    torch.save(model.state_dict(), cast("IO[bytes]", file))
    return file.length


_AUTOCAST = {"amp-fp16": torch.float16, "amp-bf16": torch.bfloat16}
_WHOLE = {"fp16": torch.float16, "bf16": torch.bfloat16}


def apply(prep: Preparation) -> None:
    """Put the preparation's model, inputs and surroundings into the precision of its key.

    Metric `model_size`: parameters and buffers in MiB as they are kept, each shared one counted once.
    """
    precision = prep.key.axis("precision")
    if precision == "fp32":
        _require_fp32(prep)
    prep.context = context(prep.key, prep.device)
    if precision in _WHOLE:
        _cast(prep, _WHOLE[precision])
    if precision == "int8-qat" and prep.training:
        train_for_int8(prep)
    elif precision in _QUANTISED or precision == "int8-qat":
        quantise(prep)
    else:
        tensors = (*prep.model.parameters(), *prep.model.buffers())
        prep.metrics["model_size"] = sum(one.numel() * one.element_size() for one in tensors) / memory.MIB
    if precision == "amp-fp16" and prep.training:
        _scale(prep)


def context(key: CaseKey, device: str) -> Callable[[], contextlib.AbstractContextManager[Any]]:
    """What makes the context manager around each call; decides on TF32 at once, for the whole process."""
    precision = key.axis("precision")
    if precision == "fp32":
        # Taken at its word: by PyTorch's default cuDNN computes convolutions in TF32.
        _allow_tf32((False, False))
    if precision == "tf32":
        _require_capability("precision=tf32", device, (8, 0))
        _allow_tf32((True, True))
    if precision not in _AUTOCAST:
        return contextlib.nullcontext
    kind, dtype = device.split(":")[0], _AUTOCAST[precision]
    _require_autocast(device, dtype)
    return lambda: torch.autocast(kind, dtype=dtype)


@contextlib.contextmanager
def exact_fp32() -> Generator[None]:
    """fp32 in fact, as a reference needs it, and afterwards whatever was before.

    A case may have set it by the newer of PyTorch's two interfaces, which the older then refuses to read.
    """
    try:
        before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    except RuntimeError:
        with _exact_by_the_newer_interface():
            yield
        return
    _allow_tf32((False, False))
    try:
        yield
    finally:
        _allow_tf32(before)


@contextlib.contextmanager
def _exact_by_the_newer_interface() -> Generator[None]:
    """The same by `fp32_precision`, which PyTorch has from 2.9 on."""
    backends: list[Any] = [torch.backends.cuda.matmul, torch.backends.cudnn, torch.backends.mkldnn]
    settings = [one for each in backends for one in (each, *_parts(each)) if hasattr(one, "fp32_precision")]
    before = [one.fp32_precision for one in settings]
    for one in settings:
        one.fp32_precision = "ieee"
    try:
        yield
    finally:
        for one, precision in zip(settings, before, strict=True):
            one.fp32_precision = precision


def _parts(backend: Any) -> list[Any]:
    """What of a backend has a precision of its own."""
    return [getattr(backend, name) for name in ("conv", "rnn", "matmul") if hasattr(backend, name)]


def _allow_tf32(allowed: tuple[Any, Any]) -> None:
    # The older of PyTorch's two interfaces: every version has it, and mixing the two is an error.
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = allowed
    if not allowed[0]:
        # "medium", a line that people put into their models, has the CPU multiply fp32 in bf16.
        torch.set_float32_matmul_precision("highest")


def _require_fp32(prep: Preparation) -> None:
    """Raise UnsupportedCase for a case that was built in another number format, by whatever means."""
    tensors = (*prep.model.parameters(), *prep.model.buffers())
    others = {one.dtype for one in tensors if one.is_floating_point()} - {torch.float32, torch.float64}
    if others:
        raise UnsupportedCase(
            f"the case builds weights of {others.pop()}: build them in fp32 and choose a precision"
        )


def _require_capability(what: str, device: str, least: tuple[int, int]) -> None:
    if not device.startswith("cuda") or torch.cuda.get_device_capability(device) < least:
        needed = ".".join(map(str, least))
        raise UnsupportedCase(f"{what} needs a CUDA device of compute capability {needed} or newer")


def _require_autocast(device: str, dtype: torch.dtype) -> None:
    """Raise UnsupportedCase where autocast, asked for `dtype`, warns and computes in fp32."""
    ones = torch.ones(2, 2, device=device)
    with torch.no_grad(), torch.autocast(device.split(":")[0], dtype=dtype):
        if torch.mm(ones, ones).dtype != dtype:
            raise UnsupportedCase(
                f"autocast on {device} has no {dtype} in this version of PyTorch ({torch.__version__})"
            )


def _cast(prep: Preparation, dtype: torch.dtype) -> None:
    prep.model.to(dtype)
    prep.inputs = tuple(
        tuple(tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in inputs)
        for inputs in prep.inputs
    )


def _scale(prep: Preparation) -> None:
    """Train under a GradScaler; metric `scaler_skips` counts the steps whose gradients overflowed."""
    if not hasattr(torch.amp, "GradScaler"):
        raise UnsupportedCase(f"torch.amp.GradScaler is not in this version of PyTorch ({torch.__version__})")
    scaler = torch.amp.GradScaler(prep.device.split(":")[0])
    steps = 0
    optimizers: list[torch.optim.Optimizer] = []

    def backward(loss: torch.Tensor) -> None:
        scaler.scale(loss).backward()

    def update(optimizer: torch.optim.Optimizer) -> None:
        nonlocal steps
        steps += 1
        optimizers[:] = [optimizer]
        scaler.step(optimizer)
        scaler.update()

    def skips() -> Mapping[str, float]:
        # Asking the scale after each step would wait for the device: the optimizer counts what it has taken.
        states = [state for optimizer in optimizers for state in optimizer.state.values()]
        return {"scaler_skips": float(steps - max((int(state["step"]) for state in states), default=0))}

    prep.backward, prep.update = backward, update
    prep.final_metrics.append(skips)
