"""Every case of a metric as a small picture of its nights, for when there are more than a chart holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup

from analysis.metrics import Metric
from dashboard.components import markup, wording
from dashboard.trends.lines import PlaceTracks, place_of
from dashboard.trends.view import Trends
from records.series import SeriesKey, SeriesPoint
from reports.table import Column, DataTable

#: Nights of a picture, and those before the last one that it is compared with.
NIGHTS, _COMPARED = 60, 14
#: Cases in a table at most: the CSV file has all.
_MOST = 120


@dataclass(frozen=True, slots=True)
class CaseHistory:
    """The points of one series, oldest first; there is one at least.

    They are nights of one `track` on one machine; without a schedule that is empty, and they are all points.
    """

    key: SeriesKey
    points: tuple[SeriesPoint, ...]
    track: str = ""

    @property
    def change(self) -> float | None:
        """The last point against the median of the nights before it, less one; None with too few."""
        before = [point.point for point in self.points[-_COMPARED - 1 : -1]]
        if len(before) < 2 or (level := median(before)) <= 0:
            return None
        return self.points[-1].point / level - 1


def histories(
    points: Mapping[SeriesKey, Sequence[SeriesPoint]], tracks_of_place: PlaceTracks
) -> list[CaseHistory]:
    """The nights of every series, or all its points where no schedule measured it; by case and hardware.

    Where several tracks or machines have nights of it, they are those of the newest: levels of two PyTorches
    or of two machines are no history of one.
    """
    found: list[CaseHistory] = []
    for key, own in points.items():
        about = [(point, tracks_of_place.get(place_of(point))) for point in own]
        nights = [(p, each.track) for p, each in about if each and each.track and each.track != each.baseline]
        track, kept = "", list(own)
        if nights:
            last, track = nights[-1]
            kept = [point for point, each in nights if (each, point.machine) == (track, last.machine)]
        if kept:
            found.append(CaseHistory(key, tuple(kept[-NIGHTS:]), track))
    return sorted(found, key=lambda one: (one.key.case, one.key.hardware_label))


def table(rows: Sequence[CaseHistory], chosen: Trends, metric: Metric) -> DataTable[CaseHistory]:
    """A row for each case; nothing is coloured, for a change of one night is no finding."""

    def picture(one: CaseHistory) -> Markup:
        return Markup(markup.sparkline([point.point for point in one.points], metric.unit, "nights"))

    def address(one: CaseHistory) -> str:
        return chosen.of_case(one.key.case, one.key.hardware)

    unit = f" ({metric.unit})" if metric.unit else ""
    common = wording.common_parameters(one.key.case for one in rows)
    # One hardware for all rows stands in the bar above the table.
    several = len({one.key.hardware for one in rows}) > 1
    tracks = len({one.track for one in rows}) > 1
    columns: list[Column[CaseHistory]] = [
        Column(
            "case",
            "Case",
            lambda one: one.key.case,
            lambda one: Markup(markup.case(one.key.case, common)),
            link=address,
        ),
        Column("hardware", "Hardware" if several else None, lambda one: one.key.hardware_label),
        Column("track", "Track" if tracks else None, lambda one: one.track),
        Column("", f"Last {NIGHTS} nights", format=picture),
        Column(
            "latest",
            f"Latest{unit}",
            lambda one: one.points[-1].point,
            lambda one: wording.number(one.points[-1].point, metric.unit),
            number=True,
        ),
        Column(
            "change",
            f"vs median of {_COMPARED} nights",
            lambda one: one.change,
            lambda one: wording.signed_percent(one.change),
            number=True,
        ),
        Column("points", "Nights", lambda one: len(one.points), number=True),
    ]
    return DataTable("All cases", columns, rows, _MOST, "more cases: the CSV file has them.")
