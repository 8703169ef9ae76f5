"""Pieces of HTML: tables, chips, cards, panels; text is escaped here unless a docstring says otherwise."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import quote, urlsplit

from dashboard.components import charts, wording

#: A column: its title, and whether it holds numbers (set to the right, in tabular figures).
Column = tuple[str, bool]

#: Characters beyond which a fact is folded: some are pages long, as how PyTorch was built.
_LONG = 120
#: Facts beyond which a panel takes the whole width.
_MANY = 12


def table(
    label: str,
    columns: Sequence[Column],
    rows: Iterable[Sequence[str]],
    *,
    tall: bool = False,
    folded: bool = False,
) -> str:
    """A table of cells that are HTML already; `label` names it for screen readers, `tall` lets it scroll.

    One that is `folded` breaks its lines rather than being cut, and is a list on a phone.
    """
    head = "".join(_head(title, number) for title, number in columns)
    # On a phone a folded table has no heads, and a number or a word alone says nothing.
    named = [
        f'{_class(n)} data-title="{escape(title)}"' if folded and title and place else _class(n)
        for place, (title, n) in enumerate(columns)
    ]
    body = "".join(
        "<tr>" + "".join(f"<td{about}>{cell}</td>" for about, cell in zip(named, row, strict=True)) + "</tr>"
        for row in rows
    )
    return (
        f'<div class="py-scroll{" py-tall" if tall else ""}" tabindex="0" role="region" '
        f'aria-label="{escape(label)}"><table class="py-table{" py-folded" if folded else ""}">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def more(many: int, what: str) -> str:
    """Below a table that is cut: how many more there are, and where; nothing where there are none."""
    return f'<p class="py-quiet">and {many:,} {escape(what)}</p>' if many > 0 else ""


def facts(title: str, heading: str, pairs: Mapping[str, Any]) -> str:
    """A panel of facts: `title` small, `heading` strong, then names and values; long values are folded."""
    listed = [f"<div><dt>{escape(name)}</dt><dd>{_folded(value)}</dd></div>" for name, value in flat(pairs)]
    wide = " py-wide" if len(listed) > _MANY else ""
    return (
        f'<section class="py-panel{wide}"><h3>{escape(title)}</h3><p class="py-strong">{escape(heading)}</p>'
        f"<dl>{''.join(listed)}</dl></section>"
    )


def panels(*parts: str, kind: str = "py-cards") -> str:
    """Cards, or panels of facts (`py-facts`), side by side: as many as the width allows."""
    return f'<div class="py-panels {kind}">{"".join(parts)}</div>'


def card(title: str, value: str, note: str) -> str:
    """One number that matters; `value` and `note` are HTML already."""
    return (
        f'<section class="py-card"><p class="py-label">{escape(title)}</p>'
        f'<p class="py-value">{value}</p><p>{note}</p></section>'
    )


def notes(items: Sequence[str]) -> str:
    """What a run says about itself."""
    return '<ul class="py-notes">' + "".join(f"<li>{escape(note)}</li>" for note in items) + "</ul>"


def legend(cases: Sequence[str]) -> str:
    """The trend chart's legend: it wraps, and it never cuts what distinguishes two cases."""
    entries = "".join(
        f'<li><span class="py-key py-series-{place + 1}">{charts.letter(place)}</span>{case(key)}</li>'
        for place, key in enumerate(cases)
    )
    return f'<ul class="py-legend">{entries}</ul>'


def code(text: str) -> str:
    """What is typed, or what a program wrote, with a button that copies it."""
    # Not Streamlit's own element: its colours take a program of 1.5 MB, which is half a second of every page.
    button = (
        f'<button type="button" class="py-save py-copy" aria-label="Copy: {escape(text[:80])}">Copy</button>'
    )
    return f'<div class="py-code"><pre tabindex="0">{escape(text)}</pre>{button}</div>'


def chart_buttons(alt: str, name: str) -> str:
    """The two buttons below a chart that `alt` describes; `name` is its file's, without an ending."""
    each = "".join(
        f'<button type="button" class="py-save" data-format="{kind}" data-name="{escape(name)}" '
        f'data-about="{escape(alt)}" aria-label="{kind.upper()} file of the chart: {escape(alt)}">'
        f"{kind.upper()}</button>"
        for kind in ("png", "svg")
    )
    return f'<p class="py-saves">{each}</p>'


def two_lines(strong: str, *small: str) -> str:
    """A cell's text with smaller ones below it; empty ones are left out."""
    return escape(strong) + "".join(f"<small>{escape(each)}</small>" for each in small if each)


