"""Workloads by techniques, each cell the change of one case."""

import math

from . import elements, wording
from .rows import Grid, Row

#: The change at which the shade is full.
_FULL = math.log(1.15)


def heatmap(grid: Grid, lines: str = "workload") -> str:
    """The grid as a table: shade, sign and number tell a change; `·` is a case that does not exist.

    `lines` is what each line is.
    """
    head = "".join(f'<th scope="col">{elements.breakable(name)}</th>' for name in grid.techniques)
    body = "".join(
        f'<tr><th scope="row">{elements.case(workload)}</th>{"".join(map(_cell, cells))}</tr>'
        for workload, cells in grid.lines
    )
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Change by workload and technique">'
        f'<table class="heat"><thead><tr><th scope="col">{elements.text(lines)}</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
        '<p class="quiet">Shaded: a change that was called, ▲ worse, ▼ better; the shade is full at 15 %. '
        "● the same, ○ unclear, ✗ broken, · no such case.</p>"
    )


def _cell(row: Row | None) -> str:
    if row is None:
        return '<td class="empty">·</td>'
    verdict = row.verdict
    title = f'title="{elements.text(f"{row.case}: {row.summary}")}"'
    sign = f'<span aria-hidden="true">{row.sign}</span><span class="heard">{elements.text(row.word)}</span>'
    if verdict is None or verdict.old is None:
        return f'<td class="{row.tone}" {title}>{sign}</td>'
    shade = 0.0
    if row.standing in ("slower", "faster"):
        shade = 1.0 if verdict.change is None else min(1.0, abs(verdict.change) / _FULL)
    style = f' style="--shade: {10 + 34 * shade:.0f}%"' if shade else ""
    kind = row.tone if shade else "quiet"
    return (
        f'<td class="{kind}{" shaded" if shade else ""}"{style} {title}>{sign} {wording.change(verdict)}</td>'
    )
