"""The queries of the Hardware page: the measured hardware, and the results of each case.

`url` is that of the database. All functions raise `db.errors.DatabaseError`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from analysis.metrics import Metric
from dashboard.components import load, wording
from dashboard.components.frames import version_order
from dashboard.components.query_params import public
from dashboard.hardware.normalisation import HardwareColumn, HardwareValue, relative_distance
from dashboard.hardware.view import NEWEST, Spread
from dashboard.server.database import by_url, database_at
from db.runs import coverage
from db.runs import releases as runs_releases
from records.kinds import EnvironmentKind, RunSource
from records.series import Headline, MeasurementConditions, ReleasePoint, SeriesKey, SeriesPoint


def of_version(
    releases: Sequence[ReleasePoint],
    newest: Sequence[tuple[SeriesKey, SeriesPoint]],
    harnesses: Mapping[tuple[str, str], tuple[str, ...]],
    sides: Sequence[HardwareColumn],
) -> list[HardwareColumn]:
    """One PyTorch version: the median over all runs that measured it.

    `newest` are the version's newest points: they name the newest run, and its replicates if it is the only
    one. `harnesses` are those of the version's runs, by hardware and preset.
    """
    points = {(key.case, key.hardware, key.preset): point for key, point in newest}
    cells: dict[tuple[str, str], dict[str, HardwareValue]] = {}
    for release in releases:
        key = release.key
        point = points.get((key.case, key.hardware, key.preset))
        if point is not None:
            place = key.hardware, key.preset
            under = harnesses.get(place, (point.harness,))
            cells.setdefault(place, {})[key.case] = _of_release(release, point, under)
    return _columns(cells, sides)


def of_newest(headlines: Sequence[Headline], sides: Sequence[HardwareColumn]) -> list[HardwareColumn]:
    """The newest point of each case with any PyTorch."""
    cells: dict[tuple[str, str], dict[str, HardwareValue]] = {}
    for headline in headlines:
        key, point, before = headline.key, headline.latest, headline.previous
        if point.environment_kind == EnvironmentKind.CANARY:
            # The canary measures the machine, not PyTorch. Runs of other tools may not have a PyTorch
            # version.
            continue
        between = None
        if before is not None and before.environment == point.environment:
            between = relative_distance(*sorted((before.point, point.point)))
        cells.setdefault((key.hardware, key.preset), {})[key.case] = _of_point(point, between)
    return _columns(cells, sides)


def _of_release(release: ReleasePoint, newest: SeriesPoint, harnesses: tuple[str, ...]) -> HardwareValue:
    if release.runs == 1:
        return _of_point(newest, None)
    return replace(
        _of_point(newest, relative_distance(release.lowest, release.highest)),
        value=release.median,
        smallest=release.lowest,
        largest=release.highest,
        n=release.runs,
        of="run",
        torch_version=release.torch_version,
        harnesses=harnesses,
    )


def _of_point(point: SeriesPoint, between: float | None) -> HardwareValue:
    return HardwareValue(
        value=point.point,
        smallest=point.smallest,
        largest=point.largest,
        n=point.n,
        of="replicate",
        measured_at=point.started_at,
        torch_version=point.torch_version,
        run=point.run,
        harnesses=(point.harness,),
        apart=between,
    )


def _columns(
    cells: Mapping[tuple[str, str], Mapping[str, HardwareValue]], sides: Sequence[HardwareColumn]
) -> list[HardwareColumn]:
    return [replace(side, cells=cells.get((side.hardware, side.preset), {})) for side in sides]


#: The most releases, and the most nightlies, to choose from, newest first; an address may name an older one.
_NEWEST_VERSIONS = 60

_places = load.cache(by_url(coverage.places))
_releases = load.cache(by_url(runs_releases.release_points))
_points = load.cache(by_url(runs_releases.points_of_version))
_harnesses = load.cache(by_url(runs_releases.version_harnesses))


@load.cache
def imported_keys(url: str) -> list[SeriesKey]:
    """The series of other tools' files."""
    foreign = load.foreign_presets(url)
    return [key for key in load.series_keys(url) if key.preset in foreign]


