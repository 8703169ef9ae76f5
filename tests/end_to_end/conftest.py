"""Places and servers that run full or go away."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.small_disk import small_disk_at


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 24 MiB."""
    with small_disk_at(tmp_path / "small", "size=24m") as folder:
        yield folder
