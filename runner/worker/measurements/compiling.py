"""torch.compile in numbers: graphs, breaks, recompiles, cache hits, and what a new shape costs.

The counters are private to PyTorch and move between versions, so every read is guarded: a counter that
does not exist is absent from the report, never zero.
"""

import contextlib
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from ..prepared_case import Shapes

#: The folder of the precompiled headers, next to the cache folders of one environment.
HEADERS = "precompiled_headers"

#: Compilations whose metrics Dynamo keeps.
_REMEMBERED = 4096

#: Errors of torch._dynamo and torch._inductor that pass on what a backend raised.
_FROM_BACKEND = ("BackendCompilerFailed", "InductorError")
#: Errors of Inductor for a missing compiler or device.
_NO_COMPILER = ("InvalidCxxCompiler", "TritonMissing", "GPUTooOldForTriton")
#: Texts by which oneDNN and ATen say that they have no kernel for a number format.
_NO_KERNEL = ("could not create a primitive descriptor", "not implemented for '")


@dataclass(frozen=True, slots=True)
class CompileReport:
    """Counters since the process began; None where this PyTorch has no such counter.

    `frames_ok` of `frames_total` frames were compiled: fewer means that a part silently runs eager, for the
    reasons in `fallbacks`. `cudagraph_skips` counts graphs of which no CUDA graph was recorded; it is None
    where none is asked for and none was left out. Inductor has fused `nodes_before_fusion` to
    `generated_kernels`.
    """

    graphs: int | None = None
    graph_breaks: int | None = None
    break_reasons: list[str] = field(default_factory=list[str])
    recompiles: int | None = None
    recompile_reasons: list[str] = field(default_factory=list[str])
    frames_ok: int | None = None
    frames_total: int | None = None
    fallbacks: list[str] = field(default_factory=list[str])
    cudagraph_skips: int | None = None
    cudagraph_skip_reasons: list[str] = field(default_factory=list[str])
    guards: int | None = None
    cache_hits: int | None = None
    cache_misses: int | None = None
    generated_kernels: int | None = None
    nodes_before_fusion: int | None = None

    @property
    def metrics(self) -> dict[str, float]:
        """The counts that are metrics, as far as this PyTorch has them."""
        counts = {
            "graph_breaks": self.graph_breaks,
            "recompiles": self.recompiles,
            "cudagraph_skips": self.cudagraph_skips,
            "generated_kernels": self.generated_kernels,
        }
        return {name: float(count) for name, count in counts.items() if count is not None}

    @property
    def ran_eager(self) -> str:
        """Why the case counts as not compiled, or an empty text."""
        if self.graphs == 0:
            return "Dynamo made no graph: the model ran eager"
        if (
            self.frames_total is not None
            and self.frames_ok is not None
            and self.frames_ok < self.frames_total
        ):
            fell = self.frames_total - self.frames_ok
            return f"{fell} of {self.frames_total} frames fell back to eager"
        return ""


def keep_headers_next_to_the_cache() -> None:
    """Have Inductor keep its precompiled C++ headers next to the cache folder of this process.

    Its own place for them is shared by all processes of a user, so that a cold compile would be several
    seconds cheaper once any other has run. Next to it, not inside: they take 150 MB, and the cases of one run
    can share them, because a cold compile empties the folder first.
    """
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    try:
        from torch._inductor import codecache
    except ImportError:
        return
    if folder and hasattr(codecache, "_HEADER_DIR"):
        codecache._HEADER_DIR = os.path.join(os.path.dirname(folder), HEADERS)
        codecache._HEADER_LOCK_DIR = os.path.join(codecache._HEADER_DIR, "locks")


def keep_all_compilations() -> None:
    """Raise the number of compilations whose metrics Dynamo keeps from 64."""
    with contextlib.suppress(ImportError, AttributeError):
        from torch._dynamo import utils

        utils.set_compilation_metrics_limit(_REMEMBERED)


def unavailable(error: BaseException) -> str:
    """Why the error means that a compiler or kernel is missing; empty for any other error."""
    text = str(error).strip().split("\n")[0]
    if isinstance(error, RuntimeError) and any(part in text for part in _NO_KERNEL):
        return text
    for cause in _passed_on(error):
        if type(cause).__name__ in _NO_COMPILER or (cause is not error and isinstance(cause, ImportError)):
            return str(cause).strip().split("\n")[0] or type(cause).__name__
    return ""


def compiler_error(error: BaseException) -> str:
    """The first error of a C++ compiler, reported by Inductor after its command; empty for another error."""
    for cause in _passed_on(error):
        output = getattr(cause, "output", None)
        if type(cause).__name__ == "CppCompileError" and isinstance(output, str):
            found = re.search(r"\b(?:fatal )?error: .*", output)
            return found[0].strip() if found else ""
    return ""


