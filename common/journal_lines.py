"""The lines of a journal, and of an export: JSON objects with a kind, a body and a checksum of both."""

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from .bounded_files import MAX_LINE, TOO_LONG

VERSION = 1
#: The most lists and objects, quotation marks, and values of a line: as Python objects they take many times
#: their size in the file.
_MOST_CONTAINERS, _MOST_QUOTES, _MOST_VALUES = 500_000, 2_000_000, 2_000_000
#: The deepest nesting of a body: readers of the stored text have a limit of their own.
_DEEPEST = 64
#: The checksum of a line of more bytes is taken in parts, of so many elements of a list each.
_LARGE, _PART = 1 << 20, 1000


@dataclass(frozen=True, slots=True)
class JournalLine:
    """One line: `crc` is zlib's CRC-32 of `[kind, body]` as JSON with sorted keys and without spaces."""

    kind: str
    body: dict[str, Any]
    crc: int


def encode_line(kind: str, body: Mapping[str, Any], *, allow_nan: bool = True) -> tuple[bytes, int]:
    """The line with its line break and its checksum. Values that JSON does not support are written as text.

    Raises ValueError for a number that is not finite, unless `allow_nan`.
    """
    text = json.dumps(body, default=str, separators=(",", ":"), allow_nan=allow_nan)
    # The checksum is of the text, not of the body: JSON turns a tuple into a list and a number as a key into
    # a text.
    crc = _checksum(kind, json.loads(text), len(text))
    return f'{{"v":{VERSION},"kind":{json.dumps(kind)},"crc":{crc},"body":{text}}}\n'.encode(), crc


def decode_line(raw: bytes, *, allow_nan: bool = True) -> JournalLine:
    """The content of a line; raises ValueError with the reason why it cannot be used."""
    if raw.strip() == TOO_LONG:
        raise ValueError(f"longer than {MAX_LINE >> 20} MiB")
    if holds_too_much(raw):
        raise ValueError("it holds more lists, objects, texts or numbers than Pyrometer writes")
    try:
        line = json.loads(raw, parse_constant=None if allow_nan else _refuse_constant)
        kind, body = str(line["kind"]), dict(line["body"])
        version, crc = int(line["v"]), int(line["crc"])
        # Serialised here as well: a value that can be read may be nested too deep to be written.
        checksum = _checksum(kind, body, len(raw))
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
        raise ValueError("torn or not a journal line") from None
    if version > VERSION:
        raise ValueError(f"written in version {version} of the journal, this Pyrometer reads {VERSION}")
    if crc != checksum:
        raise ValueError("damaged: its checksum does not match")
    if raw.count(b"[") + raw.count(b"{") > _DEEPEST and _is_deep(body):
        raise ValueError("nested too deep")
    return JournalLine(kind, body, crc)


def holds_too_much(raw: bytes) -> bool:
    """Whether readers reject a line because of its content."""
    containers = raw.count(b"[") + raw.count(b"{")
    return containers > _MOST_CONTAINERS or raw.count(b'"') > _MOST_QUOTES or raw.count(b",") > _MOST_VALUES


def _is_deep(body: dict[str, Any]) -> bool:
    level: list[Any] = [body]
    for _ in range(_DEEPEST):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
    return bool(level)


def _checksum(kind: str, body: Mapping[str, Any], size: int) -> int:
    """The checksum of a line of about `size` bytes; the text of a large line is never held in memory as a
    whole.
    """
    crc = 0
    for part in _parts([kind, body]) if size > _LARGE else (_text([kind, body]),):
        crc = zlib.crc32(part.encode(), crc)
    return crc


def _parts(value: Any) -> Iterator[str]:
    """The result of `_text` in parts; the elements of a list or object longer than `_PART` are not
    divided.
    """
    if isinstance(value, dict) and 0 < len(members := cast("dict[str, Any]", value)) <= _PART:
        for place, name in enumerate(sorted(members)):
            yield f"{',' if place else '{'}{_text(name)}:"
            yield from _parts(members[name])
        yield "}"
    elif isinstance(value, list) and 0 < len(elements := cast("list[Any]", value)) <= _PART:
        for place, each in enumerate(elements):
            yield "," if place else "["
            yield from _parts(each)
        yield "]"
    elif isinstance(value, list) and value:
        elements = cast("list[Any]", value)
        for start in range(0, len(elements), _PART):
            yield f"{',' if start else '['}{_text(elements[start : start + _PART])[1:-1]}"
        yield "]"
    else:
        yield _text(value)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
