"""Who asks for the end, how often, and what is made of it."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from common.interrupts import interruptible

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """The signals as of a program that was not started by nohup, which ignores SIGHUP."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def ask(number: int) -> None:
    """Send ourselves a signal; it is handled before this returns."""
    os.kill(os.getpid(), number)


def test_the_same_wish_handed_on_twice_cuts_through_nothing() -> None:
    with interruptible() as interrupts, interrupts.defer_signals():
        ask(signal.SIGTERM)
        ask(signal.SIGTERM)
        ask(signal.SIGHUP)
        assert interrupts.requested()


def test_what_follows_an_interruption_is_not_interrupted_by_the_same_wish() -> None:
    cleaned = False
    with interruptible(), pytest.raises(KeyboardInterrupt):
        try:
            ask(signal.SIGTERM)
        finally:
            ask(signal.SIGTERM)
            cleaned = True
    assert cleaned


@pytest.mark.parametrize("number", SIGNALS)
def test_who_asks_twice_is_obeyed_at_once(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with interruptible() as interrupts, interrupts.defer_signals():
        ask(number)
        assert interrupts.requested()
        now = time.monotonic()
        if number != signal.SIGINT:
            monkeypatch.setattr(time, "monotonic", lambda: now + 3)
        with pytest.raises(KeyboardInterrupt):
            ask(number)
