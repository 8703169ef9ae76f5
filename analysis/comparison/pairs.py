"""Pairs of replicates, and the change of one metric in each pair."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from records.outcomes import Outcome, OutcomeStatus

from . import rounds
from .rounds import core_share

#: A fast wrong answer is not a gain, nor is a case that silently ran something else.
NEVER_COMPARED = ("wrong", "not_compiled")

#: The statuses of the processes of a disturbed pair.
_UNDER_LOAD = {OutcomeStatus.OK, OutcomeStatus.CONTENDED}


class PairFlaw(StrEnum):
    """The reason why a pair is left out because of both sides."""

    OTHER_SESSION = "other_session"
    OTHER_ITEMS = "other_items"
    WAITS = "waits"
    BEYOND = "beyond"


@dataclass(frozen=True, slots=True)
class SideFlaw:
    """The reason why one side of a pair cannot be used: its `status`, the share of its `core` that it had, or
    the unknown `metric`.
    """

    side: Literal["old", "new"]
    cause: Literal["not measured", "ended", "left its CPUs", "shared its core", "not known", "not above 0"]
    status: str = ""
    core: float = 1.0
    metric: str = ""


#: The reason why a pair does not count; empty if it counts.
LeftOut = tuple[SideFlaw | PairFlaw, ...]
#: The pair is after the last reached look and waits for the next one; it is after the last look of the plan.
WAITS: LeftOut = (PairFlaw.WAITS,)
BEYOND: LeftOut = (PairFlaw.BEYOND,)


@dataclass(frozen=True, slots=True)
class Pair:
    """One metric of two fresh processes that took turns in one session, in the metric's unit.

    `left_out` is the reason why the pair does not count, empty if it counts. The reason must not depend on
    the two values, because that would select the sample by its outcome. `new_first` tells which side was
    started first, if known. `change` is the logarithm of new / old if it is known more precisely than from
    the two values (see `rounds.change`).
    """

    old: float
    new: float
    left_out: LeftOut = ()
    new_first: bool | None = None
    change: float | None = None

    @property
    def log(self) -> float:
        """The logarithm of new / old."""
        # Not the logarithm of the ratio, which may overflow or underflow.
        return self.change if self.change is not None else math.log(self.new) - math.log(self.old)


def partners(one: Sequence[Outcome], other: Sequence[Outcome]) -> list[tuple[Outcome, Outcome]]:
    """Replicates with equal numbers that both ended `ok` and were alive together, as in one session."""
    others = {replicate.replicate: replicate for replicate in other if replicate.status == "ok"}
    both = [
        (first, others[first.replicate])
        for first in one
        if first.status == "ok" and first.replicate in others
    ]
    return [(first, second) for first, second in both if concurrent(first, second)]


def concurrent(one: Outcome, other: Outcome) -> bool:
    """Whether both processes were alive at some moment."""
    begun, ended = _alive(one)
    other_begun, other_ended = _alive(other)
    return begun < other_ended and other_begun < ended


def measured_alone(one: Outcome) -> str:
    """The recorded circumstances of a process that was measured without its partner; empty for others."""
    return str(one.facts.get("measured_alone", ""))


def left_its_cpus(facts: Mapping[str, Any]) -> bool:
    """Whether a process left its assigned CPUs."""
    launch = facts.get("launch")
    return isinstance(launch, Mapping) and launch.get("held") is False


def pairs_of(metric: str, old: Sequence[Outcome], new: Sequence[Outcome], exact: bool = False) -> list[Pair]:
    """The pairs of one case in two environments, by replicate number, including those that do not count.

    A pair is left out if either side did not end `ok`, has no partner from its own session, left its CPUs, or
    lacks the metric. Unless the metric is `exact`, it is also left out if either side had less than its core,
    or a value of 0: other programs take time, not memory. `old` and `new` hold one outcome per number.
    """
    olds = {one.replicate: one for one in old}
    news = {one.replicate: one for one in new}
    return [_pair(metric, olds.get(number), news.get(number), exact) for number in sorted({*olds, *news})]


def _pair(metric: str, old: Outcome | None, new: Outcome | None, exact: bool) -> Pair:
    values = [_value(metric, side) for side in (old, new)]
    flaws = (_flaw("old", old, metric, exact), _flaw("new", new, metric, exact))
    whys: list[SideFlaw | PairFlaw] = [flaw for flaw in flaws if flaw is not None]
    # Without enough memory they may have run one after the other; `judge_case` reports it.
    if old and new and not whys and not (concurrent(old, new) or measured_alone(old) or measured_alone(new)):
        whys.append(PairFlaw.OTHER_SESSION)
    if old and new and not whys and old.facts.get("items") != new.facts.get("items"):
        whys.append(PairFlaw.OTHER_ITEMS)
    change = log_ratio(metric, old, new) if old and new and not whys else None
    return Pair(values[0], values[1], tuple(whys), _new_first(old, new), change)


def changes_under_load(old: Sequence[Outcome], new: Sequence[Outcome]) -> list[float]:
    """log(new / old) of the fastest iterations of each disturbed pair, which does not count.

    Such a number is not a measurement: it only distinguishes a large effect from none.
    """
    news = {one.replicate: one for one in new}
    both = [(one, news[one.replicate]) for one in old if one.replicate in news]
    changes = [
        rounds.change_under_load(one.facts, other.facts)
        for one, other in both
        if concurrent(one, other)
        and {one.status, other.status} <= _UNDER_LOAD
        and any(each.status != OutcomeStatus.OK or core_share(each) is not None for each in (one, other))
    ]
    return [change for change in changes if change is not None]


def log_ratio(metric: str, old: Outcome, new: Outcome) -> float | None:
    """The logarithm of new / old, round by round, if both took turns block by block; else None.

    Inputs of several shapes have no common fastest iteration: then the values are used.
    """
    alike = all((one.facts.get("shapes") or 1) == 1 for one in (old, new))
    if metric != rounds.METRIC or not alike or not concurrent(old, new):
        return None
    return rounds.change(old.facts, new.facts)


def _new_first(old: Outcome | None, new: Outcome | None) -> bool | None:
    if old is None or new is None or _alive(old)[0] == _alive(new)[0]:
        return None
    return _alive(new)[0] < _alive(old)[0]


def _value(metric: str, side: Outcome | None) -> float:
    value = side.metrics.get(metric) if side else None
    return float(value) if isinstance(value, int | float) else math.nan


def _flaw(name: Literal["old", "new"], side: Outcome | None, metric: str, exact: bool) -> SideFlaw | None:
    if side is None:
        return SideFlaw(name, "not measured")
    if side.status != "ok":
        return SideFlaw(name, "ended", status=side.status)
    if left_its_cpus(side.facts):
        return SideFlaw(name, "left its CPUs")
    if not exact and (core := core_share(side)) is not None:
        return SideFlaw(name, "shared its core", core=core)
    value = _value(metric, side)
    if not math.isfinite(value) or value < 0:
        return SideFlaw(name, "not known", metric=metric)
    return None if value > 0 or exact else SideFlaw(name, "not above 0", metric=metric)


def _alive(one: Outcome) -> tuple[float, float]:
    begun = one.started_at.timestamp()
    return begun, begun + one.wall_seconds
