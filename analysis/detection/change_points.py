"""Judges a series night by night: candidates, returned changes, and the smallest detectable change.

A result is a candidate, not an alarm: an interleaved comparison has to confirm it. Therefore the criterion is
whether a comparison is worth its minutes.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from ..metrics import Better
from .baseline_control import known_of, mark_machine_change, merge_changes
from .night_noise import NightNoise
from .night_scan import CandidateChange, Scan, scan
from .nights import (
    Change,
    Decision,
    Direction,
    JudgedSeries,
    NightValue,
    Rules,
    TooFewNights,
    TooNoisy,
    borders_of,
    logs_of,
)
from .segments import changes_between, segments


def judge(
    nights: Sequence[NightValue],
    better: Better,
    rules: Rules | None = None,
    control: Sequence[NightValue | None] | None = None,
    decisions: Sequence[Decision] = (),
) -> JudgedSeries:
    """The candidates and the returned changes of the newest nights; only the scan is computed. `nights` are
    in order. `better` is that of the metric; for `neither` an increase counts as worse. `decisions` are those
    of sessions on earlier candidates of the series. `control` is the same series of the pinned environment on
    the same nights, None for nights without it. With it,

    - a change that the control shows as well is attributed to the machine;
    - the ratio to the control is also judged, across borders too, because a change of the machine affects
      both. So a change is detected even if it coincides with a border, a faster machine, or a drift of the
      machine.

    Raises ValueError for a value that is not above 0, and for a control of another length.
    """
    rules = rules or Rules()
    values, control_logs = logs_of(nights), _control(nights, control)
    weekly = {number for number, night in enumerate(nights) if night.weekly}
    result = scan(values, borders_of(nights), rules, weekly, decisions)
    raised = [_change_of(one, better) for one in result.raised]
    if control is not None:
        raised = [mark_machine_change(change, control_logs, rules.stay) for change in raised]
        raised = merge_changes(
            raised, _of_ratio(values, control_logs, better, rules, weekly, decisions), rules.stay
        )
    recent = len(nights) - rules.recent
    return JudgedSeries(
        candidates=tuple(
            change for change in raised if change.raised >= recent and change.state != "returned"
        ),
        returned=tuple(change for change in raised if change.state == "returned"),
        noise=result.noise.spread,
        smallest=result.smallest,
        unwatchable=_unwatchable(result, nights, rules),
        factor=result.factor,
    )


def change_points(
    nights: Sequence[NightValue], better: Better, rules: Rules | None = None
) -> tuple[Change, ...]:
    """Every change of the whole history, seen from today; positions may still move.

    The arguments are those of `judge`. Raises ValueError for a value that is not above 0.
    """
    return tuple(_history(logs_of(nights), borders_of(nights), better, rules or Rules()))


def _control(nights: Sequence[NightValue], control: Sequence[NightValue | None] | None) -> dict[int, float]:
    if control is None:
        return {}
    if len(control) != len(nights):
        raise ValueError(f"{len(control)} nights of a control do not match {len(nights)} nights")
    return known_of(control)


def _direction(change: float, better: Better) -> Direction:
    return "worse" if (change > 0) == (better != "higher") else "better"


def _change_of(raised: CandidateChange, better: Better) -> Change:
    return Change(
        index=raised.index,
        change=raised.change,
        direction=_direction(raised.sign, better),
        shape=raised.shape,
        strength=raised.strength,
        raised=raised.raised,
        since=raised.since,
        state=raised.state,
        anchored=raised.anchored,
    )


def _of_ratio(
    values: Sequence[float],
    control: Mapping[int, float],
    better: Better,
    rules: Rules,
    weekly: Collection[int],
    decisions: Collection[Decision],
) -> list[Change]:
    """The judgement of the ratio to the control, with nights numbered as those of the series."""
    both = sorted(control)
    weeks = {place for place, night in enumerate(both) if night in weekly}
    decided = [
        replace(one, index=bisect_left(both, one.index), night=bisect_right(both, one.night) - 1)
        for one in decisions
    ]
    result = scan([values[night] - control[night] for night in both], (), rules, weeks, decided)
    return [
        replace(
            _change_of(one, better),
            index=both[one.index],
            raised=both[one.raised],
            since=both[one.since],
            relative=True,
        )
        for one in result.raised
    ]


def _history(values: Sequence[float], borders: Collection[int], better: Better, rules: Rules) -> list[Change]:
    found = segments(values, borders, rules)
    noise = NightNoise()
    for number, (before, after) in enumerate(pairwise(values), 1):
        if number not in borders:
            noise.add(after - before)
    spread = noise.above(rules.log_floor)
    levels = [median(values[low:high]) for low, high in found]
    changes: list[Change] = []
    for first, last, shape in changes_between(values, found, borders):
        size = levels[last] - levels[first - 1]
        (since, index), (begins, end) = found[first - 1], found[last]
        error = spread * math.sqrt(1 / (index - since) + 1 / (end - begins))
        changes.append(
            Change(
                index=index,
                change=size,
                direction=_direction(size, better),
                shape=shape,
                strength=abs(size) / error,
                raised=index,
                since=since,
            )
        )
    return changes


def _unwatchable(result: Scan, nights: Sequence[NightValue], rules: Rules) -> TooFewNights | TooNoisy | None:
    """The reason why no change, or no small change, could be detected; None without one."""
    if result.nights_short:
        have, short = result.nights_of_segment, result.nights_short
        since = next((night.border for night in reversed(nights) if night.border), "")
        return TooFewNights(have, have + short, since if have < len(nights) else "")
    if result.smallest is not None and result.smallest > math.log1p(rules.coarsest):
        return TooNoisy(result.noise.spread or 0.0, result.smallest)
    return None
