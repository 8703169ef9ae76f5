"""Writing a small file whole or not at all: half of it would still be read."""

import os
from pathlib import Path


def write_whole(file: Path, text: str) -> None:
    """Put `text` in place of whatever the file held, at once; raises OSError and leaves nothing."""
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        partial.write_bytes(text.encode())
        partial.replace(file)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
