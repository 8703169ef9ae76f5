"""Points of series as the Trends page gets them, and the facts of their runs."""

from collections.abc import Mapping, Sequence

from dashboard.trends import lines
from dashboard.trends.lines import TrendLine
from records.findings import Finding
from records.series import MeasuredFor, SeriesKey, SeriesPoint
from support.builders.notifications import a_finding
from support.builders.run_records import MLP, a_night

XEON, EPYC = "Xeon 6430, 2 cores", "EPYC, 64 cores"


def a_key(case: str = MLP, metric: str = "latency", hardware: str = XEON) -> SeriesKey:
    """The name of a series; the hardware's label is its fingerprint too."""
    return SeriesKey(case, metric, hardware, hardware, "quiet", "quiet")


def a_point(
    night: int,
    version: str = "2.13.0",
    case: str = MLP,
    point: float = 2.0,
    *,
    run: str = "",
    environment: str = "",
    machine: str = "bench-1",
) -> SeriesPoint:
    """What a night measured, in an environment that is named after its version."""
    return SeriesPoint(
        case=case,
        run=run or f"run-{night}",
        started_at=a_night(night),
        environment=environment or f"environment-{version}",
        torch_version=version,
        machine=machine,
        harness="harness",
        point=point,
        low=point * 0.98,
        high=point * 1.02,
        smallest=point * 0.95,
        largest=point * 1.05,
        spread=0.02,
        n=3,
    )


def tracks_of_place(
    points: Sequence[SeriesPoint], *, track: str = "", baseline: str = "", last: bool = True, name: str = ""
) -> dict[lines.Place, MeasuredFor]:
    """What the store says of the runs of some points; environments are named by their version."""
    return {
        lines.place_of(point): MeasuredFor(
            point.run, point.environment, name or point.torch_version, last, track, baseline
        )
        for point in points
    }


def a_line(points: Sequence[SeriesPoint], letter: str = "A", key: SeriesKey | None = None) -> TrendLine:
    """Points of one track as a line."""
    key = key or a_key(points[0].case)
    return TrendLine(letter, key, tuple(points), (lines.OTHER,) * len(points))


def drawn(points: Mapping[SeriesKey, Sequence[SeriesPoint]], about: lines.PlaceTracks) -> list[TrendLine]:
    """Series as lines."""
    return lines.lines(list(points), points, about)


def found(point: SeriesPoint, key: SeriesKey, **changes: object) -> Finding:
    """A finding whose first night is that of a point: ten per cent more, confirmed."""
    about = {
        "key": key,
        "at_run": point.run,
        "at": point.started_at,
        "machine": point.machine,
        "new_environment": point.environment,
        "new_torch_version": point.torch_version,
        "change": 0.0953,
        "low": 0.09,
        "high": 0.1,
        "found_at": point.started_at,
        "decided_at": point.started_at,
    }
    return a_finding(7, **{**about, **changes})
