"""Detects whether a reported change continues in the same direction."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from .baseline_control import known_of
from .night_noise import NightNoise
from .nights import NightValue, Rules, logs_of

#: The numbers of nights right after the change and of newest nights that are compared.
_NIGHTS = 5
#: The standard errors from which on a continued change is reported; large, because the test is repeated every
#: night.
_CLEARLY = 4.0
#: The standard error of a median of normal values, over that of their mean.
_MEDIAN_ERROR = 1.25


@dataclass(frozen=True, slots=True)
class Further:
    """The further movement of a series (a log ratio), and the movement that is required to report it."""

    change: float
    smallest: float

    def clear(self, direction: float, before: float = 0.0) -> bool:
        """Whether it moved further in `direction`, by enough beyond `before`."""
        return math.copysign(1.0, direction) * (self.change - before) >= self.smallest


def further(
    nights: Sequence[NightValue], start: int, rules: Rules, control: Sequence[NightValue | None] | None = None
) -> Further | None:
    """The distance of the newest nights from those from night `start` on, which is certainly after a change.

    With a `control`, the pinned environment on the same nights, the ratio to it is used, which removes
    effects of the machine. Without one it cannot be decided across a border. None in that case, and with too
    few nights. Raises ValueError for a value that is not above 0.
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
    """The distance (a log ratio) of the newest ten nights from the level of nights `since` to `index`. 0
    unless both halves of the ten differ by the floor in the same direction, and all ten are after `index`.

    With a `control` the ratio to it is used, and nights without one are left out; without a control it is 0
    across a border. Raises ValueError for a value that is not above 0.
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
    """The noise between nights, increased for few nights. The few borders among them have no influence."""
    noise = NightNoise()
    for before, after in pairwise(values):
        noise.add(after - before)
    return noise.above(rules.log_floor)
