"""A case whose pace changes from one moment to the next, as that of a machine does that others use too."""

import random
import time
from collections.abc import Callable

from runner.worker.case import case

#: Steps of one pace in a row: about a block of them.
_ROW = 5


@case()
def wanders() -> Callable[[], object]:
    """A step that sleeps for one to four milliseconds."""
    moods = random.Random(7)
    calls, milliseconds = 0, 1.0

    def step() -> None:
        nonlocal calls, milliseconds
        if calls % _ROW == 0:
            milliseconds = moods.uniform(1, 4)
        calls += 1
        time.sleep(milliseconds / 1000)

    return step
