"""Ctrl-C, SIGTERM and SIGHUP end a run so that its measurements are kept."""

import signal
import time
from collections.abc import Generator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: One request may arrive as several signals: Slurm and its guard each signal every process of a job.
_REPEAT_SECONDS = 2.0


class Interrupts:
    """Turns signals into KeyboardInterrupt.

    Within `defer_signals` the first signal is only recorded, so that it does not interrupt the writing of a
    journal line or a transaction. A second request interrupts at once: Ctrl-C at any time, another signal
    only after the time in which copies of the first one may arrive.
    """

    def __init__(self) -> None:
        self._deferring = False
        self._requested = False
        self._last_signal = float("-inf")

    def requested(self) -> bool:
        """Whether a signal arrived while deferring."""
        return self._requested

    @contextmanager
    def defer_signals(self) -> Generator[None]:
        """Record the first signal within the block; the caller has to check `requested` regularly."""
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False

    def take(self, number: int, *_: object) -> None:
        """The signal handler."""
        now = time.monotonic()
        if number != signal.SIGINT and now < self._last_signal + _REPEAT_SECONDS:
            return
        self._last_signal = now
        if self._deferring and not self._requested:
            self._requested = True
            return
        raise KeyboardInterrupt


@contextmanager
def interruptible() -> Generator[Interrupts]:
    """Handle SIGINT, SIGTERM and SIGHUP for the block; signals ignored by the parent (nohup) stay ignored."""
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
