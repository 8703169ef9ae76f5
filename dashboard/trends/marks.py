"""The marks on and around the lines of a trend, as DataFrames for the chart and for CSV files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pandas as pd

from analysis.metrics import METRICS
from common.text import some
from dashboard.components import links, wording
from dashboard.trends import frames
from dashboard.trends.frames import Levels
from dashboard.trends.lines import Place, TrendLine, place_of
from dashboard.trends.moves import MOVED, LevelShift, Move
from dashboard.trends.view import Axis
from records.findings import FindingState
from records.runs import RunChange
from records.series import SeriesPoint
from reports.text.finding_text import interval
from reports.text.numbers import percent

#: Changes that belong to PyTorch, which the rules of versions show.
_PYTORCH = ("torch", "torch_git", "build_digest")
#: The most changes before one point in a tooltip.
_LISTED = 4
#: The sign of an undecided move.
_SIGNS: Mapping[str, str] = {
    FindingState.CANDIDATE: "?",
    FindingState.CONFIRMING: "?",
    FindingState.UNCLEAR: "?",
    FindingState.MACHINE: "!",
}


@dataclass(frozen=True, slots=True)
class TrackChange:
    """The other changes before a point: the differences of its run from the preceding one of the track.

    `levels` are the level changes of lines across it, if nothing judges them.
    """

    point: SeriesPoint
    track: str
    hardware: str
    changes: tuple[RunChange, ...]
    levels: tuple[LevelShift, ...] = ()

    @property
    def text(self) -> str:
        """The changes in a few words."""
        changes = [f"{each.name} {each.before or '–'} → {each.after or '–'}" for each in self.changes]
        return some(changes, _LISTED, "; ")


def sign(move: Move) -> str:
    """An arrow for a decided change, filled if pairs confirmed it; another sign for an undecided one."""
    up = move.change > 0
    if move.state == MOVED:
        return "△" if up else "▽"
    return _SIGNS.get(move.state) or ("▲" if up else "▼")


def tone(move: Move) -> wording.Tone:
    """Only moves that were measured again are good or bad."""
    if move.state == FindingState.CONFIRMED:
        return "bad" if move.direction == "worse" else "good"
    return "quiet" if move.state == MOVED else "odd"


def what(move: Move) -> str:
    """A move as text: its kind, its size, and its direction."""
    size = interval(move.change, move.low, move.high)
    text = f"moved here by {size} (not confirmed)" if move.state == MOVED else f"{move.word}: {size}"
    text = f"{text}, {move.direction}" if move.direction else text
    return f"{text} ({_behind(move)})" if move.metric else text


def _behind(move: Move) -> str:
    """The metric of a change if it is not that of the line."""
    return METRICS[move.metric].title if move.metric else ""


def moves(items: Sequence[Move], axis: Axis, points: pd.DataFrame, levels: Levels | None) -> pd.DataFrame:
    """The moves as marks of the chart; along versions at the point of the version. `points` are the points of
    the chart.
    """
    rows: list[frames.Row] = []
    for move in items:
        result = _place(move.line, move.point, axis, points, levels)
        if result is not None:
            address = "" if move.finding is None else links.finding(move.finding)
            about = {
                "text": " ".join(filter(None, (sign(move), percent(move.change), _behind(move)))),
                "up": move.change > 0,
                "tone": tone(move),
                "what": what(move),
                "link": address or result["link"],
            }
            rows.append({**result, **about})
    columns = ["x", "letter", "point", "point_share", "case", "measured", "torch"]
    return pd.DataFrame(rows, columns=[*columns, "text", "up", "tone", "what", "link"])


def ring_points(
    points: Sequence[tuple[TrendLine, SeriesPoint]],
    axis: Axis,
    chart_points: pd.DataFrame,
    levels: Levels | None,
) -> pd.DataFrame:
    """The points that are opened below the chart."""
    matches = [_place(line, point, axis, chart_points, levels) for line, point in points]
    rows = [each for each in matches if each is not None]
    return pd.DataFrame(rows, columns=["x", "letter", "point", "point_share"])


def steps(
    trend_lines: Sequence[TrendLine],
    changes: Mapping[Place, Sequence[RunChange]],
    levels: Sequence[LevelShift] = (),
    dispatch: Mapping[tuple[str, Place], Sequence[RunChange]] | None = None,
) -> list[TrackChange]:
    """The other changes along the lines, each once, newest first, without those of PyTorch's version.

    `changes` are by place, relative to the preceding place of the track; `dispatch` are the differing
    operators and kernels, by a line's letter and place.
    """
    result: dict[tuple[str, str], TrackChange] = {}
    for line in trend_lines:
        for point, track in line.points_with_tracks:
            own = [each for each in changes.get(place_of(point), ()) if each.name not in _PYTORCH]
            # First, because it may explain a move of the line.
            own = [*(dispatch or {}).get((line.letter, place_of(point)), ()), *own]
            if own:
                # The canary has another environment in the same run.
                previous = result.get((point.run, track))
                both = dict.fromkeys([*(previous.changes if previous else ()), *own])
                shifts = [one for one in levels if (one.point.run, one.track) == (point.run, track)]
                result[point.run, track] = TrackChange(
                    point, track, line.key.hardware_label, tuple(both), tuple(shifts)
                )
    return sorted(result.values(), key=lambda step: step.point.started_at, reverse=True)


def ticks(items: Sequence[TrackChange]) -> pd.DataFrame:
    """The steps as marks of the chart; those of one moment and machine are combined."""
    by_moment: dict[tuple[datetime, str], list[TrackChange]] = {}
    for step in items:
        by_moment.setdefault((step.point.started_at, step.point.machine), []).append(step)
    rows = [
        {
            "x": moment,
            "what": "; ".join(dict.fromkeys(step.text for step in own)),
            "where": f"{machine}, {own[0].hardware}",
            "measured": wording.utc(moment),
            "link": links.run(own[0].point.run),
        }
        for (moment, machine), own in by_moment.items()
    ]
    return pd.DataFrame(rows, columns=["x", "what", "where", "measured", "link"])


def step_table(items: Sequence[TrackChange], tracks: Mapping[str, str]) -> pd.DataFrame:
    """A row for each other change, for CSV."""
    rows = [
        {
            "before (UTC)": step.point.started_at,
            "hardware": step.hardware,
            "machine": step.point.machine,
            "track": tracks[step.track],
            "of": each.kind,
            "what": each.name,
            "was": each.before,
            "is": each.after,
            "run": step.point.run,
        }
        for step in items
        for each in step.changes
    ]
    return pd.DataFrame(rows)


def _place(
    line: TrendLine, point: SeriesPoint, axis: Axis, points: pd.DataFrame, levels: Levels | None
) -> frames.Row | None:
    """The drawn row of a point; None if its line is not drawn."""
    if levels is not None and line.letter not in levels:
        return None
    row = frames.row(line, point)
    if axis == "version":
        torch = point.torch_version or wording.NONE
        same = points[(points["letter"] == line.letter) & (points["torch"] == torch)]
        if same.empty:
            return None
        row |= {name: same.iloc[0][name] for name in ("x", "point", "smallest", "largest")}
    return row if levels is None else frames.against(row, levels[line.letter])