def _passed_on(error: BaseException) -> Iterator[BaseException]:
    """The error, and what a compiler's backend raised where it only passes that on.

    No other cause: an ImportError of the model's own code, for instance, is a crash.
    """
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        inner = getattr(cause, "inner_exception", None) or cause.__cause__
        cause = inner if type(cause).__name__ in _FROM_BACKEND else None


def report(records_graphs: bool = False) -> CompileReport:
    """The state of Dynamo's and Inductor's counters in this process.

    With `records_graphs` the case asks for CUDA graphs, and 0 of them were left out where nothing is counted.
    """
    counters = _counters()
    if counters is None:
        return CompileReport()
    frames = counters.get("frames", {})
    stats = counters.get("stats", {})
    breaks = counters.get("graph_break", {})
    inductor = counters.get("inductor", {})
    compilations = _compilations()
    skips = inductor.get("cudagraph_skips", 0 if records_graphs and _counts_skips() else None)
    return CompileReport(
        graphs=int(stats.get("unique_graphs", 0)),
        graph_breaks=sum(breaks.values()),
        break_reasons=[str(reason)[:500] for reason in breaks],
        recompiles=_recompiles(compilations),
        recompile_reasons=_texts(compilations or [], "recompile_reason"),
        frames_ok=int(frames["ok"]) if "ok" in frames else (0 if frames else None),
        frames_total=int(frames["total"]) if "total" in frames else None,
        fallbacks=_texts(compilations or [], "fail_reason"),
        cudagraph_skips=None if skips is None else int(skips),
        cudagraph_skip_reasons=_texts(compilations or [], "cudagraph_skip_reason"),
        guards=_guards(compilations),
        cache_hits=int(inductor.get("fxgraph_cache_hit", 0)),
        cache_misses=int(inductor.get("fxgraph_cache_miss", 0)),
        generated_kernels=_inductor_count("generated_kernel_count"),
        nodes_before_fusion=_inductor_count("ir_nodes_pre_fusion"),
    )


def _recompiles(compilations: list[Any] | None) -> int | None:
    """How often a frame was compiled again; None where Dynamo keeps no reasons, as before 2.7."""
    if compilations is None or not all(hasattr(one, "recompile_reason") for one in compilations):
        return None
    return len(_texts(compilations, "recompile_reason"))


def _inductor_count(name: str) -> int | None:
    """One of Inductor's own counters; None where nothing was counted, as under another backend."""
    try:
        from torch._inductor import metrics
    except ImportError:
        return None
    return getattr(metrics, name, None) or None


def _counts_skips() -> bool:
    """Whether this PyTorch counts graphs that it leaves out of CUDA graphs; an old one does not."""
    with contextlib.suppress(ImportError):
        from torch._inductor import cudagraph_utils

        return hasattr(cudagraph_utils, "log_cudagraph_skip_and_bump_counter")
    return False


def _counters() -> dict[str, Any] | None:
    try:
        from torch._dynamo.utils import counters
    except ImportError:
        return None
    return dict(counters)


def _compilations() -> list[Any] | None:
    """Dynamo's metrics of each compilation; None where it keeps none."""
    try:
        from torch._dynamo.utils import get_compilation_metrics

        return list(get_compilation_metrics())
    except (ImportError, AttributeError, TypeError):
        return None


def _guards(compilations: list[Any] | None) -> int | None:
    counts = [getattr(one, "guard_count", None) for one in compilations or ()]
    return sum(count for count in counts if count is not None) if any(counts) else None


def _texts(compilations: list[Any], field: str) -> list[str]:
    texts = [getattr(one, field, None) for one in compilations]
    return [str(text)[:500] for text in texts if text]


def calls_of_each_shape(shapes: Sequence[Shapes]) -> int:
    """How many steps it takes until every shape has come twice; 0 where all are alike."""
    return 2 * len(shapes) if len(set(shapes)) > 1 else 0


def shape_costs(shapes: Sequence[Shapes], calls_ns: Sequence[int]) -> Mapping[str, float]:
    """`new_shape` in s and `known_shape` in ms, from the first calls of a process, `shapes` taken in turn.

    Medians: of each shape's first call, without the very first, which costs more than a shape; and of each
    shape's second call. Empty where all are alike.
    """
    if len(set(shapes)) < 2:
        return {}
    calls: dict[Shapes, int] = {}
    new: list[int] = []
    known: list[int] = []
    for shape, taken in zip(itertools.cycle(shapes), calls_ns, strict=False):
        number = calls[shape] = calls.get(shape, 0) + 1
        if number == 1 and len(calls) > 1:
            new.append(taken)
        elif number == 2:
            known.append(taken)
    found: dict[str, float] = {}
    if new:
        found["new_shape"] = median(new) / 1e9
    if known:
        found["known_shape"] = median(known) / 1e6
    return found
