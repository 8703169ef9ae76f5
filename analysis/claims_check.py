"""Checks published claims about a case against the measurements of this machine."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from records.outcomes import Outcome, OutcomeStatus
from records.references import Claim

from .comparison.pairs import partners
from .metrics import METRICS
from .replicates import summarise
from .speedups import Gain, GainRefusal, NoGain, gain_refusal

#: The kind of gain for a ratio of a metric; other metrics have none.
_GAIN_OF = {
    "latency": "speed-up",
    "latency_floor": "speed-up",
    "throughput": "speed-up",
    "rss_peak_steady": "memory",
    "cuda_peak_allocated": "memory",
    "model_size": "size",
}
#: Gains that are shares of the baseline, where less is better; claims state the inverse.
_SHARES = ("memory", "size")


@dataclass(frozen=True, slots=True)
class ClaimMeasurement:
    """The number of a claim as measured here, over `n` replicates or pairs; None with a reason if there is
    none.
    """

    point: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    reason: GainRefusal | None = None


def finding(
    kind: str,
    metric: str,
    own: Sequence[Gain],
    replicates: Sequence[Outcome],
    base: Sequence[Outcome] = (),
) -> ClaimMeasurement:
    """The result of one case and its baseline, by gains and replicates, for a claim on `metric`.

    `kind` is the claim's: `ratio` (baseline / case; the other way round where a low metric is not the better
    one), `saved` (1 - case / baseline), `efficiency` (of scaling), or `value` (the metric itself, in the
    catalogue's unit).
    """
    if kind == "value":
        # A case that ran something else, or gave a wrong answer, has no valid numbers.
        reason = gain_refusal(replicates, ())
        return ClaimMeasurement(None, reason=reason) if reason else _value(metric, replicates)
    if kind == "ratio" and metric not in _GAIN_OF:
        reason = gain_refusal(replicates, base)
        return ClaimMeasurement(None, reason=reason) if reason else _ratio(metric, replicates, base)
    gain_kind = "efficiency" if kind == "efficiency" else _GAIN_OF.get(metric, "")
    found = [gain for gain in own if gain.kind == gain_kind]
    if not found:
        return _not_measured(metric)
    gain = found[0]
    if gain.ratio is None:
        return ClaimMeasurement(None, reason=gain.reason)
    if gain_kind in _SHARES and gain.metric != metric:
        # Resident memory is not comparable with the memory of a device's allocator.
        return _not_measured(metric)
    return _as_claimed(kind, gain, gain.ratio)


def findings(
    replicates: Iterable[Outcome],
    gains: Mapping[tuple[str, str], Sequence[Gain]],
    claims_for: Callable[[str], Sequence[Claim]],
) -> dict[Claim, list[tuple[str, str, ClaimMeasurement]]]:
    """Each claim about a case among the `replicates`, with case, environment and result for each match.

    `gains` are by case and environment; `claims_for` returns the claims about a case.
    """
    groups: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for replicate in replicates:
        groups[replicate.case, replicate.environment].append(replicate)
    found: dict[Claim, list[tuple[str, str, ClaimMeasurement]]] = defaultdict(list)
    for (case, environment), own in groups.items():
        for claim in claims_for(case):
            found_gains = gains.get((case, environment), ())
            base = next((gain.against for gain in found_gains if gain.kind == "speed-up"), "")
            of_base = groups.get((base, environment), ())
            measured = finding(claim.kind, claim.metric, found_gains, own, of_base)
            found[claim].append((case, environment, measured))
    return found


def _not_measured(metric: str) -> ClaimMeasurement:
    return ClaimMeasurement(None, reason=GainRefusal(NoGain.NOT_MEASURED, metric))


def _value(metric: str, replicates: Sequence[Outcome]) -> ClaimMeasurement:
    values = [
        one.metrics[metric] for one in replicates if one.status == OutcomeStatus.OK and metric in one.metrics
    ]
    values = [value for value in values if isfinite(value)]
    if not values:
        return _not_measured(metric)
    summary = summarise(values)
    return ClaimMeasurement(summary.point, summary.low, summary.high, summary.n)


def _ratio(metric: str, replicates: Sequence[Outcome], base: Sequence[Outcome]) -> ClaimMeasurement:
    """The ratio of a metric without a gain, over pairs of replicates of one session."""
    pairs = [
        (one.metrics[metric], other.metrics[metric])
        for one, other in partners(replicates, base)
        if metric in one.metrics and metric in other.metrics
    ]
    if pairs and METRICS[metric].better == "lower":
        pairs = [(other, one) for one, other in pairs]
    ratios = [one / other for one, other in pairs if one > 0 and other > 0]
    if not ratios:
        return _not_measured(metric)
    summary = summarise(ratios)
    return ClaimMeasurement(summary.point, summary.low, summary.high, summary.n)


def _as_claimed(kind: str, gain: Gain, ratio: float) -> ClaimMeasurement:
    upside_down = kind == "ratio" and gain.kind in _SHARES

    def convert_value(value: float) -> float:
        if kind == "saved":
            # For a share it is 1 - share; for a speed-up it is the saved share of the time.
            return 1 - (value if gain.kind in _SHARES else 1 / value)
        return 1 / value if upside_down else value

    if gain.low is None or gain.high is None:
        return ClaimMeasurement(convert_value(ratio), n=gain.n)
    low, high = sorted((convert_value(gain.low), convert_value(gain.high)))
    return ClaimMeasurement(convert_value(ratio), low, high, gain.n)
