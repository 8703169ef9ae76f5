"""Converts lines to the DataFrames of the trend chart and CSV files."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from statistics import median
from typing import Any

import pandas as pd

from dashboard.components import links, wording
from dashboard.components.frames import version_order
from dashboard.components.query_params import public
from dashboard.trends.charts import TrendStyle
from dashboard.trends.lines import TrendLine
from dashboard.trends.view import Axis, Scale
from interchange.foreign_runs import is_undated
from records.series import SeriesPoint

#: The most labels on a date axis; with more versions only changes of the release are marked, not every
#: nightly.
_MAX_VERSION_RULES = 10
#: The most names along a version axis; a phone shows every third of them.
_MAX_VERSION_NAMES, _ON_PHONES = 8, 3
#: The width of one character of a label as a share of the axis.
_LABEL_ROOM = 0.007
#: Lines that differ by more than this factor get separate scales.
_ONE_SCALE = 3
#: The separator of the first and the last version at one moment.
_SPAN = " … "
#: If all points lie within this time, the axis also shows the time of day.
_DATES_SUFFICE = timedelta(days=3)
#: The most moments with a tooltip on one chart.
_MOST_MOMENTS = 400
#: With more points only the band shows the range, without a bar at every point.
_MAX_BARS = 120

Row = dict[str, Any]
#: The baseline value of each line, by letter.
Levels = Mapping[str, float]


def points(
    trend_lines: Sequence[TrendLine], tracks: Mapping[str, str], axis: Axis, levels: Levels | None = None
) -> pd.DataFrame:
    """One row per point for `charts.trend`, in the order of its lines.

    `tracks` are their labels, in the order in which they are numbered. With `levels` the values are relative
    to them, minus one, and lines without a level are left out. On the version axis x is the position of the
    version among all, and the runs of one version are combined: the median of their points, the range of all
    their replicates, the sum of n.
    """
    places = _places(point.torch_version for line in trend_lines for point in line.points)
    rows: list[Row] = []
    for line in trend_lines:
        if levels is not None and line.letter not in levels:
            continue
        own = _by_version(line, places) if axis == "version" else _by_date(line, tracks)
        rows += own if levels is None else [against(each, levels[line.letter]) for each in own]
    ends = {(each["letter"], each["track"]): place for place, each in enumerate(rows)}
    several = len({each["track"] for each in rows}) > 1
    for place, each in enumerate(rows):
        each["last"] = ends[each["letter"], each["track"]] == place
        each["end"] = f"{each['letter']}{each['track']}" if several else each["letter"]
    return pd.DataFrame(rows)


def series(points: pd.DataFrame) -> tuple[tuple[str, str], ...]:
    """The lines of the common tooltip: the end of each line, and its case with its track.

    Empty if there are too few or too many moments.
    """
    moments = set(points["x"].tolist()) if len(points) else set()
    if not 2 <= len(moments) <= _MOST_MOMENTS:
        return ()
    firsts = points.drop_duplicates("end").to_dict("records")
    several = len(firsts) > len({each["case"] for each in firsts})
    names = {
        each["end"]: f"{each['end']} {each['case']}" + (f", {each['name']}" if several else "")
        for each in firsts
    }
    return tuple(names.items())


def hover_rows(points: pd.DataFrame) -> pd.DataFrame:
    """The tooltips along dates: columns x, from, to, measured, and the value of each line as text.

    Every moment covers the time that is nearer to it than to any other. A line without a point there has its
    last value before.
    """
    if not (names := [end for end, _ in series(points)]):
        return pd.DataFrame(columns=["x", "from", "to", "measured"])
    moments = sorted(set(points["x"]))
    borders = [moments[0], *(a + (b - a) / 2 for a, b in pairwise(moments)), moments[-1]]
    by_line = {name: points.loc[points["end"] == name].sort_values("x") for name in names}
    rows: list[Row] = []
    for place, moment in enumerate(moments):
        row: Row = {"x": moment, "from": borders[place], "to": borders[place + 1]}
        row["measured"] = wording.utc(moment)
        for name, own in by_line.items():
            before = own.loc[own["x"] <= moment, "point"]
            row[name] = wording.significant(before.iloc[-1], 4) if len(before) else wording.NONE
        rows.append(row)
    return pd.DataFrame(rows)


def look(trend_lines: Sequence[TrendLine], scale: Scale = "absolute") -> TrendStyle:
    """The shape of a trend chart of these lines; there must be at least one point."""
    every = [point for line in trend_lines for point in line.points]
    medians = [median(abs(point.point) for point in line.points) for line in trend_lines if line.points]
    moments = [point.started_at for point in every]
    return TrendStyle(
        stacked=scale == "absolute" and max(medians) > _ONE_SCALE * min(medians),
        bars=len(every) <= _MAX_BARS,
        clock=max(moments) - min(moments) < _DATES_SUFFICE,
        relative=scale == "relative",
    )


def version_changes(trend_lines: Iterable[TrendLine]) -> pd.DataFrame:
    """The changes of the PyTorch version from the preceding point of a track: columns x, version, label.

    The label is empty if it would overlap the one before. Points without a PyTorch (the canary's) are
    ignored. Several versions at one moment, for example from imported files, share a rule.
    """
    columns = ["x", "version", "label"]
    tracks: dict[tuple[str, str], list[SeriesPoint]] = defaultdict(list)
    for line in trend_lines:
        for point, track in line.points_with_tracks:
            if point.torch_version:
                tracks[line.key.hardware, track].append(point)
    every = [sorted(own, key=lambda point: point.started_at) for own in tracks.values()]
    if not every:
        return pd.DataFrame(columns=columns)
    changes = _all_changes(every, str)
    if len(changes) > _MAX_VERSION_RULES:
        changes = _all_changes(every, _release)
    first, end = min(own[0].started_at for own in every), max(own[-1].started_at for own in every)
    length = end - first
    rows: list[Row] = []
    free_from = first - length
    for moment, version in changes:
        label = _SPAN.join(public(each) for each in version.split(_SPAN))
        half = length * (len(label) * _LABEL_ROOM / 2)
        fits = moment - half >= free_from
        if fits:
            free_from = moment + half
        rows.append({"x": moment, "version": version, "label": label if fits else ""})
    return pd.DataFrame(rows, columns=columns)


def at_one_moment(changes: pd.DataFrame) -> bool:
    """Whether any of `version_changes` stands for several versions."""
    return any(_SPAN in version for version in changes["version"])


def version_names(trend_lines: Iterable[TrendLine]) -> pd.DataFrame:
    """The versions along their axis: columns x (the position), version, label (short; empty if there is no
    room).

    `narrow`: the label is drawn on narrow screens too.
    """
    places = _places(point.torch_version for line in trend_lines for point in line.points)
    every = -(-len(places) // _MAX_VERSION_NAMES)
    names = {version: wording.version(public(version)) if version else "no PyTorch" for version in places}
    # Builds of one version for two devices keep the part that distinguishes them.
    duplicates = {name for name, many in Counter(names.values()).items() if many > 1}
    rows: list[Row] = []
    for version, place in places.items():
        label = version if names[version] in duplicates else names[version]
        rows.append(
            {
                "x": place,
                "version": version or names[version],
                "label": label if place % every == 0 else "",
                "narrow": place % (every * _ON_PHONES) == 0,
            }
        )
    return pd.DataFrame(rows, columns=["x", "version", "label", "narrow"])


def _by_date(line: TrendLine, tracks: Mapping[str, str]) -> list[Row]:
    """The rows of a line, track by track: connected points are adjacent."""
    rows: list[Row] = []
    for number, (track, label) in enumerate(tracks.items(), 1):
        rows += [{**row(line, point), "track": number, "name": label} for point in line.of_track(track)]
    return rows


def _by_version(line: TrendLine, places: Mapping[str, int]) -> list[Row]:
    groups: dict[str, list[SeriesPoint]] = defaultdict(list)
    for point in line.points:
        groups[point.torch_version].append(point)
    rows: list[Row] = []
    for version in sorted(groups, key=lambda each: places[each]):
        group = groups[version]
        newest = row(line, group[-1])
        if len(group) > 1:
            # The interval of a single point is not that of the median.
            newest |= {"interval": wording.NONE, "run": _run_names(group)}
        rows.append(
            {
                **newest,
                "x": places[version],
                "point": median(point.point for point in group),
                "smallest": min(point.smallest for point in group),
                "largest": max(point.largest for point in group),
                "n": sum(point.n for point in group),
            }
        )
    return rows


def _run_names(group: Sequence[SeriesPoint]) -> str:
    """The runs with points of a version, oldest first; a run may have several, one for each environment."""
    many, newest = len({point.run for point in group}), group[-1].run
    if many == 1:
        return f"{newest}, in {len(group)} environments"
    return f"{many} runs, newest {newest}"


def row(line: TrendLine, point: SeriesPoint) -> Row:
    """One point as the chart draws it along dates; `track` is 1 by default."""
    has_interval = point.low is not None and point.high is not None
    return {
        "x": point.started_at,
        "letter": line.letter,
        "track": 1,
        "case": wording.case(point.case).text,
        "where": f"{point.machine}, {line.key.hardware_label}",
        "measured": wording.UNKNOWN_TIME if is_undated(point.run) else wording.utc(point.started_at),
        "torch": point.torch_version or wording.NONE,
        "point": point.point,
        "smallest": point.smallest,
        "largest": point.largest,
        "interval": f"{point.low:.5g} to {point.high:.5g}" if has_interval else wording.NONE,
        "n": point.n,
        "run": point.run,
        "link": links.point(point.run, point.case, point.environment),
    }


def against(own: Row, level: float) -> Row:
    """A row with the values of the relative chart and the measured ones."""
    return {**own, **{f"{name}_share": own[name] / level - 1 for name in ("point", "smallest", "largest")}}


def _places(versions: Iterable[str]) -> dict[str, int]:
    return {version: place for place, version in enumerate(sorted(set(versions), key=version_order))}


def _all_changes(
    tracks: Iterable[Sequence[SeriesPoint]], name_of: Callable[[str], str]
) -> list[tuple[datetime, str]]:
    """The changes of all tracks, each once, in order; those at the same moment are combined."""
    moments: dict[datetime, set[str]] = defaultdict(set)
    for own in tracks:
        for moment, version in _changes(own, name_of):
            moments[moment] |= set(version.split(_SPAN))
    return [(moment, _span(moments[moment])) for moment in sorted(moments)]


def _changes(points: Sequence[SeriesPoint], name_of: Callable[[str], str]) -> list[tuple[datetime, str]]:
    """The moments at which the versions, in the form of `name_of`, differ from those of the moment before."""
    moments = groupby(points, key=lambda p: p.started_at)
    matches = [(moment, _span({name_of(p.torch_version) for p in own})) for moment, own in moments]
    begins = matches[:1] if _SPAN in matches[0][1] else []
    return begins + [after for before, after in pairwise(matches) if before[1] != after[1]]


def _span(versions: Collection[str]) -> str:
    first, *rest = sorted(versions, key=version_order)
    return _SPAN.join([first, *rest[-1:]])


def _release(version: str) -> str:
    rank, parsed_version, text = version_order(version)
    return text if rank else parsed_version.base_version
