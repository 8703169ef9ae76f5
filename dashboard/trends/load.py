"""The data of the Trends page, kept for a few seconds: points, facts of their runs, all that a view draws.

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

#: So many changes of one case before one point are named, those with a warning first.
_NAMED = 4
#: The kind of a change that is one of what runs.
DISPATCH = "dispatch"


def dispatch_changes(
    database: Database, drawn: Sequence[TrendLine]
) -> dict[tuple[str, Place], tuple[RunChange, ...]]:
    """What runs differently from the point before in its track, by a line's letter and place."""
    found: dict[tuple[str, Place], tuple[RunChange, ...]] = {}
    for line in drawn:
        key, environments = line.key, {point.environment for point in line.points}
        fingerprints = fingerprints_by_environment(
            database, environments, key.hardware, key.preset, [key.case]
        )
        found |= changes_along(line, {environment: one for (environment, _), one in fingerprints.items()})
    return found


def changes_along(
    line: TrendLine, fingerprints: Mapping[str, DispatchFingerprint]
) -> dict[tuple[str, Place], tuple[RunChange, ...]]:
    """As `dispatch_changes`, of one line with its `fingerprints` by environment.

    A night of an environment without one is passed over: what changed since then is said of the next.
    """
    found: dict[tuple[str, Place], tuple[RunChange, ...]] = {}
    before: dict[tuple[str, str], DispatchFingerprint] = {}
    for point, track in line.points_with_tracks:
        current = fingerprints.get(point.environment)
        if current is None:
            continue
        last = before.get((track, point.machine))
        before[track, point.machine] = current
        # The same content is the same object.
        if last is not None and last is not current:
            changes = compare_fingerprints(last, current).changes
            if changes:
                found[line.letter, place_of(point)] = _in_words(wording.case(point.case).text, changes)
    return found


def _in_words(case: str, changes: Sequence[DispatchChange]) -> tuple[RunChange, ...]:
    named = [one for one in changes if one.part != DispatchPart.CODE]
    listed = [
        RunChange(
            DISPATCH,
            f"{PARTS[one.part]} of {case}",
            f"{one.count_before}x {one.before}" if one.before else "",
            f"{one.count_after}x {one.after}" if one.after else "",
        )
        for one in named[:_NAMED]
    ]
    if more := len(named) - len(listed):
        listed.append(RunChange(DISPATCH, f"{more} more of {case}", "", "differ"))
    if len(named) < len(changes):
        listed.append(RunChange(DISPATCH, f"generated code of {case}", "", "differs"))
    return tuple(listed)


