"""Waiting for what happens sooner or later, on a machine that may be busy with other things."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_SECONDS = 120.0

Found = TypeVar("Found")


def until(happened: Callable[[], Found], what: str, seconds: float = PATIENCE_SECONDS) -> Found:
    """Call `happened` until its answer is true, and return that; fails after so many seconds."""
    give_up = time.monotonic() + seconds
    while not (found := happened()):
        assert time.monotonic() < give_up, f"waited in vain: {what}"
        time.sleep(0.02)
    return found
