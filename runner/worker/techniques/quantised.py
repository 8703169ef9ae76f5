"""Models in int8: quantised as they stand on the CPU, or by torchao."""

import contextlib
import importlib
import importlib.util
import io
import warnings
from collections.abc import Generator
from dataclasses import replace
from typing import IO, Any, cast

import torch

from ..measurements import memory
from ..prepared_case import Act, Unsupported

#: Where PyTorch keeps the modules that compute in int8.
_INT8_MODULES = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")


def apply(act: Act) -> None:
    """Replace the act's model by a quantised one, as axis `precision` says.

    Metric `model_size`: MiB of the saved state, because packed weights are no parameters. Fact
    `quantised`: the layers that now compute in int8, by kind. Raises Unsupported where there are none.
    """
    precision = act.key.axis("precision")
    if act.training:
        raise Unsupported(f"precision={precision} is for inference: int8 weights do not train")
    act.facts["parameters"] = sum(one.numel() for one in act.model.parameters())
    with _old_ways(), torch.no_grad():
        if precision == "int8-torchao":
            act.facts["quantised"] = _torchao(act)
        else:
            act.model = _dynamic(act) if precision == "int8-dynamic" else _static(act)
            act.facts["quantised"] = _kinds(act.model)
    if not act.facts["quantised"]:
        raise Unsupported(f"precision={precision} finds no layer that it can quantise in this model")
    act.called = act.model
    # Or the step would keep the fp32 model alive beside it.
    act.workload = replace(act.workload, model=act.model, checkpointed=())
    act.facts["dtype"] = "torch.qint8"
    act.metrics["model_size"] = _saved_bytes(act.model) / memory.MIB


def _dynamic(act: Act) -> torch.nn.Module:
    quantize = _find("torch.ao.quantization", "quantize_dynamic")
    _require_cpu(act)
    return quantize(act.model, {torch.nn.Linear, torch.nn.LSTM}, dtype=torch.qint8)


def _static(act: Act) -> torch.nn.Module:
    """Convolutions and linear layers with ranges fixed by running the case's own inputs once."""
    prepare = _find("torch.ao.quantization.quantize_fx", "prepare_fx")
    convert = _find("torch.ao.quantization.quantize_fx", "convert_fx")
    mapping = _find("torch.ao.quantization", "get_default_qconfig_mapping")
    _require_cpu(act)
    engine = torch.backends.quantized.engine
    if engine == "none":
        raise Unsupported("precision=int8-static: this PyTorch was built without int8 kernels")
    act.facts["quantised_by"] = engine
    try:
        observed = prepare(act.model, mapping(engine), act.inputs[0])
    except _find("torch.fx.proxy", "TraceError") as error:
        line = str(error).split(". ")[0]
        raise Unsupported(f"precision=int8-static cannot trace this model: {line}") from error
    for inputs in act.inputs:
        observed(*inputs)
    return convert(observed)


def _torchao(act: Act) -> dict[str, int]:
    """torchao's int8 weights with activations quantised in each call, in place."""
    if importlib.util.find_spec("torchao") is None:
        raise Unsupported("torchao is not installed in this environment: pip install torchao")
    quantize = _find("torchao.quantization", "quantize_")
    way = _find("torchao.quantization", "Int8DynamicActivationInt8WeightConfig")
    linear = [one for one in act.model.modules() if isinstance(one, torch.nn.Linear)]
    before = [id(one.weight) for one in linear]
    quantize(act.model, way())
    changed = sum(1 for one, old in zip(linear, before, strict=True) if id(one.weight) != old)
    return {"Linear": changed} if changed else {}


def _require_cpu(act: Act) -> None:
    if act.device != "cpu":
        raise Unsupported(
            f"precision={act.key.axis('precision')} computes on the CPU only, not on {act.device}"
        )


def _find(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        package = module.split(".")[0]
        version = getattr(importlib.import_module(package), "__version__", "?")
        gone = f"{module}.{name} was removed in this version"
        raise Unsupported(f"{gone} of {'PyTorch' if package == 'torch' else package} ({version})") from None


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
