"""The lines of a journal, and of an export: JSON objects with a kind, a body and a checksum of both."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .bounded_lines import MAX_LINE, TOO_LONG

VERSION = 1
#: A line has at most so many lists and objects, quotation marks, and values: as Python objects they take many
#: times their size in the file.
_MOST_CONTAINERS, _MOST_QUOTES, _MOST_VALUES = 500_000, 2_000_000, 2_000_000
#: Its body is nested at most so deep: a reader of what is stored has its own limit.
_DEEPEST = 64


@dataclass(frozen=True, slots=True)
class JournalLine:
    """One line: `crc` is zlib's CRC-32 of `[kind, body]` as JSON with sorted keys and without spaces."""

    kind: str
    body: dict[str, Any]
    crc: int


def encode_line(kind: str, body: Mapping[str, Any], *, allow_nan: bool = True) -> tuple[bytes, int]:
    """The line with its line break, and its checksum. What JSON does not know is written as its text.

    Raises ValueError for a number that is not finite, unless `allow_nan`.
    """
    text = json.dumps(body, default=str, separators=(",", ":"), allow_nan=allow_nan)
    # Of the text, not of the body: a tuple is a list in JSON, and a number that is a key is a text.
    crc = _checksum(kind, json.loads(text))
    return f'{{"v":{VERSION},"kind":{json.dumps(kind)},"crc":{crc},"body":{text}}}\n'.encode(), crc


def decode_line(raw: bytes, *, allow_nan: bool = True) -> JournalLine:
    """The content of a line; raises ValueError with the reason why it cannot be used."""
    if raw.strip() == TOO_LONG:
        raise ValueError(f"longer than {MAX_LINE >> 20} MiB")
    if holds_too_much(raw):
        raise ValueError("it holds more lists, objects, texts or numbers than a line of ours")
    try:
        line = json.loads(raw, parse_constant=None if allow_nan else _refuse_constant)
        kind, body = str(line["kind"]), dict(line["body"])
        version, crc = int(line["v"]), int(line["crc"])
        # Here, as what can just be read may be nested too deep to be written.
        checksum = _checksum(kind, body)
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
    """Whether no reader takes a line because of what it holds."""
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


def _checksum(kind: str, body: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps([kind, body], sort_keys=True, separators=(",", ":")).encode())


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
