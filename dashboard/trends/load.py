"""The data of the Trends page, cached for a few seconds: points, facts of their runs, all data of a view.

All of it raises `db.errors.DatabaseError`, which `app.py` turns into one sentence.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache, partial

import pandas as pd

from analysis.detection.default_watched_metrics import judged_by
from analysis.dispatch_difference import DispatchChange, compare_fingerprints
from analysis.metrics import Better, Metric
from dashboard.components import load, wording
from dashboard.components.query_params import Query
from dashboard.server.database import database_at
from dashboard.trends import charts, frames, lines, marks, moves, tables, view
from dashboard.trends.charts import TrendStyle
from dashboard.trends.frames import Levels
from dashboard.trends.lines import Place, PlaceTracks, TrendLine, place_of
from dashboard.trends.marks import TrackChange
from dashboard.trends.moves import Borders, Move, border
from dashboard.trends.view import MAX_TRACKS, Axis, TrendChoices, Trends, resolve_selection
from db.connection.engine import Database
from db.findings import store as findings
from db.runs import history as measured_history
from db.runs import run_changes, series_queries
from db.runs.fingerprints import fingerprints_by_environment
from records.dispatch import DispatchFingerprint, DispatchPart
from records.findings import Finding
from records.kinds import EnvironmentKind
from records.outcomes import MetricDefinition
from records.runs import RunChange
from records.series import SeriesKey, SeriesPoint
from reports.text.dispatch_text import PARTS

#: The most changes of operators and kernels of one case at one point, those with a warning first.
_NAMED = 4
#: The kind of changes of operators and kernels.
DISPATCH = "dispatch"


def dispatch_changes(
    database: Database, trend_lines: Sequence[TrendLine]
) -> dict[tuple[str, Place], tuple[RunChange, ...]]:
    """The differing operators and kernels from the preceding point of the track, by the letter and place of a
    line.
    """
    result: dict[tuple[str, Place], tuple[RunChange, ...]] = {}
    for line in trend_lines:
        key, environments = line.key, {point.environment for point in line.points}
        fingerprints = fingerprints_by_environment(
            database, environments, key.hardware, key.preset, [key.case]
        )
        result |= changes_along(line, {environment: one for (environment, _), one in fingerprints.items()})
    return result


def changes_along(
    line: TrendLine, fingerprints: Mapping[str, DispatchFingerprint]
) -> dict[tuple[str, Place], tuple[RunChange, ...]]:
    """As `dispatch_changes`, for one line with its `fingerprints` by environment.

    A night without a fingerprint is skipped: the changes since then are those of the next night.
    """
    result: dict[tuple[str, Place], tuple[RunChange, ...]] = {}
    before: dict[tuple[str, str], DispatchFingerprint] = {}
    for point, track in line.points_with_tracks:
        current = fingerprints.get(point.environment)
        if current is None:
            continue
        last = before.get((track, point.machine))
        before[track, point.machine] = current
        # Equal contents are the same object.
        if last is not None and last is not current:
            changes = compare_fingerprints(last, current).changes
            if changes:
                result[line.letter, place_of(point)] = _in_words(wording.case(point.case).text, changes)
    return result


def _in_words(case: str, changes: Sequence[DispatchChange]) -> tuple[RunChange, ...]:
    changes_by_name = [one for one in changes if one.part != DispatchPart.CODE]
    blocks = [
        RunChange(
            DISPATCH,
            f"{PARTS[one.part]} of {case}",
            f"{one.count_before}x {one.before}" if one.before else "",
            f"{one.count_after}x {one.after}" if one.after else "",
        )
        for one in changes_by_name[:_NAMED]
    ]
    if more := len(changes_by_name) - len(blocks):
        blocks.append(RunChange(DISPATCH, f"{more} more of {case}", "", "differ"))
    if len(changes_by_name) < len(changes):
        blocks.append(RunChange(DISPATCH, f"generated code of {case}", "", "differs"))
    return tuple(blocks)


#: A history as the sequence of places on one machine.
_Along = tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class History:
    """The data of some lines.

    `findings` are those of the lines, and of the metric by which the metric of a line is judged
    (`judged_by`). `changes` are by place, relative to the preceding place of the track, of all lines
    together; `of_line`, by a line's letter and place, are relative to the preceding place of that line, and
    so is `dispatch`, the differing operators and kernels.
    """

    lines: tuple[TrendLine, ...]
    tracks_of_place: PlaceTracks
    findings: tuple[Finding, ...]
    changes: Mapping[Place, Sequence[RunChange]]
    of_line: Mapping[tuple[str, Place], Sequence[RunChange]]
    dispatch: Mapping[tuple[str, Place], Sequence[RunChange]] = field(
        default_factory=dict[tuple[str, Place], Sequence[RunChange]]
    )

    @property
    def borders(self) -> Borders:
        """The points of each line at which a segment starts."""
        return {point for point, changes in self.of_line.items() if border(changes)}


@load.cache
def history(url: str, keys: tuple[SeriesKey, ...], newest: int) -> History:
    """The newest points of some series, at most `most` of each, with the facts of their runs."""
    database = database_at(url)
    points, measured_for = _points(database, keys, newest)
    trend_lines = tuple(lines.lines(keys, points, measured_for))
    series_findings = tuple(findings.findings_of_series(database, [*keys, *_judged_by(keys)]))
    return History(
        trend_lines,
        measured_for,
        series_findings,
        *_changes(url, trend_lines),
        dispatch_changes(database, trend_lines),
    )


def _points(
    database: Database, keys: Sequence[SeriesKey], newest: int
) -> tuple[dict[SeriesKey, list[SeriesPoint]], PlaceTracks]:
    """The newest points of some series, and the track of each place."""
    points: dict[SeriesKey, list[SeriesPoint]] = {key: [] for key in keys}
    # Points name their case and not their hardware.
    for hardware in dict.fromkeys(key.hardware for key in keys):
        own = {key.case: key for key in keys if key.hardware == hardware}
        for point in series_queries.series(database, list(own.values()), newest=newest):
            points[own[point.case]].append(point)
    runs = {point.run for each in points.values() for point in each}
    about = measured_history.measured_for(database, runs)
    return points, {(each.run, each.environment): each for each in about}


def _judged_by(keys: Sequence[SeriesKey]) -> list[SeriesKey]:
    """The series whose findings apply to some series of another metric."""
    result = ((key, judged_by(key.metric)) for key in keys)
    return [replace(key, metric=metric) for key, metric in result if metric not in ("", key.metric)]


def _changes(
    url: str, trend_lines: Sequence[TrendLine]
) -> tuple[Mapping[Place, Sequence[RunChange]], Mapping[tuple[str, Place], Sequence[RunChange]]]:
    """The other changes before each place, along all lines together and along each line.

    They are queried separately: a case without a point in the night of a change has it before its next point.
    """
    own = {line.letter: _along([line]) for line in trend_lines}
    all_lines = _along(trend_lines)
    every = tuple(dict.fromkeys([*all_lines, *(each for some in own.values() for each in some)]))
    result = dict(zip(every, _query_changes(url, every), strict=True))
    changes = {
        place: changes_there
        for along in all_lines
        for place, changes_there in zip(along, result[along], strict=True)
        if changes_there
    }
    of_line = {
        (letter, place): changes_there
        for letter, some in own.items()
        for along in some
        for place, changes_there in zip(along, result[along], strict=True)
        if changes_there
    }
    return changes, of_line


def _along(trend_lines: Sequence[TrendLine]) -> list[_Along]:
    """The sequences of places of some lines, separate for places that cannot be compared."""
    result: dict[tuple[str, str, str, bool], dict[Place, SeriesPoint]] = defaultdict(dict)
    for line in trend_lines:
        for point, track in line.points_with_tracks:
            # The canary has a separate environment in each run.
            apart = line.key.hardware, track, point.machine, point.environment_kind == EnvironmentKind.CANARY
            result[apart][place_of(point)] = point
    return [
        tuple(sorted(places, key=lambda place: (places[place].started_at, place)))
        for places in result.values()
    ]


@lru_cache(maxsize=64)
def _query_changes(url: str, every: tuple[_Along, ...]) -> list[list[list[RunChange]]]:
    """The changes before each place, for each history; cached, because the facts of a run do not change."""
    return run_changes.changes_around(database_at(url), every)


@dataclass(frozen=True, slots=True)
class ChartData:
    """The data of a view: its lines with the points of its tracks, and all marks on and around them.

    `tracks` are the labels of all tracks that the lines have, `drawn` of those that are drawn; both in the
    order in which tracks are numbered. `levels` are the baseline values of lines, None on an absolute scale.
    `sets` are the named data of the chart: see `charts.point_sets`.
    """

    lines: tuple[TrendLine, ...]
    tracks: Mapping[str, str]
    drawn: Mapping[str, str]
    levels: Levels | None
    look: TrendStyle
    points: pd.DataFrame
    sets: Mapping[str, pd.DataFrame]
    versions: pd.DataFrame
    moves: tuple[Move, ...]
    marks: pd.DataFrame
    steps: tuple[TrackChange, ...]
    ticks: pd.DataFrame


@load.cache
def every_case(url: str, keys: tuple[SeriesKey, ...]) -> list[tables.CaseHistory]:
    """The newest nights of many series."""
    # Twice the number, because two tracks share the points of a series.
    return tables.histories(*_points(database_at(url), keys, 2 * tables.NIGHTS))


def reach(url: str, keys: tuple[SeriesKey, ...], selection: Trends) -> tuple[History, Trends]:
    """The data of a view's lines; with all points if the opened run is older than the newest ones."""
    result = of_view(url, keys, selection)
    if selection.recent and selection.at and selection.at not in lines.runs(result.lines):
        selection = replace(selection, points="all")
        result = of_view(url, keys, selection)
    return result, selection


