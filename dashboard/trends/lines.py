"""Series as lines of a chart: the tracks whose points are connected, and the baseline."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import compress
from statistics import median
from string import ascii_uppercase
from typing import Any

from dashboard.components import charts
from dashboard.components.frames import version_order
from dashboard.components.query_params import public
from interchange.foreign_runs import is_undated
from records.kinds import EnvironmentKind
from records.series import MeasuredFor, SeriesKey, SeriesPoint

#: The track of manual runs of environments that follow each other.
OTHER = "other"
#: The suffix for sessions and single runs of an environment with the name of a schedule's track.
SINGLE = ", single runs"

#: A run (id) with one of its environments (fingerprint), the place of a point.
Place = tuple[str, str]
#: By place, the track it was measured for.
PlaceTracks = Mapping[Place, MeasuredFor]


@dataclass(frozen=True, slots=True)
class TrendLine:
    """One series: its points oldest first, and the track of each. `letter` is its name in the chart."""

    letter: str
    key: SeriesKey
    points: tuple[SeriesPoint, ...]
    tracks: tuple[str, ...]

    @property
    def place(self) -> int:
        """Its position among the lines, from 1."""
        return ascii_uppercase.index(self.letter) + 1

    @property
    def points_with_tracks(self) -> list[tuple[SeriesPoint, str]]:
        """Its points, each with its track."""
        return list(zip(self.points, self.tracks, strict=True))

    def of_track(self, track: str) -> tuple[SeriesPoint, ...]:
        """Its points in one track."""
        return tuple(point for point, own in self.points_with_tracks if own == track)

    def since(self, moment: datetime) -> "TrendLine":
        """The same without points from before a moment."""
        return self._select_points([point.started_at >= moment for point in self.points])

    def within(self, tracks: Collection[str]) -> "TrendLine":
        """The same with the points of some tracks only."""
        return self._select_points([track in tracks for track in self.tracks])

    def _select_points(self, mask: Sequence[bool]) -> "TrendLine":
        points, tracks = compress(self.points, mask), compress(self.tracks, mask)
        return replace(self, points=tuple(points), tracks=tuple(tracks))


def since(trend_lines: Sequence[TrendLine], days: int | None) -> tuple[TrendLine, ...]:
    """Lines without points that are more than `days` older than the newest point of all; None keeps all."""
    if days is None:
        return tuple(trend_lines)
    newest = max((point.started_at for line in trend_lines for point in line.points), default=None)
    if newest is None:
        return tuple(trend_lines)
    first = newest - timedelta(days=days)
    return tuple(line.since(first) for line in trend_lines)


def place_of(point: SeriesPoint) -> Place:
    """The place of a point."""
    return point.run, point.environment


def lines(
    keys: Sequence[SeriesKey], points: Mapping[SeriesKey, Sequence[SeriesPoint]], tracks_of_place: PlaceTracks
) -> list[TrendLine]:
    """A line for each of `keys`, lettered in their order; one without points has none."""
    by_hardware: dict[str, list[SeriesPoint]] = defaultdict(list)
    for key in keys:
        by_hardware[key.hardware] += points.get(key, ())
    tracks: dict[Place, str] = {}
    for own in by_hardware.values():
        tracks |= tracks_of(own, tracks_of_place)
    results: list[TrendLine] = []
    for number, key in enumerate(keys):
        own = tuple(sorted(points.get(key, ()), key=lambda point: point.started_at))
        letter = charts.letter(number)
        results.append(TrendLine(letter, key, own, tuple(tracks[place_of(point)] for point in own)))
    return results


def tracks_of(points: Iterable[SeriesPoint], tracks_of_place: PlaceTracks) -> dict[Place, str]:
    """The tracks of points on one hardware: points of one track are connected along dates.

    Schedules name their tracks. Among manual runs an environment is a separate track if another one was
    measured in between, or in the same session as its candidate: otherwise the line would alternate between
    the two. All other environments follow one after the other and form one track.
    """
    places = {place_of(point): point for point in sorted(points, key=lambda point: point.started_at)}
    by_hand = [
        tracks_of_place[place]
        for place, point in places.items()
        # The canary is the same with every environment.
        if place in tracks_of_place
        and not tracks_of_place[place].track
        and point.environment_kind != EnvironmentKind.CANARY
    ]
    apart = _detached_environments(by_hand)
    names = {each.track for each in tracks_of_place.values() if each.track}
    result: dict[Place, str] = {}
    for place in places:
        about = tracks_of_place.get(place)
        if about is None:
            result[place] = OTHER
        elif about.track:
            result[place] = about.track
        elif about.name in apart:
            # Sessions that measure a pinned release are not nights of that release's track.
            result[place] = about.name + (SINGLE if about.name in names else "")
        else:
            result[place] = OTHER
    return result


def scheduled_tracks(trend_lines: Iterable[TrendLine], tracks_of_place: PlaceTracks) -> set[str]:
    """The tracks that a schedule measures: nightlies, their pinned baseline. The others are single runs."""
    return {
        track
        for line in trend_lines
        for point, track in line.points_with_tracks
        if (about := tracks_of_place.get(place_of(point))) is not None and about.track == track
    }


def _detached_environments(by_hand: Sequence[MeasuredFor]) -> set[str]:
    """The names of environments that were measured again after another one, or share a session with their
    candidate.
    """
    ends: dict[str, tuple[int, int]] = {}
    for number, each in enumerate(by_hand):
        ends[each.name] = (ends.get(each.name, (number, 0))[0], number)
    many = Counter(each.name for each in by_hand)
    recurring = {name for name, (first, last) in ends.items() if last - first + 1 > many[name]}
    return recurring | {each.name for each in by_hand if not each.last}


def in_order(tracks: Iterable[str], tracks_of_place: PlaceTracks) -> list[str]:
    """Tracks in their order: followed ones first, then pinned baselines, then the others."""
    pinned_tracks = {each.baseline for each in tracks_of_place.values() if each.baseline}
    return sorted(set(tracks), key=lambda name: (name == OTHER, name in pinned_tracks, name))


def labels(
    trend_lines: Iterable[TrendLine], tracks: Sequence[str], tracks_of_place: PlaceTracks
) -> dict[str, str]:
    """The labels of tracks; the track of all others has the name of its environment if there is only one."""
    places = {place_of(point) for line in trend_lines for point in line.of_track(OTHER)}
    names = {tracks_of_place[place].name for place in places if place in tracks_of_place}
    name = next(iter(names)) if len(names) == 1 else ""
    # A track of a schedule has that name already.
    other = name if name and name not in tracks else "other runs"
    return {track: other if track == OTHER else track for track in tracks}


def versions(trend_lines: Iterable[TrendLine]) -> list[str]:
    """The public versions of all lines, in no order."""
    return list({public(version): None for version in whole_versions(trend_lines)})


def whole_versions(trend_lines: Iterable[TrendLine]) -> list[str]:
    """The versions of all lines with their local parts, in no order."""
    return list({p.torch_version: None for line in trend_lines for p in line.points if p.torch_version})


def baselines(trend_lines: Sequence[TrendLine]) -> dict[str, str]:
    """Every version of the lines with its name as a baseline: the public version if each line has one build
    of it, so that the name is the same for a CPU and a GPU; else, if a line has several builds, the whole
    version.
    """
    several: set[str] = set()
    for line in trend_lines:
        counts = Counter(map(public, whole_versions([line])))
        several |= {version for version, many in counts.items() if many > 1}
    names = {version: public(version) for version in whole_versions(trend_lines)}
    return {version: version if short in several else short for version, short in names.items()}


def build(line: TrendLine, baseline: str) -> str:
    """The version of a line that `baseline` means; empty if the line has none.

    A public version means one build: the one without a local part, else the highest.
    """
    own = whole_versions([line])
    if baseline in own:
        return baseline
    return max((version for version in own if public(version) == baseline), key=version_order, default="")


def without_dates(drawn: Iterable[TrendLine]) -> bool:
    """Whether lines have an order along versions and none along dates.

    They are of imported files that state no time, of which is stored when the file was written; or all of
    their points are of one moment, and would lie on one another.
    """
    points = [point for line in drawn for point in line.points]
    if len({point.torch_version for point in points}) < 2:
        return False
    return _are_undated(points) or len({point.started_at for point in points}) == 1


def in_time(points: Iterable[SeriesPoint]) -> list[SeriesPoint]:
    """Points, the oldest first: see `time_order`."""
    by_time = sorted(points, key=lambda point: point.started_at)
    return sorted(by_time, key=time_order(by_time))


def time_order(points: Sequence[SeriesPoint]) -> Callable[[SeriesPoint], Any]:
    """What points are sorted by: their time, or the PyTorch where they are of files that state no time."""
    if _are_undated(points):
        return lambda point: version_order(point.torch_version)
    return lambda point: point.started_at


def _are_undated(points: Iterable[SeriesPoint]) -> bool:
    return all(is_undated(point.run) for point in points)


def runs(trend_lines: Iterable[TrendLine]) -> list[str]:
    """The ids of all runs with a point."""
    return list({point.run: None for line in trend_lines for point in line.points})


def default_baseline(trend_lines: Sequence[TrendLine], tracks_of_place: PlaceTracks) -> str:
    """The default baseline of lines; empty without points: the last measured version of the schedule's pinned
    baseline, else the oldest version, else the oldest run.

    Versions are named as in `baselines`.
    """
    points = in_time(point for line in trend_lines for point in line.points)
    tracks = {each.baseline for each in tracks_of_place.values() if each.baseline}
    of_baseline = [p for p in points if p.torch_version and _track(tracks_of_place, p) in tracks]
    with_version = [p for p in points if p.torch_version]
    result = of_baseline[-1:] or with_version[:1]
    if result:
        return baselines(trend_lines)[result[0].torch_version]
    return points[0].run if points else ""


def _track(tracks_of_place: PlaceTracks, point: SeriesPoint) -> str | None:
    about = tracks_of_place.get(place_of(point))
    return about.track or None if about else None


def measured(line: TrendLine, baseline: str) -> bool:
    """Whether a line has a point of `baseline`, also one that cannot be a divisor: see `level`."""
    return bool(build(line, baseline)) or any(point.run == baseline for point in line.points)


def level(line: TrendLine, baseline: str) -> float | None:
    """The value of `baseline` in a line: the median over the runs of a build, or the point of a run.

    A public version means one build, see `build`. Of a run with several environments the last one counts.
    None if the line has no such point, or one that is not above 0.
    """
    of_run = [point.point for point in line.points if point.run == baseline]
    own = build(line, baseline)
    of_version = [point.point for point in line.points if own and point.torch_version == own]
    values = of_run[-1:] or of_version
    result = median(values) if values else 0.0
    return result if math.isfinite(result) and result > 0 else None
