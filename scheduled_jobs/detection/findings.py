"""Turns the changes of a series into findings: the nights before and after, and machine or PyTorch."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from analysis.detection.nights import Change, Decision, JudgedSeries
from records.evidence import ComparedRuns, Detection, Evidence
from records.findings import Finding, FindingState, FindingTriage, NewFinding
from records.series import HistoryPoint, SeriesKey, Track

#: States of findings that are not decided yet.
OPEN = (FindingState.CANDIDATE, FindingState.CONFIRMING)
#: A change that is detected again within this number of nights of its former place is the same change.
_WOBBLE = 3
#: This number of consecutive confirmed steps in one direction, each of at most this log ratio, is one drift:
#: several commits of similar small cost are rare.
_STEPS_OF_A_DRIFT, _SMALL = 3, 0.06
#: The number of characters of a fingerprint that distinguish two environments of one night.
_FINGERPRINT = 12


@dataclass(frozen=True, slots=True)
class MachineSeries:
    """One series on one machine: two machines of the same hardware have different levels."""

    key: SeriesKey
    machine: str
    points: tuple[HistoryPoint, ...]

    @property
    def places(self) -> Mapping[str, int]:
        """The number of each run's point."""
        return {point.at.run: place for place, point in enumerate(self.points)}


def compared_runs(one: Finding) -> ComparedRuns:
    """The runs that a session of a finding compares; for findings of 0.1.0, the nights around the change."""
    if one.evidence.sides is not None:
        return one.evidence.sides
    new_run = one.evidence.new_run or one.at_run
    return ComparedRuns(one.before_run, one.old_environment, new_run, one.new_environment)


@dataclass(frozen=True, slots=True)
class SeriesFindings:
    """The findings of a series to store, and the ids of those that disappeared in later nights
    (`returned`).
    """

    findings: tuple[NewFinding, ...]
    returned: tuple[int, ...]


def series_findings(
    track: Track, series: MachineSeries, judged: JudgedSeries, findings: Sequence[Finding]
) -> SeriesFindings:
    """The update of a series; `findings` are its findings on this track, of any state."""
    places = series.places
    indices = {change.index for change in judged.candidates}
    fresh = [
        _finding(track, series, _as_drift(change, series, findings), judged, findings)
        for change in judged.candidates
        if not any(_same(one, change, places, indices, _state(change, series)) for one in findings)
    ]
    taken_back = {(change.index, change.direction) for change in judged.returned}
    returned = [
        one.id
        for one in findings
        if one.state == FindingState.CANDIDATE
        # A finding that is measured again did not return: its nights stay off the old level.
        and not one.evidence.repeated
        and (places.get(one.at_run), one.direction) in taken_back
    ]
    return SeriesFindings(tuple(fresh), tuple(returned))


def decisions_of(series: MachineSeries, findings: Sequence[Finding]) -> list[Decision]:
    """The decisions of sessions about a series, except where the series no longer holds their nights."""
    places = series.places
    decided = [
        (places.get(one.at_run), places.get(compared_runs(one).new_run), one.state == FindingState.CONFIRMED)
        for one in findings
        if one.state in (FindingState.CONFIRMED, FindingState.REFUTED)
    ]
    return [
        Decision(index, night, confirmed)
        for index, night, confirmed in decided
        if index is not None and night is not None
    ]


def _state(change: Change, series: MachineSeries) -> FindingState:
    """The first state of a change: candidate, or machine."""
    low, high = compared_nights(change, series)
    by_pytorch = (
        series.points[low].at.environment != series.points[high].at.environment and not change.machine
    )
    return FindingState.CANDIDATE if by_pytorch else FindingState.MACHINE