def of_view(url: str, keys: tuple[SeriesKey, ...], selection: Trends) -> History:
    """The data of the points of the view."""
    return history(url, keys, load.newest_points(len(keys), recent=selection.recent))


def resolve(past: History, selection: Trends) -> tuple[Trends, list[str]]:
    """The view with the values that depend on its points, and complaints: see `view.resolve_selection`."""
    tracks = lines.in_order((track for line in past.lines for track in line.tracks), past.tracks_of_place)
    return resolve_selection(
        selection,
        tracks,
        [*lines.versions(past.lines), *lines.whole_versions(past.lines)],
        lines.default_baseline(past.lines, past.tracks_of_place),
        lines.runs(past.lines),
    )


@load.cache
def chart_data(url: str, keys: tuple[SeriesKey, ...], selection: Trends, better: Better) -> ChartData:
    """The chart data of a resolved view, independent of the opened point; the lines must have a point."""
    return of(of_view(url, keys, selection), selection, better)


def of(past: History, selection: Trends, better: Better) -> ChartData:
    """The chart data of a resolved view of a history."""
    every = lines.in_order((track for line in past.lines for track in line.tracks), past.tracks_of_place)
    labels = lines.labels(past.lines, every, past.tracks_of_place)
    visible_tracks = set(selection.tracks) or _default_tracks(past, selection.axis, every)
    visible = lines.since([line.within(visible_tracks) for line in past.lines], selection.days)
    tracks = {track: label for track, label in labels.items() if track in visible_tracks}
    levels = _levels(past.lines, selection.baseline) if selection.scale == "relative" else None
    points = frames.points(visible, tracks, selection.axis, levels)
    along_versions = selection.axis == "version"
    versions = frames.version_names(visible) if along_versions else frames.version_changes(visible)
    line_moves = [
        *moves.moves_of_findings(visible, past.findings),
        # The order of versions is not that of time.
        *(
            ()
            if along_versions
            else moves.detect_moves(visible, past.findings, past.tracks_of_place, past.borders, better)
        ),
    ]
    run_steps = (
        ()
        if along_versions
        else marks.steps(
            visible,
            past.changes,
            moves.levels(visible, past.tracks_of_place, past.borders),
            past.dispatch,
        )
    )
    move_marks = marks.moves(line_moves, selection.axis, points, levels) if len(points) else pd.DataFrame()
    look = replace(
        frames.look(visible, selection.scale),
        tracks=1 if along_versions else len(tracks),
        rules=not along_versions and not versions.empty,
        moves="".join(sorted(set(move_marks["letter"]))) if len(move_marks) else "",
        ticks=bool(run_steps),
        series=() if along_versions else frames.series(points),
    )
    return ChartData(
        lines=visible,
        tracks=labels,
        drawn=tracks,
        levels=levels,
        look=look,
        points=points,
        sets=_sets(points, look),
        versions=versions,
        moves=tuple(line_moves),
        marks=move_marks,
        steps=tuple(run_steps),
        ticks=marks.ticks(run_steps),
    )


