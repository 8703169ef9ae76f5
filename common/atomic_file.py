"""Writing a small file whole or not at all: half of it would still be read."""

import errno
import os
from contextlib import suppress
from pathlib import Path


def write_whole(file: Path, content: str | bytes) -> None:
    """Put `content` in place of whatever the file held, at once; a text is written as UTF-8.

    A link stays one, and what it points to keeps its mode and, as far as that is allowed, its owner. Raises
    OSError, which names `file`, and leaves nothing.
    """
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    target = Path(os.path.realpath(file))
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        _write(partial, content.encode() if isinstance(content, str) else content, target)
        partial.replace(target)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror or str(error), str(file)) from error


def _write(partial: Path, content: bytes, like: Path) -> None:
    """Write a file that only its owner may read until it has the mode of `like`, if that is there."""
    before = like.stat() if like.exists() else None
    mode = 0o666 if before is None else 0o600
    with open(partial, "wb", opener=lambda path, flags: os.open(path, flags, mode)) as file:
        if before is not None:
            with suppress(PermissionError):
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fchmod(file.fileno(), before.st_mode & 0o7777)
        file.write(content)
