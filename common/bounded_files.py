"""Bounded reading of files from other programs: lines, texts, ends of texts, and TOML."""

import errno
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

#: Pyrometer writes no longer line: an outcome of 100,000 samples with its recordings takes 2 MiB.
MAX_LINE = 16 << 20
#: Lines are returned in groups of about this many bytes; skipped parts are read in blocks of this size.
_PIECE, _SKIPPED = 4 << 20, 1 << 20
#: The bytes of a Python object beyond those of its content.
_OBJECT = 64
#: The replacement for a line that is too long.
TOO_LONG = b"(too long)"
#: A dotted key of many parts, which makes nested tables: 40 KB of it take 1.5 GiB to parse.
_DEEP_KEY = re.compile(r"(?<![\w\"'-])(?:[\w\"'-]++[ \t]*+\.[ \t]*+){100}")


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole lines of a file, and how many bytes of it they take; `last` is the end of the file.

    A line longer than MAX_LINE is `TOO_LONG`. The last line of a file may lack its break.
    """

    lines: bytes
    size: int
    last: bool


def pieces(file: BinaryIO, most: int) -> Iterator[Piece]:
    """The first `most` bytes of a file in pieces; at least one. The last one may be empty."""
    lines: list[bytes] = []
    held = size = 0
    for line, taken in bounded_lines(file, most):
        # Each line is an object of its own, however short it is.
        held, size = held + len(line) + _OBJECT, size + taken
        lines.append(line)
        del line
        # At once: the next line may be large as well.
        if held >= _PIECE:
            yield _piece(lines, size, last=False)
            held = size = 0
    yield _piece(lines, size, last=True)


def _piece(lines: list[bytes], size: int, *, last: bool) -> Piece:
    """The lines as a piece; empties the list, so that no line is held twice."""
    joined = b"".join(lines)
    lines.clear()
    return Piece(joined, size, last)


def bounded_lines(file: BinaryIO, most: int) -> Iterator[tuple[bytes, int]]:
    """The lines in the first `most` bytes of a file, each with how many bytes of it were read."""
    while most > 0 and (line := file.readline(min(MAX_LINE, most))):
        size, rest = len(line), line
        while size >= MAX_LINE and rest and not rest.endswith(b"\n"):
            rest = file.readline(min(_SKIPPED, most - size))
            size += len(rest)
        yield (line if size == len(line) < MAX_LINE or line.endswith(b"\n") else TOO_LONG + b"\n"), size
        most -= size


def bounded_bytes(path: Path, most: int) -> bytes:
    """The content of a file; raises OSError, also for one of more than `most` bytes."""
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 10:,} KiB", str(path))
    return content


def read_or_empty(path: Path) -> str:
    """The whole text of a file; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def size_of(path: Path) -> int:
    """The size of a file in bytes; 0 for a broken link or a file that has just been removed."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def tail(path: Path, most: int, start: int = 0) -> str:
    """The last `most` bytes of a text file, from byte `start` on at the earliest; empty if it cannot be
    read.
    """
    try:
        with path.open("rb") as file:
            file.seek(max(start, file.seek(0, os.SEEK_END) - most))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


class NestedTooDeep(ValueError):
    """Tables or lists are nested deeper than in any file that Pyrometer writes or reads."""


def toml_tables(text: str) -> dict[str, Any]:
    """The tables of a document; raises NestedTooDeep, and tomllib.TOMLDecodeError where it is malformed."""
    if _DEEP_KEY.search(text):
        raise NestedTooDeep("a key of more than 100 parts")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise NestedTooDeep("too many brackets within brackets") from error
