"""Scans a series night by night and finds the night on which a change could first be detected.

Two cumulative sums (Page, Continuous inspection schemes, Biometrika 41, 1954), one for either direction, add
up the deviations of nights from the level of their segment. A decision on a night does not depend on later
nights. So judging a series again each night continues the previous scan, and a candidate keeps its place.
"""

import math
from bisect import bisect_left, insort
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .night_noise import NightNoise, middle
from .nights import Decision, Rules, Shape, State
from .rank_test import Earlier, best_split, memory

#: A night is included in the level of its segment after this number of further nights, so that a new level
#: does not enter it unnoticed.
_LAG = 5
#: The number of newest nights by which the size of a change is checked.
_NEWEST = 7
#: The fewest nights of a drift.
_DRIFT = 10
#: The most earlier nights with which new ones are compared.
_EARLIER = 100
#: The correlation of neighbours is estimated again after this number of nights, because it takes as long as
#: all else.
_WEEK = 7
#: A deviation that a larger share of earlier nights exceeded is not significant.
_COMMON = 0.3
#: The fewest new nights of a candidate: outliers of two nights are common.
_FEWEST = 3
#: A change among the first nights of a segment is searched while it has at most this number, on every third
#: night. The number of them that have to be new: with fewer, two outliers would be half of them.
_YOUNG, _THIRD, _NEW = 30, 3, 5
#: Two levels that alternate within this number of nights are modes of one series. The same number of nights
#: counts for refutations: after this number of refutations a series must change by this multiple.
_TURNS, _REFUTED, _FACTOR = 60, 2, 2.0
#: The numbers of first and of newest nights that the anchored check compares.
_FIRST, _LAST = 30, 14
#: Three conditions have to hold together in four of five cases, so each in more (a quantile of the normal
#: distribution).
_EACH = 1.4
#: The standard error of a median of normal values, over that of their mean.
_MEDIAN_ERROR = 1.25


@dataclass(slots=True)
class CandidateChange:
    """A candidate, detected on night `raised`: from night `index` on, different from the `level` that began
    at `since`.
    """

    raised: int
    index: int
    since: int
    level: float
    sign: int
    change: float
    strength: float
    shape: Shape
    earlier: "tuple[CandidateChange, ...]" = ()
    state: State = "open"
    anchored: bool = False


