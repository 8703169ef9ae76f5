"""A matrix of short cells, techniques by workloads, shaded where a change is proved."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from dashboard.components.wording import Tone

#: The weakest and the strongest shade of a cell, in percent of its tone's colour.
_WEAKEST, _STRONGEST = 10, 44


@dataclass(frozen=True, slots=True)
class HeatHead:
    """The head of a line or a column; `note` is smaller below it, `link` leads to its own view.

    `chip`: set as code, as techniques are. `chosen`: the view shows this one.
    """

    title: str
    note: str = ""
    link: str = ""
    chip: bool = False
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One cell: a sign with its word for screen readers, so that colour never speaks alone, and a value.

    `shade`, from 0 to 1, fills it with the colour of its `tone`. `about` is its tooltip.
    """

    sign: str
    word: str
    value: str = ""
    tone: Tone = "quiet"
    shade: float = 0.0
    about: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Lines of cells, one for each technique, below the heads of columns; None where there is no such case.

    `label` names the matrix for screen readers.
    """

    label: str
    columns: Sequence[HeatHead]
    lines: Sequence[tuple[HeatHead, Sequence[HeatCell | None]]]

    def html(self) -> str:
        """The matrix as a table that scrolls sideways in a box of its own."""
        heads = "".join(_head(each, "col") for each in self.columns)
        body = "".join(
            f"<tr>{_head(head, 'row')}{''.join(map(_cell, cells))}</tr>" for head, cells in self.lines
        )
        return (
            f'<div class="py-scroll" tabindex="0" role="region" aria-label="{escape(self.label)}">'
            f'<table class="py-matrix"><thead><tr><th scope="col">Technique</th>{heads}</tr>'
            f"</thead><tbody>{body}</tbody></table></div>"
        )


def _head(head: HeatHead, scope: str) -> str:
    title = f'<code class="py-tech">{escape(head.title)}</code>' if head.chip else escape(head.title)
    if head.link:
        current = ' aria-current="true"' if head.chosen else ""
        title = f'<a href="{escape(head.link)}" target="_self"{current}>{title}</a>'
    note = f"<small>{escape(head.note)}</small>" if head.note else ""
    return f'<th scope="{scope}"{_chosen(head)}>{title}{note}</th>'


def _chosen(head: HeatHead) -> str:
    return ' class="py-chosen"' if head.chosen else ""


def _cell(cell: HeatCell | None) -> str:
    if cell is None:
        return "<td></td>"
    word = f' <span class="py-heard">{escape(cell.word)}</span>' if cell.word else ""
    # A sign of the value itself, such as a dot, is read out.
    hidden = ' aria-hidden="true"' if cell.word else ""
    text = f"<span{hidden}>{escape(cell.sign)}</span>{word} {escape(cell.value)}".strip()
    if cell.link:
        text = f'<a href="{escape(cell.link)}" target="_self">{text}</a>'
    shade = f' style="--shade: {_WEAKEST + (_STRONGEST - _WEAKEST) * cell.shade:.0f}%"' if cell.shade else ""
    shaded = " py-shaded" if cell.shade else ""
    about = f' title="{escape(cell.about)}"' if cell.about else ""
    return f'<td class="py-{cell.tone}{shaded}"{shade}{about}>{text}</td>'