def imported_places(url: str, metric: str) -> list[MeasurementConditions]:
    """Where other tools measured a metric, the newest first."""
    return [place for place in _places(url, metric) if place.source != RunSource.MEASURED]


@load.cache
def imported_metrics(url: str) -> dict[str, Metric]:
    """The metrics of other tools' files with a better direction; those of most cases to compare first."""
    definitions = load.metric_definitions(url)
    hardware: dict[str, dict[str, set[str]]] = {}
    for key in imported_keys(url):
        hardware.setdefault(key.metric, {}).setdefault(key.case, set()).add(key.hardware)
    shared_counts = {
        metric: sum(len(each) > 1 for each in cases.values()) for metric, cases in hardware.items()
    }
    metrics = (wording.metric(name, definitions) for name in sorted(hardware, key=wording.metric_place))
    candidates = [one for one in metrics if one.better != "neither"]
    return {one.name: one for one in sorted(candidates, key=lambda one: -shared_counts[one.name])}


def shows_imported(url: str, preset: str | None) -> bool:
    """Whether the page compares other tools' files: a `preset` is theirs, or only they have anything shared.

    Runs of our own and files of other tools are never compared: the preset of the latter is not known.
    """
    own, imported = load.measured_places(url), imported_metrics(url)
    if not (own and imported):
        return bool(imported)
    if preset is not None and preset in {place.preset_name for place in own}:
        return False
    if preset in {key.preset_name for key in imported_keys(url)}:
        return True
    several = Counter(name for name, _ in {(place.preset_name, place.hardware) for place in own})
    return max(several.values()) < 2 and bool(_shared_counts(imported_keys(url), next(iter(imported))))


@load.cache
def shared_cases(url: str, metric: str) -> dict[str, int]:
    """By hardware (fingerprint), the number of cases of a metric that other hardware has too."""
    return _shared_counts(load.series_keys(url), metric)


def _shared_counts(keys: Iterable[SeriesKey], metric: str) -> dict[str, int]:
    measured: dict[str, set[str]] = {}
    for key in keys:
        if key.metric == metric:
            measured.setdefault(key.case, set()).add(key.hardware)
    return dict(Counter(each for places in measured.values() if len(places) > 1 for each in places))


@load.cache
def spread(url: str, wanted_version: str | None, metric: str = load.EVERY_CASE) -> Spread:
    """The hardware and presets of the newest versions and of `wanted_version`: see `places.version_places`.

    Releases and nightlies are counted separately: the nightlies of two months are newer than any release, but
    machines have releases in common.
    """
    versions = runs_releases.releases(database_at(url))
    nightlies = [version for version in versions if version_order(version)[1].is_devrelease]
    stable = [version for version in versions if version not in set(nightlies)]
    requested_versions = [
        version for version in versions if wanted_version and public(version) == public(wanted_version)
    ]
    newest = [*nightlies[:_NEWEST_VERSIONS], *stable[:_NEWEST_VERSIONS]]
    return runs_releases.version_places(database_at(url), metric, [*newest, *requested_versions])


def columns(url: str, metric: str, version: str, sides: Sequence[HardwareColumn]) -> list[HardwareColumn]:
    """The result of every case on each side, of one version or of the newest run."""
    if version == NEWEST:
        return of_newest(load.headlines(url, metric), sides)
    result: dict[str, HardwareColumn] = {}
    for build in dict.fromkeys(side.build for side in sides):
        own = [side for side in sides if side.build == build]
        if build:
            summaries, points = _releases(url, [build], metric), _points(url, metric, build)
            columns = of_version(summaries, points, _harnesses(url, build, metric), own)
        else:
            columns = of_version((), (), {}, own)
        result |= {column.hardware: column for column in columns}
    return [result[side.hardware] for side in sides]
