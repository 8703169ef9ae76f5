"""The cases of a run: how each ended, what it measured, and whether that is other than in earlier runs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from records.findings import Finding
from records.outcomes import Outcome, OutcomeStatus

from ..comparison.thresholds import threshold_of
from ..recent_level import RecentChange, against
from ..replicates import Summary, summarise

#: What a run as a whole came to; the worst first.
RunDecision = Literal["failed", "unclear", "passed"]

#: The metrics of latency, the steadier first: a case without one is judged by the next.
LATENCIES = ("latency_floor", "latency")

#: How a replicate of a failed case ends; one is enough.
FAILED = (
    OutcomeStatus.WRONG,
    OutcomeStatus.NOT_COMPILED,
    OutcomeStatus.CRASHED,
    OutcomeStatus.OOM,
    OutcomeStatus.TIMEOUT,
)
#: How replicates end that say nothing about their case.
DISTURBED = (OutcomeStatus.CONTENDED, OutcomeStatus.THROTTLED, OutcomeStatus.LOST)
_STATUSES = (*FAILED, OutcomeStatus.OK, OutcomeStatus.UNSUPPORTED, *DISTURBED, OutcomeStatus.SKIPPED)

#: By case and metric the points of earlier runs, oldest first.
EarlierPoints = Mapping[tuple[str, str], Sequence[float]]


@dataclass(frozen=True, slots=True)
class RunCase:
    """A case of a run: `count` of its `replicates` ended with `status`, the first of them for `reason`.

    `well` of them ended well: `summaries` by metric are over these. `change` is that of its latency against
    earlier runs; None without any. `regression` is an open confirmed one in the environment of the run.
    """

    case: str
    status: OutcomeStatus
    reason: str
    count: int
    replicates: int
    well: int
    summaries: Mapping[str, Summary]
    change: RecentChange | None = None
    regression: Finding | None = None

    @property
    def latency(self) -> Summary | None:
        """The latency that its change and its spread are of."""
        return next((self.summaries[name] for name in LATENCIES if name in self.summaries), None)

    @property
    def failed(self) -> bool:
        """Whether it fails the run by itself."""
        return self.status in FAILED or self.regression is not None

    @property
    def measured(self) -> bool:
        """Whether it is known if it works; a case that is not supported is known not to."""
        return self.status not in (*DISTURBED, OutcomeStatus.SKIPPED)

    @property
    def outside(self) -> bool:
        """Whether noise between runs does not explain its change."""
        return self.change is not None and self.change.outside


def run_cases(
    outcomes: Iterable[Outcome],
    earlier: EarlierPoints | None = None,
    regressions: Mapping[str, Finding] | None = None,
) -> tuple[RunCase, ...]:
    """The cases of a run: what failed first, then what was not measured, then what is outside noise.

    `regressions` are open and confirmed in the environment of the run, by case.
    """
    by_case: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_case[outcome.case].append(outcome)
    cases = [_case(case, own, earlier or {}, (regressions or {}).get(case)) for case, own in by_case.items()]
    return tuple(sorted(cases, key=_place))


def run_decision(cases: Sequence[RunCase], *, complete: bool) -> RunDecision:
    """Failed by a case that fails or has a confirmed regression, passed if all that can work does.

    A change outside noise decides nothing: one run cannot confirm it.
    """
    if any(one.failed for one in cases):
        return "failed"
    all_measured = complete and all(one.measured for one in cases)
    return "passed" if all_measured and any(one.status == OutcomeStatus.OK for one in cases) else "unclear"


def _case(
    case: str, outcomes: Sequence[Outcome], earlier: EarlierPoints, regression: Finding | None
) -> RunCase:
    status = min((one.status for one in outcomes), key=_STATUSES.index)
    alike = [one for one in outcomes if one.status == status]
    well = [one for one in outcomes if one.status == OutcomeStatus.OK]
    metrics = dict.fromkeys(metric for one in well for metric in one.metrics)
    summaries = {
        metric: summarise([one.metrics[metric] for one in well if metric in one.metrics])
        for metric in metrics
    }
    metric = next((name for name in LATENCIES if name in summaries), None)
    change = None
    if metric is not None:
        before = earlier.get((case, metric), ())
        change = against(before, summaries[metric].point, threshold_of(metric).log)
    counts = len(alike), len(outcomes), len(well)
    return RunCase(case, status, alike[0].reason, *counts, summaries, change, regression)


def _place(one: RunCase) -> tuple[int, float]:
    """Cases in one place stay in the order of the run; changes outside noise go by their size."""
    if one.status in FAILED:
        return _STATUSES.index(one.status), 0.0
    if one.regression is not None:
        return len(FAILED), -abs(one.regression.change)
    if not one.measured:
        return len(FAILED) + 1, 0.0
    if one.outside and one.change is not None:
        return len(FAILED) + 2, -abs(one.change.change)
    return len(FAILED) + (3 if one.status == OutcomeStatus.OK else 4), 0.0
