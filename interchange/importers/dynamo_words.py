"""What PyTorch's dynamo benchmarks mean by their columns and by their words for what went wrong."""

import re
from dataclasses import dataclass

from analysis.metrics import Better


@dataclass(frozen=True, slots=True)
class DynamoColumn:
    """One column. Where it is `positive`, nought is what a model that failed leaves, and no measurement."""

    unit: str
    better: Better
    title: str
    positive: bool = False


#: The unit of what no source tells the unit of.
AS_GIVEN = "as given"

#: The columns of a performance table. Latency is the median over pairs of eager and compiled.
COLUMNS: dict[str, DynamoColumn] = {
    "speedup": DynamoColumn("x", "higher", "Speed-up over eager: median eager / median compiled", True),
    "abs_latency": DynamoColumn(
        "ms", "lower", "Latency compiled, for all calls of one timed iteration", True
    ),
    "compilation_latency": DynamoColumn(
        "s", "lower", "Compilation: five compiled warm-up calls less five eager ones", True
    ),
    "compression_ratio": DynamoColumn("x", "higher", "Peak memory eager / compiled, with compilation", True),
    "eager_peak_mem": DynamoColumn("GB", "lower", "Peak memory eager (1 GB = 1e9 bytes)", True),
    "dynamo_peak_mem": DynamoColumn(
        "GB", "lower", "Peak memory compiled, with compilation (1 GB = 1e9 bytes)", True
    ),
    "speedup_vs_baseline": DynamoColumn("x", "higher", "Speed-up over the baseline", True),
    "baseline": DynamoColumn("x", "higher", "Speed-up over eager in the baseline's table", True),
    "cache_lookup_latency": DynamoColumn(AS_GIVEN, "lower", "Cache look-up"),
    "calls_captured": DynamoColumn("count", "neither", "Calls captured"),
    "unique_graphs": DynamoColumn("count", "neither", "Unique graphs"),
    "fallbacks_to_eager": DynamoColumn("count", "lower", "Fallbacks to eager"),
    "graph_breaks": DynamoColumn("count", "lower", "Graph breaks over the whole benchmark"),
    "unique_graph_breaks": DynamoColumn("count", "lower", "Graph breaks, each reason once"),
    "autograd_captures": DynamoColumn("count", "neither", "Autograd captures"),
    "autograd_compiles": DynamoColumn("count", "neither", "Autograd compiles"),
    "cudagraph_skips": DynamoColumn("count", "lower", "CUDA graphs skipped over the whole benchmark"),
}

#: Words for how the check of the answers ended.
_STATUSES = {
    "pass": "ok",
    "pass_due_to_skip": "skipped",
    "skip_by_dryrun": "skipped",
    "fail_accuracy": "wrong",
    # Without an eager answer that repeats there is nothing to check against.
    "eager_two_runs_differ": "unsupported",
    "eager_variation": "unsupported",
    "not_implemented": "unsupported",
    "infra_error": "lost",
}
_SIGNS = (
    (re.compile(r"(?<![a-z])oom(?![a-z])|out ?of ?memory"), "oom"),
    (re.compile(r"time-?out|timed out"), "timeout"),
    (re.compile(r"not ?implemented|unsupported|not supported"), "unsupported"),
    (re.compile(r"fail|err(?![a-z])|error|exception|crash|killed"), "crashed"),
)


def status_of(text: str) -> str | None:
    """The status of an outcome for a word or an error text; None for what is neither."""
    word = text.strip().lower()
    if word in _STATUSES:
        return _STATUSES[word]
    return next((status for sign, status in _SIGNS if sign.search(word)), None)
