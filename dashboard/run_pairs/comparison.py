"""Compares two runs case by case: a hint, because they were not measured in turns."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from analysis.comparison.case_results import BROKEN, side
from analysis.comparison.thresholds import Threshold, threshold_of
from analysis.kernel_difference import CaseKernels, kernel_changes
from analysis.metrics import METRICS
from dashboard.components import wording
from records.environments import Environment
from records.kinds import EnvironmentKind
from records.outcomes import Measurement, Outcome
from records.runs import Run

#: The statuses, in the order of the list. `outside`: the intervals of the two runs do not overlap and the
#: change exceeds the threshold; `within`: noise. A case is not measured if a run lacks the metric, or does
#: not show whether the case works.
Status = Literal["broke", "fixed", "outside", "no interval", "not measured", "within", "broken in both"]
_ORDER: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True, slots=True)
class RunSide:
    """One run in its last environment, which is the candidate if there are two."""

    run: Run
    environment: Environment
    outcomes: Sequence[Outcome]
    measurements: Sequence[Measurement]

    @property
    def own_outcomes(self) -> list[Outcome]:
        """The outcomes in its environment."""
        return [one for one in self.outcomes if one.environment == self.environment.fingerprint]


@dataclass(frozen=True, slots=True)
class RunCaseChange:
    """One case in both runs; a measurement is None if the case lacks the metric.

    `old_case` is its key in the first run if the runs have different techniques; else it is empty.
    """

    case: str
    status: Status
    old: Measurement | None = None
    new: Measurement | None = None
    old_status: str = "ok"
    new_status: str = "ok"
    reason: str = ""
    old_case: str = ""

    @property
    def ratio(self) -> float | None:
        """New / old, if there is a ratio."""
        if self.old is None or self.new is None or self.old.point <= 0 or self.new.point <= 0:
            return None
        return self.new.point / self.old.point


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Run `b` against run `a` in one metric; `cases` are those of both, most important first.

    `only_a` and `only_b` are the numbers of cases that the other run lacks. `techniques` are those of the two
    runs if each has a single, different one: then cases of the same workload are compared.
    """

    a: RunSide
    b: RunSide
    metric: str
    cases: tuple[RunCaseChange, ...]
    only_a: int
    only_b: int
    techniques: tuple[str, str] | None = None

    @property
    def mean(self) -> float | None:
        """The geometric mean of new / old over the cases that have a ratio; None without any."""
        ratios = [math.log(one.ratio) for one in self.cases if one.ratio is not None]
        return math.exp(math.fsum(ratios) / len(ratios)) if ratios else None

    def with_status(self, *statuses: Status) -> list[RunCaseChange]:
        """The cases with these statuses."""
        return [one for one in self.cases if one.status in statuses]

    @property
    def kernels(self) -> tuple[CaseKernels, ...]:
        """The GPU kernels of every case that both runs have a table of, by its key in the second run."""
        keys = {one.old_case or one.case: one.case for one in self.cases}
        before = [replace(one, case=keys[one.case]) for one in self.a.own_outcomes if one.case in keys]
        return kernel_changes(before, self.b.own_outcomes)


@dataclass(frozen=True, slots=True)
class ImportedPair:
    """Two runs of other tools, by id, on one hardware: so many `workloads` are in both.

    `sides` are what they differ in: techniques, or PyTorch versions of one technique, which is `about`.
    """

    a: str
    b: str
    sides: tuple[str, str]
    hardware: str
    workloads: int
    about: str = ""

    @property
    def text(self) -> str:
        """`2.4.0 against 2.1.0: 700 workloads on RTX 3090, eager`."""
        old, new = self.sides
        many = wording.plural(self.workloads, "workload")
        return ", ".join(filter(None, (f"{new} against {old}: {many} on {self.hardware}", self.about)))


def candidate(run: Run) -> Environment | None:
    """The last environment of a run, without that of the canary; None for a run without one."""
    own = [each for each in run.environments if each.kind != EnvironmentKind.CANARY]
    return own[-1] if own else None


def metrics(a: RunSide, b: RunSide, definitions: wording.Definitions | None = None) -> dict[str, str]:
    """The metrics of both runs, by name to title: ours, then those that are `definitions` by imports."""
    both = sorted(_metrics(a) & _metrics(b), key=wording.metric_place)
    catalogue = {**METRICS, **(definitions or {})}
    return wording.titles([name for name in both if name in catalogue], definitions or {})


