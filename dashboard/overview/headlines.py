"""What the newest night of a track measured, set against an earlier night of the same track."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import pandas as pd

from dashboard import wording
from dashboard.overview.sparkline import sparkline
from dashboard.overview.standing import Standing
from db.nights import Lines
from db.records import Headline, SeriesKey, SeriesPoint

#: What a headline is about, the steadier first: a case that lacks it is told by the next.
METRICS = ("latency_floor", "latency")
#: Tracks whose cases are told, cases of each at least and of all together, nights of a picture.
TRACKS, _LEAST, _ROWS, NIGHTS = 4, 3, 12, 60
_CANARY = "canary_"


@dataclass(frozen=True, slots=True)
class Followed:
    """A track's headlines, what moved most first. `lines` has the course of those that are shown."""

    part: Standing
    headlines: tuple[Headline, ...]
    shown: int
    lines: Mapping[SeriesKey, str]


def followed(parts: Iterable[Standing]) -> list[Standing]:
    """The tracks whose cases are told, measured last first.

    Not the pinned ones, which stand beside, unless all are.
    """
    able = [(one.measured.due_at, one) for one in parts if one.asked_for and one.measured]
    moving = [each for each in able if each[1].newest.track != each[1].newest.baseline]
    newest = sorted(moving or able, key=lambda each: (-each[0].timestamp(), each[1].name))
    return [one for _, one in newest[:TRACKS]]


def is_canary(key: SeriesKey) -> bool:
    """Whether a series is the machine's own."""
    return key.case.startswith(_CANARY)


def rows_of_each(tracks: int) -> int:
    """How many cases of each track are shown."""
    return max(_LEAST, _ROWS // max(1, tracks))


def headlines(newest: str, before: str | None, found: Lines) -> tuple[Headline, ...]:
    """Of every case its point in the run `newest` and in the one `before`, what moved most first."""
    made = [
        Headline(key, point, _point_of(points, before))
        for key, points in found.items()
        if (point := _point_of(points, newest)) and not is_canary(key)
    ]
    best = {one.key.case: one for one in sorted(made, key=lambda one: -METRICS.index(one.key.metric))}
    return tuple(sorted(best.values(), key=_order))


def runs_of(one: Standing) -> tuple[str, ...]:
    """The runs of a track that its pictures are made of."""
    return tuple(task.run_id for task in one.tasks if task.run_id and task.state != "running")[:NIGHTS]


def pictures(shown: Collection[Headline], found: Lines) -> dict[SeriesKey, str]:
    """The course of the headlines that are shown, over the nights of their track."""
    made: dict[SeriesKey, str] = {}
    for one in shown:
        values = [point.point for point in found.get(one.key, ())]
        unit = wording.metric(one.key.metric).unit
        made[one.key] = sparkline(values[-NIGHTS:], unit, "nights", _change(one).tone)
    return made


def by_metric(items: Sequence[Headline]) -> list[list[Headline]]:
    """Headlines of one metric each, in the order of `METRICS`."""
    kinds = [[one for one in items if one.key.metric == metric] for metric in METRICS]
    return [each for each in kinds if each]


def frame(items: Iterable[Followed]) -> pd.DataFrame:
    """All headlines for a CSV file, also those that are not shown."""
    return pd.DataFrame(
        [_row(one.part, each) for one in items for each in one.headlines],
        columns=[
            *("schedule", "track", "label", "case", "metric", "unit", "hardware", "profile"),
            *("run", "torch", "point", "low", "high", "smallest", "largest", "n"),
            *("before_run", "before_started_at", "before_torch", "before_point", "before_n"),
        ],
    )


def _row(part: Standing, one: Headline) -> dict[str, object]:
    point, before = asdict(one.latest), one.previous
    task = part.newest
    return {
        "schedule": task.schedule,
        "track": task.track,
        "label": task.label,
        "case": one.key.case,
        "metric": one.key.metric,
        "unit": wording.metric(one.key.metric).unit,
        "hardware": one.key.hardware_label,
        "profile": one.key.profile_name,
        "torch": one.latest.torch_version,
        **{name: point[name] for name in ("run", "point", "low", "high", "smallest", "largest", "n")},
        "before_run": before.run if before else None,
        "before_started_at": before.started_at if before else None,
        "before_torch": before.torch_version if before else None,
        "before_point": before.point if before else None,
        "before_n": before.n if before else None,
    }


def _point_of(points: Iterable[SeriesPoint], run: str | None) -> SeriesPoint | None:
    """The point in a run; of several environments the one given last speaks."""
    return next((point for point in reversed(tuple(points)) if point.run == run), None)


def _change(one: Headline) -> wording.Change:
    if one.previous is None:
        return wording.Change(wording.NONE, "", "quiet")
    return wording.change(one.latest, one.previous, wording.metric(one.key.metric).better)


def _order(one: Headline) -> tuple[float, str, str]:
    """What moved beyond the range of its replicates first, the most first; then by name."""
    moved = one.previous is not None and _change(one).tone != "quiet"
    size = abs(math.log(one.latest.point / one.previous.point)) if moved and one.previous else 0.0
    return -size, one.key.case, one.key.hardware
