"""The four metrics of an upgrade with their states: pass rate, steady latency, compile time, peak memory."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from ..comparison.case_results import BROKEN, CaseResult
from ..comparison.policy import Limits, Policy
from ..comparison.thresholds import exceeds, reaches
from ..comparison.verdict import Verdict
from ..geomean import Geomean
from ..metrics import COMPILE_TIME, METRICS, PEAK_MEMORY
from .policy_rules import negligible, worsening_range
from .reasons import CaseBeyondLimit, Detail, Doubtful, Kind, MeanChange, Reason, Worse

#: The metric of steady latency if the policy judges by another kind of metric.
_LATENCY = "latency_floor"

#: `undecided`: there is no reason against it, and no case is proved better, worse or the same.
State = Literal["ok", "warning", "unclear", "no-go", "undecided", "not measured"]
#: The states in order of weight.
_STATES: tuple[State, ...] = ("no-go", "unclear", "warning", "ok")
#: By unit, the one of the four to which a metric belongs that only `worst` of a policy names.
_LATENCY_UNITS, _COMPILE_UNITS, _MEMORY_UNITS = ("ms", "items/s", "TFLOP/s"), ("s",), ("MiB",)
#: Kinds of reasons about the pass rate.
_PASS_RATE: tuple[Kind, ...] = ("broke", "shaky")


@dataclass(frozen=True, slots=True)
class MetricScore:
    """One metric over all working cases with a verdict on it.

    `worse` are the cases proved worse, largest change first; `better` is the number proved better, `open` the
    number proved neither worse nor better nor the same. `mean` is over the cases with an interval. For cases
    with too few pairs for an interval `hint` is the median log ratio, which proves nothing, `hinted` their
    number, and `hinted_pairs` the smallest and the largest number of their pairs.
    """

    metric: str
    verdicts: Mapping[str, Verdict]
    mean: Geomean
    worse: tuple[str, ...] = ()
    better: int = 0
    open: int = 0
    hint: float | None = None
    hinted: int = 0
    hinted_pairs: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Score:
    """The steady latency, the compile time or the peak memory: its state by the policy, and its metrics.

    Metrics against the upgrade come first, the one with the largest proved change before others.
    """

    state: State
    metrics: tuple[MetricScore, ...]


@dataclass(frozen=True, slots=True)
class PassRate:
    """The numbers of `cases` that worked in the old and in the new environment, and that broke.

    `unknown` cases have a status in either environment that does not describe the case.
    """

    state: State
    cases: int
    old: int
    new: int
    broken: int
    repaired: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Scorecard:
    """The four metrics of an upgrade."""

    pass_rate: PassRate
    latency: Score
    compile_time: Score
    peak_memory: Score


def latency_of(policy: Policy) -> str:
    """The metric of the steady latency: the deciding one if it is a latency."""
    return _LATENCY if policy.metric in (*COMPILE_TIME, *PEAK_MEMORY) else policy.metric


def metric_score(metric: str, verdicts: Mapping[str, Verdict], mean: Geomean) -> MetricScore:
    """The summary of the verdicts on a metric; `mean` is their geomean."""
    by_case = {case: verdict for case, verdict in verdicts.items() if verdict.n}
    worse = [case for case, verdict in by_case.items() if verdict.word == "slower"]
    hints = [one for one in by_case.values() if one.change is not None and one.too_few]
    return MetricScore(
        metric,
        by_case,
        mean,
        tuple(sorted(worse, key=lambda case: (-_point(by_case[case]), case))),
        sum(one.word == "faster" for one in by_case.values()),
        sum(one.word == "unclear" for one in by_case.values()),
        median(one.change for one in hints if one.change is not None) if hints else None,
        len(hints),
        (min(one.n for one in hints), max(one.n for one in hints)) if hints else (0, 0),
    )


def scorecard(
    results: Sequence[CaseResult], scores: Mapping[str, MetricScore], found: Sequence[Reason], policy: Policy
) -> Scorecard:
    """The four metrics, each with the state that the reasons give it."""
    ended = [(one.old.status, one.new.status) for one in results]
    unknown = [one.case for one in results if not {one.old.status, one.new.status} <= {"ok", *BROKEN}]
    own = [one for one in found if one.kind in _PASS_RATE]
    # Working cases without a number do not affect the pass rate.
    own += [one for one in found if one.kind == "unmeasured" and {*unknown} & {*one.cases}]
    return Scorecard(
        PassRate(
            _state(own) if len(unknown) < len(results) else "not measured",
            len(results),
            sum(old == "ok" for old, _ in ended),
            sum(new == "ok" for _, new in ended),
            sum(one.broke for one in results),
            sum(one.repaired for one in results),
            len(unknown),
        ),
        *(
            _score((*metrics, *_metrics_against(metrics, units, found, policy)), scores, found)
            for metrics, units in (
                ((latency_of(policy),), _LATENCY_UNITS),
                (COMPILE_TIME, _COMPILE_UNITS),
                (PEAK_MEMORY, _MEMORY_UNITS),
            )
        ),
    )


def _metrics_against(
    metrics: Sequence[str], units: Sequence[str], found: Sequence[Reason], policy: Policy
) -> list[str]:
    """Other metrics of these units that `worst` limits and that are reasons against the upgrade."""
    against = {one.metric for one in found if one.speaks != "go"}
    other = (metric for metric in policy.worst if metric not in metrics and METRICS[metric].unit in units)
    return [metric for metric in other if metric in against]


def _score(metrics: Iterable[str], scores: Mapping[str, MetricScore], found: Sequence[Reason]) -> Score:
    measured_scores = [scores[metric] for metric in metrics if metric in scores and scores[metric].verdicts]
    if not measured_scores:
        return Score("not measured", ())
    own = [one for one in found if one.kind not in _PASS_RATE]
    states = {
        one.metric: _state([each for each in own if each.metric == one.metric]) for one in measured_scores
    }

    def _key(one: MetricScore) -> tuple[int, bool, float]:
        largest = _point(one.verdicts[one.worse[0]]) if one.worse else 0.0
        against = min(_STATES.index(states[one.metric]), _STATES.index("warning"))
        return against, one.mean.change is None, -largest

    measured_scores.sort(key=_key)
    state = _state([one for one in own if one.metric in states])
    proved = any(verdict.word != "unclear" for one in measured_scores for verdict in one.verdicts.values())
    return Score("undecided" if state == "ok" and not proved else state, tuple(measured_scores))


def _state(found: Sequence[Reason]) -> State:
    speaking = {one.speaks for one in found}
    if "no-go" in speaking:
        return "no-go"
    if "unclear" in speaking:
        return "unclear"
    return "warning" if any(one.warning for one in found) else "ok"


def limit_reasons(scores: Mapping[str, MetricScore], policy: Policy) -> Iterable[Reason]:
    """The reasons of compile time and peak memory.

    A proved excess of a limit is a no-go if the policy says that the limit blocks, else a warning. A possible
    excess without proof is a warning, never unclear: a comparison has few pairs of compiling with an empty
    cache, and a verdict must not wait for more.
    """
    kinds: tuple[tuple[Kind, Limits, tuple[str, ...]], ...] = (
        ("compile", policy.compile_time, COMPILE_TIME),
        ("memory", policy.peak_memory, PEAK_MEMORY),
    )
    for kind, limits, metrics in kinds:
        for score in (scores[one] for one in metrics if one in scores):
            yield from _Judge(kind, score, limits, policy).reasons()


class _Judge:
    """One metric of a kind against its limits."""

    def __init__(self, kind: Kind, score: MetricScore, limits: Limits, policy: Policy) -> None:
        self._kind: Kind = kind
        self._score, self._limits, self._policy = score, limits, policy
        self._metric = score.metric
        self._cost = METRICS[score.metric].cost

    def reasons(self) -> Iterable[Reason]:
        beyond = self._beyond()
        if beyond:
            yield self._too_much(beyond)
        if self._metric == self._policy.metric:
            # The deciding metric has its own rules for the share and the mean, and no limit of a single case
            # here.
            return
        if self._score.worse:
            yield from self._worse([case for case in self._score.worse if case not in beyond])
        if doubtful := self._doubtful():
            yield self._doubt(doubtful)
        yield from self._mean()

    def _beyond(self) -> list[str]:
        """Cases proved to be beyond the limit of single cases, worst first."""
        if self._metric in self._policy.worst:
            # A limit of this metric in `worst` has separate reasons.
            return []
        limit = math.log1p(self._limits.worst)
        return [
            case
            for case in _worst_first(self._score.verdicts)
            if exceeds(self._least(case), limit)
            and self._score.verdicts[case].word in ("slower", "same")
            and not negligible(self._score.verdicts[case], self._least(case), self._policy)
        ]

    def _least(self, case: str) -> float:
        return worsening_range(self._score.verdicts[case])[0]

    def _point(self, case: str) -> float:
        return _point(self._score.verdicts[case])

    def _too_much(self, cases: Sequence[str]) -> Reason:
        verdict = self._score.verdicts[cases[0]]
        limit = math.log1p(self._limits.worst) * self._cost
        cause = "was 0" if verdict.change is None else "limit"
        detail = CaseBeyondLimit(cases[0], verdict, limit, cause, len(cases) - 1)
        return self._reason("worst", detail, cases, self._least(cases[0]))

    def _worse(self, cases: Sequence[str]) -> Iterable[Reason]:
        """The number of cases proved worse within `worst`, and whether too many are worse by `case` or
        more.
        """
        limit = math.log1p(self._limits.case)
        material = [case for case in self._score.worse if reaches(self._point(case), limit)]
        proved = self._share([case for case in self._score.worse if reaches(self._least(case), limit)])
        too_many = proved > self._policy.slower_share + 1e-9
        if not cases and not (too_many and "case" in self._limits.blocks):
            # Each of them is already named as beyond `worst`.
            return
        detail = Worse(
            self._metric,
            len(self._score.worse),
            len(self._score.verdicts),
            self._limits.case,
            len(material),
            self._policy.slower_share,
            largest=(cases[0], self._score.verdicts[cases[0]]) if cases else None,
            named=len(cases) < len(self._score.worse),
            too_many=proved if too_many else None,
        )
        weight = max((self._point(case) for case in cases or material), default=0.0)
        if too_many:
            yield self._reason("case", detail, self._score.worse, weight)
        else:
            yield Reason(
                "go", self._kind, detail, self._score.worse, self._metric, weight, warning=bool(material)
            )

    def _share(self, cases: Sequence[str]) -> float:
        total = math.fsum(self._policy.weight(case) for case in self._score.verdicts)
        return math.fsum(self._policy.weight(case) for case in cases) / total if total else 0.0

    def _doubtful(self) -> list[str]:
        """Cases that look materially worse without proof, worst first; those with too few pairs last."""
        limit = math.log1p(self._limits.case)
        looks = [
            case
            for case, verdict in self._score.verdicts.items()
            if verdict.word == "unclear" and verdict.change is not None and reaches(self._point(case), limit)
        ]
        verdicts = self._score.verdicts
        return sorted(looks, key=lambda case: (verdicts[case].too_few, -self._point(case), case))

    def _doubt(self, cases: Sequence[str]) -> Reason:
        verdicts = self._score.verdicts
        few = sum(verdicts[case].too_few for case in cases)
        largest = (cases[0], verdicts[cases[0]])
        detail = Doubtful(self._metric, len(cases), len(verdicts), self._limits.case, largest, few)
        weight = self._point(cases[0])
        return Reason("go", self._kind, detail, tuple(cases), self._metric, weight, warning=True)

    def _mean(self) -> Iterable[Reason]:
        mean = self._score.mean
        # The mean of one case is that case.
        if mean.cases < 2 or mean.change is None or mean.low is None or mean.high is None:
            return
        near = min(end * self._cost for end in (mean.low, mean.high))
        limit = math.log1p(self._limits.mean)
        proved = exceeds(near, limit)
        if not proved and not exceeds(mean.change * self._cost, limit):
            return
        detail = MeanChange(
            self._metric, mean, limit * self._cost, exceeded=True, proved=proved, with_pairs=False
        )
        if proved:
            yield self._reason("mean", detail, (), abs(mean.change))
        else:
            yield Reason("go", self._kind, detail, (), self._metric, abs(mean.change), warning=True)

    def _reason(self, rule: str, detail: Detail, cases: Sequence[str], weight: float) -> Reason:
        blocks = rule in self._limits.blocks
        return Reason(
            "no-go" if blocks else "go",
            self._kind,
            detail,
            tuple(cases),
            self._metric,
            weight,
            warning=not blocks,
        )


def _point(verdict: Verdict) -> float:
    """The worsening of the metric as a logarithm; infinite from 0."""
    return math.inf if verdict.change is None else verdict.change * verdict.cost


def _worst_first(verdicts: Mapping[str, Verdict]) -> list[str]:
    return sorted(verdicts, key=lambda case: (-worsening_range(verdicts[case])[0], case))
