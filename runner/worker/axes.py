"""The axes of a technique: what can be done to a workload, and how a case key spells it."""

from collections.abc import Mapping
from dataclasses import dataclass

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
    def expected(self) -> str:
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
    Axis(
        "export",
        "none",
        ("none", "jit-trace", "jit-script", "export", "aot-inductor", "onnxruntime"),
        "the model taken out of eager Python: TorchScript, torch.export, AOTInductor's package, ONNX Runtime",
    ),
    Axis(
        "precision",
        "fp32",
        (
            *("fp32", "tf32", "amp-fp16", "amp-bf16", "bf16", "fp16"),
            *("int8-dynamic", "int8-static", "int8-torchao"),
        ),
        "number format: autocast (amp-), the whole model in it, or quantised",
    ),
    Axis(
        "graph",
        "none",
        ("none", "capture", "callables"),
        "CUDA graphs by hand: captured with a private pool and replayed, or make_graphed_callables",
    ),
    Axis("layout", "contiguous", ("contiguous", "channels-last"), "memory format of images and weights"),
    Axis("checkpoint", "off", ("off", "on"), "activation checkpointing of the model's repeated blocks"),
    Axis("memory", "all", ("all", "half", "quarter"), "set_per_process_memory_fraction of the device"),
    Axis("optimizer", "fused", ("fused", "foreach", "loop"), "which implementation of AdamW takes the step"),
    Axis(
        "cpus",
        "profile",
        ("profile", "1", "node", "physical", "all"),
        "CPUs of the process: as the preset says, one core, one NUMA node, one thread a core, or every CPU",
    ),
    Axis("threads", "profile", ("profile",), "OMP_NUM_THREADS, before torch is imported", counts=True),
    Axis(
        "omp",
        "profile",
        ("profile", "passive", "spin", "close", "spread"),
        "OpenMP: waiting threads sleep at once or spin, or OMP_PROC_BIND with OMP_PLACES=cores",
    ),
    Axis(
        "allocator",
        "profile",
        ("profile", "as-it-comes", "quiet", "hugetlb", "tcmalloc", "jemalloc"),
        "malloc: glibc untouched, with the quiet thresholds or huge pages, or another library by LD_PRELOAD",
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
    Axis("hook", "none", ("none", "fp16", "bf16", "powersgd"), "DDP's communication hook"),
    Axis("bucket", "25", (), "DDP's bucket_cap_mb, in MiB", counts=True),
    Axis("ddp", "plain", ("plain", "bucket-view", "static-graph"), "options of DistributedDataParallel"),
)

AXES: Mapping[str, Axis] = {axis.name: axis for axis in _ALL}