class Scan:
    """The scan of a series so far. `night` adds a night; `raised` are all candidates so far, oldest first."""

    def __init__(self, rules: Rules, decisions: Collection[Decision] = ()) -> None:
        self._rules = rules
        self._floor = rules.log_floor
        self.noise = NightNoise()
        self.raised: list[CandidateChange] = []
        self._decisions = sorted(decisions, key=lambda one: (one.night, one.index))
        self._refuted: list[Decision] = []
        self._values: list[float] = []
        self._residuals: list[float] = []
        self._level: list[float] = []
        self._entered = 0
        self._border = self._start = self._anchor = 0
        self._anchor_level: float | None = None
        self._learn = rules.learn
        self._remembered, self._remembered_until = 0.0, 0
        self._open: CandidateChange | None = None
        self._up = self._down = 0.0
        self._up_since = self._down_since = 0

    @property
    def nights_of_segment(self) -> int:
        """The number of nights of the newest segment."""
        return len(self._values) - self._start

    @property
    def nights_short(self) -> int:
        """The number of further nights it needs before it is judged."""
        return max(0, self._learn - self.nights_of_segment)

    @property
    def spread(self) -> float:
        """The assumed noise: larger than the estimate for few nights, and never 0."""
        return self.noise.above(self._floor)

    @property
    def factor(self) -> float:
        """The multiple of the usual change that the next night has to reach."""
        if len(self._refuted) < _REFUTED:
            return 1.0
        lately = len(self._values) - _TURNS
        return _FACTOR if sum(one.night >= lately for one in self._refuted) >= _REFUTED else 1.0

    @property
    def smallest(self) -> float | None:
        """The smallest step that future nights would show within a week in four of five cases."""
        if self.nights_short or not self._level:
            return None
        spread, power, factor = self.spread, _EACH / math.sqrt(_NEWEST), self.factor
        # The median of the nights has to exceed the floor, their sum the reach, and their ranks have to be
        # significant.
        large = factor * self._floor + _MEDIAN_ERROR * power * spread
        summed = self._slack(spread) + (factor * self._rules.reach / _NEWEST + power) * spread
        return max(large, summed, self._earlier(len(self._values)).smallest(_NEWEST - 1, _EACH))

    def night(self, value: float, border: bool, weekly: bool = False) -> None:
        """One more night; `border`: the first of a new segment; `weekly`: the anchor is checked on it."""
        now = len(self._values)
        self._values.append(value)
        if self._decisions:
            self._take_decisions(now)
        if border or not now:
            self._begin(now)
        else:
            self.noise.add(value - self._values[now - 1])
        if now - self._start < self._learn:
            insort(self._level, value)
            self._entered = now + 1
            self._forget(now + 1)
        elif self._open:
            self._check_stay(self._open, now)
        else:
            self._judge(value, now)
            if now - self._start < _YOUNG and self._young and not self._open:
                self._look_at_first_nights(now)
        if weekly and not self._open:
            self._check_anchor(now)

    @property
    def _young(self) -> bool:
        return self._start == self._border and self.nights_of_segment <= _YOUNG

    def _begin(self, now: int) -> None:
        known = len(self.noise) >= self._rules.learn - 1
        self._learn = self._rules.relearn if known else self._rules.learn
        self._leave(now)
        self._start, self._level, self._open = now, [], None
        self._border = self._anchor = now
        self._anchor_level = None

    def _leave(self, end: int) -> None:
        """Store the deviations of the level's nights up to `end`."""
        nights = self._values[max(self._start, end - _EARLIER) : end]
        if nights:
            level = middle(sorted(nights))
            self._residuals = [*self._residuals, *(night - level for night in nights)][-_EARLIER:]
        self._remembered_until = 0

    def _rejoin(self, start: int, now: int) -> None:
        """Continue with the level that began at `start`, and drop later changes of it."""
        self._start, self._entered = start, max(start + 1, now - _LAG + 1)
        self._level = sorted(self._values[start : self._entered])
        self._forget(now + 1)
        self._remembered_until = 0

    def _take_decisions(self, now: int) -> None:
        while self._decisions and self._decisions[0].night < now:
            self._decide(self._decisions.pop(0), now)

    def _decide(self, decision: Decision, now: int) -> None:
        one = next((one for one in reversed(self.raised) if one.index == decision.index), None)
        if not decision.confirmed:
            self._refuted.append(decision)
            if one and one.state == "stayed" and one.index == self._start:
                self._rejoin(max(self._border, one.since), now)
        elif one is None or (one.shape == "step" and one.index >= self._border):
            self._anchor, self._anchor_level = max(self._border, decision.index), None
            if self._start < self._anchor and not self._open:
                self._leave(self._anchor)
                self._rejoin(self._anchor, now)

    def _forget(self, start: int) -> None:
        self._up = self._down = 0.0
        self._up_since = self._down_since = start

    def _slack(self, spread: float) -> float:
        return max(self._rules.slack * spread, self._floor / 2) + spread / math.sqrt(len(self._level))

    def _check_stay(self, change: CandidateChange, now: int) -> None:
        if now - change.index + 1 < self._rules.stay:
            return
        new, level = sorted(self._values[change.index :]), middle(self._level)
        # Two outliers shift the median of five, so half of the change has to remain.
        half = change.sign * (change.level + change.change - level) / 2
        if change.sign * (middle(new) - level) > max(half, self._slack(self.spread)):
            change.state = "stayed"
            if not any(one.index == change.index for one in self._refuted):
                self._leave(change.index)
                self._start, self._level, self._entered = change.index, new, now + 1
                self._learn = self._rules.relearn
        else:
            change.state = "returned"
        self._open = None
        self._forget(now + 1)

    def _judge(self, value: float, now: int) -> None:
        level = self._level
        while self._entered <= now - _LAG:
            insort(level, self._values[self._entered])
            self._entered += 1
        spread = self.noise.above(self._floor)
        off, slack = value - middle(level), self._slack(spread)
        if not (self._up or self._down) and -slack <= off <= slack:
            self._up_since = self._down_since = now + 1
            return
        most, reach = self._rules.clip * spread, self.factor * self._rules.reach * spread
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
        """A candidate from a sum that began to rise at `first`, if its nights are new."""
        now, level, since = len(self._values) - 1, middle(self._level), self._start
        if self._young and first <= since + self._learn + _FEWEST:
            # It may have begun among the nights from which the level was learned.
            return
        reached = middle(sorted(self._values[max(first, now - _NEWEST + 1) :])) - level
        floor = self.factor * self._floor
        if sign * reached < floor or now - first + 1 < _FEWEST or self._common(level + reached, sign):
            return
        off = self._off(first, level, reached, spread)
        start = _best_start(off)
        index = first + start
        newest = sorted(self._values[max(index, now - _NEWEST + 1) :])
        if sign * (middle(newest) - level) < floor or now - index + 1 < _FEWEST:
            return
        if not self._earlier(index).exceeded(self._values[index:], sign):
            return
        drifts = _rises(off, (start,), 0)
        if drifts:
            index, newest = first, sorted(self._values[max(first, now - _NEWEST + 1) :])
        turned = self._find_return(sign, middle(newest))
        if turned:
            self._rejoin(max(self._border, turned.since), now)
            return
        error = spread * math.sqrt(1 / len(newest) + 1 / len(self._level))
        earlier = self._same_way(sign)
        if earlier:
            # A drift is detected in pieces, each of which may be too small to be confirmed.
            whole = self._off(earlier[0].index, earlier[0].level, middle(newest) - earlier[0].level, spread)
            begins = [one.index - earlier[0].index for one in earlier]
            if _rises(whole, (*begins, index - earlier[0].index), _LAG):
                drifts, level, since = True, earlier[0].level, earlier[0].since
        change = middle(newest) - level
        shape: Shape = "drift" if drifts else "step"
        self._open = CandidateChange(
            now, index, since, level, sign, change, abs(change) / error, shape, earlier
        )
        self.raised.append(self._open)

    def _common(self, reached: float, sign: int) -> bool:
        """Whether so many nights of the level deviated as much that the rank test can be skipped."""
        place = bisect_left(self._level, reached)
        beyond = len(self._level) - place if sign > 0 else place
        return beyond > _COMMON * len(self._level)

    def _earlier(self, end: int) -> Earlier:
        own = self._values[max(self._start, end - _EARLIER) : end]
        if end >= self._remembered_until:
            self._remembered = memory(own, self._residuals)
            self._remembered_until = end + _WEEK
        return Earlier(own, self._residuals, self._remembered)

    def _look_at_first_nights(self, now: int) -> None:
        """A step among the nights from which the level was learned."""
        nights = self._values[self._start :]
        if len(nights) % _THIRD != _THIRD - 1 or len(nights) <= _FEWEST + _NEW:
            return
        last = len(nights) - _NEW
        split = best_split(nights, _FEWEST, last)
        old, new = nights[:split], nights[split:]
        if split >= last or any(one.index >= self._start for one in self._refuted):
            # It may have begun even later, and has not stayed long enough; or a session refuted it.
            return
        level, reached = middle(sorted(old)), middle(sorted(new))
        change = middle(sorted(new[-_NEWEST:])) - level
        sign = 1 if change > 0 else -1
        if abs(change) < self.factor * self._floor:
            return
        residuals = [*self._residuals, *(night - reached for night in new)]
        # Two levels and their border were fitted to these few nights.
        if not Earlier(old, residuals, memory(old, residuals, fitted=3)).left(new, sign):
            return
        error = self.spread * math.sqrt(1 / len(old) + 1 / min(len(new), _NEWEST))
        self._level = sorted(old)
        self._open = CandidateChange(
            now, self._start + split, self._start, level, sign, change, abs(change) / error, "step"
        )
        self.raised.append(self._open)

    def _check_anchor(self, now: int) -> None:
        """Compare the newest nights with the first of the segment, or of the last confirmed level."""
        anchor, newest = self._anchor, now - _LAST + 1
        if newest < anchor + _FIRST:
            return
        if self._anchor_level is None:
            self._anchor_level = middle(sorted(self._values[anchor : anchor + _FIRST]))
        level, new = self._anchor_level, self._values[newest:]
        change = middle(sorted(new)) - level
        floor = self.factor * self._floor
        if abs(change) < floor:
            return
        sign = 1 if change > 0 else -1
        largest = max((self._known_size(one) for one in self.raised if self._covers(one, sign)), default=0.0)
        if abs(change) < largest + max(floor, largest / 2):
            return
        old = self._values[anchor : anchor + _FIRST]
        if Earlier(old, self._residuals, memory(old, self._residuals)).exceeded(new, sign):
            error = self.spread * math.sqrt(1 / _FIRST + 1 / _LAST)
            drift = CandidateChange(now, newest, anchor, level, sign, change, abs(change) / error, "drift")
            drift.state, drift.anchored = "stayed", True
            self.raised.append(drift)

    def _covers(self, one: CandidateChange, sign: int) -> bool:
        return one.sign == sign and one.since >= self._anchor and one.state != "returned"

    def _known_size(self, one: CandidateChange) -> float:
        """The change of a candidate; for a step from the nights after it."""
        after = sorted(self._values[one.index : one.index + _LAST])
        return max(abs(one.change), one.sign * (middle(after) - one.level))

    def _find_return(self, sign: int, reached: float) -> CandidateChange | None:
        """The first of two changes, there and back, where the series returns to what the first led to."""
        stayed = [one for one in self.raised if one.state == "stayed" and not one.anchored]
        if len(stayed) < 2 or stayed[-1].index != self._start or stayed[-2].index < self._border:
            return None
        there, back = stayed[-2:]
        lately = there.raised >= len(self._values) - _TURNS
        alike = abs(there.level + there.change - reached) < abs(there.change) / 2
        return there if lately and alike and (there.sign, back.sign) == (sign, -sign) else None

    def _same_way(self, sign: int) -> tuple[CandidateChange, ...]:
        """The changes in one direction that led to this level, one after the other, oldest first."""
        before = next((one for one in reversed(self.raised) if not one.anchored), None)
        if before is None or before.sign != sign or before.index != self._start:
            return ()
        return (*before.earlier, before)

    def _off(self, first: int, level: float, reached: float, spread: float) -> list[float]:
        """The deviations of nights from a level, with spikes clipped."""
        most = self._rules.clip * spread
        low, high = min(0.0, reached) - most, max(0.0, reached) + most
        return [min(high, max(low, value - level)) for value in self._values[first:]]


def _rises(off: list[float], begins: tuple[int, ...], lead: int) -> bool:
    """Whether a slope from a level fits the nights of a run better than steps at these nights.

    The slope begins right before the run, or up to `lead` nights earlier.
    """
    n = len(off)
    if n < _DRIFT:
        return False
    # The reduction of the sum of squares by a fit.
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
    """The most likely beginning of a step from a known level (likelihood ratio; Lorden 1971)."""
    best, start, total = -1.0, 0, 0.0
    for back, value in enumerate(reversed(off), 1):
        total += value
        if total * total / back >= best:
            best, start = total * total / back, len(off) - back
    return start


def scan(
    values: Sequence[float],
    borders: Collection[int],
    rules: Rules,
    weekly: Collection[int] = (),
    decisions: Collection[Decision] = (),
) -> Scan:
    """The scan of a whole series of logarithms, with segments that start at `borders`.

    The anchor is checked on the `weekly` nights.
    """
    done = Scan(rules, decisions)
    begins, checked = frozenset(borders), frozenset(weekly)
    for number, value in enumerate(values):
        done.night(value, number in begins, number in checked)
    return done
