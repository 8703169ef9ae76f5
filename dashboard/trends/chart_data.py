"""Everything that a view of trends draws, made once and kept for a few seconds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import pandas as pd
import streamlit as st

from analysis.metrics import Better, Metric
from dashboard.components import load, wording
from dashboard.components.query_params import Query
from dashboard.trends import charts, frames, lines, marks, moves, view
from dashboard.trends.charts import TrendStyle
from dashboard.trends.frames import Levels
from dashboard.trends.lines import TrendLine
from dashboard.trends.load import History, history
from dashboard.trends.marks import TrackChange
from dashboard.trends.moves import Move
from dashboard.trends.view import MAX_TRACKS, Axis, TrendChoices, Trends, resolved
from records.outcomes import MetricDefinition
from records.series import SeriesKey


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


def reach(url: str, keys: tuple[SeriesKey, ...], chosen: Trends) -> tuple[History, Trends]:
    """What is known of a view's lines; one that opens a run of longer ago has all points."""
    known = of_view(url, keys, chosen)
    if chosen.recent and chosen.at and chosen.at not in lines.runs(known.lines):
        chosen = replace(chosen, points="all")
        known = of_view(url, keys, chosen)
    return known, chosen


def of_view(url: str, keys: tuple[SeriesKey, ...], chosen: Trends) -> History:
    """What is known of as many points as the view has."""
    return history(url, keys, load.newest_points(len(keys), recent=chosen.recent))


def resolve(known: History, chosen: Trends) -> tuple[Trends, list[str]]:
    """The view with the values that depend on its points, and complaints: see `view.resolved`."""
    tracks = lines.in_order((track for line in known.lines for track in line.tracks), known.tracks_of_place)
    return resolved(
        chosen,
        tracks,
        [*lines.versions(known.lines), *lines.whole_versions(known.lines)],
        lines.pinned(known.lines, known.tracks_of_place),
        lines.runs(known.lines),
    )


# Shared and not copied, as the history: it is never changed.
@st.cache_resource(ttl=load.FRESH_SECONDS, max_entries=64, show_spinner=False)
def drawing(url: str, keys: tuple[SeriesKey, ...], chosen: Trends, better: Better) -> ChartData:
    """What a resolved view draws, whichever point is opened; the lines must have a point."""
    return of(of_view(url, keys, chosen), chosen, better)


def of(known: History, chosen: Trends, better: Better) -> ChartData:
    """What a resolved view draws of a history."""
    every = lines.in_order((track for line in known.lines for track in line.tracks), known.tracks_of_place)
    labels = lines.labels(known.lines, every, known.tracks_of_place)
    kept = set(chosen.tracks) or _opening(known, chosen.axis, every)
    shown = tuple(line.within(kept) for line in known.lines)
    tracks = {track: label for track, label in labels.items() if track in kept}
    levels = _levels(known.lines, chosen.baseline) if chosen.scale == "relative" else None
    points = frames.points(shown, tracks, chosen.axis, levels)
    along_versions = chosen.axis == "version"
    versions = frames.version_names(shown) if along_versions else frames.version_changes(shown)
    moved = [
        *moves.found(shown, known.findings),
        # By themselves versions stand in an order that is none of time.
        *(
            ()
            if along_versions
            else moves.seen(shown, known.findings, known.tracks_of_place, known.borders, better)
        ),
    ]
    stepped = (
        ()
        if along_versions
        else marks.steps(
            shown,
            known.changes,
            moves.levels(shown, known.tracks_of_place, known.borders),
            known.dispatch,
        )
    )
    marked = marks.moves(moved, chosen.axis, points, levels) if len(points) else pd.DataFrame()
    look = replace(
        frames.look(shown, chosen.scale),
        tracks=1 if along_versions else len(tracks),
        rules=not along_versions and not versions.empty,
        moves="".join(sorted(set(marked["letter"]))) if len(marked) else "",
        ticks=bool(stepped),
    )
    return ChartData(
        lines=shown,
        tracks=labels,
        drawn=tracks,
        levels=levels,
        look=look,
        points=points,
        sets=charts.point_sets(points, look) if len(points) else {},
        versions=versions,
        moves=tuple(moved),
        marks=marked,
        steps=tuple(stepped),
        ticks=marks.ticks(stepped),
    )


def _levels(drawn: Sequence[TrendLine], baseline: str) -> Levels:
    found = {line.letter: lines.level(line, baseline) for line in drawn}
    return {letter: level for letter, level in found.items() if level is not None}


def _opening(known: History, axis: Axis, every: Sequence[str]) -> set[str]:
    """The tracks that are drawn where none is chosen: along dates those that a schedule measures.

    Sessions that confirm a finding, upgrades and single runs are no nights: a line through them means nothing
    between its points. Where no schedule measured anything, and along versions, they are all there is to see.
    """
    if axis == "version":
        return set(every)
    scheduled = lines.scheduled(known.lines, known.tracks_of_place) or set(every)
    newest: dict[str, datetime] = {}
    for line in known.lines:
        for point, track in zip(line.points, line.tracks, strict=True):
            newest[track] = max(newest.get(track, point.started_at), point.started_at)
    # No more than can be distinguished.
    return set(sorted(scheduled, key=lambda track: newest[track], reverse=True)[:MAX_TRACKS])


@dataclass(frozen=True, slots=True)
class TrendsData:
    """A resolved view with what it can choose from, what is known of its `lines` lines, and what it draws."""

    chosen: Trends
    offer: TrendChoices
    complaints: tuple[str, ...]
    lines: int
    defined: Mapping[str, MetricDefinition]
    metric: Metric
    known: History
    drawn: ChartData


def load_trends(url: str, query: Query) -> TrendsData | None:
    """What the page of this query shows; None where there is nothing to draw."""
    keys = load.series_keys(url)
    if not keys:
        return None
    defined = load.metric_definitions(url)
    chosen, offer, complaints = view.trends(
        query, keys, load.opening_places(url), partial(load.leading_cases, url)
    )
    shown = chosen.lines(keys)
    known, chosen = reach(url, shown, chosen)
    if not any(line.points for line in known.lines):
        return None
    metric = wording.metric(chosen.metric, defined)
    chosen, more = resolve(known, chosen)
    drawn = drawing(url, shown, replace(chosen, at=""), metric.better)
    return TrendsData(chosen, offer, (*complaints, *more), len(shown), defined, metric, known, drawn)
