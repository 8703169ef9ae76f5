"""Text from anywhere within GitHub's Markdown, where it stays nothing but text."""

import re

from common.text import printable

#: What GitHub's Markdown could take for more than itself; an underscore within a word it does not.
_MARKUP = r"[\\`*<>&|~#@$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"


def text(anything: str) -> str:
    """Text that is nothing but text: no markup, table cell, link, mention or issue number of its own."""
    plain = re.sub(_MARKUP, lambda found: f"&#{ord(found[0])};", printable(anything))
    return re.sub(r"\]([(\[])", lambda found: f"]&#{ord(found[1])};", plain).replace("://", "&#58;//")


def fenced(anything: str) -> str:
    """Lines as they are, in a block of their own."""
    plain = "\n".join("\t".join(map(printable, line.split("\t"))) for line in anything.splitlines())
    fence = "```"
    while fence in plain:
        fence += "`"
    return f"{fence}text\n{plain}\n{fence}"


def code(anything: str) -> str:
    """Text as code, also within a table."""
    plain = printable(anything).replace("|", "\\|")
    fence = "`" * (max((len(found) for found in re.findall("`+", plain)), default=0) + 1)
    space = " " if "`" in plain else ""
    return f"{fence}{space}{plain}{space}{fence}"
