"""Gains of techniques: ratios of replicates that were measured together, pair by pair."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import exp, isfinite

from records.outcomes import Outcome, OutcomeStatus
from records.references import Baseline

from .comparison.pairs import NEVER_COMPARED, left_its_cpus, log_ratio, partners
from .comparison.rounds import core_share
from .replicates import summarise


class NoGain(StrEnum):
    """The reason why there is no ratio; `reports.text.verdict_text` has the sentences."""

    NO_BASELINE = "no baseline"
    NOT_ONE_SESSION = "not one session"
    NO_PAIR = "no pair"
    METRIC_UNKNOWN = "metric unknown"
    NOT_MEASURED = "not measured"
    ENDED = "ended"
    LEFT_CPUS = "left its CPUs"


#: Reasons of cases that were measured without their baseline.
ALONE = (NoGain.NO_BASELINE, NoGain.NOT_ONE_SESSION)


@dataclass(frozen=True, slots=True)
class GainRefusal:
    """The reason why there is no ratio, or no number for a claim; `metric` is the unknown or unmeasured one.

    For ENDED and LEFT_CPUS, `count` of the `replicates` of the baseline or of the case ended with a `status`
    that is never compared, or left their assigned CPUs.
    """

    cause: NoGain
    metric: str = ""
    status: OutcomeStatus | None = None
    count: int = 0
    replicates: int = 0
    of_baseline: bool = False


@dataclass(frozen=True, slots=True)
class Gain:
    """One ratio of `case` to `against`: the median over `n` pairs; None with a `reason` if there is none.

    `kind` is one of
    - `speed-up`: time per item of `against` / that of `case`; above 1 is faster,
    - `efficiency`: the same divided by the number of ranks; 1 is perfect scaling,
    - `one process`: the speed-up of several processes at once over a single one with all the CPUs,
    - `memory`, `size`: that of `case` / that of `against`; below 1 is less.

    `metric` is the metric of the ratio. `low`..`high`: 95 % interval, None under two pairs. `left_out` is the
    number of replicates of either side without a partner, `disturbed` the number of the `n` pairs in which
    either side had less than its core: their ratio is not reliable.
    """

    kind: str
    case: str
    environment: str
    against: str
    metric: str
    ratio: float | None
    low: float | None
    high: float | None
    n: int
    left_out: int
    reason: GainRefusal | None = None
    disturbed: int = 0


def gains(
    outcomes: Iterable[Outcome], baselines: Callable[[str], Sequence[Baseline]]
) -> dict[tuple[str, str], tuple[Gain, ...]]:
    """The gains of every case of one run that has a baseline, by case and environment.

    `baselines` returns the baselines of a case. A ratio of memory or size is left out if either side did not
    measure it; any other gain is included, with its reason.
    """
    replicates: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        replicates[outcome.case, outcome.environment].append(outcome)
    found: dict[tuple[str, str], tuple[Gain, ...]] = {}
    for (case, environment), own in replicates.items():
        each: list[Gain] = []
        for against in baselines(case):
            measured = [key for key in against.cases if (key, environment) in replicates]
            base = measured[0] if measured else against.cases[0]
            gain = compare(against, own, replicates.get((base, environment), ()), base)
            if gain.ratio is not None or gain.kind not in ("memory", "size"):
                each.append(gain)
        if each:
            found[case, environment] = tuple(each)
    return found


def compare(against: Baseline, case: Sequence[Outcome], base: Sequence[Outcome], key: str) -> Gain:
    """The gain of the replicates `case` (at least one) over those of `base` with the key `key`.

    Replicates are paired by number, if both ended `ok` and were alive together, as contenders of one session
    are: a replicate that a resumed run measured later is not a partner. The interval is Student's for the
    mean of the paired differences of logarithms (Student, The probable error of a mean, 1908); see
    `replicates.summarise`. For `efficiency`, weak t1/tN and strong t1/(N tN) are both the speed-up per item
    divided by N ranks, because an item counts once on any rank: in weak scaling a step has N times the items.
    """
    metric = _metric(against, case, base)
    pairs = partners(case, base)
    numbers = {one.replicate for one in (*case, *base)}
    ratios: list[float] = []
    spoilt = 0
    for one, other in pairs:
        if (ratio := _ratio(one, other, metric)) is not None:
            ratios.append(ratio / (against.ranks if against.kind == "efficiency" else 1))
            spoilt += any(core_share(each) is not None for each in (one, other))
    reason = gain_refusal(case, base) or (None if ratios else _no_pair(case, base, pairs, metric))
    about = (against.kind, case[0].case, case[0].environment, key, metric)
    if reason:
        return Gain(*about, None, None, None, 0, len(numbers), reason)
    summary = summarise(ratios)
    left_out = len(numbers) - summary.n
    return Gain(*about, summary.point, summary.low, summary.high, summary.n, left_out, disturbed=spoilt)


def _metric(against: Baseline, case: Sequence[Outcome], base: Sequence[Outcome]) -> str:
    if against.kind == "size":
        return "model_size"
    if against.kind == "memory":
        on_device = any("cuda_peak_allocated" in one.metrics for one in (*case, *base))
        return "cuda_peak_allocated" if on_device else "rss_peak_steady"
    return against.estimator


def _ratio(one: Outcome, other: Outcome, metric: str) -> float | None:
    """The ratio of two processes in items per time, or in memory; None if either is unknown."""
    mine, its = _value(one, metric), _value(other, metric)
    if mine is None or its is None:
        return None
    # For two processes that took turns the ratio is known round by round: see `rounds.change`.
    change = log_ratio(metric, other, one)
    if change is None:
        return mine / its
    return _number(one.facts["items"]) / _number(other.facts["items"]) * exp(-change)


def _value(one: Outcome, metric: str) -> float | None:
    """The value for the ratio: items per time, or memory; None if unknown."""
    value = _number(one.metrics.get(metric))
    if metric == "latency_floor":
        value = _number(one.facts.get("items")) / value if value else 0.0
    return value if value > 0 else None


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and isfinite(value) else 0.0


def gain_refusal(case: Sequence[Outcome], base: Sequence[Outcome]) -> GainRefusal | None:
    """The reason why no pair of a case and its baseline may be compared, regardless of their numbers; None
    without one.
    """
    for replicates, of_baseline in ((case, False), (base, True)):
        of = len(replicates)
        for status in map(OutcomeStatus, NEVER_COMPARED):
            if many := sum(one.status == status for one in replicates):
                return GainRefusal(NoGain.ENDED, "", status, many, of, of_baseline)
        if many := sum(left_its_cpus(one.facts) for one in replicates):
            return GainRefusal(NoGain.LEFT_CPUS, "", None, many, of, of_baseline)
    return None


def _no_pair(
    case: Sequence[Outcome], base: Sequence[Outcome], pairs: Sequence[object], metric: str
) -> GainRefusal:
    if not base:
        return GainRefusal(NoGain.NO_BASELINE)
    if pairs:
        return GainRefusal(NoGain.METRIC_UNKNOWN, metric)
    well = [{one.replicate for one in side if one.status == OutcomeStatus.OK} for side in (case, base)]
    if well[0] & well[1]:
        return GainRefusal(NoGain.NOT_ONE_SESSION)
    return GainRefusal(NoGain.NO_PAIR)
