"""Formatting of text that several rooms share."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase

#: User and password in an address. Git's addresses want the user `git`, which is no secret.
_CREDENTIALS = re.compile(r"(?<=://)(?!git@)[^/?#\s]*@")


def plural(count: int, singular: str, several: str = "") -> str:
    """`1 case`, `2 cases`, `1,200 cases`; `several` is the plural where it is not `singular` with an s."""
    return f"{count:,} {singular if count == 1 else several or singular + 's'}"


def some(names: Sequence[str], most: int = 3, between: str = ", ") -> str:
    """The first names of a list and the number of the others: `a, b, c and 2 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return between.join(names[:most]) + more


def utc(moment: datetime) -> str:
    """A moment to the minute, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def os_reason(error: OSError) -> str:
    """The reason of an error of the operating system, with the name of the file if it has one."""
    where = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{where}"


def key_matches(key: str, pattern: str) -> bool:
    """Whether a pattern matches a key of parts between slashes: the whole key, a glob, or its first parts."""
    return key == pattern or fnmatchcase(key, pattern) or key.startswith(pattern.rstrip("/") + "/")


def named_values(text: str) -> dict[str, str]:
    """The values by name in `NAME=VALUE,...`, a part of a case key; empty for `-` and `eager`."""
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name: value for name, equals, value in pairs if equals}


def printable(text: str) -> str:
    """The text in one line, without control characters."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else " " for sign in text)


def printable_lines(text: str) -> str:
    """The same, with line breaks: for text from other sources in a cell or a label of several lines."""
    return "\n".join(map(printable, text.split("\n")))


def without_credentials(text: str) -> str:
    """The text with its addresses without user and password; only `git@` stays."""
    return _CREDENTIALS.sub("", text)


def has_credentials(text: str) -> bool:
    """Whether an address in the text has a user or a password."""
    return _CREDENTIALS.search(text) is not None