def _same(
    finding: Finding, change: Change, places: Mapping[str, int], indices: Collection[int], state: FindingState
) -> bool:
    """Whether a change of that state is already known, also at a neighbouring night from which it has moved.

    But a change of the machine does not cover one of PyTorch; and a change that was once a candidate stays
    one, independent of later nights of the control.
    """
    place = places.get(finding.at_run)
    if place is None or finding.direction != change.direction or finding.state == FindingState.NO_LONGER:
        return False
    if place == change.index:
        return state == FindingState.MACHINE and finding.evidence.first_as != ""
    if (finding.state, state) == (FindingState.MACHINE, FindingState.CANDIDATE):
        return False
    if change.anchored and (finding.state, finding.shape) == (FindingState.REFUTED, "step"):
        # A drift begins with the newest nights, wherever a piece of it was too small to be confirmed.
        return False
    return place not in indices and abs(place - change.index) <= _WOBBLE


def _known_of(change: Change, series: MachineSeries, findings: Sequence[Finding]) -> Evidence:
    """The evidence about a change from earlier detections and findings.

    Earlier attempts to measure it are kept. A drift is detected in pieces: `began_as` is the first confirmed
    piece.
    """
    at = series.points[change.index].at.run
    alike = [one for one in findings if one.direction == change.direction]
    same_run = [one for one in alike if one.at_run == at]
    first_as = next((one.evidence.first_as for one in same_run if one.evidence.first_as), "")
    if _state(change, series) == FindingState.CANDIDATE and any(
        one.state == FindingState.MACHINE for one in same_run
    ):
        first_as = FindingState.MACHINE
    first = _first_piece(change, series, findings)
    return Evidence(
        waits=next((one.evidence.waits for one in same_run if one.evidence.waits), ""),
        tries=max((one.evidence.tries for one in same_run), default=0),
        repeated=next((one.evidence.repeated for one in same_run if one.evidence.repeated), ""),
        first_as=first_as,
        began_as=first.id if first else None,
        confirmed_before=_confirmed_size(first, _pieces(change, series, findings)) if first else None,
    )


def _first_piece(change: Change, series: MachineSeries, findings: Sequence[Finding]) -> Finding | None:
    """The oldest confirmed finding that a drift continues and whose old side is still in the series."""
    pieces = [one for one in _pieces(change, series, findings) if compared_runs(one).old_run in series.places]
    return min(pieces, key=lambda one: (one.at, one.id)) if change.shape == "drift" and pieces else None


def _pieces(change: Change, series: MachineSeries, findings: Sequence[Finding]) -> list[Finding]:
    """The confirmed findings of the same direction that led to the level before a change.

    They start after the last finding of the other direction, the last one marked fixed, and the last large
    step before that level.
    """
    places = series.places
    before = [
        one
        for one in findings
        if one.state == FindingState.CONFIRMED and places.get(one.at_run, -1) < change.index
    ]
    before = [one for one in before if one.at_run in places]
    ends = [
        one.at
        for one in before
        if one.direction != change.direction
        or one.triage == FindingTriage.FIXED
        or (one.shape == "step" and abs(one.change) > _SMALL and places[one.at_run] <= change.since)
    ]
    return [one for one in before if not ends or one.at > max(ends)]


def _confirmed_size(first: Finding, pieces: Sequence[Finding]) -> float:
    """The sum of the pieces from the first one on (a log ratio).

    A piece that continues the first was measured against the level before all pieces: it replaces the sum so
    far.
    """
    size = 0.0
    for one in sorted(pieces, key=lambda one: (one.at, one.id)):
        if (one.at, one.id) >= (first.at, first.id):
            size = one.change if one.evidence.began_as == first.id else size + one.change
    return size


def _as_drift(change: Change, series: MachineSeries, findings: Sequence[Finding]) -> Change:
    """The change, with the shape of a drift if it continues one or is one more of several small steps."""
    pieces = _pieces(change, series, findings)
    steps = [one.change for one in pieces if one.shape == "step"]
    small = all(abs(size) <= _SMALL for size in (change.change, *steps))
    enough = len(pieces) >= _STEPS_OF_A_DRIFT - 1 or len(steps) < len(pieces)
    return replace(change, shape="drift") if small and enough else change


