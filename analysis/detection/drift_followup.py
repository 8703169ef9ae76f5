"""Whether a reported change continues: its series has moved further in the same direction since."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from .baseline_control import known_of
from .night_noise import NightNoise
from .nights import NightValue, Rules, logs_of

#: So many nights right after the change are set against so many newest ones.
_NIGHTS = 5
#: A continued change is reported from so many standard errors on, for the test is repeated every night.
_CLEARLY = 4.0
#: The standard error of a median of normal values, over that of their mean.
_MEDIAN_ERROR = 1.25


@dataclass(frozen=True, slots=True)
class Further:
    """By how much a series moved on (a log ratio), and how much is needed to report it."""

    change: float
    smallest: float

    def clear(self, direction: float, before: float = 0.0) -> bool:
        """Whether it moved on the way that `direction` points, and by enough beyond `before`."""
        return math.copysign(1.0, direction) * (self.change - before) >= self.smallest


def further(
    nights: Sequence[NightValue], start: int, rules: Rules, control: Sequence[NightValue | None] | None = None
) -> Further | None:
    """How far the newest nights are off those from night `start` on, which is certainly after a change.

    With a `control`, the pinned environment on the same nights, the ratio to it is looked at, so that nothing
    of it is the machine's. Without one it cannot be decided across a border. None there, and too early.

    Raises ValueError for a value that is not above 0.
    """
    logs = logs_of(nights)
    control_logs = {} if control is None else known_of(control)
    own = sorted(control_logs) if control is not None else list(range(len(logs)))
    if control is None and any(night.border for night in nights[start + 1 :]):
        return None
    values = [logs[night] - control_logs.get(night, 0.0) for night in own]
    after = [value for night, value in zip(own, values, strict=True) if night >= start]
    if len(after) < 2 * _NIGHTS:
        return None
    change = median(after[-_NIGHTS:]) - median(after[:_NIGHTS])
    error = _MEDIAN_ERROR * _spread(values, rules) * math.sqrt(2 / _NIGHTS)
    return Further(change, max(rules.log_floor, _CLEARLY * error))


def stays_off(
    nights: Sequence[NightValue],
    since: int,
    index: int,
    rules: Rules,
    control: Sequence[NightValue | None] | None = None,
) -> float:
    """By how much (a log ratio) the newest ten nights stay off the level of nights `since` to `index`.

    0 where they do not: both halves of the ten have to be off by the floor, the same way, and all ten lie
    after `index`. With a `control` the ratio to it is looked at, and nights without one are left out; without
    one nothing is known across a border. Raises ValueError for a value that is not above 0.
    """
    if control is None and any(night.border for night in nights[since + 1 :]):
        return 0.0
    logs = logs_of(nights)
    control_logs = known_of(control) if control is not None else dict.fromkeys(range(len(logs)), 0.0)
    before = [logs[night] - control_logs[night] for night in range(since, index) if night in control_logs]
    after = [
        logs[night] - control_logs[night] for night in range(index + 1, len(logs)) if night in control_logs
    ]
    newest = after[-2 * _NIGHTS :]
    if not before or len(newest) < 2 * _NIGHTS:
        return 0.0
    level = median(before)
    halves = [median(half) - level for half in (newest[:_NIGHTS], newest[_NIGHTS:])]
    smallest = min(halves, key=abs)
    alike = halves[0] * halves[1] > 0
    return median(newest) - level if alike and abs(smallest) >= rules.log_floor else 0.0


def _spread(values: Sequence[float], rules: Rules) -> float:
    """What nights differ by, more than was seen of few. To the few borders among them it is deaf."""
    noise = NightNoise()
    for before, after in pairwise(values):
        noise.add(after - before)
    return noise.above(rules.log_floor)
