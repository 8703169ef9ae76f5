"""Why a technique has no ratio, and a claim no number, in words."""

from collections.abc import Mapping

from analysis.metrics import METRICS
from analysis.speedups import GainRefusal, NoGain

_CAUSES: Mapping[NoGain, str] = {
    NoGain.NO_BASELINE: "the baseline was not measured",
    NoGain.NOT_ONE_SESSION: "not comparable: the two were not measured in one session",
    NoGain.NO_PAIR: "no replicate of both ended well",
}


def refusal(found: GainRefusal | None) -> str:
    """Why there is no ratio; empty for None."""
    if found is None:
        return ""
    if found.cause == NoGain.METRIC_UNKNOWN:
        return f"not comparable: {METRICS[found.metric].title} is not known on both sides"
    if found.cause == NoGain.NOT_MEASURED:
        title = METRICS[found.metric].title if found.metric in METRICS else "it"
        return f"{title} is not measured here"
    if found.cause in (NoGain.ENDED, NoGain.LEFT_CPUS):
        whose = " of the baseline" if found.of_baseline else ""
        what = "left the CPUs they were given" if found.status is None else f"ended {found.status}"
        return f"{found.count} of {found.replicates} replicates{whose} {what}"
    return _CAUSES[found.cause]