def _metrics(one: RunSide) -> set[str]:
    return {each.metric for each in one.measurements if each.environment == one.environment.fingerprint}


def compare(a: RunSide, b: RunSide, metric: str) -> RunComparison:
    """Every case of both runs in one metric."""
    old, new = _outcomes(a), _outcomes(b)
    techniques = _techniques(old, new)
    # By its key in the second run, that of each case in the first one.
    ending = f"/{techniques[1]}" if techniques else ""
    pairs = {f"{case.rpartition('/')[0]}{ending}" if techniques else case: case for case in old}
    numbers = _numbers(a, metric), _numbers(b, metric)
    cases = [_change(case, pairs[case], old, new, *numbers) for case in pairs if case in new]
    cases.sort(key=lambda one: (_ORDER.index(one.status), -_size(one), one.case))
    only_a, only_b = sum(case not in new for case in pairs), sum(case not in pairs for case in new)
    return RunComparison(a, b, metric, tuple(cases), only_a, only_b, techniques)


def _size(one: RunCaseChange) -> float:
    """The size of a change as a logarithm; infinite from or to 0."""
    if one.ratio is None:
        return math.inf if one.status == "outside" else 0.0
    return abs(math.log(one.ratio))


def has_pairs(old: Collection[str], new: Collection[str]) -> bool:
    """Whether runs of these cases have any that `compare` compares."""
    if _techniques(old, new) is not None:
        old, new = ({case.rpartition("/")[0] for case in cases} for cases in (old, new))
    return not set(old).isdisjoint(new)


def only_technique(cases: Collection[str]) -> str:
    """The technique of all of these cases; empty if there are several, or no case."""
    techniques = {case.rpartition("/")[2] for case in cases}
    return techniques.pop() if len(techniques) == 1 else ""


def _techniques(old: Collection[str], new: Collection[str]) -> tuple[str, str] | None:
    """The techniques of two runs if each has a single, different one; else None."""
    before, after = only_technique(old), only_technique(new)
    return (before, after) if before and after and before != after else None


def _outcomes(one: RunSide) -> dict[str, list[tuple[str, str]]]:
    result: dict[str, list[tuple[str, str]]] = {}
    for outcome in one.own_outcomes:
        result.setdefault(outcome.case, []).append((outcome.status, outcome.reason))
    return result


def _numbers(one: RunSide, metric: str) -> Mapping[str, Measurement]:
    environment = one.environment.fingerprint
    own = (each for each in one.measurements if each.environment == environment and each.metric == metric)
    return {each.case: each for each in own}


def _change(
    case: str,
    old_case: str,
    old: Mapping[str, Sequence[tuple[str, str]]],
    new: Mapping[str, Sequence[tuple[str, str]]],
    old_numbers: Mapping[str, Measurement],
    new_numbers: Mapping[str, Measurement],
) -> RunCaseChange:
    before, after = side(old[old_case]), side(new[case])
    other_key = "" if old_case == case else old_case
    broken = before.status in BROKEN, after.status in BROKEN
    if any(broken):
        # Whether a case works is unknown if it was skipped or disturbed.
        conclusive = all(broken) or "ok" in (before.status, after.status)
        status: Status = "broken in both" if all(broken) else "broke" if broken[1] else "fixed"
        reason = after.reason or before.reason
        word = status if conclusive else "not measured"
        return RunCaseChange(case, word, None, None, before.status, after.status, reason, other_key)
    one, other = old_numbers.get(old_case), new_numbers.get(case)
    return RunCaseChange(case, _noise(one, other), one, other, before.status, after.status, "", other_key)


def _noise(old: Measurement | None, new: Measurement | None) -> Status:
    """Whether two measurements differ by more than their noise; unknown if one has a single replicate."""
    if old is None or new is None:
        return "not measured"
    before, after = _ends(old), _ends(new)
    if before is None or after is None:
        return "no interval"
    threshold = threshold_of(old.metric) if old.metric in METRICS else Threshold(0.0, exact=True)
    least = max(threshold.relative * abs(old.point), threshold.absolute)
    meet = after[0] <= before[1] and before[0] <= after[1]
    return "within" if abs(new.point - old.point) <= least or meet else "outside"


def _ends(one: Measurement) -> tuple[float, float] | None:
    """The interval; for values without one, such as counts of 0, their range; None for a single replicate."""
    if one.low is not None and one.high is not None:
        return one.low, one.high
    return (one.smallest, one.largest) if one.n > 1 else None
