"""Runs a snippet of these tests under the measured interpreter, as a real process of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.site import run_snippet

Measured = Callable[[str], Any]


@pytest.fixture(scope="session")
def measured() -> Measured:
    """Call with the name of a snippet of this folder; returns its JSON."""
    snippets = Path(__file__).parent / "snippets"
    return lambda name: run_snippet(snippets / name)
