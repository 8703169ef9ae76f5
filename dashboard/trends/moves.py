"""The moves of lines: findings of detection, and level shifts of lines that are not watched."""

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from analysis.detection.change_points import change_points
from analysis.detection.default_watched_metrics import WATCHED, history_rules, judged_by
from analysis.detection.nights import Change, NightValue, Rules, crossings
from analysis.metrics import METRICS, Better
from dashboard.trends.lines import Place, PlaceTracks, TrendLine, place_of
from db.runs.series_queries import identity
from interchange.foreign_runs import is_undated
from records.findings import Finding, FindingState
from records.runs import NOT_PYTORCHS, RunChange
from records.series import MeasuredFor, SeriesPoint
from reports.text.finding_text import kind

#: The starts of segments: the letter of a line, and the place of the first point after a change of the
#: machine.
Borders = Collection[tuple[str, Place]]

#: States of findings that are marked on lines; the others were refuted or have disappeared.
_STANDING = (
    FindingState.CANDIDATE,
    FindingState.CONFIRMING,
    FindingState.CONFIRMED,
    FindingState.UNCLEAR,
    FindingState.MACHINE,
)
#: The value for a point that was not measured by an own run.
_UNSCHEDULED = MeasuredFor("", "", "", last=False)
#: The state of a change that only the points of the line show.
MOVED = "moved"
#: A change of a line within this number of points of a finding of the metric it follows from is that finding.
_NEAR = 3


@dataclass(frozen=True, slots=True)
class Move:
    """A line that moved: `point` is the first one after it, `before` the last one before.

    `change`, `low` and `high` are log ratios of new to old. `state` is that of a finding, or `MOVED` without
    a `finding`. `direction` is worse or better; empty if the metric has neither. `metric` is that of the
    finding if it differs from that of the line: then `change` and its ends are of that metric.
    """

    line: TrendLine
    track: str
    point: SeriesPoint
    change: float
    direction: str
    shape: str
    state: FindingState | Literal["moved"]
    before: str = ""
    low: float | None = None
    high: float | None = None
    finding: int | None = None
    metric: str = ""

    @property
    def word(self) -> str:
        """Its kind: regression, improvement, or its state."""
        return self.state if self.state == MOVED else kind(self.state, self.direction)


def moves_of_findings(trend_lines: Sequence[TrendLine], findings: Sequence[Finding]) -> list[Move]:
    """The findings of some lines, each at its point; findings without a point are left out.

    A line whose metric follows from a watched one has the findings of that metric.
    """
    moves: list[Move] = []
    for line, one in _shown_findings(trend_lines, findings):
        of_run = [each for each in line.points_with_tracks if each[0].run == one.at_run]
        # Of a session with several environments the one of the finding.
        own = [each for each in of_run if each[0].environment == one.new_environment] or of_run
        if not own:
            continue
        point, track = own[0]
        moves.append(
            Move(
                line=line,
                track=track,
                point=point,
                change=one.change,
                direction=one.direction,
                shape=one.shape,
                state=one.state,
                before=one.before_run,
                low=one.low,
                high=one.high,
                finding=one.id,
                metric="" if one.key.metric == line.key.metric else one.key.metric,
            )
        )
    return moves


def _shown_findings(
    trend_lines: Sequence[TrendLine], findings: Sequence[Finding]
) -> list[tuple[TrendLine, Finding]]:
    return [
        (line, one)
        for one in findings
        if one.state in _STANDING
        for line in trend_lines
        if identity(one.key) in (identity(line.key), _judged_series(line))
    ]


def _judged_series(line: TrendLine) -> tuple[str, str, str, str]:
    case, metric, hardware, preset = identity(line.key)
    return case, judged_by(metric), hardware, preset


