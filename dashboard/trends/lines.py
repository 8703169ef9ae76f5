"""Series as lines of a chart: which points are connected, and the baseline they are compared with."""

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

#: The track of manual runs of environments that were measured once: one environment after the other.
OTHER = "other"
#: After the name of an environment that a schedule's track has too: sessions and single runs of it.
SINGLE = ", single runs"

#: A run with one of its environments, by id and fingerprint: what a point of any series was measured in.
Place = tuple[str, str]
#: By place, whom it was measured for.
PlaceTracks = Mapping[Place, MeasuredFor]


@dataclass(frozen=True, slots=True)
class TrendLine:
    """One series: its points oldest first, and the track of each. `letter` is what the chart calls it."""

    letter: str
    key: SeriesKey
    points: tuple[SeriesPoint, ...]
    tracks: tuple[str, ...]

    @property
    def place(self) -> int:
        """Which of the lines it is, from 1."""
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

    def _select_points(self, kept: Sequence[bool]) -> "TrendLine":
        points, tracks = compress(self.points, kept), compress(self.tracks, kept)
        return replace(self, points=tuple(points), tracks=tuple(tracks))


def since(drawn: Sequence[TrendLine], days: int | None) -> tuple[TrendLine, ...]:
    """Lines without what is more than so many days older than the newest point of all; None leaves all."""
    if days is None:
        return tuple(drawn)
    newest = max((point.started_at for line in drawn for point in line.points), default=None)
    if newest is None:
        return tuple(drawn)
    first = newest - timedelta(days=days)
    return tuple(line.since(first) for line in drawn)


def place_of(point: SeriesPoint) -> Place:
    """Where a point was measured."""
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
    found: list[TrendLine] = []
    for number, key in enumerate(keys):
        own = tuple(sorted(points.get(key, ()), key=lambda point: point.started_at))
        letter = charts.letter(number)
        found.append(TrendLine(letter, key, own, tuple(tracks[place_of(point)] for point in own)))
    return found


