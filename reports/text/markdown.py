"""GitHub's Markdown: text from anywhere that stays nothing but text, tables, and HTML fragments converted."""

import re
from collections.abc import Sequence
from itertools import pairwise
from urllib.parse import quote, urljoin, urlsplit

from bs4 import Tag
from markdownify import MarkdownConverter

from common.text import printable

#: What GitHub's Markdown could take for more than itself; an underscore within a word it does not.
_MARKUP = r"[\\`*<>&|~#@$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"
#: Rows of a table that Markdown keeps: an issue holds 65,536 characters.
MOST_ROWS = 50
#: Between what stands in lines of their own in a cell or a card.
_APART = " · "


def text(anything: str) -> str:
    """Text that is nothing but text: no markup, table cell, link, mention or issue number of its own."""
    plain = re.sub(_MARKUP, lambda found: f"&#{ord(found[0])};", printable(anything))
    return re.sub(r"\]([(\[])", lambda found: f"]&#{ord(found[1])};", plain).replace("://", "&#58;//")


def fenced(anything: str, language: str = "text") -> str:
    """Lines as they are, in a block of their own."""
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
    """A table of cells that are Markdown already, under plain headings; `numbers` are set to the right."""
    right = [*numbers, *[False] * (len(heads) - len(numbers))]
    lines = [list(map(text, heads)), ["--:" if number else "---" for number in right], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def joined(blocks: Sequence[str]) -> str:
    """Blocks with a blank line between them, but for the items of one list."""
    if not blocks:
        return ""
    parts = [blocks[0]]
    for before, block in pairwise(blocks):
        item = before.startswith("- ") and block.startswith("- ")
        parts += ["\n" if item else "\n\n", block]
    return "".join(parts)


def converted(body: str, home: str = "") -> str:
    """HTML as our pages hold it, as Markdown; links are resolved against `home`.

    Cards and facts are lists, `<small>` stands behind a separator, pictures without words are left out.
    """
    if "<" not in body and "&" not in body:
        return text(body)
    lines = _Converter(home).convert(body).splitlines()
    blocks: list[str] = []
    fence = ""
    for line in lines:
        if fence:
            blocks[-1] += f"\n{line}"
            fence = "" if line == fence else fence
        elif line.startswith("```"):
            blocks.append(line)
            fence = line.removesuffix("text")
        elif line.startswith("|") and blocks and blocks[-1].startswith("|"):
            blocks[-1] += f"\n{line}"
        elif cleaned := _clean(line):
            blocks.append(cleaned)
    return joined(blocks)


def _clean(line: str) -> str:
    """One line, with no separator at its ends and no two in a row."""
    lead = re.match(r"(#+ |- |\*\*|)", line)
    start = lead[0] if lead else ""
    apart = re.sub(r"\s*·(?:\s*·)*\s*", _APART, re.sub(r"\s+", " ", line.removeprefix(start)))
    words = apart.strip(_APART).replace(":" + _APART, ": ")
    return f"{start}{words}" if words else ""


_text = text


class _Converter(MarkdownConverter):
    """markdownify with our escapes and separators; cells, items and cards stay on one line."""

    def __init__(self, home: str) -> None:
        super().__init__(escape_misc=False)
        self._home = home

    def escape(self, text: str, parent_tags: set[str]) -> str:
        """Text as text, with spaces as HTML collapses them."""
        return _text(re.sub(r"\s+", " ", text))

    def convert_small(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"{_APART}{text}"

    def convert_br(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return _APART

    def convert_strong(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return text

    convert_b = convert_em = convert_i = convert_strong

    def convert_span(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        classes = set(el.get_attribute_list("class"))
        return f" {text}" if classes & {"py-chip", "py-key", "py-case"} else text

    def convert_code(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return text if "pre" in parent_tags else code(el.get_text())

    def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        lines = el.get_text()
        if not _one_line(el):
            return f"\n\n{fenced(lines)}\n\n"
        if el.find("code") is None:
            return _APART + _text(" ".join(lines.split())) + _APART
        return _APART + _APART.join(code(line) for line in lines.splitlines() if line.strip()) + _APART

    def convert_img(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return _text(str(el.get("alt") or ""))

    def convert_svg(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return ""

    convert_style = convert_script = convert_button = convert_svg

    def convert_summary(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return "" if _one_line(el) else f"\n\n{text}\n\n"

    def convert_a(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        # Nothing within a link becomes one of its own.
        words = _clean(text).replace("[", "&#91;").replace("]", "&#93;").replace("&#58;//", "://")
        address = urljoin(self._home, str(el.get("href") or ""))
        # An address without a host leads nowhere outside of the dashboard.
        if not words or urlsplit(address).scheme not in ("http", "https"):
            return words
        return f" [{words}]({quote(address, safe=':/?#@!$&*+,;=%~' + chr(39))}) "

    def convert_p(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"{_APART}{text}{_APART}" if _one_line(el) else f"\n\n{text}\n\n"

    convert_div = convert_ul = convert_ol = convert_dl = convert_details = convert_p

    def convert_hN(self, n: int, el: Tag, text: str, parent_tags: set[str]) -> str:
        if _one_line(el):
            return f"{_APART}{text}{_APART}"
        words = _clean(text)
        return f"\n\n{f'**{words}**' if n == 1 else f'#### {words}' if n == 4 else f'### {words}'}\n\n"

    def convert_section(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n\n- {text}\n\n" if _is_card(el) else f"\n\n{text}\n\n"

    def convert_li(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n- {text}\n"

    def convert_dt(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n- {text}: "

    def convert_dd(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"{text}\n"

    def convert_td(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"{_clean(text)}\x1f"

    convert_th = convert_td

    def convert_tr(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"| {' | '.join(text.split(chr(31))[:-1])} |\n"

    def convert_table(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        head, *rows = [line for line in text.splitlines() if line.startswith("|")]
        rule = "|" + " --- |" * len(el.find_all("tr")[0].find_all(["td", "th"]))
        left = len(rows) - MOST_ROWS
        rest = f"\n\nand {left:,} more rows, which the CSV file has" if left > 0 else ""
        return "\n\n" + "\n".join([head, rule, *rows[:MOST_ROWS]]) + rest + "\n\n"


def _is_card(el: Tag) -> bool:
    return el.name == "section" and "py-card" in el.get_attribute_list("class")


def _one_line(el: Tag) -> bool:
    """Whether an element stands within what stays on one line."""
    return any(each.name in ("td", "th", "li", "dd") or _is_card(each) for each in el.parents)
