"""Charts as files: the links next to each chart, and the code in the browser that makes files and copies."""

from functools import cache
from html import escape
from pathlib import Path


def buttons(alt: str, name: str) -> str:
    """The two buttons below a chart that `alt` describes; `name` is its file's, without an ending."""
    each = "".join(
        f'<button type="button" class="py-save" data-format="{kind}" data-name="{escape(name)}" '
        f'data-about="{escape(alt)}" aria-label="{kind.upper()} file of the chart: {escape(alt)}">'
        f"{kind.upper()}</button>"
        for kind in ("png", "svg")
    )
    return f'<p class="py-saves">{each}</p>'


@cache
def script() -> str:
    """The script that a page needs once, for those buttons and all else in the browser; constant text."""
    names = ("pictures.js", "copying.js", "context.js", "tables.js", "scrolling.js")
    text = "".join((Path(__file__).parent / name).read_text() for name in names)
    return f"<script>\n{text}</script>"
