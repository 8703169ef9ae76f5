"""Parts of files that grow, bounded, and as text that JSON carries."""

import os
from base64 import b64decode, b64encode
from dataclasses import dataclass
from pathlib import Path

#: Of a file so many bytes at once: as text that is one MiB.
PIECE_BYTES = 768 << 10
_BLOCK_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of a file as base64, and whether there are `more` behind them."""

    text: str
    more: bool


def piece(path: Path, at: int, most: int, *, settled: bool = True) -> Piece:
    """What stands in a file from byte `at` on: `most` bytes, and never more than PIECE_BYTES.

    While a file is not `settled`, what stands behind its last newline may still be taken back, and is not
    there. Nor is anything in a file that does not exist.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return Piece("", more=False)
    try:
        end = os.fstat(descriptor).st_size
        if not settled:
            end = _behind_the_last_newline(descriptor, at, end)
        data = os.pread(descriptor, max(0, min(most, PIECE_BYTES, end - at)), at)
        return Piece(b64encode(data).decode(), more=at + len(data) < end)
    finally:
        os.close(descriptor)


def bytes_of(text: object) -> bytes:
    """The bytes of a piece's text; raises ValueError for what is none."""
    return b64decode(str(text), validate=True)


def _behind_the_last_newline(descriptor: int, at: int, end: int) -> int:
    """Where the last whole line ends that ends behind `at`; `at` where there is none."""
    while end > at:
        start = max(at, end - _BLOCK_BYTES)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return at
