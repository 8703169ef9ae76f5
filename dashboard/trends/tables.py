"""The legend and tables of a history, and the nights of every case as sparklines."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import median
from typing import Any

from markupsafe import Markup

from analysis.metrics import METRICS, Metric
from analysis.ratios import ratio
from dashboard.components import links, markup, wording
from dashboard.trends import marks
from dashboard.trends.frames import Levels
from dashboard.trends.lines import PlaceTracks, TrendLine, in_time, place_of, time_order
from dashboard.trends.marks import TrackChange
from dashboard.trends.moves import MOVED, LevelShift, Move
from dashboard.trends.view import Trends
from interchange.foreign_runs import is_undated
from records.series import SeriesKey, SeriesPoint
from reports.table import Column, DataTable
from reports.text.finding_text import interval
from reports.text.numbers import percent

#: The most points and steps on the page; the CSV files have all. A hundred points take a tenth of a second to
#: render.
MOST_POINTS, MOST_STEPS = 50, 40
#: The most changes of one step that are listed.
_LISTED = 6

#: One point with its line and track.
Own = tuple[SeriesPoint, TrendLine, str]


def legend(trend_lines: Sequence[TrendLine], tracks: Mapping[str, str]) -> str:
    """The meaning of the letters and the dashes; it wraps and does not shorten case keys."""
    several = len({line.key.hardware for line in trend_lines}) > 1
    entries = "".join(f"<li>{_key(line)}{_line_name(line, several)}</li>" for line in trend_lines)
    result = f'<ul class="py-legend">{entries}</ul>'
    if len(tracks) > 1:
        dashes = "".join(
            f'<li><span class="py-dash py-dash-{number}"></span><span>{number} {escape(label)}</span></li>'
            for number, label in enumerate(tracks.values(), 1)
        )
        result += f'<ul class="py-legend py-tracks" aria-label="Tracks">{dashes}</ul>'
    return result


def _line_name(line: TrendLine, several: bool) -> str:
    where = f"<small>{markup.hardware(line.key.hardware_label)}</small>" if several else ""
    return f"<span>{markup.case(line.key.case)}{where}</span>"


def moves(items: Sequence[Move], tracks: Mapping[str, str], *, several: bool) -> DataTable[Move]:
    """The change points, newest first; in CSV files ratios are new / old.

    `tracks` are their labels, which pages show if there are `several`.
    """
    columns: list[Column[Move]] = [
        Column(
            "since (UTC)",
            "Since (UTC)",
            lambda move: move.point.started_at,
            html=lambda move: _two(f"{move.point.started_at:%Y-%m-%d}", move.shape),
        ),
        Column("case", "Case", lambda move: move.line.key.case, html=lambda move: _case_cell(move.line)),
        Column("hardware", value=lambda move: move.line.key.hardware_label),
        Column("", "Change", html=_change, number=True),
        Column(
            "what",
            "Status",
            lambda move: "moved, not confirmed" if move.state == MOVED else move.word,
            html=_what,
        ),
        Column("metric", value=lambda move: move.metric or move.line.key.metric),
        Column("direction", value=lambda move: move.direction),
        Column("shape", value=lambda move: move.shape),
        Column("ratio", value=lambda move: ratio(move.change)),
        Column("ratio_low", value=lambda move: ratio(move.low)),
        Column("ratio_high", value=lambda move: ratio(move.high)),
        Column(
            "machine",
            "Machine",
            lambda move: move.point.machine,
            html=lambda move: _two(move.point.machine, tracks[move.track] if several else ""),
        ),
        Column("track", value=lambda move: tracks[move.track]),
        Column("torch", "PyTorch", lambda move: move.point.torch_version),
        Column("run", value=lambda move: move.point.run),
        Column("run before", value=lambda move: move.before),
        Column("finding", value=lambda move: move.finding),
        Column("", "", html=_way),
    ]
    rows = sorted(items, key=lambda move: move.point.started_at, reverse=True)
    return DataTable("Change points", columns, rows)


def steps(items: Sequence[TrackChange], tracks: Mapping[str, str]) -> DataTable[TrackChange]:
    """The other changes, newest first."""
    columns: list[Column[TrackChange]] = [
        Column("", "Before (UTC)", html=lambda step: _whole(f"{step.point.started_at:%Y-%m-%d %H:%M}")),
        Column(
            "",
            "Machine",
            html=lambda step: _two(step.point.machine, tracks[step.track] if len(tracks) > 1 else ""),
        ),
        Column("", "What changed", html=_changes),
        Column("", "", format=lambda _: "Run\u00a0→", link=lambda step: links.run(step.point.run)),
    ]
    rest = "earlier ones in the CSV file"
    return DataTable("Other changes", columns, items, MOST_STEPS, rest)


def points(
    items: Sequence[Own],
    selection: Trends,
    metric: Metric,
    tracks: Mapping[str, str],
    levels: Levels | None,
    *,
    several: bool = False,
) -> DataTable[Own]:
    """Every point of a view, each with links to its numbers and to the replicates behind it.

    With `levels` a column has each point relative to the level of its line, minus one. `tracks` are labels,
    which pages show if there are `several`.
    """

    def share(own: Own) -> float | None:
        level = (levels or {}).get(own[1].letter)
        return None if level is None else own[0].point / level - 1

    def where(own: Own) -> str:
        place = f"{own[0].machine} · {tracks[own[2]]}" if several else own[0].machine
        return markup.one_line(own[0].torch_version or wording.NONE, place)

    def moment(own: Own) -> str:
        unknown = is_undated(own[0].run)
        return _whole(wording.UNKNOWN_TIME if unknown else f"{own[0].started_at:%Y-%m-%d %H:%M}")

    against: Column[Own] = Column(
        "relative", "Against", share, lambda own: wording.signed_percent(share(own)), number=True
    )
    columns: list[Column[Own]] = [
        Column("case", "Case", _of("case"), html=lambda own: _case_cell(own[1])),
        Column("measured (UTC)", "Measured (UTC)", _of("started_at"), html=moment),
        Column("run", value=_of("run")),
        *_numbers(metric),
        *([against] if levels is not None else []),
        Column("torch", "PyTorch · machine", _of("torch_version"), html=where),
        Column("track", value=lambda own: tracks[own[2]]),
        Column("hardware", value=lambda own: own[1].key.hardware_label),
        *(Column(name, value=_of(name)) for name in ("machine", "harness", "environment")),
        Column("", "", html=lambda own: _point_links(own[0], selection)),
    ]
    rest = "older ones in the CSV file"
    return DataTable("The newest points", columns, items, MOST_POINTS, rest, dense=True)


def _of(name: str) -> Callable[[Own], Any]:
    return lambda own: getattr(own[0], name)


def _numbers(metric: Metric) -> list[Column[Own]]:
    """The value of a point with its interval."""

    def point(own: Own) -> str:
        return f"<strong>{escape(wording.number(own[0].point, metric.unit))}</strong>"

    def interval(own: Own) -> str:
        return wording.value_range(own[0].low, own[0].high, metric.unit)

    def reach(own: Own) -> str:
        return wording.replicate_range(own[0].smallest, own[0].largest, own[0].n, metric.unit)

    title = wording.with_unit(metric.title, metric.unit)
    return [
        Column("point", title, _of("point"), html=point, number=True),
        Column("unit", value=lambda _: metric.unit),
        Column("95 % low", "95 % interval", _of("low"), interval, number=True),
        Column("95 % high", value=_of("high")),
        Column("smallest", "Min-max", _of("smallest"), reach, number=True),
        Column("largest", value=_of("largest")),
        Column("n", "n", _of("n"), number=True),
        Column("spread", value=_of("spread")),
    ]


def _point_links(point: SeriesPoint, selection: Trends) -> str:
    return (
        '<span class="py-mark">'
        f"{markup.link(selection.address_at(point.run), 'Point')} · "
        f"{markup.link(selection.address_of(point), 'Samples')}</span>"
    )


def ways(point: SeriesPoint, before: SeriesPoint | None, selection: Trends, *, has_window: bool) -> str:
    """The links of a point: its replicates with their samples, its run, its use as a baseline."""
    links_html = [
        markup.link(selection.address_of(point), "Samples and log →"),
        markup.link(links.run(point.run), "The whole run →"),
    ]
    if has_window:
        # The page uses the first replicate with a telemetry window.
        address = links.windows(point.run, point.case, point.environment)
        links_html.append(markup.link(address, "Utilisation →"))
    against = selection.after("scale", "relative").after("baseline", point.run)
    links_html.append(markup.link(against.address, "Use as baseline →"))
    if before is not None:
        links_html.append(markup.link(selection.address_at(before.run), "← The point before"))
    return f"<p>{' · '.join(links_html)}</p>"


def point_facts(line: TrendLine, point: SeriesPoint, metric: Metric, track: str, level: float | None) -> str:
    """The values of one point."""
    unit = metric.unit
    about = {
        "median": wording.quantity(point.point, unit),
        "95 % interval": wording.value_range(point.low, point.high, unit),
        "min-max": wording.replicate_range(point.smallest, point.largest, point.n, unit),
        "replicates (n)": point.n,
        "spread": wording.percent(point.spread),
        **({} if level is None else {"against the baseline": _share(point.point, level)}),
        "PyTorch": point.torch_version,
        "measured": wording.run_time(point.run, point.started_at),
        "machine": point.machine,
        "hardware": line.key.hardware_label,
        **({"track": track} if track else {}),
        "harness": point.harness,
    }
    return markup.facts(f"{line.letter} · {metric.title}", wording.case(point.case).text, about)


def change(point: SeriesPoint, before: SeriesPoint, metric: Metric) -> str:
    """A card: a point against the one before it in its track, with their ranges.

    Without a colour: two runs are no confirmation.
    """
    change = wording.change(point, before, metric.better)
    text = f"{wording.quantity(before.point, metric.unit)} (n {before.n}) → "
    text += f"{wording.quantity(point.point, metric.unit)} (n {point.n}): {change.note}"
    return markup.card("Against the point before", escape(change.text), escape(text))


def _case_cell(line: TrendLine) -> str:
    return f'<span class="py-lettered">{_key(line)}{markup.case(line.key.case)}</span>'


def _key(line: TrendLine) -> str:
    return f'<span class="py-key py-series-{line.place}">{line.letter}</span>'


def _change(move: Move) -> str:
    text = interval(move.change, move.low, move.high)
    return f'<span class="py-{marks.tone(move)}">{marks.sign(move)} {escape(text)}</span>'


def _what(move: Move) -> str:
    quiet = '<span class="py-quiet">moved here, not confirmed</span>'
    text = quiet if move.state == MOVED else markup.chip(move.word)
    text += f"<small>{escape(move.direction)}</small>" if move.direction else ""
    return text + (f"<small>{escape(METRICS[move.metric].title)}</small>" if move.metric else "")


def _way(move: Move) -> str:
    if move.finding is not None:
        return markup.link(links.finding(move.finding), "Finding\u00a0→")
    return markup.link(links.run(move.point.run), "Run\u00a0→")


def _changes(step: TrackChange) -> str:
    lines = [
        f"{escape(each.name)}: {escape(each.before or wording.NONE)} → {escape(each.after or wording.NONE)}"
        for each in step.changes[:_LISTED]
    ]
    more = len(step.changes) - len(lines)
    lines += [f"and {more:,} more"] if more > 0 else []
    if step.levels:
        level_text = ", ".join(
            f"{one.line.letter} {percent(one.change)} ({_nights(one)})" for one in step.levels
        )
        lines.append(f"Levels across it: {escape(level_text)}. Not judged: there is no baseline.")
    return f'<span class="py-reason">{"<br>".join(lines)}</span>'


def _nights(one: LevelShift) -> str:
    return wording.plural(one.nights, "night")


def _share(value: float, level: float | None) -> str:
    return wording.signed_percent(None if level is None else value / level - 1)


def _whole(text: str) -> str:
    """A text that is never broken into lines."""
    return f'<span class="py-mark">{escape(text)}</span>'


def _two(strong: str, *small: str) -> str:
    smaller = "".join(f"<small>{escape(each)}</small>" for each in small if each)
    return f'<span class="py-metric">{_whole(strong)}{smaller}</span>'


def newest_first(trend_lines: Iterable[TrendLine]) -> list[Own]:
    """All points of some lines, the newest first, and those of one time in the order of the lines."""
    every = [(point, line, track) for line in trend_lines for point, track in line.points_with_tracks]
    order = time_order([point for point, _, _ in every])
    by_line = sorted(every, key=lambda own: own[1].letter)
    return sorted(by_line, key=lambda own: order(own[0]), reverse=True)


#: The nights of a sparkline, and the number of nights before the last one with which it is compared.
NIGHTS, _COMPARED = 60, 14
#: The most cases in a table; the CSV file has all.
_MOST = 120


@dataclass(frozen=True, slots=True)
class CaseHistory:
    """The points of one series, oldest first, at least one.

    They are nights of one `track` on one machine; without a schedule the track is empty, and they are all
    points.
    """

    key: SeriesKey
    points: tuple[SeriesPoint, ...]
    track: str = ""

    @property
    def change(self) -> float | None:
        """The last point relative to the median of the nights before it, minus one; None with too few."""
        before = [point.point for point in self.points[-_COMPARED - 1 : -1]]
        if len(before) < 2 or (level := median(before)) <= 0:
            return None
        return self.points[-1].point / level - 1


def histories(
    points: Mapping[SeriesKey, Sequence[SeriesPoint]], tracks_of_place: PlaceTracks
) -> list[CaseHistory]:
    """The nights of every series, or all its points if no schedule measured it; by case and hardware.

    If several tracks or machines have nights of it, those of the newest are used, because levels of two
    PyTorch versions or two machines do not form one history.
    """
    results: list[CaseHistory] = []
    for key, own in points.items():
        about = [(point, tracks_of_place.get(place_of(point))) for point in own]
        nights = [(p, each.track) for p, each in about if each and each.track and each.track != each.baseline]
        track, in_track = "", in_time(own)
        if nights:
            last, track = nights[-1]
            in_track = [point for point, each in nights if (each, point.machine) == (track, last.machine)]
        if in_track:
            results.append(CaseHistory(key, tuple(in_track[-NIGHTS:]), track))
    return sorted(results, key=lambda one: (one.key.case, one.key.hardware_label))


def every_case(rows: Sequence[CaseHistory], selection: Trends, metric: Metric) -> DataTable[CaseHistory]:
    """A row for each case; nothing is coloured, because a change of one night is not a finding.

    Of more cases than a table holds those come first that changed most.
    """
    # What no schedule measured has points, and no nights.
    what = "nights" if any(one.track for one in rows) else "points"

    def picture(one: CaseHistory) -> Markup:
        return Markup(markup.sparkline([point.point for point in one.points], metric.unit, what))

    def address(one: CaseHistory) -> str:
        return selection.of_case(one.key.case, one.key.hardware)

    unit = f" ({metric.unit})" if metric.unit else ""
    common = wording.common_parameters(one.key.case for one in rows)
    # A hardware that all rows share is in the bar above the table.
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
        Column(
            "hardware",
            "Hardware" if several else None,
            lambda one: one.key.hardware_label,
            html=lambda one: markup.hardware(one.key.hardware_label),
        ),
        Column("track", "Track" if tracks else None, lambda one: one.track),
        Column("", f"Last {NIGHTS} {what}", format=picture),
        Column(
            "latest",
            f"Latest{unit}",
            lambda one: one.points[-1].point,
            lambda one: wording.number(one.points[-1].point, metric.unit),
            number=True,
        ),
        Column(
            "change",
            f"vs median of {_COMPARED} nights" if what == "nights" else "vs median before",
            lambda one: one.change,
            lambda one: wording.signed_percent(one.change),
            number=True,
        ),
        Column("points", what.capitalize(), lambda one: len(one.points), number=True),
    ]
    if len(rows) > _MOST:
        rows = sorted(rows, key=lambda one: -abs(one.change or 0.0))
    return DataTable("All cases", columns, rows, _MOST, about=wording.all_cases(common))