def _sets(points: pd.DataFrame, look: TrendStyle) -> dict[str, pd.DataFrame]:
    if not len(points):
        return {}
    sets = charts.point_sets(points, look)
    return {**sets, "hovered": frames.hover_rows(points)} if look.series else sets


def _levels(trend_lines: Sequence[TrendLine], baseline: str) -> Levels:
    result = {line.letter: lines.level(line, baseline) for line in trend_lines}
    return {letter: level for letter, level in result.items() if level is not None}


def _default_tracks(past: History, axis: Axis, every: Sequence[str]) -> set[str]:
    """The default tracks: along dates those of schedules.

    Sessions that confirm a finding, upgrades and single runs are not nights: a line between their points has
    no meaning. They are drawn if no schedule measured anything, and along versions.
    """
    if axis == "version":
        return set(every)
    schedule_tracks = lines.scheduled_tracks(past.lines, past.tracks_of_place) or set(every)
    newest: dict[str, datetime] = {}
    for line in past.lines:
        for point, track in line.points_with_tracks:
            newest[track] = max(newest.get(track, point.started_at), point.started_at)
    # At most as many as can be distinguished.
    return set(sorted(schedule_tracks, key=lambda track: newest[track], reverse=True)[:MAX_TRACKS])


@dataclass(frozen=True, slots=True)
class TrendsData:
    """A resolved view with its options, the `past` of its `lines` lines, and its chart data."""

    chosen: Trends
    offer: TrendChoices
    complaints: tuple[str, ...]
    lines: int
    defined: Mapping[str, MetricDefinition]
    metric: Metric
    past: History
    drawn: ChartData


def complaints(url: str, query: Query) -> list[str]:
    """Complaints about values of a query that no series has."""
    keys = load.series_keys(url)
    return view.trends(query, keys, load.opening_places(url))[2] if keys else []


def load_trends(url: str, query: Query) -> TrendsData | None:
    """The content of the page for this query; None if there is nothing to draw."""
    keys = load.series_keys(url)
    if not keys:
        return None
    definitions = load.metric_definitions(url)
    selection, offer, complaints = view.trends(
        query, keys, load.opening_places(url), partial(load.leading_cases, url)
    )
    series = view.label_series(selection.lines(keys))
    past, selection = reach(url, series, selection)
    if not any(line.points for line in past.lines):
        return None
    if "axis" not in query and lines.without_dates(past.lines):
        return load_trends(url, {**query, "axis": ["version"]})
    metric = wording.metric(selection.metric, definitions)
    selection, more = resolve(past, selection)
    chart = chart_data(url, series, replace(selection, at=""), metric.better)
    return TrendsData(selection, offer, (*complaints, *more), len(series), definitions, metric, past, chart)
