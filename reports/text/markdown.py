"""GitHub's Markdown: escaping of text, code, and tables."""

import re
from collections.abc import Sequence
from itertools import pairwise

from common.text import printable

#: Characters with a meaning in GitHub's Markdown; an underscore within a word has none.
_MARKUP = r"[\\`*<>&|~#@$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"
#: Rows of a table that Markdown keeps: an issue holds 65,536 characters.
MOST_ROWS = 50
#: The separator of lines in a cell or a card.
APART = " · "


def text(anything: str) -> str:
    """Text without markup, table cells, links, mentions or issue numbers."""
    plain = re.sub(_MARKUP, lambda found: f"&#{ord(found[0])};", printable(anything))
    plain = re.sub(r"\]([(\[])", lambda found: f"]&#{ord(found[1])};", plain).replace("://", "&#58;//")
    return re.sub(r"(?i)www\.", lambda found: f"{found[0][:-1]}&#46;", plain)


def code_block(anything: str, language: str = "text") -> str:
    """A code block with the lines unchanged."""
    plain = "\n".join("\t".join(map(printable, line.split("\t"))) for line in anything.splitlines())
    fence = "```"
    while fence in plain:
        fence += "`"
    return f"{fence}{language}\n{plain}\n{fence}"


def code(anything: str) -> str:
    """Text as code, also within a table."""
    plain = printable(anything).replace("|", "\\|")
    fence = "`" * (max((len(found) for found in re.findall("`+", plain)), default=0) + 1)
    space = " " if "`" in plain else ""
    return f"{fence}{space}{plain}{space}{fence}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool] = ()) -> str:
    """A table of cells that are Markdown already, under plain headings; `numbers` are right-aligned."""
    right = [*numbers, *[False] * (len(heads) - len(numbers))]
    lines = [list(map(text, heads)), ["--:" if number else "---" for number in right], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def join_blocks(blocks: Sequence[str]) -> str:
    """Blocks separated by blank lines, except items of one list."""
    if not blocks:
        return ""
    parts = [blocks[0]]
    for before, block in pairwise(blocks):
        item = before.startswith("- ") and block.startswith("- ")
        parts += ["\n" if item else "\n\n", block]
    return "".join(parts)


def clean_line(line: str) -> str:
    """One line without separators at its ends and without repeated ones."""
    lead = re.match(r"(#+ |- |\*\*|)", line)
    start = lead[0] if lead else ""
    apart = re.sub(r"\s*·(?:\s*·)*\s*", APART, re.sub(r"\s+", " ", line.removeprefix(start)))
    words = apart.strip(APART).replace(":" + APART, ": ")
    return f"{start}{words}" if words else ""
