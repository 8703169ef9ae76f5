"""Two runs compared case by case: a hint, for nothing of it was measured in turns."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.comparison.case_results import BROKEN, side
from analysis.comparison.thresholds import threshold_of
from analysis.metrics import METRICS
from records.environments import Environment
from records.kinds import EnvironmentKind
from records.outcomes import Measurement, Outcome
from records.runs import Run

#: `outside`: the intervals of the two runs do not meet, and the change matters; `within`: noise. Not measured
#: is a case of which a run has no such number, or does not know whether it works.
Status = Literal["broke", "fixed", "broken in both", "outside", "within", "no interval", "not measured"]
#: The order in which cases are listed.
_ORDER: tuple[Status, ...] = (
    "broke",
    "fixed",
    "outside",
    "no interval",
    "not measured",
    "within",
    "broken in both",
)


@dataclass(frozen=True, slots=True)
class RunSide:
    """One run in one of its environments, the one given last: the candidate where there are two."""

    run: Run
    environment: Environment
    outcomes: Sequence[Outcome]
    measurements: Sequence[Measurement]


@dataclass(frozen=True, slots=True)
class RunCaseChange:
    """One case in both runs; a measurement is None where the case has no such number."""

    case: str
    status: Status
    old: Measurement | None = None
    new: Measurement | None = None
    old_status: str = "ok"
    new_status: str = "ok"
    reason: str = ""

    @property
    def ratio(self) -> float | None:
        """New / old, if there is a ratio."""
        if self.old is None or self.new is None or self.old.point <= 0 or self.new.point <= 0:
            return None
        return self.new.point / self.old.point


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Run `b` against run `a` in one metric; `cases` are those of both, what matters most first.

    `only_a` and `only_b` are how many cases the other run does not have.
    """

    a: RunSide
    b: RunSide
    metric: str
    cases: tuple[RunCaseChange, ...]
    only_a: int
    only_b: int

    @property
    def mean(self) -> float | None:
        """The geometric mean of new / old over the cases that have a ratio; None without any."""
        ratios = [math.log(one.ratio) for one in self.cases if one.ratio is not None]
        return math.exp(math.fsum(ratios) / len(ratios)) if ratios else None

    def having(self, *statuses: Status) -> list[RunCaseChange]:
        """The cases of these statuses."""
        return [one for one in self.cases if one.status in statuses]


def candidate(run: Run) -> Environment | None:
    """The environment that a run gave last, the canary's apart; None for a run without any."""
    own = [each for each in run.environments if each.kind != EnvironmentKind.CANARY]
    return own[-1] if own else None


def metrics(a: RunSide, b: RunSide) -> dict[str, str]:
    """The metrics that both runs have, by name to title, in the order of the catalogue."""
    both = _metrics(a) & _metrics(b)
    return {name: metric.title for name, metric in METRICS.items() if name in both}


def _metrics(one: RunSide) -> set[str]:
    return {each.metric for each in one.measurements if each.environment == one.environment.fingerprint}


def compare(a: RunSide, b: RunSide, metric: str) -> RunComparison:
    """Every case of both runs in one metric of the catalogue."""
    old, new = _outcomes(a), _outcomes(b)
    numbers = _numbers(a, metric), _numbers(b, metric)
    cases = [_change(case, old[case], new[case], *numbers) for case in old if case in new]
    cases.sort(key=lambda one: (_ORDER.index(one.status), -abs(math.log(one.ratio or 1.0)), one.case))
    return RunComparison(
        a, b, metric, tuple(cases), sum(case not in new for case in old), sum(case not in old for case in new)
    )


def _outcomes(one: RunSide) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for outcome in one.outcomes:
        if outcome.environment == one.environment.fingerprint:
            found.setdefault(outcome.case, []).append((outcome.status, outcome.reason))
    return found


def _numbers(one: RunSide, metric: str) -> Mapping[str, Measurement]:
    environment = one.environment.fingerprint
    own = (each for each in one.measurements if each.environment == environment and each.metric == metric)
    return {each.case: each for each in own}


def _change(
    case: str,
    old: Sequence[tuple[str, str]],
    new: Sequence[tuple[str, str]],
    old_numbers: Mapping[str, Measurement],
    new_numbers: Mapping[str, Measurement],
) -> RunCaseChange:
    before, after = side(old), side(new)
    broken = before.status in BROKEN, after.status in BROKEN
    if any(broken):
        # A case that was skipped or disturbed in one run may have worked there or not.
        known = all(broken) or "ok" in (before.status, after.status)
        status: Status = "broken in both" if all(broken) else "broke" if broken[1] else "fixed"
        reason = after.reason or before.reason
        return RunCaseChange(
            case, status if known else "not measured", None, None, before.status, after.status, reason
        )
    one, other = old_numbers.get(case), new_numbers.get(case)
    return RunCaseChange(case, _noise(one, other), one, other, before.status, after.status)


def _noise(old: Measurement | None, new: Measurement | None) -> Status:
    """Whether two measurements differ by more than their noise; unknown where one has no interval."""
    if old is None or new is None:
        return "not measured"
    if old.low is None or old.high is None or new.low is None or new.high is None:
        return "no interval"
    small = abs(new.point - old.point) <= threshold_of(old.metric).relative * abs(old.point)
    meet = new.low <= old.high and old.low <= new.high
    return "within" if small or meet else "outside"
