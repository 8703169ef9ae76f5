"""What the tests of measuring share."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.measuring import Scratch, one_scratch
from support.site import unavailable


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    """A folder that this test shares with its cases."""
    yield from one_scratch(tmp_path)


@pytest.fixture(scope="module")
def module_scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    """A folder that the tests of a file share with their cases."""
    yield from one_scratch(tmp_path_factory.mktemp("scratch"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MiB: room for a journal's reserve and a little more."""
    if os.geteuid() != 0:
        unavailable("only root can mount a small file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)]
    mounted = subprocess.run(["mount", *options], capture_output=True, text=True)
    if mounted.returncode != 0:
        unavailable(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield folder
    # Lazily: a test that failed may still hold a file open.
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
