"""Pieces of HTML: matrices, chips, cards, panels; text is escaped unless a docstring says otherwise."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote, urlsplit

from dashboard.components import charts, wording

#: The most characters of a fact that is not folded: some, such as the build settings of PyTorch, take pages.
_LONG = 120
#: The most facts of a panel that does not take the whole width.
_MANY = 12


def facts(title: str, heading: str, pairs: Mapping[str, Any]) -> str:
    """A panel of facts: `title` small, `heading` strong, then names and values; long values are folded."""
    items = [f"<div><dt>{escape(name)}</dt><dd>{_fold_text(value)}</dd></div>" for name, value in flat(pairs)]
    wide = " py-wide" if len(items) > _MANY else ""
    return (
        f'<section class="py-panel{wide}"><h3>{escape(title)}</h3><p class="py-strong">{escape(heading)}</p>'
        f"<dl>{''.join(items)}</dl></section>"
    )


def panels(*parts: str, kind: str = "py-cards") -> str:
    """Cards, or panels of facts (`py-facts`), in rows that fill the width."""
    return f'<div class="py-panels {kind}">{"".join(parts)}</div>'


def card(title: str, value: str, note: str) -> str:
    """A card with a main number; `value` and `note` are HTML already."""
    return (
        f'<section class="py-card"><p class="py-label">{escape(title)}</p>'
        f'<p class="py-value">{value}</p><p>{note}</p></section>'
    )


def notes(items: Sequence[str]) -> str:
    """The notes of a run."""
    return '<ul class="py-notes">' + "".join(f"<li>{escape(note)}</li>" for note in items) + "</ul>"


def legend(cases: Sequence[str]) -> str:
    """The legend of the trend chart; it wraps and does not shorten case keys."""
    entries = "".join(
        f'<li><span class="py-key py-series-{place + 1}">{charts.letter(place)}</span>{case(key)}</li>'
        for place, key in enumerate(cases)
    )
    return f'<ul class="py-legend">{entries}</ul>'


def code(text: str) -> str:
    """A command or the output of a program, with a button that copies it."""
    # Not Streamlit's element, whose highlighter has 1.5 MB and would delay every page by half a second.
    button = (
        f'<button type="button" class="py-save py-copy" aria-label="Copy: {escape(text[:80])}">Copy</button>'
    )
    return f'<div class="py-code"><pre tabindex="0">{escape(text)}</pre>{button}</div>'


def chart_buttons(alt: str, name: str, title: str, subtitle: str) -> str:
    """The two buttons below a chart that `alt` describes; `name` is its file's, without an ending.

    `title` and `subtitle` are printed above the picture.
    """
    data = f'data-name="{escape(name)}" data-title="{escape(title)}" data-subtitle="{escape(subtitle)}"'
    each = "".join(
        f'<button type="button" class="py-save" data-format="{kind}" {data} '
        f'data-about="{escape(alt)}" aria-label="{kind.upper()} file of the chart: {escape(alt)}">'
        f"{kind.upper()}</button>"
        for kind in ("png", "svg")
    )
    return f'<p class="py-saves">{each}</p>'


def two_lines(strong: str, *small: str) -> str:
    """A cell's text with smaller ones below it; empty ones are left out."""
    return escape(strong) + "".join(f"<small>{escape(each)}</small>" for each in small if each)


def one_line(strong: str, *small: str) -> str:
    """The same on one line; the tooltip has the whole text."""
    texts = [strong, *filter(None, small)]
    smaller = "".join(f" <small>{escape(each)}</small>" for each in texts[1:])
    return f'<span class="py-line" title="{escape(" · ".join(texts))}">{escape(strong)}{smaller}</span>'


def hardware(label: str) -> str:
    """A hardware in short form, with the whole name as a tooltip if it differs."""
    return abbreviation(wording.hardware(label), label)


def build(torch_version: str) -> str:
    """A PyTorch version in short form, with the whole version as a tooltip if it differs."""
    return abbreviation(wording.version(torch_version), torch_version)


def abbreviation(short: str, whole: str) -> str:
    """A short text with the whole text as its tooltip."""
    if whole in short:
        return escape(short)
    return f'<span title="{escape(whole)}">{escape(short)}</span>'