def one_line(strong: str, *small: str) -> str:
    """The same, where there is room on one line; what is cut of it stands in the tooltip."""
    texts = [strong, *filter(None, small)]
    smaller = "".join(f" <small>{escape(each)}</small>" for each in texts[1:])
    return f'<span title="{escape(" · ".join(texts))}">{escape(strong)}{smaller}</span>'


def headed(title: str, *chips: str) -> str:
    """The title of a card; `chips` are HTML already."""
    return f'<div class="py-title"><h3>{escape(title)}</h3>{"".join(chips)}</div>'


def label(text: str, tone: wording.Tone = "quiet") -> str:
    """A word about what it stands beside, framed as a chip."""
    return f'<span class="py-chip py-{tone}">{escape(text)}</span>'


def toned(text: str, tone: wording.Tone) -> str:
    """Text in the colour of a tone; the text says the same without it."""
    return f'<span class="py-{tone}">{escape(text)}</span>'


def toned_link(address: str, text: str, tone: wording.Tone) -> str:
    """A link to another view of this dashboard in the colour of a tone."""
    return f'<a class="py-{tone}" href="{escape(address)}" target="_self">{escape(text)}</a>'


def bullets(items: Iterable[str]) -> str:
    """Lines of a list."""
    return f'<ul class="py-bullets">{"".join(f"<li>{escape(item)}</li>" for item in items)}</ul>'


def paragraph(text: str) -> str:
    """A line of small text."""
    return f'<p class="py-note">{escape(text)}</p>'


def outside(address: str, text: str) -> str:
    """A link out of here, where a browser may follow its address; else only the text."""
    try:
        safe = urlsplit(address).scheme in ("http", "https")
    except ValueError:
        safe = False
    if not safe:
        return escape(text)
    return f'<a href="{escape(address)}" target="_blank" rel="noopener noreferrer">{escape(text)}</a>'


def strong(text: str) -> str:
    """A line of text that titles what follows."""
    return f'<p class="py-strong">{escape(text)}</p>'


def pager(
    address: Callable[[int], str], page: int, pages: int, words: tuple[str, str] = ("Newer", "Older")
) -> str:
    """Links to the pages before and after `page` of `pages`, each at its `address`; nothing for one page."""
    if pages <= 1:
        return ""
    before = link(address(page - 1), f"← {words[0]}") if page > 1 else ""
    after = link(address(page + 1), f"{words[1]} →") if page < pages else ""
    return f'<p class="py-pager">{before} <span class="py-quiet">page {page} of {pages}</span> {after}</p>'


def case(key: str, common: Collection[str] = ()) -> str:
    """A case key: the workload, its technique as a chip, and smaller its parameters that are not `common`."""
    words = wording.case(key)
    name = " · ".join(part for part in (words.name, words.phase) if part)
    chip = f" {technique(words.technique)}" if words.technique else ""
    own = " ".join(each for each in wording.parameters(key) if each not in common)
    parameters = f" <small>{escape(own)}</small>" if own else ""
    return f'<span class="py-case"><span>{escape(name)}</span>{chip}{parameters}</span>'


def all_cases(common: Collection[str]) -> str:
    """The parameters that all cases of a table have in `common`, for above it; empty for none."""
    return paragraph(f"All cases: {' '.join(common)}.") if common else ""


def verdict(tone: str, sign: str, word: str, text: str, *small: str) -> str:
    """A decision with its sign, what it rests on, and smaller lines below; empty lines are left out."""
    lines = "".join(f'<p class="py-quiet">{escape(line)}</p>' for line in small if line)
    return (
        f'<div class="py-verdict py-{tone}"><p class="py-decision"><span aria-hidden="true">{sign}</span> '
        f'{escape(word)}</p><div class="py-words"><p>{escape(text)}</p>{lines}</div></div>'
    )


def opened_case(key: str, address: str) -> str:
    """A case key that leads to its panel."""
    return f'<a class="py-open" href="{escape(address)}" target="_self">{case(key)}</a>'


def technique(name: str) -> str:
    """A technique, set as code."""
    return f'<code class="py-tech">{escape(name)}</code>'


def bar(ratio: float, low: float | None, high: float | None, ends: tuple[float, float]) -> str:
    """A ratio as a bar from 1, with its interval as a line, along an axis between these `ends`.

    It is drawn in the colour of what holds it, and says nothing that stands nowhere else.
    """
    least, most = ends
    span = (most - least) or 1.0

    def at(value: float) -> float:
        return 100 * (min(max(value, least), most) - least) / span

    one, point = at(1.0), at(ratio)
    line = ""
    if low is not None and high is not None:
        line = f'<i style="left: {at(low):.1f}%; width: {at(high) - at(low):.1f}%"></i>'
    return (
        f'<span class="py-bar" aria-hidden="true"><b style="left: {min(one, point):.1f}%; '
        f'width: {abs(point - one):.1f}%"></b><s style="left: {one:.1f}%"></s>{line}</span>'
    )


