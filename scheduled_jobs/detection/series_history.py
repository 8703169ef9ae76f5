"""Histories for detection: the nights of one machine, its borders, and the control."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from analysis.detection.nights import NightValue
from common.text import some
from db.connection.engine import Database
from db.runs.run_changes import changes_along
from records.runs import NOT_PYTORCHS, RunChange
from records.series import HistoryPoint, HistoryRun, SeriesHistory, SeriesKey

from .findings import MachineSeries

#: The most changes before a night that the text of its border lists.
_LISTED = 3
#: The largest distance in time between a night and the control that counts for it.
_SAME_NIGHT = timedelta(hours=18)

#: The identity of a series on a machine: case, metric, hardware, preset, machine.
MachineSeriesKey = tuple[str, str, str, str, str]


def by_machine(histories: Iterable[SeriesHistory]) -> list[MachineSeries]:
    """Each history divided by machine, without points that have no logarithm."""
    found: list[MachineSeries] = []
    for history in histories:
        machines: dict[str, list[HistoryPoint]] = defaultdict(list)
        for point in history.points:
            if 0 < point.point < float("inf"):
                machines[point.at.machine].append(point)
        found += [MachineSeries(history.key, name, tuple(own)) for name, own in machines.items()]
    return found


def holds_zero(history: SeriesHistory) -> bool:
    """Whether a history has points without a logarithm: a metric that was 0 some night."""
    return not all(0 < point.point < float("inf") for point in history.points)


def machine_series_key(series: MachineSeries) -> MachineSeriesKey:
    """The key of series that may be compared night by night."""
    key: SeriesKey = series.key
    return key.case, key.metric, key.hardware, key.preset, series.machine


def runs_by_machine(series: Iterable[MachineSeries]) -> dict[str, list[str]]:
    """The runs of each machine that any series has a point of, oldest first."""
    machines: dict[str, dict[str, HistoryRun]] = defaultdict(dict)
    for each in series:
        machines[each.machine].update((point.at.run, point.at) for point in each.points)
    return {
        machine: sorted(runs, key=lambda run: (runs[run].started_at, run))
        for machine, runs in machines.items()
    }


def machine_borders(database: Database, runs: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """By run, the changes of its machine before it, in a few words; only runs with a change."""
    changes = [changes_along(database, own) for own in runs.values()]
    sentences = {run: border(before) for each in changes for run, before in each.items()}
    return {run: text for run, text in sentences.items() if text}


def border(changes: Iterable[RunChange]) -> str:
    """The changes of the machine among some changes, in a few words; empty for none."""
    sentences = [
        f"{each.name}: {each.before or '-'} to {each.after or '-'}"
        for each in changes
        if each.kind in NOT_PYTORCHS
    ]
    return some(sentences, _LISTED, "; ")


def nights(series: MachineSeries, borders: Mapping[str, str], runs: Sequence[str]) -> list[NightValue]:
    """The nights of a series; `runs` are all of its machine in order, because a case may have missed a
    border.

    The first night of a calendar week is its `weekly` one.
    """
    number = {run: place for place, run in enumerate(runs)}
    made: list[NightValue] = []
    last, week = -1, (0, 0)
    for point in series.points:
        now = number[point.at.run]
        since = [borders[run] for run in runs[last + 1 : now + 1] if run in borders] if made else []
        own = point.at.started_at.isocalendar()[:2]
        made.append(NightValue(point.point, "; ".join(since), weekly=own != week))
        last, week = now, own
    return made


def control_of(series: MachineSeries, control: MachineSeries | None) -> list[NightValue | None] | None:
    """The value of the control for each night of a series, the nearest in time; None without a control."""
    if control is None:
        return None
    moments = [point.at.started_at for point in control.points]
    found: list[NightValue | None] = []
    for point in series.points:
        place = bisect_left(moments, point.at.started_at)
        adjacent = control.points[max(0, place - 1) : place + 1]
        nearest = min(adjacent, key=lambda one: abs(one.at.started_at - point.at.started_at))
        near = abs(nearest.at.started_at - point.at.started_at) <= _SAME_NIGHT
        found.append(NightValue(nearest.point) if near else None)
    return found if any(found) else None
