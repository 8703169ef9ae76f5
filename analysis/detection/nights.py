"""The nights of a series, and the changes found in it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

Direction = Literal["worse", "better"]
Shape = Literal["step", "drift"]
#: `open`: too recent to judge; `stayed`: later nights confirm it; `returned`: the level went back.
State = Literal["open", "stayed", "returned"]

#: This number of nights before the detected place, 95 of 100 steps of 5 % have not begun (97 of 10 %).
_CLEAR = 5
#: The detected place of a change may be too early: this number of first nights of long levels is left out.
_EDGE = 3


@dataclass(frozen=True, slots=True)
class NightValue:
    """One night's `value`, above 0 and as measured.

    `border` names the change of the machine before this night (driver, hardware, harness...), at which a
    segment starts; empty without one. On a `weekly` night the level is also compared with the first one of
    its segment (the anchored check).
    """

    value: float
    border: str = ""
    weekly: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of an interleaved session on a change: `confirmed`, or refuted.

    `index` is the night that the change was reported for, `night` the newest one when the session was
    measured. It affects the judgement of nights after `night`. An unclear session is not a decision.
    """

    index: int
    night: int
    confirmed: bool


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for a change between nights that is worth a comparison; raises ValueError for invalid ones.

    `floor` is the smallest change that matters, as a share: 0.02 is 2 %. The rest was chosen by measurement
    (docs/decisions/0016-detection.md), in standard deviations between nights where nothing else is said:

    - `slack`: the deviation of a night that does not count.
    - `reach`: the required sum of the deviations beyond that.
    - `clip`: the most that one night can contribute, so that two nights can be a change but a single one
      cannot.
    - `learn`: nights before anything is judged; `relearn`: nights after a border.
    - `stay`: the number of nights of a new level after which it counts as stayed or returned.
    - `recent`: the number of nights for which a candidate is listed, so that none is lost by a missed night.
    - `coarsest`: a series that cannot show a step of this share within a week is not watchable.
    """

    floor: float = 0.02
    slack: float = 0.5
    reach: float = 5.5
    clip: float = 3.0
    learn: int = 8
    relearn: int = 4
    stay: int = 7
    recent: int = 7
    coarsest: float = 0.20

    def __post_init__(self) -> None:
        """Raise ValueError for invalid rules."""
        if not (math.isfinite(self.floor) and self.floor > 0):
            raise ValueError(f"the floor is a share above 0, not {self.floor}")
        if not 0 < self.slack < self.clip < self.reach <= 2 * self.clip:
            raise ValueError(
                "slack, clip and reach must increase from 0 in this order, and reach be at most twice clip"
            )
        if not 2 <= self.relearn <= self.learn or self.stay < 2 or self.recent < 1:
            raise ValueError("learn, stay or recent has too few nights")

    @property
    def log_floor(self) -> float:
        """The floor on the scale of log ratios."""
        return math.log1p(self.floor)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of `change` (a log ratio) of which night `index` is the first.

    A drift has no first night: `index` is the night from which on it no longer returned to its level. `since`
    is the first night of the level before. `raised` is the night on which the change could first be detected.
    `strength` counts standard errors of the difference. `machine`: the control changed in the same way, so
    the change is attributed to the machine. `relative`: it was detected in the ratio to the control, also
    across a border; the series alone may look different. `anchored`: a drift that the weekly check found.
    `change` is its whole size against the first nights of the segment, or against the last confirmed level,
    which begins on night `since`; `index` is the first of the nights that show it, not the night it began on.
    """

    index: int
    change: float
    direction: Direction
    shape: Shape
    strength: float
    raised: int
    since: int
    state: State = "stayed"
    machine: bool = False
    relative: bool = False
    anchored: bool = False

    @property
    def against(self) -> int:
        """The night to compare the newest one with: certainly before the change, and otherwise as late as
        possible.

        For a step some nights before `index`, which may be late by a few. For a drift, and for a step that
        was detected late, whose place is uncertain, an early night of the level.
        """
        if self.shape == "drift" or self.raised - self.index >= _CLEAR:
            return early(self.since, self.index)
        return max(self.since, self.index - _CLEAR)


@dataclass(frozen=True, slots=True)
class TooFewNights:
    """A series, or its part since the border `since` (empty: the whole series), has `nights` of the `needed`
    nights.
    """

    nights: int
    needed: int
    since: str = ""


@dataclass(frozen=True, slots=True)
class TooNoisy:
    """The nights have the noise `noise`; a step below `smallest` is not detected within a week (log
    ratios).
    """

    noise: float
    smallest: float


@dataclass(frozen=True, slots=True)
class JudgedSeries:
    """The judgement of a series.

    - `candidates`: changes of the newest nights, each to be confirmed by a comparison before it is reported.
      One keeps its index, direction and shape as nights are added.
    - `returned`: former candidates that disappeared in later nights.
    - `noise`: the standard deviation of logarithms between nights; None before two that can be compared.
    - `smallest`: the smallest step, as a log ratio, that would be a candidate within a week in four cases of
      five; None before anything is judged.
    - `unwatchable`: the reason why no change, or no small change, could be detected; None without one.
    - `factor`: how many times as far as usual the next night must move: 2 after two refutations within 60
      nights, and else 1.
    """

    candidates: tuple[Change, ...]
    returned: tuple[Change, ...]
    noise: float | None
    smallest: float | None
    unwatchable: TooFewNights | TooNoisy | None = None
    factor: float = 1.0

    @property
    def watchable(self) -> bool:
        """Whether a change could be detected."""
        return self.unwatchable is None


def early(since: int, index: int) -> int:
    """A night early in the level from about `since` to `index`, but certainly not of the level before.

    The first night of a level is an estimate (except that of the series): if it is a night too early, that
    night belongs to the level before.
    """
    return since + _EDGE if since and index - since >= 2 * _CLEAR else since


def logs_of(nights: Sequence[NightValue]) -> list[float]:
    """Logarithms of the values; raises ValueError for a value that is not a number above 0."""
    for number, night in enumerate(nights):
        if not (math.isfinite(night.value) and night.value > 0):
            raise ValueError(f"night {number} is {night.value}, and only numbers above 0 have a logarithm")
    return [math.log(night.value) for night in nights]


def borders_of(nights: Sequence[NightValue]) -> frozenset[int]:
    """The nights at which segments start, the first one not among them."""
    return frozenset(number for number, night in enumerate(nights) if night.border and number)


#: A level is the median of at most so many nights next to the border.
_LEVEL_NIGHTS = 30


@dataclass(frozen=True, slots=True)
class Crossing:
    """A level that changed by `change` (a log ratio) across the `border` before night `index`.

    `nights` is the number of nights since the border. It is not a verdict: the cause is unknown.
    """

    index: int
    border: str
    change: float
    nights: int


def crossings(nights: Sequence[NightValue]) -> list[Crossing]:
    """Every border of a series with the levels on either side, oldest first.

    A level is the median of the 30 nights next to the border, or of all nights of a shorter segment. Raises
    ValueError for a value that is not above 0.
    """
    values = logs_of(nights)
    edges = [0, *(at for at, night in enumerate(nights) if night.border and at), len(nights)]
    found: list[Crossing] = []
    for begin, at, end in zip(edges, edges[1:], edges[2:], strict=False):
        before, after = values[max(begin, at - _LEVEL_NIGHTS) : at], values[at : min(end, at + _LEVEL_NIGHTS)]
        found.append(Crossing(at, nights[at].border, median(after) - median(before), len(after)))
    return found
