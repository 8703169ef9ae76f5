"""Atomic replacement of files and appending to them: a reader never sees a part of a write."""

import errno
import os
import re
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

#: A temporary file of `replace_atomically`, and the files that SQLite keeps next to a database.
_PARTIAL = re.compile(r"\..+\.\d+\.\d+\.part(-journal|-wal|-shm)?")
#: A temporary file that was not written for this long was left by a killed process. The process id in its
#: name cannot be checked: it may be of another machine or container.
_ABANDONED_SECONDS = 3600.0


@contextmanager
def replace_atomically(path: Path) -> Generator[Path]:
    """A temporary path in the folder of `path`. After the block it is flushed to disk and renamed to `path`.

    If the block raises, or the file cannot be written, `path` is unchanged and the temporary file is removed.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        partial.unlink(missing_ok=True)
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def remove_abandoned(folder: Path) -> None:
    """Remove the temporary files that killed processes left in a folder."""
    for file in folder.iterdir():
        if _PARTIAL.fullmatch(file.name):
            with suppress(OSError):
                if time.time() - file.lstat().st_mtime > _ABANDONED_SECONDS:
                    file.unlink()


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace the content of `path`; text is written as UTF-8.

    A symbolic link is followed. An existing file keeps its mode and, as far as that is permitted, its owner.
    A path that is not a regular file, such as /dev/null or a pipe, is written to and not replaced. Raises
    OSError whose file name is `path`.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    target, written = Path(os.path.realpath(path)), content.encode() if isinstance(content, str) else content
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(written)
            return
        with replace_atomically(target) as partial:
            _write(partial, written, target)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def append_whole(descriptor: int, data: bytes, *, sync: bool = False) -> None:
    """Append all of `data` to an open file, or raise OSError and leave the file as it was.

    With `sync` it is flushed to the disk.
    """
    size = os.fstat(descriptor).st_size
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if sync:
            os.fsync(descriptor)
    except BaseException:
        # A partial write must not stay after an interruption: the next line would be appended to it.
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(partial: Path, content: bytes, like: Path) -> None:
    """Write a file that only its owner can read until it has the mode of `like`, if that exists."""
    before = like.stat() if like.exists() else None
    mode = 0o666 if before is None else 0o600
    with open(partial, "wb", opener=lambda path, flags: os.open(path, flags, mode)) as file:
        if before is not None:
            with suppress(PermissionError):
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fchmod(file.fileno(), before.st_mode & 0o7777)
        file.write(content)
