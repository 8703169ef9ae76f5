"""Ctrl-C, SIGTERM and a closed terminal: an end that keeps what is measured."""

import signal
import time
from collections.abc import Generator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Programs hand the same wish on in several ways: Slurm asks every process of a job, and so does its guard.
_SAME_WISH_SECONDS = 2.0


class Interrupts:
    """Whether somebody asked for the end.

    A signal raises KeyboardInterrupt, except that the first one within `deferred` is only remembered: it
    must not cut through a line of the journal or a transaction. Who asks twice is obeyed at once: with
    Ctrl-C at any time, with other signals when the second one comes later than what hands the first one on.
    """

    def __init__(self) -> None:
        self._deferring = False
        self._asked = False
        self._heard = float("-inf")

    def asked(self) -> bool:
        """Whether a signal came while deferring."""
        return self._asked

    @contextmanager
    def deferred(self) -> Generator[None]:
        """Within the block, whoever works must look at `asked` now and then."""
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False

    def take(self, number: int, *_: object) -> None:
        """The signals' handler."""
        now = time.monotonic()
        if number != signal.SIGINT and now < self._heard + _SAME_WISH_SECONDS:
            return
        self._heard = now
        if self._deferring and not self._asked:
            self._asked = True
            return
        raise KeyboardInterrupt


@contextmanager
def interruptible() -> Generator[Interrupts]:
    """Handle the signals that ask for an end; those ignored from outside (nohup) stay ignored."""
    interrupts = Interrupts()
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, interrupts.take)
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
