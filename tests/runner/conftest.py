"""What the tests of measuring share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.measuring import Scratch, one_scratch
from support.small_disk import small_disk_at


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
    with small_disk_at(tmp_path / "disk", "size=12m") as folder:
        yield folder