def card_title(title: str, *chips: str) -> str:
    """The title of a card; `chips` are HTML already."""
    return f'<div class="py-title"><h3>{escape(title)}</h3>{"".join(chips)}</div>'


def label(text: str, tone: wording.Tone = "quiet") -> str:
    """A word in a chip."""
    return f'<span class="py-chip py-{tone}">{escape(text)}</span>'


def bullets(items: Iterable[str]) -> str:
    """Lines of a list."""
    return f'<ul class="py-bullets">{"".join(f"<li>{escape(item)}</li>" for item in items)}</ul>'


def paragraph(text: str) -> str:
    """A line of small text."""
    return f'<p class="py-note">{escape(text)}</p>'


def outside(address: str, text: str) -> str:
    """A link to another site if its scheme is safe; else only the text."""
    try:
        safe = urlsplit(address).scheme in ("http", "https")
    except ValueError:
        safe = False
    if not safe:
        return escape(text)
    return f'<a href="{escape(address)}" target="_blank" rel="noopener noreferrer">{escape(text)}</a>'


def strong(text: str) -> str:
    """A heading."""
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


def verdict(tone: str, sign: str, word: str, text: str, *small: str) -> str:
    """A decision with its sign, its reason, and smaller lines below; empty lines are left out."""
    lines = "".join(f'<p class="py-quiet">{escape(line)}</p>' for line in small if line)
    return (
        f'<div class="py-verdict py-{tone}"><p class="py-decision"><span aria-hidden="true">{sign}</span> '
        f'{escape(word)}</p><div class="py-words"><p>{escape(text)}</p>{lines}</div></div>'
    )


def opened_case(key: str, address: str) -> str:
    """A case key as a link to its panel."""
    return f'<a class="py-open" href="{escape(address)}" target="_self">{case(key)}</a>'


def technique(name: str) -> str:
    """A technique, set as code."""
    return f'<code class="py-tech">{escape(name)}</code>'


def bar(ratio: float, low: float | None, high: float | None, ends: tuple[float, float]) -> str:
    """A ratio as a bar from 1, with its interval as a line, along an axis between these `ends`.

    It has the colour of its cell, and the table has the same numbers as text.
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
    """A status with its sign and word, or with a count."""
    status_text = wording.status(status)
    count = "" if many is None else f"{many:,} "
    text = f"{status_text.sign} {count}{escape(status_text.word)}"
    return f'<span class="py-chip py-{status_text.tone}">{text}</span>'


def link(address: str, text: str) -> str:
    """A link to another view of this dashboard."""
    return f'<a href="{escape(address)}" target="_self">{escape(text)}</a>'


def flat(pairs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Nested facts as a list of names and texts: `{"gpu": {"name": "H200"}}` is `gpu name: H200`."""
    return [(name, _value_text(value)) for name, value in flat_values(pairs)]


def flat_values(pairs: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """The same with unchanged values, including lists."""
    results: list[tuple[str, Any]] = []
    for name, value in pairs.items():
        # The name of a variable such as OMP_WAIT_POLICY is not changed.
        label = prefix + (name.replace("_", " ") if name.islower() else name)
        results += flat_values(value, f"{label} ") if isinstance(value, Mapping) else [(label, value)]
    return results


def _value_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(format_value, value)) or wording.NONE
    return wording.NONE if value is None or value == "" else _plain(value)


def _fold_text(value: str) -> str:
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
    # An integer, for example a seed, keeps every digit; as a float it would have 16.
    return format_value(value, "," if isinstance(value, int) else "")


def format_value(value: object, form: str = "") -> str:
    """A value as text, by `format`."""
    try:
        return format(value, form)
    except ValueError:
        # Python prints no integer of more than some thousand digits.
        return "a number too long to print"


#: Size in CSS pixels, and the margin around the line for its last point.
_WIDTH, _HEIGHT, _EDGE = 132, 30, 4
#: Colours of the last point that are distinct on a light and on a dark page alike.
_TONES: dict[wording.Tone, str] = {
    "good": "#1f9d77",
    "bad": "#e0483e",
    "odd": "#c98a1b",
    "quiet": charts.QUIET,
}


