"""Copies of a node's files on the head: appended whole or not at all, and never over different bytes."""

import os
import re
from contextlib import suppress
from pathlib import Path

from common.atomic_file import sync_folder
from common.file_lock import lock
from runner import journal

#: A process that checks whether a journal is in use holds its lock for a moment.
_LOCK_SECONDS = 0.5
#: How many known bytes are read again, to check that it is the same journal.
_OVERLAP_BYTES = 4096


_RUN = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}")


class MirrorDiffers(Exception):
    """The journal on the node differs from its mirror; the text is one sentence."""


class MirrorBusy(Exception):
    """Another process writes this mirror; the text is one sentence."""


def is_run(name: str) -> bool:
    """Whether a name is a valid id of a run; another machine cannot name a path outside of `runs/`."""
    return _RUN.fullmatch(name) is not None


def append(path: Path, data: bytes) -> None:
    """Append all of `data` to a file, or raise OSError and leave the file unchanged."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        _append(descriptor, data)
    finally:
        os.close(descriptor)


class Mirror:
    """The copy in `data_dir` of a journal on another machine.

    `at` is how many bytes of it are known. The file is created with its first line. While it is open its lock
    is held, as by the process of a run: an unfinished run is not stored as an interrupted one.
    """

    def __init__(self, data_dir: Path, run: str) -> None:
        self.path = data_dir / "runs" / run / journal.FILE
        self._run = run
        self._file = -1
        #: The beginning of a line that has no newline yet.
        self._torn = b""
        self._size = self.path.stat().st_size if self.path.exists() else 0
        if self._size:
            self._open()

    def __enter__(self) -> "Mirror":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it; the beginning of a line is dropped."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    @property
    def at(self) -> int:
        """How many bytes of the journal were received, written or not."""
        return self._size + len(self._torn)

    @property
    def begin(self) -> int:
        """The offset of the next read: some known bytes are read again, and compared."""
        return max(0, self.at - _OVERLAP_BYTES)

    def append(self, at: int, data: bytes) -> None:
        """Take the bytes of the journal from offset `at` on, and write whole lines.

        Bytes that are known are compared: raises MirrorDiffers where they differ, and where bytes before `at`
        are missing. Raises OSError where a write fails, and MirrorBusy where another process writes; then
        nothing has changed, and the same bytes may be appended again.
        """
        known = self.at - at
        if known < 0:
            raise MirrorDiffers(
                f"{-known} bytes of the journal of run {self._run} are missing before byte {at}"
            )
        again, new = data[:known], data[known:]
        if again and again != self._read(at, len(again)):
            raise MirrorDiffers(
                f"the journal of run {self._run} on the node differs from the one in {self.path}"
            )
        text = self._torn + new
        whole = text.rfind(b"\n") + 1
        if whole:
            self._write(text[:whole])
        self._torn = text[whole:]

    def finish(self) -> None:
        """Write the rest, half a line as well: the journal on the node is final, and both must be equal."""
        if self._torn:
            self._write(self._torn)
            self._torn = b""

    def _read(self, at: int, many: int) -> bytes:
        found = os.pread(self._file, many, at) if self._file >= 0 else b""
        return found + self._torn[max(0, at - self._size) : max(0, at + many - self._size)]

    def _write(self, data: bytes) -> None:
        self._open()
        _append(self._file, data, sync=True)
        self._size += len(data)

    def _open(self) -> None:
        if self._file >= 0:
            return
        folder = self.path.parent
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            if not lock(descriptor, wait_seconds=_LOCK_SECONDS):
                raise MirrorBusy(f"another process writes {self.path}")
            if os.fstat(descriptor).st_size != self._size:
                raise MirrorBusy(f"another process has appended to {self.path}")
            for each in (folder, folder.parent):
                sync_folder(each)
        except BaseException:
            os.close(descriptor)
            raise
        self._file = descriptor


def _append(descriptor: int, data: bytes, *, sync: bool = False) -> None:
    size = os.fstat(descriptor).st_size
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if sync:
            os.fsync(descriptor)
    except BaseException:
        # Half of it must not stay: the same bytes will be appended again.
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        raise
