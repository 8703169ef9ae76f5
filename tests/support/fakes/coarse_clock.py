"""A clock with a resolution that shows where few calls are timed at once."""

_TICK, _SLOW, _USUAL = 20e-6, 5e-3, 3e-6


class CoarseClock:
    """In place of the module `time`: it steps by 20 µs. Of `step` the first calls take 5 ms, others 3 µs."""

    def __init__(self, slow_calls: int) -> None:
        self._seconds, self._slow_left = 0.0, slow_calls

    def perf_counter(self) -> float:
        """Seconds, in whole ticks."""
        return self._seconds // _TICK * _TICK

    def step(self) -> None:
        """Let a call's time pass."""
        self._seconds += _SLOW if self._slow_left > 0 else _USUAL
        self._slow_left -= 1
