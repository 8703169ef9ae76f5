"""One case in both environments of an upgrade: its statuses and its verdicts."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from records.outcomes import Outcome

from ..metrics import METRICS
from .pairs import changes_under_load, measured_alone, pairs_of
from .plan import Plan
from .screening import ScreenedCase
from .thresholds import Threshold, threshold_of
from .verdict import Verdict, judge

#: The statuses of a broken case; an outcome of any other status but `ok` does not show whether the case
#: works.
BROKEN = ("wrong", "not_compiled", "crashed", "unsupported", "oom", "timeout")

#: The number of disturbed pairs that have to agree on a change of more than this share.
UNDER_LOAD = 6, 0.30


class NotMeasured(StrEnum):
    """The reason why a case has no replicate that counts."""

    NO_REPLICATE = "no replicate"
    NO_FULL_PAIR = "no full pair"


@dataclass(frozen=True, slots=True)
class CaseSide:
    """The status of a case in one environment.

    `count` of its `replicates` ended with `status`, and `reason` is that of the first of them; both are set
    if it is not `ok`. If it is, `broken` has the number of broken replicates by status.
    """

    status: str
    reason: str = ""
    count: int = 0
    replicates: int = 0
    broken: tuple[tuple[str, int], ...] = ()
    not_measured: NotMeasured | None = None


@dataclass(frozen=True, slots=True)
class AloneProcesses:
    """The number of `processes` of a case that were measured without their partner.

    `circumstances` is the reason of the first of them.
    """

    count: int
    processes: int
    circumstances: str


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case in both environments: `verdicts` by metric; `pair_seconds` is the duration of one more pair.

    `under_load` is the number of disturbed pairs that all agree on a change of more than 30 %, above 0 if the
    new environment is slower, 0 if they do not agree or are too few (see `UNDER_LOAD`). `screen` is the
    result of a screen, None in an upgrade without one. `failed` are the numbers of its broken replicates, old
    and new. `alone` are the processes that did not run together with their partner; None if all did.
    """

    case: str
    technique: str
    old: CaseSide
    new: CaseSide
    verdicts: Mapping[str, Verdict]
    pair_seconds: float = 0.0
    failed: tuple[int, int] = (0, 0)
    alone: AloneProcesses | None = None
    under_load: int = 0
    screen: ScreenedCase | None = None

    @property
    def only_screened(self) -> bool:
        """Whether it passed a screen: it has only short pairs and no verdict."""
        return self.screen is not None and self.screen.selection is None

    @property
    def works(self) -> bool:
        """Whether it ended `ok` in both."""
        return self.old.status == self.new.status == "ok"

    @property
    def broke(self) -> bool:
        """Whether it worked in the old environment and does not in the new."""
        return self.old.status == "ok" and self.new.status in BROKEN

    @property
    def may_have_broken(self) -> bool:
        """Whether it does not work in the new environment and is unknown in the old."""
        return self.new.status in BROKEN and self.old.status not in ("ok", *BROKEN)

    @property
    def repaired(self) -> bool:
        """Whether it works in the new environment and did not in the old."""
        return self.old.status in BROKEN and self.new.status == "ok"

    @property
    def never_worked(self) -> bool:
        """Whether it is broken in both."""
        return self.old.status in BROKEN and self.new.status in BROKEN


def side(statuses: Sequence[tuple[str, str]]) -> CaseSide:
    """The status of a case in one environment, from the (status, reason) of its replicates.

    One `wrong` or `not_compiled` replicate is enough. Other statuses count only if no replicate ended `ok`;
    if some did, `broken` has the others.
    """
    if not statuses:
        return CaseSide("skipped", not_measured=NotMeasured.NO_REPLICATE)
    names = [status for status, _ in statuses]
    for status in (*BROKEN, *names):
        many = names.count(status)
        if status != "ok" and many and (status in ("wrong", "not_compiled") or "ok" not in names):
            reason = next(reason for name, reason in statuses if name == status)
            return CaseSide(status, reason, many, len(names))
    broken = Counter(name for name in names if name in BROKEN)
    return CaseSide("ok", replicates=len(names), broken=tuple(broken.items()))


def judge_case(
    technique: str,
    old: Sequence[Outcome],
    new: Sequence[Outcome],
    thresholds: Mapping[str, Threshold] | None = None,
    plan: Plan | None = None,
    pair_seconds: float = 0.0,
) -> CaseResult:
    """One case from all its replicates in both environments, at least one, in the order of their numbers.

    Every metric of the catalogue with a better direction is judged if a replicate of either side has it.
    """
    sides = [side([(one.status, one.reason) for one in replicates]) for replicates in (old, new)]
    metrics = {metric for one in (*old, *new) for metric in one.metrics}
    verdicts = {
        metric: judge(metric, pairs_of(metric, old, new, threshold.exact), threshold, plan)
        for metric in METRICS
        if metric in metrics
        and METRICS[metric].better != "neither"
        and (threshold := threshold_of(metric, thresholds))
    }
    failed = (_count_failures(old), _count_failures(new))
    every = (*old, *new)
    alone = _alone(every)
    under_load = _under_load(changes_under_load(old, new))
    return CaseResult(
        every[0].case, technique, sides[0], sides[1], verdicts, pair_seconds, failed, alone, under_load
    )


def _under_load(changes: Sequence[float]) -> int:
    fewest, least = UNDER_LOAD
    if len(changes) < fewest or min(map(abs, changes)) <= math.log1p(least):
        return 0
    if min(changes) > 0:
        return len(changes)
    return -len(changes) if max(changes) < 0 else 0


def _alone(replicates: Sequence[Outcome]) -> AloneProcesses | None:
    found = [why for one in replicates if one.status == "ok" and (why := measured_alone(one))]
    return AloneProcesses(len(found), len(replicates), found[0]) if found else None


def _count_failures(replicates: Sequence[Outcome]) -> int:
    return sum(one.status in BROKEN for one in replicates)
