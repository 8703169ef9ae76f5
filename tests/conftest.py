"""What several rooms' tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from workplace import Done, Workplace, one_workplace

# The same examples every time, however busy the machine is.
settings.register_profile("house", deadline=None, derandomize=True, database=None)
settings.load_profile("house")


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    """A folder of this test's own in which the real command can measure."""
    yield from one_workplace(tmp_path)


@pytest.fixture(scope="session")
def measured_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workplace, Done]]:
    """A complete run of suite `mixed`, for tests that only look at one."""
    for place in one_workplace(tmp_path_factory.mktemp("measured")):
        yield place, place.run("mixed", "--json")
