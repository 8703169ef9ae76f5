"""File systems with little room, for tests of what a full disk does."""

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from support.site import unavailable


@contextmanager
def small_disk_at(folder: Path, options: str) -> Generator[Path]:
    """A real file system, mounted at a new `folder` with the `options` of tmpfs, such as `size=24m`."""
    if os.geteuid() != 0:
        unavailable("mounting a small file system needs root")
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        unavailable(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        # Lazily: a test that failed may still hold a file open.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