def sparkline(values: Sequence[float], unit: str, what: str, tone: wording.Tone = "quiet") -> str:
    """Values, oldest first, as a line with their range; a dash if there are too few.

    `what` is the plural noun of a value, such as `nights`. `tone` is that of the last one.
    """
    if len(values) < 2:
        return f'<span class="py-quiet">{wording.NONE}</span>'
    low, high = min(values), max(values)
    span = f"{wording.number(low, unit)} to {wording.quantity(high, unit)}"
    alt = f"{len(values)} {what}, {span}, the last {wording.quantity(values[-1], unit)}"
    # An image element, because Streamlit removes inline SVG from HTML.
    source = f"data:image/svg+xml,{quote(_svg(values, low, high, _TONES[tone]))}"
    return (
        f'<img class="py-sparkline" src="{source}" width="{_WIDTH}" height="{_HEIGHT}" alt="{escape(alt)}">'
        f"<small>{escape(span)}</small>"
    )


def _svg(values: Sequence[float], low: float, high: float, colour: str) -> str:
    across, down = _WIDTH - 2 * _EDGE, _HEIGHT - 2 * _EDGE
    # A range of less than one per cent is drawn nearly flat.
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


#: The weakest and the strongest shade of a cell, in percent of its tone's colour.
_WEAKEST, _STRONGEST = 10, 44


@dataclass(frozen=True, slots=True)
class HeatHead:
    """The head of a line or a column; `note` is smaller below it, `link` is the address of its view.

    `chip`: set as code, for techniques. `chosen`: it is the selected one.
    """

    title: str
    note: str = ""
    link: str = ""
    chip: bool = False
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One cell: a sign, with its word for screen readers, and a value.

    `shade`, from 0 to 1, fills it with the colour of its `tone`. `about` is its tooltip.
    """

    sign: str
    word: str
    value: str = ""
    tone: wording.Tone = "quiet"
    shade: float = 0.0
    about: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Lines of cells, one for each technique, below the heads of columns; None if there is no such case.

    `label` names the matrix for screen readers.
    """

    label: str
    columns: Sequence[HeatHead]
    lines: Sequence[tuple[HeatHead, Sequence[HeatCell | None]]]

    def html(self) -> str:
        """The matrix as a table in a box that scrolls horizontally."""
        heads = "".join(_heat_head(each, "col") for each in self.columns)
        body = "".join(
            f"<tr>{_heat_head(head, 'row')}{''.join(map(_heat_cell, cells))}</tr>"
            for head, cells in self.lines
        )
        return (
            f'<div class="py-scroll" tabindex="0" role="region" aria-label="{escape(self.label)}">'
            f'<table class="py-matrix"><thead><tr><th scope="col">Technique</th>{heads}</tr>'
            f"</thead><tbody>{body}</tbody></table></div>"
        )


def _heat_head(head: HeatHead, scope: str) -> str:
    title = technique(head.title) if head.chip else escape(head.title)
    if head.link:
        current = ' aria-current="true"' if head.chosen else ""
        title = f'<a href="{escape(head.link)}" target="_self"{current}>{title}</a>'
    note = f"<small>{escape(head.note)}</small>" if head.note else ""
    css_class = ' class="py-chosen"' if head.chosen else ""
    return f'<th scope="{scope}"{css_class}>{title}{note}</th>'


def _heat_cell(cell: HeatCell | None) -> str:
    if cell is None:
        return "<td></td>"
    word = f' <span class="py-heard">{escape(cell.word)}</span>' if cell.word else ""
    # A sign that is the value itself, such as a dot, is read out.
    aria_attribute = ' aria-hidden="true"' if cell.word else ""
    text = f"<span{aria_attribute}>{escape(cell.sign)}</span>{word} {escape(cell.value)}".strip()
    if cell.link:
        text = f'<a href="{escape(cell.link)}" target="_self">{text}</a>'
    shade = f' style="--shade: {_WEAKEST + (_STRONGEST - _WEAKEST) * cell.shade:.0f}%"' if cell.shade else ""
    shade_class = " py-shaded" if cell.shade else ""
    about = f' title="{escape(cell.about)}"' if cell.about else ""
    return f'<td class="py-{cell.tone}{shade_class}"{shade}{about}>{text}</td>'
