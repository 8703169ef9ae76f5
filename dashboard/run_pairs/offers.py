"""Pairs of imported runs that can be compared, each with its link."""

from collections.abc import Sequence

from dashboard.components import links, markup, parts
from dashboard.run_pairs.comparison import ImportedPair

#: Pairs that are offered.
_MOST = 8


def offer_pairs(title: str, pairs: Sequence[ImportedPair]) -> None:
    """A section with links that compare two runs each; none without pairs."""
    if not pairs:
        return
    parts.heading(title)
    parts.caption(
        "Measured by other tools: a hint, not a verdict.",
        "Each side was measured in a run of its own, and runs drift apart by themselves.",
    )
    entries = [
        markup.link(links.view(links.RUN_PAIR, {"a": [pair.a], "b": [pair.b]}), f"{pair.text} →")
        for pair in pairs[:_MOST]
    ]
    items = "".join(f"<li>{entry}</li>" for entry in entries)
    parts.html(f'<ul class="py-bullets">{items}</ul>')
