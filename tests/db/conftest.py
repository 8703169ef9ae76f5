"""Every test of this folder that asks for a database with tables runs on SQLite and on Postgres."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.servers.databases import BOTH, with_tables


@pytest.fixture(params=BOTH)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without rows, with today's tables."""
    yield from with_tables(request.param, request, tmp_path)
