"""The lines of a journal, and of an export: JSON objects with a kind, a body and a checksum of both."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

VERSION = 1


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
    return JournalLine(kind, body, crc)


def _checksum(kind: str, body: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps([kind, body], sort_keys=True, separators=(",", ":")).encode())


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
