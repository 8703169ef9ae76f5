"""What the tests of telemetry share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fakes.samplers import Samplers, Tree, one_tree


@pytest.fixture
def tree() -> Iterator[Tree]:
    """A process with a child that does nothing yet."""
    with one_tree() as made:
        yield made


@pytest.fixture
def samplers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Samplers]:
    """A starter of samplers, which are closed afterwards."""
    made = Samplers(tmp_path / "log", monkeypatch)
    yield made
    for sampler in made.started:
        sampler.close()
        assert not sampler.left_over
