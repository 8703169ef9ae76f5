"""The metrics that are judged every night, and the change of each that is worth a comparison."""

from collections.abc import Mapping

from ..comparison.thresholds import threshold_of
from .nights import Rules

#: Few, because each adds false candidates every night: step time, compile time, memory, and start-up. Other
#: metrics follow from these (throughput from the latency), or are counts, which verdicts cover.
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

#: The default metric of pages. Changes are detected and confirmed only on watched metrics: on another one a
#: confirmed regression would look unconfirmed.
HEADLINE = WATCHED[0]
#: Metrics that follow from a watched one and are therefore not judged separately.
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

#: For noisy metrics a change of the size of the threshold is rarely confirmed: 30 of 100, and 95 at twice the
#: size (docs/decisions/0011-verdicts.md).
_TWICE = 2.0
#: Metrics of events that happen once per process have a threshold of 10 %. Between three processes each of
#: four eager cases on a virtual machine of two cores, cold starts and new shapes differed by 1 to 6 %, first
#: calls by 3 to 17 % (70 % where one takes 4 ms). With 12 pairs of processes that differ by 6 %, 15 % passes
#: the threshold by two standard errors.
_ONCE: Mapping[str, float] = {"first_call": 0.20, "cold_start": 0.15, "new_shape": 0.15}
#: A series is too noisy if it cannot show a step of this share within a week, or of twice its floor.
_COARSEST = 0.20
#: Exact metrics have no noise, but the logarithm needs a floor.
_LEAST = 0.001


def rules_of(metric: str) -> Rules:
    """The rules for the series of a metric; raises ValueError for an unknown metric."""
    threshold = threshold_of(metric)
    twice = threshold.relative * (1.0 if threshold.exact else _TWICE)
    floor = max(_LEAST, threshold.relative, _ONCE.get(metric, twice))
    return Rules(floor=floor, coarsest=max(_COARSEST, 2 * floor))


def history_rules(metric: str) -> Rules:
    """The rules for the change points of a whole history, which are not confirmed by sessions.

    They apply from the threshold on: 1 % of a latency. Raises ValueError as `rules_of`.
    """
    return Rules(floor=max(_LEAST, threshold_of(metric).relative))


def judged_by(metric: str) -> str:
    """The watched metric whose findings apply to `metric`: itself, or the one from which it follows.

    Empty if it follows from none.
    """
    return metric if metric in WATCHED else _FOLLOWS.get(metric, "")
