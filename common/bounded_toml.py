"""TOML whose nesting is bounded."""

import re
import tomllib
from typing import Any

#: A key of many parts, each a table within the last: to read 40 KB of one takes 1.5 GiB.
_DEEP_KEY = re.compile(r"(?<![\w\"'-])(?:[\w\"'-]++[ \t]*+\.[ \t]*+){100}")


class NestedTooDeep(ValueError):
    """Tables within tables, or lists within lists, beyond any that Pyrometer writes or reads."""


def toml_tables(text: str) -> dict[str, Any]:
    """The tables of a document; raises NestedTooDeep, and tomllib.TOMLDecodeError where it is malformed."""
    if _DEEP_KEY.search(text):
        raise NestedTooDeep("a key of more than 100 parts")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise NestedTooDeep("too many brackets within brackets") from error
