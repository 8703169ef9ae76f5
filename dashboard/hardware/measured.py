"""From the database's answers to what each case came to on each hardware."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dashboard.hardware.normalised import HardwareColumn, HardwareValue, apart
from dashboard.hardware.view import ComparedHardware
from records.series import Headline, ReleasePoint, SeriesKey, SeriesPoint


def of_version(
    releases: Sequence[ReleasePoint],
    newest: Sequence[tuple[SeriesKey, SeriesPoint]],
    harnesses: Mapping[tuple[str, str], tuple[str, ...]],
    sides: Sequence[ComparedHardware],
) -> list[HardwareColumn]:
    """One PyTorch version: the median over all runs that measured it, or the one run, if there is but one.

    `newest` are the version's newest points: they name the newest run, and its replicates where it is alone.
    `harnesses` are those of the version's runs, by hardware and preset.
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


def of_newest(headlines: Sequence[Headline], sides: Sequence[ComparedHardware]) -> list[HardwareColumn]:
    """The newest point of each case, whatever PyTorch it is of."""
    cells: dict[tuple[str, str], dict[str, HardwareValue]] = {}
    for headline in headlines:
        key, point, before = headline.key, headline.latest, headline.previous
        if not point.torch_version:
            # The canary's: it measures the machine and not PyTorch.
            continue
        between = None
        if before is not None and before.environment == point.environment:
            between = apart(*sorted((before.point, point.point)))
        cells.setdefault((key.hardware, key.preset), {})[key.case] = _of_point(point, between)
    return _columns(cells, sides)


def _of_release(release: ReleasePoint, newest: SeriesPoint, harnesses: tuple[str, ...]) -> HardwareValue:
    if release.runs == 1:
        return _of_point(newest, None)
    return replace(
        _of_point(newest, apart(release.lowest, release.highest)),
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
    cells: Mapping[tuple[str, str], Mapping[str, HardwareValue]], sides: Sequence[ComparedHardware]
) -> list[HardwareColumn]:
    return [
        HardwareColumn(
            side.hardware,
            side.label,
            side.preset,
            side.cpus,
            cells.get((side.hardware, side.preset), {}),
            side.gpus,
            side.machines,
        )
        for side in sides
    ]
