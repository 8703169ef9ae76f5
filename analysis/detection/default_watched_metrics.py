"""Which metrics are judged every night, and from what on a change of one is worth a comparison."""

from collections.abc import Mapping

from ..comparison.thresholds import threshold_of
from .nights import Rules

#: Few, for each is a chance to be wrong every night: what a step costs, what compiling costs, what runs out,
#: and what is waited for once in a process. Others follow from these (throughput from the latency), or are
#: counts, of which a verdict takes care.
WATCHED = (
    "latency_floor",
    "compile_cold",
    "compile_warm",
    "cuda_peak_allocated",
    "rss_peak",
    "first_call",
    "cold_start",
    "new_shape",
)

#: The metric that pages open with. Changes are found and confirmed on watched metrics only: on another one a
#: confirmed regression would look like a change that was never confirmed.
HEADLINE = WATCHED[0]
#: What follows from a watched metric, which nights therefore do not judge by itself.
_FOLLOWS: Mapping[str, str] = {
    **dict.fromkeys(
        ("latency", "latency_p90", "latency_p99", "latency_min", "throughput", "throughput_per_core"),
        "latency_floor",
    ),
    **dict.fromkeys(("model_tflops", "peak_share"), "latency_floor"),
    **dict.fromkeys(("latency_burst", "request_latency", "sustained_throughput"), "latency_floor"),
    "cuda_peak_reserved": "cuda_peak_allocated",
    "rss_peak_steady": "rss_peak",
}

#: Of what varies, a change at the threshold itself is rarely confirmed: 30 of 100 at it, 95 at twice as much
#: (docs/decisions/0011-verdicts.md).
_TWICE = 2.0
#: What happens once in a process has a threshold of 10 %. Between three processes each of four eager cases
#: on a virtual machine of two cores, cold starts and new shapes differed by 1 to 6 %, first calls by 3 to 17
#: % (70 % where one takes 4 ms). With 12 pairs of processes that differ by 6 %, 15 % passes the threshold by
#: two standard errors.
_ONCE: Mapping[str, float] = {"first_call": 0.20, "cold_start": 0.15, "new_shape": 0.15}
#: A series is too noisy where it cannot show a step of this share within a week, or of twice its floor.
_COARSEST = 0.20
#: What is exact has no such doubt, but a logarithm needs some floor.
_LEAST = 0.001


def rules_of(metric: str) -> Rules:
    """The rules for a metric's series; raises ValueError where no metric is called so."""
    threshold = threshold_of(metric)
    twice = threshold.relative * (1.0 if threshold.exact else _TWICE)
    floor = max(_LEAST, threshold.relative, _ONCE.get(metric, twice))
    return Rules(floor=floor, coarsest=max(_COARSEST, 2 * floor))


def history_rules(metric: str) -> Rules:
    """The rules for the change points of a whole history, which no session has to confirm.

    They are drawn from the threshold itself on: 1 % of a latency. Raises ValueError as `rules_of`.
    """
    return Rules(floor=max(_LEAST, threshold_of(metric).relative))


def judged_by(metric: str) -> str:
    """The watched metric whose findings hold for `metric`: itself, or the one that it follows from.

    Empty for a metric that follows from none of the watched ones.
    """
    return metric if metric in WATCHED else _FOLLOWS.get(metric, "")
