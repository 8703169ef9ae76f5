"""The data of the Trends page: the points of its lines and the facts of their runs, kept for a few seconds.

All of it raises `db.errors.DatabaseError`, which `app.py` turns into one sentence.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import streamlit as st

from analysis.detection.default_watched_metrics import judged_by
from dashboard.components import load
from dashboard.server.database import opened
from dashboard.trends.dispatch import dispatch_changes
from dashboard.trends.lines import Place, PlaceTracks, TrendLine, lines, place_of
from dashboard.trends.moves import Borders, border
from db.findings import store as findings
from db.runs import history as measured_history
from db.runs import run_changes, series_queries
from records.findings import Finding
from records.kinds import EnvironmentKind
from records.runs import RunChange
from records.series import SeriesKey, SeriesPoint

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


# Shared and not copied: it is never changed, and copying two thousand points takes as long as reading them.
@st.cache_resource(ttl=load.FRESH_SECONDS, max_entries=64, show_spinner=False)
def history(url: str, keys: tuple[SeriesKey, ...], newest: int) -> History:
    """The newest points of some series, up to so many of each, with the facts of their runs."""
    database = opened(url)
    by_hardware: dict[str, list[SeriesKey]] = defaultdict(list)
    for key in keys:
        by_hardware[key.hardware].append(key)
    points: dict[SeriesKey, list[SeriesPoint]] = {key: [] for key in keys}
    for own in by_hardware.values():
        # Points name their case and not their hardware.
        by_case = {key.case: points[key] for key in own}
        for point in series_queries.series(database, own, newest=newest):
            by_case[point.case].append(point)
    runs = {point.run for each in points.values() for point in each}
    measured_for = {
        (each.run, each.environment): each for each in measured_history.measured_for(database, runs)
    }
    drawn = tuple(lines(keys, points, measured_for))
    judged = tuple(findings.findings_of_series(database, [*keys, *_judged_by(keys)]))
    return History(drawn, measured_for, judged, *_changes(url, drawn), dispatch_changes(database, drawn))


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
        for point, track in zip(line.points, line.tracks, strict=True):
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
    return run_changes.changes_around(opened(url), every)
