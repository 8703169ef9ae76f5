"""The Trends page's legend and tables as HTML; every text from the database is escaped."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from analysis.metrics import METRICS, Metric
from dashboard.components import links, markup, wording
from dashboard.trends import marks
from dashboard.trends.frames import Levels
from dashboard.trends.lines import TrendLine
from dashboard.trends.marks import TrackChange
from dashboard.trends.moves import MOVED, LevelShift, Move
from dashboard.trends.view import Trends
from records.series import SeriesPoint
from reports.text.finding_text import interval
from reports.text.numbers import percent

#: Points and steps in sight; the CSV files have all. A hundred points take a tenth of a second to show.
MOST_POINTS, MOST_STEPS = 50, 40
#: So many changes of one step are listed.
_LISTED = 6

#: One point, the line and the track that it is of.
Own = tuple[SeriesPoint, TrendLine, str]


def legend(drawn: Sequence[TrendLine], tracks: Mapping[str, str]) -> str:
    """The meaning of the letters and the dashes; it wraps, and never cuts what distinguishes two lines."""
    several = len({line.key.hardware for line in drawn}) > 1
    entries = "".join(f"<li>{_key(line)}{_named(line, several)}</li>" for line in drawn)
    found = f'<ul class="py-legend">{entries}</ul>'
    if len(tracks) > 1:
        dashes = "".join(
            f'<li><span class="py-dash py-dash-{number}"></span><span>{number} {escape(label)}</span></li>'
            for number, label in enumerate(tracks.values(), 1)
        )
        found += f'<ul class="py-legend py-tracks" aria-label="Tracks">{dashes}</ul>'
    return found


def _named(line: TrendLine, several: bool) -> str:
    where = f"<small>{escape(line.key.hardware_label)}</small>" if several else ""
    return f"<span>{markup.case(line.key.case)}{where}</span>"


def moves(items: Sequence[Move], tracks: Mapping[str, str]) -> str:
    """Where lines moved, the newest first."""
    columns = [("Since (UTC)", False), ("Case", False), ("Change", True), ("What", False), ("Where", False)]
    columns += [("PyTorch", False), ("", False)]
    rows = (
        (
            _two(f"{move.point.started_at:%Y-%m-%d}", move.shape),
            _lettered(move.line),
            _change(move),
            _what(move),
            _two(move.point.machine, tracks[move.track] if len(tracks) > 1 else ""),
            escape(move.point.torch_version or wording.NONE),
            _way(move),
        )
        for move in sorted(items, key=lambda move: move.point.started_at, reverse=True)
    )
    return markup.table("Where lines moved", columns, rows, folded=True, tall=len(items) > MOST_STEPS)


def steps(items: Sequence[TrackChange], tracks: Mapping[str, str]) -> str:
    """What else changed along the way, the newest first."""
    columns = [("Before (UTC)", False), ("Where", False), ("What changed", False), ("", False)]
    rows = (
        (
            _whole(f"{step.point.started_at:%Y-%m-%d %H:%M}"),
            _two(step.point.machine, tracks[step.track] if len(tracks) > 1 else ""),
            _changes(step),
            markup.link(links.run(step.point.run), "Run\u00a0→"),
        )
        for step in items[:MOST_STEPS]
    )
    rest = markup.more(len(items) - MOST_STEPS, "earlier ones, which the CSV file has")
    return markup.table("What changed along the way", columns, rows, folded=True, tall=True) + rest


def points(
    items: Sequence[Own], chosen: Trends, known: Metric, tracks: Mapping[str, str], levels: Levels | None
) -> str:
    """The newest points, each with links to its numbers and to the replicates behind it."""
    columns = [("Case", False), ("Measured (UTC)", False), (_headed(known), True), ("95 % interval", True)]
    columns += [("Smallest to largest", True), ("n", True)]
    columns += [("Against", True)] if levels is not None else []
    columns += [("PyTorch, where", False), ("", False)]
    rows = (
        (
            _lettered(line),
            _whole(f"{point.started_at:%Y-%m-%d %H:%M}"),
            f"<strong>{escape(wording.number(point.point, known.unit))}</strong>",
            escape(wording.value_range(point.low, point.high, known.unit)),
            escape(wording.value_range(point.smallest, point.largest, known.unit)),
            str(point.n),
            *([_share(point.point, levels.get(line.letter))] if levels is not None else ()),
            _two(point.torch_version or wording.NONE, _machine(point, track, tracks)),
            '<span class="py-mark">'
            f"{markup.link(chosen.address_at(point.run), 'Point')} · "
            f"{markup.link(links.result(point.run, point.case, point.environment), 'Samples')}</span>",
        )
        for point, line, track in items[:MOST_POINTS]
    )
    rest = markup.more(len(items) - MOST_POINTS, "older ones, which the CSV file has")
    return markup.table("The newest points", columns, rows, folded=True, tall=True) + rest


def ways(point: SeriesPoint, before: SeriesPoint | None, chosen: Trends, *, observed: bool) -> str:
    """Where a point leads: its replicates with their samples, its run, what it may be set against."""
    links_html = [
        markup.link(links.result(point.run, point.case, point.environment), "Samples and log →"),
        markup.link(links.run(point.run), "The whole run →"),
    ]
    if observed:
        # The page takes the first replicate that was observed.
        address = links.windows(point.run, point.case, point.environment)
        links_html.append(markup.link(address, "Utilisation →"))
    against = chosen.after("scale", "relative").after("baseline", point.run)
    links_html.append(markup.link(against.address, "Set all against it →"))
    if before is not None:
        links_html.append(markup.link(chosen.after("at", before.run).address, "← The point before"))
    return f"<p>{' · '.join(links_html)}</p>"


def point_facts(line: TrendLine, point: SeriesPoint, known: Metric, track: str, level: float | None) -> str:
    """One point's numbers."""
    unit = known.unit
    about = {
        "median": wording.quantity(point.point, unit),
        "95 % interval": wording.value_range(point.low, point.high, unit),
        "smallest to largest": wording.value_range(point.smallest, point.largest, unit),
        "replicates (n)": point.n,
        "spread": wording.percent(point.spread),
        **({} if level is None else {"against the baseline": _share(point.point, level)}),
        "PyTorch": point.torch_version,
        "measured": wording.timestamp(point.started_at),
        "machine": point.machine,
        "hardware": line.key.hardware_label,
        **({"track": track} if track else {}),
        "harness": point.harness,
    }
    return markup.facts(f"{line.letter} · {known.title}", wording.case(point.case).text, about)


