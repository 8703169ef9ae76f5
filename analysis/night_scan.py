"""Goes through a series night by night, and says on which night a change could first be seen.

Two cumulative sums (Page, Continuous inspection schemes, Biometrika 41, 1954), one for either direction, add
up by how much nights are off the level of their segment. What is decided on a night looks at no later one. So
to judge a series anew each night is to go on where the last night ended, and a candidate keeps its place.
"""

import math
from bisect import insort
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .night_noise import NightNoise, middle
from .nights import Rules, Shape, State

#: A night counts for the level of its segment after so many more, so that a new level does not hide in it.
_LAG = 5
#: Whether a change is large enough is asked of so many newest nights.
_NEWEST = 7
#: A run of fewer nights is never called a drift.
_DRIFT = 10
#: The quantile of the normal distribution that leaves one case of five out.
_FOUR_OF_FIVE = 0.84
#: The standard error of a median of normal values, over that of their mean.
_MEDIAN_ERROR = 1.25


@dataclass(slots=True)
class Raised:
    """A candidate, seen on night `raised`: from night `index` on, off the `level` that began at `since`."""

    raised: int
    index: int
    since: int
    level: float
    sign: int
    change: float
    strength: float
    shape: Shape
    earlier: "tuple[Raised, ...]" = ()
    state: State = "open"


