"""A small line of a series, as a picture within a table."""

from collections.abc import Sequence
from html import escape
from urllib.parse import quote

from dashboard.components import charts, wording

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
