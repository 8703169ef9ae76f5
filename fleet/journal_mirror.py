"""Files of a node as they grow here: appended whole or not at all, and never against what is there."""

import os
import re
from contextlib import suppress
from pathlib import Path

from common.atomic_file import sync_folder
from common.file_lock import lock
from runner import journal

#: A process that asks whether a journal is in use holds its lock for a moment.
_LOCK_SECONDS = 0.5
#: Of what is there so many bytes are asked for again, to see that it is the same journal.
_OVERLAP_BYTES = 4096


_RUN = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}")


class MirrorDiffers(Exception):
    """What a node has is not what was mirrored before; the text is one sentence."""


class MirrorBusy(Exception):
    """Another process writes this mirror just now; the text is one sentence."""


def is_run(name: str) -> bool:
    """Whether a run may be called so: what comes from another machine is not to leave its folder here."""
    return _RUN.fullmatch(name) is not None


def append(path: Path, data: bytes) -> None:
    """Append to a file all of `data`, or raise OSError and leave it as it was."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        _append(descriptor, data)
    finally:
        os.close(descriptor)


class Mirror:
    """The journal of a run on another machine, in its place in `data_dir`.

    `at` is how many bytes of it are known. Nothing is made before there is something to be written. While it
    is open its lock is held, as the run's own process would: half a run is not stored as an interrupted one.
    """

    def __init__(self, data_dir: Path, run: str) -> None:
        self.path = data_dir / "runs" / run / journal.FILE
        self._run = run
        self._file = -1
        #: A line that did not come whole yet.
        self._torn = b""
        self._size = self.path.stat().st_size if self.path.exists() else 0
        if self._size:
            self._open()

    def __enter__(self) -> "Mirror":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it; a line that did not come whole is forgotten."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    @property
    def at(self) -> int:
        """How many bytes of the journal came, whether they are written or not."""
        return self._size + len(self._torn)

    @property
    def begin(self) -> int:
        """From where the node is to be asked: some of what is there already is compared."""
        return max(0, self.at - _OVERLAP_BYTES)

    def append(self, at: int, data: bytes) -> None:
        """Take bytes of the journal that stand there from `at` on, and write the lines that are whole.

        What came before is compared with what is here: raises MirrorDiffers where it is not the same, and
        where bytes between were never seen. Raises OSError where they cannot be written, MirrorBusy where
        another process does; then nothing has changed, and the same bytes may be brought again.
        """
        known = self.at - at
        if known < 0:
            raise MirrorDiffers(
                f"{-known} bytes of the journal of run {self._run} are missing before byte {at}"
            )
        again, new = data[:known], data[known:]
        if again and again != self._read(at, len(again)):
            raise MirrorDiffers(
                f"the journal of run {self._run} is another one there than the one in {self.path}"
            )
        text = self._torn + new
        whole = text.rfind(b"\n") + 1
        if whole:
            self._write(text[:whole])
        self._torn = text[whole:]

    def finish(self) -> None:
        """Write what is left, half a line as well: it grows no more there, and both are to be equal."""
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
                raise MirrorBusy(f"{self.path} grew under us")
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
        # Half of it must not stay: what is brought again would be glued to it.
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        raise
