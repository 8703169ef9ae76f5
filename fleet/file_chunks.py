"""Chunks of growing files, of bounded size."""

import os
from pathlib import Path

from runner import journal

from .engine import Chunk

#: The most bytes of a chunk: one MiB as base64.
CHUNK_BYTES = 768 << 10
_BLOCK_BYTES = 64 << 10


def read_chunk(path: Path, at: int, *, final: bool) -> Chunk:
    """The bytes of a file from `at` on, up to CHUNK_BYTES; none of a file that does not exist.

    Unless `final`, the last line of a journal is not read before it has a newline: it may be taken back.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return Chunk(b"", more=False)
    try:
        end = os.fstat(descriptor).st_size
        if path.name == journal.FILE and not final:
            end = _after_last_newline(descriptor, at, end)
        data = os.pread(descriptor, max(0, min(CHUNK_BYTES, end - at)), at)
        return Chunk(data, more=at + len(data) < end)
    finally:
        os.close(descriptor)


def _after_last_newline(descriptor: int, at: int, end: int) -> int:
    """The end of the last whole line after `at`; `at` where there is none."""
    while end > at:
        start = max(at, end - _BLOCK_BYTES)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return at