def chip(status: str, many: int | None = None) -> str:
    """A status with its sign and word, or a number of them."""
    shown = wording.status(status)
    count = "" if many is None else f"{many:,} "
    return f'<span class="py-chip py-{shown.tone}">{shown.sign} {count}{escape(shown.word)}</span>'


def link(address: str, text: str) -> str:
    """A link to another view of this dashboard."""
    return f'<a href="{escape(address)}" target="_self">{escape(text)}</a>'


def flat(pairs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Nested facts as a list of names and texts: `{"gpu": {"name": "H200"}}` is `gpu name: H200`."""
    return [(name, _shown(value)) for name, value in named(pairs)]


def named(pairs: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """The same with each value as it is, a list among them."""
    found: list[tuple[str, Any]] = []
    for name, value in pairs.items():
        # A variable such as OMP_WAIT_POLICY keeps its own spelling.
        spelled = prefix + (name.replace("_", " ") if name.islower() else name)
        found += named(value, f"{spelled} ") if isinstance(value, Mapping) else [(spelled, value)]
    return found


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(printed, value)) or wording.NONE
    return wording.NONE if value is None or value == "" else _plain(value)


def _folded(value: str) -> str:
    if len(value) <= _LONG:
        return escape(value)
    words = value.strip()[: _LONG // 2].rsplit(maxsplit=1)
    start = escape(words[0]) if words else ""
    return f"<details><summary>{start} …</summary><pre>{escape(value)}</pre></details>"


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:.6g}"
    # An integer keeps every digit, as a seed needs: by way of a float it has 16 of them.
    return printed(value, "," if isinstance(value, int) else "")


def printed(value: object, form: str = "") -> str:
    """A value as a text, as `format` makes it of whatever has one."""
    try:
        return format(value, form)
    except ValueError:
        # Python prints no integer of more than some thousand digits.
        return "a number too long to print"


def _head(title: str, number: bool) -> str:
    # A column without a title has no head: an empty one would be read out as one.
    return f'<th scope="col"{_class(number)}>{escape(title)}</th>' if title else "<td></td>"


def _class(number: bool) -> str:
    return ' class="py-number"' if number else ""


#: Size in CSS pixels, and what stays free around the line for its last point.
_WIDTH, _HEIGHT, _EDGE = 132, 30, 4
#: Colours of the last point that are distinct on a light and on a dark page alike.
_TONES: dict[wording.Tone, str] = {
    "good": "#1f9d77",
    "bad": "#e0483e",
    "odd": "#c98a1b",
    "quiet": charts.QUIET,
}


def sparkline(values: Sequence[float], unit: str, what: str, tone: wording.Tone = "quiet") -> str:
    """Values oldest first as a line, with their range; a dash where there is no line to draw.

    `what` says what one value is of, such as `nights`. `tone` is that of the last one.
    """
    if len(values) < 2:
        return f'<span class="py-quiet">{wording.NONE}</span>'
    low, high = min(values), max(values)
    span = f"{wording.number(low, unit)} to {wording.quantity(high, unit)}"
    alt = f"{len(values)} {what}, {span}, the last {wording.quantity(values[-1], unit)}"
    # A picture of its own: the page keeps no drawing that stands in its HTML.
    source = f"data:image/svg+xml,{quote(_svg(values, low, high, _TONES[tone]))}"
    return (
        f'<img class="py-sparkline" src="{source}" width="{_WIDTH}" height="{_HEIGHT}" alt="{escape(alt)}">'
        f"<small>{escape(span)}</small>"
    )


def _svg(values: Sequence[float], low: float, high: float, colour: str) -> str:
    across, down = _WIDTH - 2 * _EDGE, _HEIGHT - 2 * _EDGE
    # What moves by less than a hundredth is flat: noise is no mountain range.
    span = max(high - low, 0.01 * abs(high)) or 1.0
    middle = (high + low) / 2
    points = [
        (_EDGE + across * place / (len(values) - 1), _EDGE + down * (0.5 - (value - middle) / span))
        for place, value in enumerate(values)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    x, y = points[-1]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}">'
        f'<polyline points="{line}" fill="none" stroke="{charts.QUIET}" stroke-width="1.6" '
        f'stroke-linejoin="round" stroke-linecap="round"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/></svg>'
    )
