"""Our own HTML as GitHub's Markdown: tables stay tables, cards and facts are lists, links whole addresses."""

import re
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from itertools import pairwise
from urllib.parse import quote, urljoin, urlsplit

from reports.text import markdown

#: Rows of a table that Markdown keeps: an issue holds 65,536 characters.
MOST_ROWS = 50

#: What is drawn or run, and has no words.
_UNSEEN = ("svg", "style", "script")
#: Each of these begins on a line of its own.
_BLOCKS = ("p", "div", "section", "ul", "ol", "dl", "details", "pre", "h1", "h2", "h3", "h4", "summary")
_MARKS: Mapping[str, str] = {"li": "- ", "dt": "- ", "h2": "### ", "h3": "### ", "h4": "#### "}
#: Between what stands in lines of their own in a cell or a card.
_APART = " · "


def of_html(body: str, home: str) -> str:
    """The Markdown of HTML as `dashboard.components.markup` writes it; links are addresses seen from
    `home`."""
    reader = _Reader(home)
    reader.feed(body)
    reader.close()
    reader.end()
    return joined(reader.blocks)


def joined(blocks: Sequence[str]) -> str:
    """Blocks with a blank line between them, but for the items of one list."""
    if not blocks:
        return ""
    parts = [blocks[0]]
    for before, block in pairwise(blocks):
        item = before.startswith("- ") and block.startswith("- ")
        parts += ["\n" if item else "\n\n", block]
    return "".join(parts)


def table(rows: Sequence[Sequence[str]], more: int = 0) -> str:
    """A table of cells that are Markdown already, the first row its heads; `more` rows are left out."""
    width = len(rows[0])
    filled = [[*row, *[""] * (width - len(row))][:width] for row in rows]
    head, *body = [f"| {' | '.join(row)} |" for row in filled]
    told = [f"\nand {more:,} more rows, which the CSV file has"] if more else []
    return "\n".join([head, "|" + " --- |" * width, *body, *told])


def of_words(words: str) -> str:
    """Streamlit's Markdown, in which foreign signs are escaped, as GitHub's: plain text and code, no more."""
    parts = re.split(r"(?<!\\)`([^`]*)`", words)
    return "".join(
        markdown.code(part) if place % 2 else markdown.text(_unescaped(part))
        for place, part in enumerate(parts)
        if part
    )


def _unescaped(words: str) -> str:
    return re.sub(r"\\([\\`*_\[\]$:~<>#&|])", r"\1", words).replace("\u2060", "")


class _Reader(HTMLParser):
    """Collects blocks of Markdown; `_words` are those of the line or cell that is being read."""

    def __init__(self, home: str) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[str] = []
        self._home = home
        self._words: list[str] = []
        self._mark = ""
        self._rows: list[list[str]] = []
        #: Where links begin among the words, and where they lead.
        self._links: list[tuple[int, str]] = []
        #: What is read of lines that stay as they are, and whether they are what somebody types.
        self._raw: list[str] | None = None
        self._typed = False
        #: How deep within something unseen, and within what holds several lines as one.
        self._unseen = self._inline = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        about = {name: value or "" for name, value in attrs}
        classes = about.get("class", "").split()
        if self._unseen or tag in _UNSEEN or (tag == "summary" and self._inline):
            self._unseen += tag in _UNSEEN or tag == "summary"
        elif tag == "table":
            self.end()
            self._rows = []
        elif tag == "tr":
            self._rows.append([])
        elif tag == "a":
            self._links.append((len(self._words), about.get("href", "")))
        elif tag in ("td", "th", "dd", "li", "dt") or (tag == "section" and "py-card" in classes):
            self._open(tag)
        elif tag in ("small", "br"):
            self._words.append(_APART)
        elif tag == "pre":
            self._line("")
            self._raw, self._typed = [], False
        elif tag == "code":
            self._typed = True
        elif tag == "img":
            self._words.append(markdown.text(about.get("alt", "")))
        elif {"py-chip", "py-key", "py-case"}.intersection(classes):
            self._words.append(" ")
        elif tag in _BLOCKS:
            self._line(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._unseen:
            self._unseen -= tag in _UNSEEN or tag == "summary"
        elif tag in ("td", "th"):
            self._inline -= 1
            self._rows[-1].append(self._taken())
        elif tag == "table" and self._rows:
            self.blocks.append(table(self._rows[: MOST_ROWS + 1], max(0, len(self._rows) - MOST_ROWS - 1)))
        elif tag == "a" and self._links:
            self._link()
        elif tag == "dt":
            self._words.append(": ")
        elif tag == "pre":
            self._lines()
        elif tag in ("dd", "li", "section"):
            self._inline = 0
            self.end()
        elif tag in _BLOCKS:
            self._line("")

    def handle_data(self, data: str) -> None:
        if self._raw is not None:
            self._raw.append(data)
        elif not self._unseen:
            # What the file is broken into says nothing: only a space between words does.
            self._words.append(markdown.text(re.sub(r"\s+", " ", data)))

    def end(self) -> None:
        """The line ends here."""
        if text := self._taken():
            self.blocks.append(f"**{text}**" if self._mark == "h1" else self._mark + text)
        self._mark = ""

    def _open(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._words = []
        elif tag != "dd":
            self.end()
            self._mark = "- "
        self._inline += tag != "dt"

    def _line(self, tag: str) -> None:
        if self._inline:
            self._words.append(_APART)
        else:
            self.end()
            self._mark = tag if tag == "h1" else _MARKS.get(tag, "")

    def _lines(self) -> None:
        """Lines that stay as they are; in a cell or a list what is typed is code, a line each."""
        raw, self._raw = "".join(self._raw or ()), None
        if not self._inline:
            self.blocks.append(markdown.fenced(raw))
        elif self._typed:
            self._words.append(
                _APART.join(markdown.code(line) for line in raw.splitlines() if line.strip()) + _APART
            )
        else:
            self._words.append(markdown.text(re.sub(r"\s+", " ", raw)) + _APART)

    def _link(self) -> None:
        begin, address = self._links.pop()
        text = _clean("".join(self._words[begin:])).replace("[", "&#91;").replace("]", "&#93;")
        # Nothing within a link becomes one of its own.
        text = text.replace("&#58;//", "://")
        whole = urljoin(self._home, address)
        # Of an address without a host nobody elsewhere could make anything.
        followed = text and urlsplit(whole).scheme in ("http", "https")
        self._words[begin:] = [f" [{text}]({_target(whole)}) " if followed else text]

    def _taken(self) -> str:
        text, self._words, self._links = _clean("".join(self._words)), [], []
        return text


def _clean(text: str) -> str:
    """One line, with no separator at its ends and no two beside each other."""
    apart = re.sub(r"\s*·(?:\s*·)*\s*", _APART, re.sub(r"\s+", " ", text))
    return apart.strip(_APART).replace(":" + _APART, ": ")


def _target(address: str) -> str:
    return quote(address, safe=":/?#@!$&'*+,;=%~")