def tracks_of(points: Iterable[SeriesPoint], tracks_of_place: PlaceTracks) -> dict[Place, str]:
    """The tracks of what was measured on one hardware: points of one track hang together along dates.

    A schedule says itself which track it measures. Of what was measured by hand an environment is a track of
    its own where another one was measured in between, or in one session as its candidate: otherwise the line
    would go to and fro between the two. All others follow one after the other and are one track.
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
    taken = {each.track for each in tracks_of_place.values() if each.track}
    found: dict[Place, str] = {}
    for place in places:
        about = tracks_of_place.get(place)
        if about is None:
            found[place] = OTHER
        elif about.track:
            found[place] = about.track
        elif about.name in apart:
            # What a session measured of a pinned release is no night of that release's track.
            found[place] = about.name + (SINGLE if about.name in taken else "")
        else:
            found[place] = OTHER
    return found


def scheduled_tracks(drawn: Iterable[TrendLine], tracks_of_place: PlaceTracks) -> set[str]:
    """The tracks that a schedule measures: nightlies, their pinned baseline. The others are single runs."""
    return {
        track
        for line in drawn
        for point, track in line.points_with_tracks
        if (about := tracks_of_place.get(place_of(point))) is not None and about.track == track
    }


def _detached_environments(by_hand: Sequence[MeasuredFor]) -> set[str]:
    """The environments, by name, that return after another one or share a session with their candidate."""
    ends: dict[str, tuple[int, int]] = {}
    for number, each in enumerate(by_hand):
        ends[each.name] = (ends.get(each.name, (number, 0))[0], number)
    many = Counter(each.name for each in by_hand)
    recurring = {name for name, (first, last) in ends.items() if last - first + 1 > many[name]}
    return recurring | {each.name for each in by_hand if not each.last}


def in_order(tracks: Iterable[str], tracks_of_place: PlaceTracks) -> list[str]:
    """Tracks as they are numbered: what is followed first, then pinned baselines, then the rest."""
    pinned = {each.baseline for each in tracks_of_place.values() if each.baseline}
    return sorted(set(tracks), key=lambda name: (name == OTHER, name in pinned, name))


def labels(drawn: Iterable[TrendLine], tracks: Sequence[str], tracks_of_place: PlaceTracks) -> dict[str, str]:
    """What tracks are called; the one of all others by the name of its environment if there is just one."""
    places = {place_of(point) for line in drawn for point in line.of_track(OTHER)}
    names = {tracks_of_place[place].name for place in places if place in tracks_of_place}
    name = next(iter(names)) if len(names) == 1 else ""
    # What a schedule follows has that name already.
    other = name if name and name not in tracks else "other runs"
    return {track: other if track == OTHER else track for track in tracks}


def versions(drawn: Iterable[TrendLine]) -> list[str]:
    """The public versions that any line has, in no order."""
    return list({public(version): None for version in whole_versions(drawn)})


def whole_versions(drawn: Iterable[TrendLine]) -> list[str]:
    """The versions that any line has with their local parts, in no order."""
    return list({p.torch_version: None for line in drawn for p in line.points if p.torch_version})


def baselines(drawn: Sequence[TrendLine]) -> dict[str, str]:
    """Every version that any line has, and how it is named as what lines are set against.

    By its public version where each line has one build of that, so that it is the same for a CPU and a GPU;
    where a line has several builds, which are several releases, by the whole one.
    """
    several: set[str] = set()
    for line in drawn:
        counted = Counter(map(public, whole_versions([line])))
        several |= {version for version, many in counted.items() if many > 1}
    named = {version: public(version) for version in whole_versions(drawn)}
    return {version: version if short in several else short for version, short in named.items()}


def build(line: TrendLine, baseline: str) -> str:
    """The version of a line that `baseline` stands for; empty where the line has none.

    A public version stands for one build: the one without a local part, else the highest.
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


def runs(drawn: Iterable[TrendLine]) -> list[str]:
    """The ids of all runs that have a point."""
    return list({point.run: None for line in drawn for point in line.points})


def default_baseline(drawn: Sequence[TrendLine], tracks_of_place: PlaceTracks) -> str:
    """The default baseline of lines; empty where there are no points.

    The version of the schedule's pinned baseline that was measured last, else the oldest version shown, else
    the oldest run. Versions are named as in `baselines`.
    """
    points = in_time(point for line in drawn for point in line.points)
    tracks = {each.baseline for each in tracks_of_place.values() if each.baseline}
    of_baseline = [p for p in points if p.torch_version and _track(tracks_of_place, p) in tracks]
    with_version = [p for p in points if p.torch_version]
    found = of_baseline[-1:] or with_version[:1]
    if found:
        return baselines(drawn)[found[0].torch_version]
    return points[0].run if points else ""


def _track(tracks_of_place: PlaceTracks, point: SeriesPoint) -> str | None:
    about = tracks_of_place.get(place_of(point))
    return about.track or None if about else None


def measured(line: TrendLine, baseline: str) -> bool:
    """Whether a line has a point of `baseline`, whatever it is worth: see `level`."""
    return bool(build(line, baseline)) or any(point.run == baseline for point in line.points)


def level(line: TrendLine, baseline: str) -> float | None:
    """What `baseline` measured in a line: the median over the runs of a build, or one run's point.

    Of a public version one build speaks, see `build`: two have no median. Of a run with several environments
    the one given last counts. None where the line has no such point, or one that is nothing to divide by.
    """
    of_run = [point.point for point in line.points if point.run == baseline]
    own = build(line, baseline)
    of_version = [point.point for point in line.points if own and point.torch_version == own]
    values = of_run[-1:] or of_version
    found = median(values) if values else 0.0
    return found if math.isfinite(found) and found > 0 else None
