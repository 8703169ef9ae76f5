"""Bounds of the texts that are stored: what a page, a report, a message or an export can show."""

from collections.abc import Mapping
from typing import Any, cast

#: Characters of a sentence, which stands in tables, and of a text of many lines.
SENTENCE, TEXT = 2_000, 20_000
#: Where all of a text is that was cut on its way into the database.
SOURCE = "the run's journal, or the file it was imported from, has all of it"


def bounded_text(text: str, most: int, where: str) -> str:
    """A text of at most `most` characters: of a longer one the beginning and the end, and a mark between.

    The mark says how many characters are left out, and `where` all of it is. Bounding again changes nothing.
    """
    if len(text) <= most:
        return text
    # The mark is shorter with fewer digits: it is made for the longest that this text needs.
    room = most - len(_mark(len(text), where))
    end = room // 2
    return text[: room - end] + _mark(len(text) - room, where) + text[len(text) - end :]


def bounded_facts(facts: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Facts with every text in them, names included, of at most `TEXT` characters."""
    return cast("dict[str, Any]", _bounded(facts, where))


def _mark(left_out: int, where: str) -> str:
    return f" [... {left_out:,} characters are left out here; {where} ...] "


def _bounded(value: Any, where: str) -> Any:
    if isinstance(value, str):
        return bounded_text(value, TEXT, where)
    if isinstance(value, Mapping):
        inner = cast("Mapping[Any, Any]", value).items()
        return {_bounded(name, where): _bounded(each, where) for name, each in inner}
    if isinstance(value, list | tuple):
        return [_bounded(each, where) for each in cast("list[Any]", value)]
    return value
