"""Levels across a border without a baseline: reported with their size, and not judged."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from analysis.detection.nights import Crossing, NightValue, crossings

from .findings import MachineSeries

#: The key in the result of a `detect` task for the level changes across the newest border: bodies of
#: `BorderChange`.
BORDER_CHANGES = "crossed"
#: The number of named cases, those with the largest changes.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class BorderChange:
    """The change of one metric on one machine across a `border`, over `nights` nights since.

    `middle` is the median over all `cases`, `largest` are those with the largest changes; all are log ratios
    of the level after the border to the one before.
    """

    machine: str
    track: str
    metric: str
    border: str
    nights: int
    cases: int
    middle: float
    largest: tuple[tuple[str, float], ...]

    @property
    def body(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def border_change_of(body: Mapping[str, Any]) -> BorderChange:
    """The inverse of `to_body`."""
    return BorderChange(
        machine=str(body["machine"]),
        track=str(body["track"]),
        metric=str(body["metric"]),
        border=str(body["border"]),
        nights=int(body["nights"]),
        cases=int(body["cases"]),
        middle=float(body["middle"]),
        largest=tuple((str(case), float(change)) for case, change in body["largest"]),
    )


def newest_crossing(nights: Sequence[NightValue], on: Collection[int]) -> Crossing | None:
    """The newest border of a series if the number of nights since then is in `on`; None otherwise."""
    found = crossings(nights)
    return found[-1] if found and found[-1].nights in on else None


def border_changes(track: str, found: Iterable[tuple[MachineSeries, Crossing]]) -> list[BorderChange]:
    """The crossings of single series by machine, border and metric."""
    by_border: dict[tuple[str, str, str, int], list[tuple[str, float]]] = defaultdict(list)
    for series, one in found:
        about = series.machine, one.border, series.key.metric, one.nights
        by_border[about].append((series.key.case, one.change))
    return [
        BorderChange(
            machine=machine,
            track=track,
            metric=metric,
            border=border,
            nights=nights,
            cases=len(own),
            middle=median(change for _, change in own),
            largest=tuple(sorted(own, key=lambda each: -abs(each[1]))[:_NAMED]),
        )
        for (machine, border, metric, nights), own in sorted(by_border.items())
    ]
