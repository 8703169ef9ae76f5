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

#: Changes that come with PyTorch itself, which the version rules show.
_PYTORCH = ("torch", "torch_git", "build_digest")
#: So many changes before one point are listed in a tooltip.
_LISTED = 4
#: The sign of a move that is not decided.
_SIGNS: Mapping[str, str] = {
    FindingState.CANDIDATE: "?",
    FindingState.CONFIRMING: "?",
    FindingState.UNCLEAR: "?",
    FindingState.MACHINE: "!",
}


@dataclass(frozen=True, slots=True)
class TrackChange:
    """What else changed before a point: all in which its run differs from the one before in its track.

    `levels` are what lines did across it where nothing judges that.
    """

    point: SeriesPoint
    track: str
    hardware: str
    changes: tuple[RunChange, ...]
    levels: tuple[LevelShift, ...] = ()

    @property
    def text(self) -> str:
        """In a few words."""
        changes = [f"{each.name} {each.before or '–'} → {each.after or '–'}" for each in self.changes]
        return some(changes, _LISTED, "; ")


def sign(move: Move) -> str:
    """An arrow where a change is decided, filled where pairs confirmed it; a sign where it is not."""
    up = move.change > 0
    if move.state == MOVED:
        return "△" if up else "▽"
    return _SIGNS.get(move.state) or ("▲" if up else "▼")


def tone(move: Move) -> wording.Tone:
    """Good or bad only for moves that were measured again."""
    if move.state == FindingState.CONFIRMED:
        return "bad" if move.direction == "worse" else "good"
    return "quiet" if move.state == MOVED else "odd"


def what(move: Move) -> str:
    """A move in words: what it is called, by how much, and which way that is."""
    size = interval(move.change, move.low, move.high)
    text = f"moved here by {size} (not confirmed)" if move.state == MOVED else f"{move.word}: {size}"
    text = f"{text}, {move.direction}" if move.direction else text
    return f"{text} ({_behind(move)})" if move.metric else text


def _behind(move: Move) -> str:
    """The metric that a change is of where that is another than the line's."""
    return METRICS[move.metric].title if move.metric else ""


def moves(items: Sequence[Move], axis: Axis, drawn: pd.DataFrame, levels: Levels | None) -> pd.DataFrame:
    """The moves as the chart marks them; along versions at the point of the version. `drawn`: its points."""
    rows: list[frames.Row] = []
    for move in items:
        found = _place(move.line, move.point, axis, drawn, levels)
        if found is not None:
            address = "" if move.finding is None else links.finding(move.finding)
            about = {
                "text": " ".join(filter(None, (sign(move), percent(move.change), _behind(move)))),
                "up": move.change > 0,
                "tone": tone(move),
                "what": what(move),
                "link": address or found["link"],
            }
            rows.append({**found, **about})
    columns = ["x", "letter", "point", "point_share", "case", "measured", "torch"]
    return pd.DataFrame(rows, columns=[*columns, "text", "up", "tone", "what", "link"])


def ring_points(
    points: Sequence[tuple[TrendLine, SeriesPoint]], axis: Axis, drawn: pd.DataFrame, levels: Levels | None
) -> pd.DataFrame:
    """The points that are opened below the chart."""
    found = [_place(line, point, axis, drawn, levels) for line, point in points]
    rows = [each for each in found if each is not None]
    return pd.DataFrame(rows, columns=["x", "letter", "point", "point_share"])


def steps(
    drawn: Sequence[TrendLine],
    changes: Mapping[Place, Sequence[RunChange]],
    levels: Sequence[LevelShift] = (),
    dispatch: Mapping[tuple[str, Place], Sequence[RunChange]] | None = None,
) -> list[TrackChange]:
    """What else changed along the lines, each once, the newest first: PyTorch's own version is left out.

    `changes` are by place, each against the place before it in its track; `dispatch` is what runs
    differently, by a line's letter and place.
    """
    found: dict[tuple[str, str], TrackChange] = {}
    for line in drawn:
        for point, track in line.points_with_tracks:
            own = [each for each in changes.get(place_of(point), ()) if each.name not in _PYTORCH]
            # First, for it says why a line may have moved.
            own = [*(dispatch or {}).get((line.letter, place_of(point)), ()), *own]
            if own:
                # The canary's environment is another one, in the same run.
                known = found.get((point.run, track))
                both = dict.fromkeys([*(known.changes if known else ()), *own])
                moved = [one for one in levels if (one.point.run, one.track) == (point.run, track)]
                found[point.run, track] = TrackChange(
                    point, track, line.key.hardware_label, tuple(both), tuple(moved)
                )
    return sorted(found.values(), key=lambda step: step.point.started_at, reverse=True)


def ticks(items: Sequence[TrackChange]) -> pd.DataFrame:
    """The steps as the chart marks them; those of one moment and machine are one."""
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
    """Everything else that changed, for CSV: a row for each."""
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
    line: TrendLine, point: SeriesPoint, axis: Axis, drawn: pd.DataFrame, levels: Levels | None
) -> frames.Row | None:
    """The row of a point as it is drawn; None where its line is not."""
    if levels is not None and line.letter not in levels:
        return None
    row = frames.row(line, point)
    if axis == "version":
        torch = point.torch_version or wording.NONE
        same = drawn[(drawn["letter"] == line.letter) & (drawn["torch"] == torch)]
        if same.empty:
            return None
        row |= {name: same.iloc[0][name] for name in ("x", "point", "smallest", "largest")}
    return row if levels is None else frames.against(row, levels[line.letter])