def change(point: SeriesPoint, before: SeriesPoint, known: Metric) -> str:
    """A card: a point against the one before it in its track, with their ranges."""
    found = wording.change(point, before, known.better)
    text = f"{wording.quantity(before.point, known.unit)} (n {before.n}) → "
    text += f"{wording.quantity(point.point, known.unit)} (n {point.n}): {found.note}"
    value = f'<span class="py-{found.tone}">{escape(found.text)}</span>'
    return markup.card("Against the point before", value, escape(text))


def _headed(known: Metric) -> str:
    return wording.with_unit(known.title, known.unit)


def _lettered(line: TrendLine) -> str:
    return f'<span class="py-lettered">{_key(line)}{markup.case(line.key.case)}</span>'


def _key(line: TrendLine) -> str:
    return f'<span class="py-key py-series-{line.place}">{line.letter}</span>'


def _change(move: Move) -> str:
    text = interval(move.change, move.low, move.high)
    return f'<span class="py-{marks.tone(move)}">{marks.sign(move)} {escape(text)}</span>'


def _what(move: Move) -> str:
    moved = '<span class="py-quiet">moved here, not confirmed</span>'
    text = moved if move.state == MOVED else markup.chip(move.word)
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
        moved = ", ".join(f"{one.line.letter} {percent(one.change)} ({_nights(one)})" for one in step.levels)
        lines.append(f"Levels across it: {escape(moved)}. Not judged: there is no baseline.")
    return f'<span class="py-reason">{"<br>".join(lines)}</span>'


def _nights(one: LevelShift) -> str:
    return wording.plural(one.nights, "night")


def _machine(point: SeriesPoint, track: str, tracks: Mapping[str, str]) -> str:
    return f"{point.machine} · {tracks[track]}" if len(tracks) > 1 else point.machine


def _share(value: float, level: float | None) -> str:
    return wording.signed_percent(None if level is None else value / level - 1)


def _whole(text: str) -> str:
    """A text that is never broken into lines."""
    return f'<span class="py-mark">{escape(text)}</span>'


def _two(strong: str, *small: str) -> str:
    smaller = "".join(f"<small>{escape(each)}</small>" for each in small if each)
    return f'<span class="py-metric">{_whole(strong)}{smaller}</span>'


def newest_first(drawn: Iterable[TrendLine]) -> list[Own]:
    """All points of some lines, the newest first."""
    every = [
        (point, line, track) for line in drawn for point, track in zip(line.points, line.tracks, strict=True)
    ]
    return sorted(every, key=lambda own: (own[0].started_at, own[1].letter), reverse=True)
