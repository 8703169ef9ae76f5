"""Chunks of files that grow, bounded."""

import os
from pathlib import Path

from runner import journal

from .engine import Chunk

#: So many bytes of a file are read at once: as text in JSON they are one MiB.
CHUNK_BYTES = 768 << 10
_BLOCK_BYTES = 64 << 10


def read_chunk(path: Path, at: int, *, final: bool) -> Chunk:
    """What stands in a file from byte `at` on, up to CHUNK_BYTES; nothing of a file that does not exist.

    While a journal is not `final`, what stands behind its last newline may still be taken back, and is not
    read.
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
    """Where the last whole line ends that ends behind `at`; `at` where there is none."""
    while end > at:
        start = max(at, end - _BLOCK_BYTES)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return at
