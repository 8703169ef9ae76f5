"""Places and servers that run full or go away."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.site import unavailable


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 24 MiB."""
    if os.geteuid() != 0:
        unavailable("mounting a small file system needs root")
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        unavailable(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