class Scan:
    """A series so far. `night` adds one; `raised` is every candidate up to now, oldest first."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._floor = rules.log_floor
        self.noise = NightNoise()
        self.raised: list[Raised] = []
        self._values: list[float] = []
        self._level: list[float] = []
        self._entered = 0
        self._start = 0
        self._learn = rules.learn
        self._open: Raised | None = None
        self._up = self._down = 0.0
        self._up_since = self._down_since = 0

    @property
    def nights_of_segment(self) -> int:
        """How many nights the newest segment has."""
        return len(self._values) - self._start

    @property
    def nights_short(self) -> int:
        """How many more it needs before it is judged."""
        return max(0, self._learn - self.nights_of_segment)

    @property
    def spread(self) -> float:
        """What nights are taken to differ by: more than was seen of few, and never nothing."""
        return self.noise.above(self._floor)

    @property
    def smallest(self) -> float | None:
        """The smallest step that nights to come would show within a week in four cases of five."""
        if self.nights_short or not self._level:
            return None
        spread, power = self.spread, _FOUR_OF_FIVE / math.sqrt(_NEWEST)
        # The median of the nights has to pass the floor, and their sum to reach.
        large = self._floor + _MEDIAN_ERROR * power * spread
        return max(large, self._slack(spread) + (self._rules.reach / _NEWEST + power) * spread)

    def night(self, value: float, border: bool) -> None:
        """One more night; with `border`, the first of a new segment."""
        now = len(self._values)
        self._values.append(value)
        if border or not now:
            self._begin(now)
        else:
            self.noise.add(value - self._values[now - 1])
        if now - self._start < self._learn:
            insort(self._level, value)
            self._entered = now + 1
            self._forget(now + 1)
        elif self._open:
            self._settle(self._open, now)
        else:
            self._judge(value, now)

    def _begin(self, now: int) -> None:
        known = len(self.noise) >= self._rules.learn - 1
        self._learn = self._rules.relearn if known else self._rules.learn
        self._start, self._level, self._open = now, [], None

    def _forget(self, start: int) -> None:
        self._up = self._down = 0.0
        self._up_since = self._down_since = start

    def _slack(self, spread: float) -> float:
        return max(self._rules.slack * spread, self._floor / 2) + spread / math.sqrt(len(self._level))

    def _settle(self, change: Raised, now: int) -> None:
        if now - change.index + 1 < self._rules.settle:
            return
        new, level = sorted(self._values[change.index :]), middle(self._level)
        # Two nights far off pull the median of five, so half of the change has to be there still.
        half = change.sign * (change.level + change.change - level) / 2
        if change.sign * (middle(new) - level) > max(half, self._slack(self.spread)):
            change.state = "stayed"
            self._start, self._level, self._entered = change.index, new, now + 1
            self._learn = self._rules.relearn
        else:
            change.state = "returned"
        self._open = None
        self._forget(now + 1)

    def _judge(self, value: float, now: int) -> None:
        while self._entered <= now - _LAG:
            insort(self._level, self._values[self._entered])
            self._entered += 1
        spread = self.spread
        slack, most, reach = self._slack(spread), self._rules.clip * spread, self._rules.reach * spread
        off = value - middle(self._level)
        self._up = min(self._up + max(-most, min(most, off - slack)), 2 * reach)
        self._down = min(self._down + max(-most, min(most, -off - slack)), 2 * reach)
        if self._up <= 0:
            self._up, self._up_since = 0.0, now + 1
        if self._down <= 0:
            self._down, self._down_since = 0.0, now + 1
        if self._up >= reach:
            self._raise(1, self._up_since, spread)
        if self._down >= reach and not self._open:
            self._raise(-1, self._down_since, spread)

    def _raise(self, sign: int, first: int, spread: float) -> None:
        now, level, since = len(self._values) - 1, middle(self._level), self._start
        reached = middle(sorted(self._values[max(first, now - _NEWEST + 1) :])) - level
        off = self._off(first, level, reached, spread)
        drifts = _rises(off, (0,), 0)
        index = first if drifts else first + _best_start(off)
        newest = sorted(self._values[max(index, now - _NEWEST + 1) :])
        if sign * (middle(newest) - level) < self._floor:
            return
        error = spread * math.sqrt(1 / len(newest) + 1 / len(self._level))
        earlier = self._same_way(sign)
        if earlier:
            # A drift comes in pieces, each of which alone may be too small to be confirmed.
            whole = self._off(earlier[0].index, earlier[0].level, middle(newest) - earlier[0].level, spread)
            begins = [one.index - earlier[0].index for one in earlier]
            if _rises(whole, (*begins, index - earlier[0].index), _LAG):
                drifts, level, since = True, earlier[0].level, earlier[0].since
        change = middle(newest) - level
        shape: Shape = "drift" if drifts else "step"
        self._open = Raised(now, index, since, level, sign, change, abs(change) / error, shape, earlier)
        self.raised.append(self._open)

    def _same_way(self, sign: int) -> tuple[Raised, ...]:
        """The changes in one direction that led to this level, one after the other, oldest first."""
        before = self.raised[-1] if self.raised else None
        if before is None or before.sign != sign or before.index != self._start:
            return ()
        return (*before.earlier, before)

    def _off(self, first: int, level: float, reached: float, spread: float) -> list[float]:
        """By how much nights are off a level, spikes beyond it and what was reached cut."""
        most = self._rules.clip * spread
        low, high = min(0.0, reached) - most, max(0.0, reached) + most
        return [min(high, max(low, value - level)) for value in self._values[first:]]


def _rises(off: list[float], begins: tuple[int, ...], lead: int) -> bool:
    """Is a slope from a level on nearer to a run's nights than steps that begin at these nights of it?

    The slope begins right before the run, or up to `lead` nights earlier.
    """
    n = len(off)
    if n < _DRIFT:
        return False
    # What a fit leaves of the sum of squares is the sum less this.
    by_steps = sum(
        sum(off[low:high]) ** 2 / (high - low) for low, high in pairwise((*begins, n)) if high > low
    )
    by_slope = max(
        sum(night * value for night, value in enumerate(off, ahead)) ** 2
        / sum(night * night for night in range(ahead, ahead + n))
        for ahead in (1, 1 + lead)
    )
    return by_slope > by_steps


def _best_start(off: list[float]) -> int:
    """Where a step off a known level most likely began (likelihood ratio; Lorden 1971)."""
    best, start, total = -1.0, 0, 0.0
    for back, value in enumerate(reversed(off), 1):
        total += value
        if total * total / back >= best:
            best, start = total * total / back, len(off) - back
    return start


def scan(values: Sequence[float], borders: Collection[int], rules: Rules) -> Scan:
    """The scan of a whole series of logarithms, with segments that start at `borders`."""
    done = Scan(rules)
    for number, value in enumerate(values):
        done.night(value, number in borders)
    return done