#: A history, as the places that follow each other on one machine.
_Along = tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class History:
    """All that is known of some lines.

    `findings` are those of the lines, and of the metric by which a line's own is judged (`judged_by`).
    `changes` are by place, against the place before it in its track, whichever line was measured there;
    `of_line`, by a line's letter and place, are against the place before it in that line, as is `dispatch`,
    which is what runs differently.
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
        """Before which points of each line a segment starts."""
        return {point for point, changes in self.of_line.items() if border(changes)}


@load.cache
def history(url: str, keys: tuple[SeriesKey, ...], newest: int) -> History:
    """The newest points of some series, up to so many of each, with the facts of their runs."""
    database = database_at(url)
    points, measured_for = _points(database, keys, newest)
    drawn = tuple(lines.lines(keys, points, measured_for))
    judged = tuple(findings.findings_of_series(database, [*keys, *_judged_by(keys)]))
    return History(drawn, measured_for, judged, *_changes(url, drawn), dispatch_changes(database, drawn))


def _points(
    database: Database, keys: Sequence[SeriesKey], newest: int
) -> tuple[dict[SeriesKey, list[SeriesPoint]], PlaceTracks]:
    """The newest points of some series, and by place what each was measured for."""
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
    """The series whose findings hold for some series of another metric."""
    found = ((key, judged_by(key.metric)) for key in keys)
    return [replace(key, metric=metric) for key, metric in found if metric not in ("", key.metric)]


def _changes(
    url: str, drawn: Sequence[TrendLine]
) -> tuple[Mapping[Place, Sequence[RunChange]], Mapping[tuple[str, Place], Sequence[RunChange]]]:
    """What else changed before each place, along all lines together and along each by itself.

    They are asked for apart: a case that missed the night of a change has it before its next point.
    """
    own = {line.letter: _along([line]) for line in drawn}
    all_lines = _along(drawn)
    every = tuple(dict.fromkeys([*all_lines, *(each for some in own.values() for each in some)]))
    found = dict(zip(every, _query_changes(url, every), strict=True))
    changes = {
        place: changes_there
        for along in all_lines
        for place, changes_there in zip(along, found[along], strict=True)
        if changes_there
    }
    of_line = {
        (letter, place): changes_there
        for letter, some in own.items()
        for along in some
        for place, changes_there in zip(along, found[along], strict=True)
        if changes_there
    }
    return changes, of_line


def _along(drawn: Sequence[TrendLine]) -> list[_Along]:
    """The places of some lines as they follow each other, apart for what cannot be set against each other."""
    found: dict[tuple[str, str, str, bool], dict[Place, SeriesPoint]] = defaultdict(dict)
    for line in drawn:
        for point, track in line.points_with_tracks:
            # The canary has an environment of its own in each run.
            apart = line.key.hardware, track, point.machine, point.environment_kind == EnvironmentKind.CANARY
            found[apart][place_of(point)] = point
    return [
        tuple(sorted(places, key=lambda place: (places[place].started_at, place)))
        for places in found.values()
    ]


@lru_cache(maxsize=64)
def _query_changes(url: str, every: tuple[_Along, ...]) -> list[list[list[RunChange]]]:
    """For each history, what changed before each place. What a run was measured in never changes."""
    return run_changes.changes_around(database_at(url), every)


@dataclass(frozen=True, slots=True)
class ChartData:
    """The data of a view: its lines with the points of its tracks, and all marks on and around them.

    `tracks` are the labels of all tracks that the lines have, `drawn` of those that are drawn; both in the
    order in which tracks are numbered. `levels` are what lines are set against, None on an absolute scale.
    `sets` are the points as the chart has them by name: see `charts.point_sets`.
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
    # Two tracks share the nights of a series.
    return tables.histories(*_points(database_at(url), keys, 2 * tables.NIGHTS))


def reach(url: str, keys: tuple[SeriesKey, ...], chosen: Trends) -> tuple[History, Trends]:
    """What is known of a view's lines; one that opens a run of longer ago has all points."""
    found = of_view(url, keys, chosen)
    if chosen.recent and chosen.at and chosen.at not in lines.runs(found.lines):
        chosen = replace(chosen, points="all")
        found = of_view(url, keys, chosen)
    return found, chosen


def of_view(url: str, keys: tuple[SeriesKey, ...], chosen: Trends) -> History:
    """What is known of as many points as the view has."""
    return history(url, keys, load.newest_points(len(keys), recent=chosen.recent))


def resolve(past: History, chosen: Trends) -> tuple[Trends, list[str]]:
    """The view with the values that depend on its points, and complaints: see `view.resolve_selection`."""
    tracks = lines.in_order((track for line in past.lines for track in line.tracks), past.tracks_of_place)
    return resolve_selection(
        chosen,
        tracks,
        [*lines.versions(past.lines), *lines.whole_versions(past.lines)],
        lines.default_baseline(past.lines, past.tracks_of_place),
        lines.runs(past.lines),
    )


@load.cache
def chart_data(url: str, keys: tuple[SeriesKey, ...], chosen: Trends, better: Better) -> ChartData:
    """What a resolved view draws, whichever point is opened; the lines must have a point."""
    return of(of_view(url, keys, chosen), chosen, better)