def detect_moves(
    trend_lines: Sequence[TrendLine],
    findings: Sequence[Finding],
    tracks_of_place: PlaceTracks,
    borders: Borders,
    better: Better,
) -> list[Move]:
    """The steps and drifts of lines that no schedule watches, for each machine; they are not confirmed.

    A move that a finding of the line's metric covers is not listed again.
    """
    watched_series = {(*identity(one.key), one.track) for one in findings}
    moves: list[Move] = []
    for line in trend_lines:
        key = line.key
        line_findings = [one for one in findings if identity(one.key) == _judged_series(line)]
        for track in dict.fromkeys(line.tracks):
            if (*identity(key), track) in watched_series or (
                key.metric in WATCHED and _scheduled(line, track, tracks_of_place)
            ):
                continue
            for points in _by_machine(line.of_track(track)):
                alone = _of_machine(line, track, points, borders, better)
                moves += [move for move in alone if not _found_there(move, points, line_findings)]
    return moves


def _found_there(move: Move, points: Sequence[SeriesPoint], findings: Sequence[Finding]) -> bool:
    """Whether a change corresponds to a finding of the metric behind its line."""
    places = {point.run: place for place, point in enumerate(points)}
    return any(
        one.direction == move.direction
        and one.track == move.track
        and one.at_run in places
        and abs(places[one.at_run] - places[move.point.run]) <= _NEAR
        for one in findings
    )


@dataclass(frozen=True, slots=True)
class LevelShift:
    """A change of a line's level by `change` (a log ratio) across a border before `point`, over `nights`
    nights.

    It is not judged, because without a pinned baseline the part of the machine is unknown.
    """

    line: TrendLine
    track: str
    point: SeriesPoint
    change: float
    nights: int


def levels(
    trend_lines: Sequence[TrendLine], tracks_of_place: PlaceTracks, borders: Borders
) -> list[LevelShift]:
    """The level changes of lines across borders if their schedule has no pinned baseline."""
    results: list[LevelShift] = []
    for line in trend_lines:
        for track in dict.fromkeys(line.tracks):
            for own in _by_machine(line.of_track(track)):
                alone = [
                    point
                    for point in own
                    if not (tracks_of_place.get(place_of(point)) or _UNSCHEDULED).baseline
                ]
                begins = [(line.letter, place_of(point)) in borders for point in alone]
                nights = _nights([point.point for point in alone], begins)
                results += [
                    LevelShift(line, track, alone[one.index], one.change, one.nights)
                    for one in crossings(nights)
                ]
    return results


def _by_machine(points: Sequence[SeriesPoint]) -> list[list[SeriesPoint]]:
    """The points of each machine that have a logarithm and a time: what has none cannot be judged."""
    machines: dict[str, list[SeriesPoint]] = defaultdict(list)
    for point in points:
        if 0 < point.point < math.inf and not is_undated(point.run):
            machines[point.machine].append(point)
    return list(machines.values())


def border(changes: Collection[RunChange]) -> bool:
    """Whether any of these changes is of the machine or the measuring, not of PyTorch."""
    return any(change.kind in NOT_PYTORCHS for change in changes)


def _scheduled(line: TrendLine, track: str, tracks_of_place: PlaceTracks) -> bool:
    places = map(place_of, line.of_track(track))
    return any(place in tracks_of_place and tracks_of_place[place].track == track for place in places)


def _of_machine(
    line: TrendLine, track: str, own: Sequence[SeriesPoint], borders: Borders, better: Better
) -> list[Move]:
    values = tuple(point.point for point in own)
    begins = tuple((line.letter, place_of(point)) in borders for point in own)
    return [
        Move(
            line=line,
            track=track,
            point=own[one.index],
            change=one.change,
            # A metric without a better direction has neither worse nor better.
            direction=one.direction if better != "neither" else "",
            shape=one.shape,
            state=MOVED,
            before=own[one.index - 1].run,
        )
        for one in _history_changes(values, begins, line.key.metric, better)
    ]


@lru_cache(maxsize=512)
def _history_changes(
    values: tuple[float, ...], begins: tuple[bool, ...], metric: str, better: Better
) -> tuple[Change, ...]:
    """Every change of a history, seen from today; there are none at the beginnings of segments."""
    nights = _nights(values, begins)
    rules = history_rules(metric) if metric in METRICS else Rules()
    return change_points(nights, better, rules)


def _nights(values: Sequence[float], begins: Sequence[bool]) -> list[NightValue]:
    return [
        NightValue(value, "the machine changed" if begin else "")
        for value, begin in zip(values, begins, strict=True)
    ]
