"""Files that anybody may have written, read with bounded memory."""

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

#: A longer line is none of ours: an outcome of 100,000 samples with its recordings takes 2 MiB.
MAX_LINE = 16 << 20
#: Lines are handed out together once they have so many bytes; what is skipped is read so many at once.
_PIECE, _SKIPPED = 4 << 20, 1 << 20
#: The bytes of a Python object beyond those of its content.
_OBJECT = 64
#: What stands in the place of a line that is too long.
TOO_LONG = b"(too long)"


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
    """The lines as a piece; the list is empty then, so that nothing is held twice."""
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
