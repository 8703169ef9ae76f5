"""The name of a case: one workload under one technique, and the axes that a technique is spelled by."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache

#: More of anything than this many digits is a slip of the keyboard.
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis. `values` are its words; with `counts` any whole number above 0 is a value as well.

    The default is never spelled in a key, so that an axis added later changes no key that exists.
    """

    name: str
    default: str
    values: tuple[str, ...]
    meaning: str
    counts: bool = False

    def admits(self, value: str) -> bool:
        """Whether `value` is one of this axis."""
        return value in self.values or (self.counts and self._counts(value))

    @staticmethod
    def _counts(value: str) -> bool:
        return len(value) <= _DIGITS and value.isdecimal() and value == str(int(value)) != "0"

    @property
    def valid_values(self) -> str:
        """What the axis accepts, for a complaint."""
        words = f"one of {', '.join(self.values)}" if self.values else ""
        number = "a whole number above 0" if self.counts else ""
        return " or ".join(part for part in (words, number) if part)


_ALL = (
    Axis(
        "compile",
        "none",
        (
            *("none", "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
            *("aot_eager", "cudagraphs", "openxla", "tensorrt", "onnxrt"),
        ),
        "torch.compile: a mode of Inductor, or another backend by its name",
    ),
    Axis(
        "dynamic",
        "auto",
        ("auto", "off", "on", "mark"),
        "shapes under torch.compile: dynamic=None, False, True, or mark_dynamic on the dimensions that vary",
    ),
    Axis("wrapper", "python", ("python", "cpp"), "what calls Inductor's kernels: Python, or generated C++"),
    Axis("freezing", "off", ("off", "on"), "Inductor's freezing: weights are constants of the compiled code"),
    Axis(
        "region",
        "model",
        ("model", "blocks"),
        "what torch.compile compiles: the model, or each of its repeated blocks (regional compilation)",
    ),
    Axis(
        "attention",
        "auto",
        ("auto", "flash", "efficient", "cudnn", "math"),
        "the one kernel that scaled_dot_product_attention may take; auto leaves PyTorch its choice",
    ),
    Axis(
        "cudnn",
        "heuristic",
        ("heuristic", "benchmark"),
        "how cuDNN chooses its algorithms: by rule, or by trying them (cudnn.benchmark)",
    ),
    Axis("onednn", "on", ("on", "off"), "whether operators on a CPU may take oneDNN's kernels"),
    Axis(
        "export",
        "none",
        ("none", "jit-trace", "jit-freeze", "jit-script", "export", "aot-inductor", "onnxruntime"),
        "the model taken out of eager Python: TorchScript, torch.export, AOTInductor's package, ONNX Runtime",
    ),
    Axis(
        "precision",
        "fp32",
        (
            *("fp32", "tf32", "amp-fp16", "amp-bf16", "bf16", "fp16"),
            *("int8-dynamic", "int8-static", "int8-pt2e", "int8-torchao", "int8-qat"),
            *("fp8-torchao", "int4-torchao"),
        ),
        "number format: autocast (amp-), the whole model in it, quantised (fp8 and int4 with bf16), or "
        "trained for it (int8-qat)",
    ),
    Axis(
        "graph",
        "none",
        ("none", "capture", "callables"),
        "CUDA graphs by hand: captured with a private pool and replayed, or make_graphed_callables",
    ),
    Axis("layout", "contiguous", ("contiguous", "channels-last"), "memory format of images and weights"),
    Axis("checkpoint", "off", ("off", "on"), "activation checkpointing of the model's repeated blocks"),
    Axis("memory", "all", ("all", "0.8", "half", "quarter"), "set_per_process_memory_fraction of the device"),
    Axis("optimizer", "fused", ("fused", "foreach", "loop"), "which implementation of AdamW takes the step"),
    Axis(
        "cpus",
        "preset",
        ("preset", "1", "node", "physical", "all"),
        "CPUs of the process: as the preset says, one core, one NUMA node, one thread a core, or every CPU",
    ),
    Axis("threads", "preset", ("preset",), "OMP_NUM_THREADS, before torch is imported", counts=True),
    Axis(
        "omp",
        "preset",
        ("preset", "passive", "spin", "close", "spread"),
        "OpenMP: waiting threads sleep at once or spin, or OMP_PROC_BIND with OMP_PLACES=cores",
    ),
    Axis(
        "allocator",
        "preset",
        ("preset", "as-it-comes", "quiet", "hugetlb", "tcmalloc", "jemalloc"),
        "malloc: glibc untouched, with the quiet thresholds or huge pages, or another library by LD_PRELOAD",
    ),
    Axis(
        "device_allocator",
        "default",
        ("default", "expandable", "async"),
        "PYTORCH_CUDA_ALLOC_CONF: expandable_segments:True, or backend:cudaMallocAsync",
    ),
    Axis(
        "instances",
        "1",
        (),
        "independent processes at once, each pinned to its share of the CPUs",
        counts=True,
    ),
    Axis(
        "parallel",
        "none",
        ("none", "ddp", "fsdp2", "zero1", "tp", "pp"),
        "one training or inference over several ranks",
    ),
    Axis("ranks", "1", (), "world size: processes of one case, on a CPU with a core each", counts=True),
    Axis(
        "nodes",
        "1",
        (),
        "nodes that the ranks are spread over, as many on each; a fleet's engine provides them",
        counts=True,
    ),
    Axis(
        "scaling",
        "weak",
        ("weak", "strong"),
        "each rank brings a batch of its own (tp and pp join them), or all share one batch",
    ),
    Axis("launcher", "spawn", ("spawn", "torchrun"), "who starts the ranks"),
    Axis(
        "sharding",
        "full",
        ("full", "gradients", "hybrid"),
        "what FSDP2 divides: all; gradients and optimizer state, as ZeRO-2; or all within pairs of ranks",
    ),
    Axis("hook", "none", ("none", "fp16", "bf16", "powersgd"), "DDP's communication hook"),
    Axis("bucket", "25", (), "DDP's bucket_cap_mb, in MiB", counts=True),
    Axis("ddp", "plain", ("plain", "bucket-view", "static-graph"), "options of DistributedDataParallel"),
)

AXES: Mapping[str, Axis] = {axis.name: axis for axis in _ALL}


PHASES = ("infer", "train")

Value = bool | int | float | str

#: What separates the parts of a key, and can therefore be in none of them.
_SEPARATORS = frozenset("/,=")


class CaseKeyError(ValueError):
    """A text that names no case."""


@dataclass(frozen=True, slots=True, order=True)
class CaseKey:
    """`name/phase/parameters/technique`, for example `resnet50/infer/batch=8,image=224/compile=default`.

    Parameters are sorted by name; the technique lists only what differs from the default and is
    `eager` when nothing does. The text form is the identity: `CaseKey.parse(str(key)) == key`.
    """

    name: str
    phase: str
    parameters: tuple[tuple[str, Value], ...] = ()
    technique: tuple[tuple[str, str], ...] = field(default=())

    @staticmethod
    def of(name: str, phase: str, parameters: Mapping[str, Value], technique: Mapping[str, str]) -> "CaseKey":
        """A key from loose parts; raises CaseKeyError for an unknown phase, axis or value.

        A parameter's value must come back from the key as what it was: a text that reads as a number, for
        example, or one with a slash in it, would name another case than the one it was made from.
        """
        for part in (name, *parameters):
            if not _plain(part):
                raise CaseKeyError(f"{part!r} is no name: spaces, '/', ',' and '=' cannot be in it")
        for parameter, value in parameters.items():
            if not _comes_back(value):
                raise CaseKeyError(
                    f"{parameter}={value!r} cannot be part of a case key: a value is a number, True, False, "
                    "or a text that reads as none of them and has no space, '/', ',' or '=' in it"
                )
        if phase not in PHASES:
            raise CaseKeyError(f"unknown phase {phase!r}: one of {', '.join(PHASES)}")
        for axis, value in technique.items():
            if axis not in AXES:
                raise CaseKeyError(
                    f"unknown technique {axis!r}: {_suggestion(axis, AXES)}one of {', '.join(AXES)}"
                )
            if not AXES[axis].admits(value):
                meant = _suggestion(value, AXES[axis].values)
                raise CaseKeyError(f"unknown {axis} {value!r}: {meant}{AXES[axis].valid_values}")
        changed = {axis: value for axis, value in technique.items() if value != AXES[axis].default}
        return CaseKey(name, phase, tuple(sorted(parameters.items())), tuple(sorted(changed.items())))

    @staticmethod
    @lru_cache(maxsize=4096)
    def parse(text: str) -> "CaseKey":
        """The key spelled by `text`; raises CaseKeyError with a sentence that says what is wrong."""
        parts = text.split("/")
        if len(parts) != 4:
            raise CaseKeyError(f"{text!r} is not a case key: expected name/phase/parameters/technique")
        name, phase, parameters, technique = parts
        axes: dict[str, str] = {} if technique == "eager" else _pairs(technique)
        values = {} if parameters == "-" else {k: _value(v) for k, v in _pairs(parameters).items()}
        return CaseKey.of(name, phase, values, axes)

    def __str__(self) -> str:
        parameters = ",".join(f"{k}={v}" for k, v in self.parameters) or "-"
        technique = ",".join(f"{k}={v}" for k, v in self.technique) or "eager"
        return f"{self.name}/{self.phase}/{parameters}/{technique}"

    @property
    def workload(self) -> str:
        """The key without its technique: what cases of one session share."""
        return str(self).rsplit("/", 1)[0]

    def axis(self, name: str) -> str:
        """The value of one technique axis, default included."""
        return dict(self.technique).get(name, AXES[name].default)

    def count(self, name: str) -> int:
        """The value of a counting axis, such as `ranks`."""
        return int(self.axis(name))

    def with_technique(self, **technique: str) -> "CaseKey":
        """The same workload with some axes of its technique changed."""
        return CaseKey.of(self.name, self.phase, dict(self.parameters), {**dict(self.technique), **technique})

    @property
    def eager(self) -> "CaseKey":
        """The same workload under no technique at all: eager, fp32, as the preset has it."""
        return CaseKey.of(self.name, self.phase, dict(self.parameters), {})


def _suggestion(word: str, valid: Iterable[str]) -> str:
    """`did you mean 'default'? ` where one of the words is like it, for the beginning of a list of all."""
    near = get_close_matches(word, list(valid), n=1)
    return f"did you mean {near[0]!r}? " if near else ""


def _pairs(text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not (name and equals and value):
            raise CaseKeyError(f"{part!r} is not name=value")
        if name in pairs:
            raise CaseKeyError(f"{name} is given twice")
        pairs[name] = value
    return pairs


def _plain(text: str) -> bool:
    return bool(text) and text.isprintable() and not _SEPARATORS & set(text) and not re.search(r"\s", text)


def _comes_back(value: Value) -> bool:
    text = str(value)
    again = _value(text)
    return _plain(text) and type(again) is type(value) and again == value


def _value(text: str) -> Value:
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