def of(past: History, chosen: Trends, better: Better) -> ChartData:
    """What a resolved view draws of a history."""
    every = lines.in_order((track for line in past.lines for track in line.tracks), past.tracks_of_place)
    labels = lines.labels(past.lines, every, past.tracks_of_place)
    kept = set(chosen.tracks) or _default_tracks(past, chosen.axis, every)
    shown = lines.since([line.within(kept) for line in past.lines], chosen.days)
    tracks = {track: label for track, label in labels.items() if track in kept}
    levels = _levels(past.lines, chosen.baseline) if chosen.scale == "relative" else None
    points = frames.points(shown, tracks, chosen.axis, levels)
    along_versions = chosen.axis == "version"
    versions = frames.version_names(shown) if along_versions else frames.version_changes(shown)
    moved = [
        *moves.moves_of_findings(shown, past.findings),
        # By themselves versions stand in an order that is none of time.
        *(
            ()
            if along_versions
            else moves.detect_moves(shown, past.findings, past.tracks_of_place, past.borders, better)
        ),
    ]
    stepped = (
        ()
        if along_versions
        else marks.steps(
            shown,
            past.changes,
            moves.levels(shown, past.tracks_of_place, past.borders),
            past.dispatch,
        )
    )
    marked = marks.moves(moved, chosen.axis, points, levels) if len(points) else pd.DataFrame()
    look = replace(
        frames.look(shown, chosen.scale),
        tracks=1 if along_versions else len(tracks),
        rules=not along_versions and not versions.empty,
        moves="".join(sorted(set(marked["letter"]))) if len(marked) else "",
        ticks=bool(stepped),
        series=() if along_versions else frames.series(points),
    )
    return ChartData(
        lines=shown,
        tracks=labels,
        drawn=tracks,
        levels=levels,
        look=look,
        points=points,
        sets=_sets(points, look),
        versions=versions,
        moves=tuple(moved),
        marks=marked,
        steps=tuple(stepped),
        ticks=marks.ticks(stepped),
    )


def _sets(points: pd.DataFrame, look: TrendStyle) -> dict[str, pd.DataFrame]:
    if not len(points):
        return {}
    found = charts.point_sets(points, look)
    return {**found, "hovered": frames.hover_rows(points)} if look.series else found


def _levels(drawn: Sequence[TrendLine], baseline: str) -> Levels:
    found = {line.letter: lines.level(line, baseline) for line in drawn}
    return {letter: level for letter, level in found.items() if level is not None}


def _default_tracks(past: History, axis: Axis, every: Sequence[str]) -> set[str]:
    """The tracks that are drawn where none is chosen: along dates those that a schedule measures.

    Sessions that confirm a finding, upgrades and single runs are no nights: a line through them means nothing
    between its points. Where no schedule measured anything, and along versions, they are all there is to see.
    """
    if axis == "version":
        return set(every)
    scheduled = lines.scheduled_tracks(past.lines, past.tracks_of_place) or set(every)
    newest: dict[str, datetime] = {}
    for line in past.lines:
        for point, track in line.points_with_tracks:
            newest[track] = max(newest.get(track, point.started_at), point.started_at)
    # No more than can be distinguished.
    return set(sorted(scheduled, key=lambda track: newest[track], reverse=True)[:MAX_TRACKS])


@dataclass(frozen=True, slots=True)
class TrendsData:
    """A resolved view with what it can choose from, the `past` of its `lines` lines, and what it draws."""

    chosen: Trends
    offer: TrendChoices
    complaints: tuple[str, ...]
    lines: int
    defined: Mapping[str, MetricDefinition]
    metric: Metric
    past: History
    drawn: ChartData


def complaints(url: str, query: Query) -> list[str]:
    """What a query names that no series has."""
    keys = load.series_keys(url)
    return view.trends(query, keys, load.opening_places(url))[2] if keys else []


def load_trends(url: str, query: Query) -> TrendsData | None:
    """What the page of this query shows; None where there is nothing to draw."""
    keys = load.series_keys(url)
    if not keys:
        return None
    defined = load.metric_definitions(url)
    chosen, offer, complaints = view.trends(
        query, keys, load.opening_places(url), partial(load.leading_cases, url)
    )
    series = view.label_series(chosen.lines(keys))
    past, chosen = reach(url, series, chosen)
    if not any(line.points for line in past.lines):
        return None
    if "axis" not in query and lines.without_dates(past.lines):
        return load_trends(url, {**query, "axis": ["version"]})
    metric = wording.metric(chosen.metric, defined)
    chosen, more = resolve(past, chosen)
    drawn = chart_data(url, series, replace(chosen, at=""), metric.better)
    return TrendsData(chosen, offer, (*complaints, *more), len(series), defined, metric, past, drawn)
