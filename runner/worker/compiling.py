"""What torch.compile did: graphs, breaks with reasons, recompiles, cache hits.

The counters are private to PyTorch and move between versions, so every look is guarded: a counter that
is not there is absent from the answer, never zero.
"""

import os
from dataclasses import dataclass, field
from typing import Any

import torch

#: The folder of the precompiled headers, beside the cache folders of one environment.
HEADERS = "precompiled_headers"


@dataclass(frozen=True, slots=True)
class CompileReport:
    """Counters since the process began; None where this PyTorch does not tell.

    `frames_ok` of `frames_total` frames were compiled: fewer means that a part silently runs eager.
    """

    graphs: int | None = None
    graph_breaks: int | None = None
    break_reasons: list[str] = field(default_factory=list[str])
    recompiles: int | None = None
    frames_ok: int | None = None
    frames_total: int | None = None
    cache_hits: int | None = None
    cache_misses: int | None = None

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


def keep_headers_beside_the_cache() -> None:
    """Have Inductor keep its precompiled C++ headers beside the cache folder of this process.

    Its own place for them is shared by all processes of a user, so that a cold compile would be several
    seconds cheaper once any other has run. Beside, not inside: they take 150 MB, and the cases of one run
    can share them, for whoever compiles cold empties the place first.
    """
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    try:
        from torch._inductor import codecache
    except ImportError:
        return
    if folder and hasattr(codecache, "_HEADER_DIR"):
        codecache._HEADER_DIR = os.path.join(os.path.dirname(folder), HEADERS)


def report() -> CompileReport:
    """The state of Dynamo's and Inductor's counters in this process."""
    counters = _counters()
    if counters is None:
        return CompileReport()
    frames = counters.get("frames", {})
    stats = counters.get("stats", {})
    breaks = counters.get("graph_break", {})
    inductor = counters.get("inductor", {})
    return CompileReport(
        graphs=int(stats.get("unique_graphs", 0)),
        graph_breaks=sum(breaks.values()),
        break_reasons=[str(reason)[:500] for reason in breaks],
        recompiles=_recompiles(),
        frames_ok=int(frames["ok"]) if "ok" in frames else (0 if frames else None),
        frames_total=int(frames["total"]) if "total" in frames else None,
        cache_hits=int(inductor.get("fxgraph_cache_hit", 0)),
        cache_misses=int(inductor.get("fxgraph_cache_miss", 0)),
    )


def _counters() -> dict[str, Any] | None:
    try:
        from torch._dynamo.utils import counters
    except ImportError:
        return None
    return dict(counters)


def _recompiles() -> int | None:
    try:
        metrics = torch._dynamo.utils.get_compilation_metrics()
        return sum(1 for m in metrics if m.recompile_reason)
    except (AttributeError, TypeError):
        return None
