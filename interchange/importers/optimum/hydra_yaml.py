"""The part of YAML that Hydra writes its settings in: nested `name: value`, lists of values, quoted texts.

Anything else (anchors, tags, flow style, folded texts) is refused: whoever wrote that was not Hydra.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from interchange.errors import BadFile, Place
from interchange.reading import At

#: Deeper settings are refused.
MOST_LEVELS = 32

_MEMBER = re.compile(r"([A-Za-z0-9_][^\s:#'\"]*):(?: +(.*))?")
_QUOTED = re.compile(r"'((?:[^']|'')*)'|\"([^\"\\]*)\"")
#: What a plain text may not begin with, or hold.
_NOT_PLAIN = re.compile(r"[\[\]{}&*!|>%@`'\",#?]|[-:?](?: |$)|.*(?:: | #|:$)")


@dataclass(slots=True)
class _Level:
    """A name whose members are being read: how far in it stands, and how far in they stand."""

    indent: int
    path: str
    members: int | None = None
    elements: int = 0


def settings(text: str, name: str) -> dict[str, At]:
    """The texts of a settings file by dotted path, `a.b` or `a.b[0]`; null and `{}` are left out.

    Raises BadFile.
    """
    found: dict[str, At] = {}
    seen: set[str] = set()
    for place, path, value in _entries(text, name):
        if path in seen:
            raise BadFile(place, "is there twice")
        seen.add(path)
        if value is not None:
            found[path] = At(value, place)
    return found


def _entries(text: str, name: str) -> Iterator[tuple[Place, str, str | None]]:
    levels = [_Level(-1, "")]
    for number, line in enumerate(text.split("\n"), start=1):
        content = line.strip(" \r")
        if not content or content.startswith("#"):
            continue
        place = Place(name, number)
        indent = len(line) - len(line.lstrip(" "))
        if content.startswith("- "):
            level = _level_of_element(levels, indent, place)
            path = f"{level.path}[{level.elements}]"
            level.elements += 1
            place = Place(name, number, path)
            yield place, path, _value(content[2:].strip(), place)
            continue
        member = _MEMBER.fullmatch(content)
        if member is None:
            raise BadFile(place, "is no `name: value` as Hydra writes it")
        level = _level_of_member(levels, indent, place)
        path = f"{level.path}.{member[1]}" if level.path else member[1]
        place = Place(name, number, path)
        if member[2]:
            yield place, path, _value(member[2], place)
            continue
        if len(levels) > MOST_LEVELS:
            raise BadFile(place, "is nested too deep")
        yield place, path, None
        levels.append(_Level(indent, path))


def _level_of_member(levels: list[_Level], indent: int, place: Place) -> _Level:
    while levels[-1].indent >= indent:
        levels.pop()
    level = levels[-1]
    if level.members is None and not level.elements:
        level.members = indent
    if level.members != indent:
        raise BadFile(place, "is indented unlike the lines beside it")
    return level


def _level_of_element(levels: list[_Level], indent: int, place: Place) -> _Level:
    # The dash of an element may stand right below the name of its list.
    while levels[-1].indent > indent:
        levels.pop()
    level = levels[-1]
    if not level.path or level.members is not None:
        raise BadFile(place, "is an element of no list")
    return level


def _value(text: str, place: Place) -> str | None:
    if text in ("null", "~", "{}", "[]"):
        return None
    if quoted := _QUOTED.fullmatch(text):
        return quoted[1].replace("''", "'") if quoted[1] is not None else quoted[2]
    if _NOT_PLAIN.match(text):
        raise BadFile(place, "is YAML that Hydra does not write")
    return text
