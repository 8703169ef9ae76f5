"""Ctrl-C, SIGTERM and a closed terminal: an end that keeps what is measured."""

import signal
from collections.abc import Generator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Whether somebody asked for the end.

    A signal raises KeyboardInterrupt, except that the first one within `deferred` is only remembered: it
    must not cut through a line of the journal or a transaction. Who asks twice is obeyed at once.
    """

    def __init__(self) -> None:
        self._deferring = False
        self._asked = False

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

    def take(self, *_: object) -> None:
        """The signals' handler."""
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
