"""Converts HTML fragments of our pages to GitHub's Markdown."""

import re
from urllib.parse import quote, urljoin, urlsplit

from bs4 import Tag
from markdownify import MarkdownConverter

from .markdown import APART, MOST_ROWS, clean_line, code, code_block, join_blocks
from .markdown import text as text_of


def convert_html(body: str, home: str = "") -> str:
    """The HTML of our pages as Markdown; links are resolved against `home`.

    Cards and facts become lists, `<small>` follows a separator, pictures without text are left out.
    """
    if "<" not in body and "&" not in body:
        return text_of(body)
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
        elif cleaned := clean_line(line):
            blocks.append(cleaned)
    return join_blocks(blocks)


def converted_cell(body: str, home: str = "") -> str:
    """The HTML of a table's cell as Markdown, on one line."""
    if "<" not in body and "&" not in body:
        return text_of(body)
    return clean_line(_Converter(home).convert(f"<td>{body}</td>").replace("\x1f", ""))


class _Converter(MarkdownConverter):
    """markdownify with our escapes and separators; cells, items and cards stay on one line."""

    def __init__(self, home: str) -> None:
        super().__init__(escape_misc=False)
        self._home = home

    def escape(self, text: str, parent_tags: set[str]) -> str:
        """Text as text, with spaces as HTML collapses them."""
        return text_of(re.sub(r"\s+", " ", text))

    def convert_small(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"{APART}{text}"

    def convert_br(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return APART

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
            return f"\n\n{code_block(lines)}\n\n"
        if el.find("code") is None:
            return APART + text_of(" ".join(lines.split())) + APART
        return APART + APART.join(code(line) for line in lines.splitlines() if line.strip()) + APART

    def convert_img(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return text_of(str(el.get("alt") or ""))

    def convert_svg(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return ""

    convert_style = convert_script = convert_button = convert_svg

    def convert_summary(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return "" if _one_line(el) else f"\n\n{text}\n\n"

    def convert_a(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        # Links are not nested.
        words = clean_line(text).replace("[", "&#91;").replace("]", "&#93;").replace("&#58;//", "://")
        address = urljoin(self._home, str(el.get("href") or ""))
        # An address without a host does not work outside the dashboard.
        if not words or urlsplit(address).scheme not in ("http", "https"):
            return words
        return f" [{words}]({quote(address, safe=':/?#@!$&*+,;=%~' + chr(39))}) "

    def convert_p(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"{APART}{text}{APART}" if _one_line(el) else f"\n\n{text}\n\n"

    convert_div = convert_ul = convert_ol = convert_dl = convert_details = convert_p

    def convert_hN(self, n: int, el: Tag, text: str, parent_tags: set[str]) -> str:
        if _one_line(el):
            return f"{APART}{text}{APART}"
        words = clean_line(text)
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
        return f"{clean_line(text)}\x1f"

    convert_th = convert_td

    def convert_tr(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"| {' | '.join(text.split(chr(31))[:-1])} |\n"

    def convert_table(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        head, *rows = [line for line in text.splitlines() if line.startswith("|")]
        rule = "|" + " --- |" * len(el.find_all("tr")[0].find_all(["td", "th"]))
        more = len(rows) - MOST_ROWS
        rest = f"\n\nand {more:,} more rows, which the CSV file has" if more > 0 else ""
        return "\n\n" + "\n".join([head, rule, *rows[:MOST_ROWS]]) + rest + "\n\n"


def _is_card(el: Tag) -> bool:
    return el.name == "section" and "py-card" in el.get_attribute_list("class")


def _one_line(el: Tag) -> bool:
    """Whether an element is inside one that stays on one line."""
    return any(each.name in ("td", "th", "li", "dd") or _is_card(each) for each in el.parents)