def _finding(
    track: Track,
    series: MachineSeries,
    change: Change,
    judged: JudgedSeries,
    findings: Sequence[Finding],
) -> NewFinding:
    points = series.points
    low, high = shown_nights(change, series)
    sides = _sides(change, series, _first_piece(change, series, findings))
    if change.shape == "drift":
        low = series.places.get(sides.old_run, low)
    before, at, after = points[low].at, points[change.index].at, points[high].at
    pair = f"{before.environment[:_FINGERPRINT]}/{after.environment[:_FINGERPRINT]}"
    return NewFinding(
        key=series.key,
        schedule=track.schedule,
        track=track.track,
        label=track.label,
        direction=change.direction,
        shape=change.shape,
        at_run=at.run,
        before_run=before.run,
        old_environment=before.environment,
        new_environment=after.environment,
        change=change.change,
        evidence=replace(
            _known_of(change, series, findings),
            new_run=after.run,
            sides=sides,
            detected=Detection(
                nights=len(points),
                strength=change.strength,
                noise=judged.noise,
                smallest=judged.smallest,
                factor=judged.factor,
                before=points[low].point,
                after=points[-1].point,
                control=change.machine,
                relative=change.relative,
            ),
        ),
        group_key=f"{series.machine}/{at.run}/{pair}",
        state=_state(change, series),
    )


def compared_nights(change: Change, series: MachineSeries) -> tuple[int, int]:
    """The nights that a session compares: `change.against`, and the newest night on the new level.

    The estimated place may be off by several nights, and a comparison within one level would refute a real
    change. If the series has returned, the last night before that is used. If that night has the environment
    of the old side, the last one with another environment is used; if there is none, equal environments are
    compared, which attributes the change to the machine.
    """
    last = _newest_of_level(change, series)
    other = newest_other(series, change.against, change.index, last)
    return change.against, last if other is None else other


def _newest_of_level(change: Change, series: MachineSeries) -> int:
    """The newest night that is nearer to the new level than to the old one; the newest night if there is
    none.
    """
    logs = [math.log(point.point) for point in series.points]
    old, last = median(logs[change.since : change.index] or logs[:1]), len(logs) - 1
    way, half = math.copysign(1.0, change.change), abs(change.change) / 2
    there = (night for night in range(last, change.index - 1, -1) if way * (logs[night] - old) >= half)
    return next(there, last)


def newest_other(series: MachineSeries, old: int, index: int, last: int) -> int | None:
    """The newest night from `index` to `last` with another environment than night `old`; None without one."""
    environment = series.points[old].at.environment
    nights = range(last, index - 1, -1)
    return next((night for night in nights if series.points[night].at.environment != environment), None)


def shown_nights(change: Change, series: MachineSeries) -> tuple[int, int]:
    """The nights between which a change is shown: around the estimated place, at most one night off.

    A drift has no night of its own. For a drift, and where no environment changed at the estimated place but
    one did between the compared nights, the compared nights are shown.
    """
    nights = len(series.points)
    if change.shape == "drift":
        return compared_nights(change, series)
    margin = 1 if change.index < nights - 1 else 0
    low, high = max(change.index - 1 - margin, change.since), change.index + margin
    if series.points[low].at.environment == series.points[high].at.environment:
        return compared_nights(change, series)
    return low, high


def _sides(change: Change, series: MachineSeries, first: Finding | None) -> ComparedRuns:
    """The nights that a session compares; for a drift in pieces from before the `first` one."""
    low, high = compared_nights(change, series)
    old, new, level = (series.points[place].at for place in (low, high, change.since))
    sides = ComparedRuns(old.run, old.environment, new.run, new.environment, level.run)
    if first is None:
        return sides
    before = compared_runs(first)
    return replace(sides, old_run=before.old_run, old=before.old, level_run=before.level_run)
